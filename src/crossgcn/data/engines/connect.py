"""Open tables in DuckDB or Spark; both run the same Ibis expressions."""

from __future__ import annotations

import os
import re
import socket
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossgcn.data.tables.read import DELIMITED, PARQUET, read_head, read_parquet_headers
from crossgcn.errors import BadInput, WorkFailed

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa
    import pyarrow.parquet as pq

DATABASES = (".duckdb", ".ddb", ".db")
DUCKDB, SPARK = "DuckDB", "spark://"
CONNECT_SECONDS = 10.0
"""How long a Spark master may take to answer."""


@dataclass(frozen=True)
class Location:
    """Where a table is, as the user wrote it.

    Attributes:
        server: Address of a Spark master; ``None`` for DuckDB.
        place: File or folder; in Spark, one that every worker can read.
        table: Name of a table in a DuckDB file or in Spark.
    """

    text: str
    server: str | None = None
    place: str | None = None
    table: str | None = None

    @classmethod
    def parse(cls, text: str) -> Location:
        """Read ``file.parquet``, ``folder``, ``file.duckdb::table`` or ``spark://host:7077::table``.

        In Spark, a name with a slash is that of a file or folder of Parquet.
        """
        place, mark, table = text.rpartition("::")
        if not mark:
            place, table = text, ""
        if text.startswith(SPARK):
            if not table:
                raise BadInput(
                    f"{text} names no table; give {text}::TABLE, or {text}::/FOLDER with Parquet "
                    "files that every worker can read"
                )
            return cls(text, place, table) if "/" in table else cls(text, place, None, table)
        path = Path(place)
        if not path.exists():
            raise BadInput(f"{path} does not exist; give a file, a folder of Parquet, or {SPARK}…")
        is_database = path.suffix.lower() in DATABASES
        if is_database != bool(table):
            wanted = f"give {path}::TABLE" if is_database else "only a DuckDB file has tables"
            raise BadInput(f"{text}: {wanted}; DuckDB files end in {', '.join(DATABASES)}")
        files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        if not files:
            raise BadInput(f"{path} is a folder without files that end in .parquet; give another")
        if not (path.is_dir() or is_database or path.name.lower().endswith(DELIMITED + PARQUET)):
            raise BadInput(
                f"{path}: the ending {path.suffix!r} is none of "
                f"{', '.join(DATABASES + DELIMITED + PARQUET)}; convert the table, or load it "
                "into DuckDB"
            )
        return cls(text, None, str(path.resolve()) if is_database else place, table or None)


@dataclass(frozen=True)
class Engine:
    """A connection, and a folder for what it computes.

    Attributes:
        name: ``DuckDB``, or the address of a Spark master.
        backend: The connection of Ibis.
        scratch: Folder for Parquet files; workers of Spark must see it under the same path.
    """

    name: str
    backend: Any
    scratch: Path

    def table(self, location: Location) -> ir.Table:
        """Return a table; refuse one that is not there."""
        try:
            with _ignoring_notes():
                return self._open(location)
        except BadInput:
            raise
        except Exception as error:  # every backend raises errors of its own
            raise BadInput(
                f"{location.text} cannot be opened by {self.name} ({_first_line(error)}); give a "
                "table that it can read"
            ) from None

    def store(self, name: str, table: ir.Table) -> ir.Table:
        """Compute a table, write it to Parquet, and return the table of these files."""
        with self._at_work():
            self.backend.to_parquet(table, self._where(name))
        return self.stored(name)

    def stored(self, name: str) -> ir.Table:
        """Return the table of stored files."""
        with self._at_work():
            where = self._where(name)
            return self.backend.read_parquet(escape(where) if self.name == DUCKDB else where)

    def fetch(self, table: ir.Table) -> pa.Table:
        """Compute a small table."""
        with self._at_work():
            return table.to_pyarrow()

    def count(self, table: ir.Table) -> int:
        """Compute the number of rows of a table."""
        return int(self.fetch(table.aggregate(rows=table.count()))["rows"][0].as_py())

    def batches(
        self, name: str, num_rows: int, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read stored files in order, so many rows at a time; the last batch may have fewer."""
        import pyarrow as pa

        held, missing = [], num_rows
        for content in self._files(name):
            for batch in content.iter_batches(num_rows, columns=columns):
                while batch.num_rows:
                    held.append(batch.slice(0, missing))
                    batch, missing = batch.slice(missing), missing - held[-1].num_rows
                    if missing == 0:
                        yield pa.concat_batches(held)
                        held, missing = [], num_rows
        if held:
            yield pa.concat_batches(held)

    def column(self, name: str, column: str) -> pa.ChunkedArray:
        """Read one column of stored files."""
        import pyarrow as pa

        return pa.concat_tables(each.read([column]) for each in self._files(name)).column(0)

    def count_rows(self, name: str) -> int:
        """Return the number of rows of stored files."""
        return sum(each.metadata.num_rows for each in self._files(name))

    def _files(self, name: str) -> Iterator[pq.ParquetFile]:
        from pyarrow.parquet import ParquetFile

        path = self.scratch / name  # Spark writes a folder, in which names ascend
        for file in sorted(path.glob("*.parquet")) if path.is_dir() else [path]:
            with ParquetFile(file) as content:
                yield content

    def _where(self, name: str) -> str:
        path = self.scratch / name
        return str(path) if self.name == DUCKDB else path.as_uri()

    def _open(self, location: Location) -> ir.Table:
        if location.table is not None:
            return self._named_table(location, location.table)
        place = str(location.place)
        if location.server is not None:
            return self.backend.read_parquet(place)
        path, pattern = Path(place), escape(place)
        if place.lower().endswith(DELIMITED):
            return self._open_text(path, pattern)
        if path.is_dir():
            path, pattern = min(path.rglob("*.parquet")), f"{pattern}/**/*.parquet"
        _refuse_alike(read_parquet_headers(path, str(path)), place)
        return self.backend.read_parquet(pattern)

    def _open_text(self, path: Path, pattern: str) -> ir.Table:
        """Open a text file with the headers and the delimiter that it has in memory.

        DuckDB's own detection takes a later row for the header if that fits more rows, and leaves
        out the rows before it.
        """
        delimiter, headers, codec = read_head(path, str(path))
        if codec != "utf8":
            raise BadInput(f"{path} is text in {codec}, not in UTF-8; save it as UTF-8")
        for header in headers:
            if len(header.splitlines()) > 1:
                raise BadInput(f"{path}, row 1: {header!r} has a line break; write it on one line")
        _refuse_alike(headers, str(path))
        return self.backend.read_csv(
            pattern,
            columns=dict.fromkeys(headers, "VARCHAR"),  # cells as written: 007 stays 007
            delim=delimiter,
            quote='"',
            escape='"',
            header=True,
            nullstr="",
            strict_mode=True,
        )

    def _named_table(self, location: Location, table: str) -> ir.Table:
        *schema, name = table.split(".")
        if location.server is not None:
            where: dict[str, Any] = {"database": ".".join(schema)} if schema else {}
            known = dict.fromkeys(self.backend.list_tables(**where), "BASE TABLE")
        else:
            catalog = f"of_{zlib.crc32(os.fsencode(str(location.place))):x}"
            where = {"database": (catalog, ".".join(schema) or "main")}
            run = self.backend.con.execute  # nodes and edges may be in one file
            run(f"ATTACH IF NOT EXISTS {_literal(str(location.place))} AS {catalog} (READ_ONLY)")
            tables = "SELECT table_name, table_type FROM information_schema.tables"
            found = run(f"{tables} WHERE (table_catalog, table_schema) = (?, ?)", where["database"])
            known = dict(found.fetchall())
        if name not in known:
            others = ", ".join(sorted(known)[:20])
            remedy = f"there are {others}: give one of them" if others else "there are none"
            if location.server is not None:
                remedy += (
                    f", or give {location.server}::/FOLDER with Parquet files; what another "
                    "application saved as a table is seen in a shared catalogue alone "
                    "(spark.sql.catalogImplementation hive in spark-defaults.conf)"
                )
            raise BadInput(f"{location.text}: there is no table {name!r}; {remedy}")
        if known[name] != "BASE TABLE":
            raise BadInput(
                f"{location.text} is a view, and queries in a file are not run; make a table of it "
                f"in DuckDB: CREATE TABLE new AS SELECT * FROM {table}"
            )
        return self.backend.table(name, **where)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Report a computation that failed."""
        try:
            with _ignoring_notes():
                yield
        except OSError:
            raise
        except Exception as error:  # every backend raises errors of its own
            _refuse_text(str(error))
            raise WorkFailed(
                f"{self.name} could not finish ({_first_line(error)}): give it more --memory, or "
                f"more room in --scratch {self.scratch}"
            ) from error


@contextmanager
def open_engine(
    locations: Sequence[Location], scratch: Path, memory_limit: int, threads: int
) -> Iterator[Engine]:
    """Connect to the engine of some tables: embedded DuckDB, or a Spark cluster.

    Args:
        memory_limit: Bytes that DuckDB may take; more is done on disk, in ``scratch``.
        threads: Of DuckDB.
    """
    servers = {location.server for location in locations}
    if len(servers) > 1:
        both = " and ".join(location.text for location in locations)
        raise BadInput(f"{both} are in different places; give two tables of one Spark, or none")
    (server,) = servers
    if server is not None:
        yield from _open_spark(server, scratch)
        return
    ibis = _import_ibis("duckdb")
    config = {
        "memory_limit": f"{memory_limit >> 20}MiB",
        "threads": threads,
        "temp_directory": str(scratch / "spilled"),
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
    }
    backend = ibis.duckdb.connect(**config)
    places = [str(Path(str(location.place)).absolute()) for location in locations]
    folders = [str(scratch), *filter(os.path.isdir, places)]
    for name, paths in {"allowed_paths": places, "allowed_directories": folders}.items():
        paths = [each for path in paths for each in (path, escape(path), f"{path}.wal")]
        backend.con.execute(f"SET {name} = [{', '.join(map(_literal, paths))}]")
    backend.con.execute("SET enable_external_access = false")  # other files cannot be read
    try:
        yield Engine(DUCKDB, backend, scratch)
    finally:
        backend.disconnect()


def _open_spark(server: str, scratch: Path) -> Iterator[Engine]:
    _check_answers(server)
    ibis = _import_ibis("spark")
    from pyspark.sql import SparkSession

    is_ours = SparkSession.getActiveSession() is None
    try:
        builder = SparkSession.builder.master(server).appName("crossgcn")
        session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
    except Exception as error:  # Java is missing, or the master ended the application
        raise BadInput(
            f"{server} cannot be used ({_first_line(error)}); install Java 17 or later, and start "
            "the cluster with the Spark of 'pip show pyspark'"
        ) from None
    try:
        yield Engine(server, ibis.pyspark.connect(session), scratch)
    finally:
        if is_ours:
            session.stop()


def _check_answers(server: str) -> None:
    """Refuse a master that does not answer: Spark itself would try for a minute."""
    host, _, port = server.removeprefix(SPARK).split(",")[0].rpartition(":")
    try:
        with socket.create_connection((host, int(port)), CONNECT_SECONDS):
            return
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{server} does not answer ({error}); give the address that the web page of the Spark "
            "master shows, such as spark://host:7077"
        ) from None


def _import_ibis(extra: str) -> Any:
    package = {"duckdb": "duckdb", "spark": "pyspark"}[extra]
    try:
        import ibis

        with _ignoring_notes():
            import_module(package)
            import_module(f"ibis.backends.{package}")
    except ImportError as error:
        raise BadInput(
            f"this needs Ibis and {package} ({error}); pip install 'crossgcn[{extra}]'"
        ) from None
    return ibis


def _literal(text: str) -> str:
    """Return a text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def _refuse_alike(headers: Sequence[str], name: str) -> None:
    """Refuse headers that are the same to DuckDB."""
    seen: dict[str, str] = {}
    for header in headers:
        other = seen.setdefault(header.lower(), header)
        if other != header:
            raise BadInput(
                f"{name}: columns {other!r} and {header!r} differ only in case, which DuckDB "
                "ignores; rename one"
            )


def _refuse_text(message: str) -> None:
    """Raise an error about a text file, if DuckDB's message is about one."""
    file = re.search(r"^  file = (.*)$", message, re.MULTILINE)
    line = re.match(r".*CSV Error on Line: (\d+)\n", message)
    if file is not None and line is not None:
        reason = message.split("\nPossible ")[0].strip().splitlines()[-1]
        raise BadInput(
            f"{file[1]}, line {line[1]}: {reason[:200]}; correct the line: give it as many cells "
            "as the header has, in UTF-8, and close every quote"
        )
    if file is not None or "CSV Reader" in message:
        raise BadInput(
            f"{'a text file' if file is None else file[1]} cannot be read by DuckDB "
            f"({message.splitlines()[0]}); end all lines alike, write cells without line breaks, "
            "or give Parquet"
        )


@contextmanager
def _ignoring_notes() -> Iterator[None]:
    """Hide notes for the developers of Ibis and PySpark, about functions of other versions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
        yield


def _first_line(error: Exception) -> str:
    """Return what an error says, without the rest of its message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
