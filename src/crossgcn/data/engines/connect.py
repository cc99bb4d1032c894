"""Open tables in DuckDB or Spark; both run the same Ibis expressions."""

from __future__ import annotations

import os
import socket
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from crossgcn.data.tables.read import PARQUET, read_table
from crossgcn.errors import BadInput, WorkFailed

if TYPE_CHECKING:
    import ibis.expr.types as ir

DATABASES = (".duckdb", ".ddb", ".db")
DUCKDB, SPARK = "DuckDB", "spark://"
CONNECT_SECONDS = 10.0
"""How long a Spark master may take to answer."""


@dataclass(frozen=True)
class Location:
    """Where a table is, as the user wrote it.

    Attributes:
        server: Address of a Spark master; ``None`` for DuckDB.
        path: File or folder; in Spark, one that every worker can read.
        table: Name of a table in a DuckDB file or in Spark.
    """

    text: str
    server: str | None = None
    path: str | None = None
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
        if path.is_dir() and not any(path.rglob("*.parquet")):
            raise BadInput(f"{path} is a folder without files that end in .parquet; give another")
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

    def open(self, location: Location, role: str) -> ir.Table:
        """Return a table; refuse one that is not there."""
        try:
            with _ignoring_notes():
                return self._open(location, role).rename(str.strip)
        except BadInput:
            raise
        except Exception as error:  # every backend raises errors of its own
            raise BadInput(
                f"{location.text} cannot be opened by {self.name} ({_first_line(error)}); give a "
                "table that it can read"
            ) from None

    def write(self, name: str, parts: Iterable[pa.Table]) -> ir.Table:
        """Write rows to Parquet, and return the table of this file."""
        rows = iter(parts)
        first = next(rows)
        with pq.ParquetWriter(self.scratch / name, first.schema) as to:
            for part in chain([first], rows):
                to.write_table(part)
        return self._stored(name)

    def compute(self, name: str, table: ir.Table) -> ir.Table:
        """Compute a table, write it to Parquet, and return the table of these files."""
        with self._at_work():
            self.backend.to_parquet(table, self._address(name))
        return self._stored(name)

    def fetch(self, table: ir.Table) -> pa.Table:
        """Compute a table into memory."""
        with self._at_work():
            return table.to_pyarrow()

    def count(self, table: ir.Table) -> int:
        """Compute the number of rows of a table."""
        with self._at_work():
            return int(table.count().to_pyarrow().as_py())

    def _stored(self, name: str) -> ir.Table:
        with self._at_work():
            where = self._address(name)
            return self.backend.read_parquet(escape(where) if self.name == DUCKDB else where)

    def _address(self, name: str) -> str:
        path = self.scratch / name
        return str(path) if self.name == DUCKDB else path.as_uri()

    def _open(self, location: Location, role: str) -> ir.Table:
        if location.table is not None:
            return self._open_named(location, location.table)
        place = str(location.path)
        if location.server is not None:
            return self.backend.read_parquet(place)
        if Path(place).is_dir():
            return self.backend.read_parquet(f"{escape(place)}/**/*.parquet")
        if place.lower().endswith(PARQUET):
            return self.backend.read_parquet(escape(place))
        # Text and workbooks go through memory, so that cells are what training reads in them.
        cells = pa.Table.from_pandas(read_table(place, role).frame, preserve_index=False)
        return self.write(f"read-{role}.parquet", [cells])

    def _open_named(self, location: Location, table: str) -> ir.Table:
        *schema, name = table.split(".")
        hint = ""
        if location.server is not None:
            where: dict[str, Any] = {"database": ".".join(schema)} if schema else {}
            known = dict.fromkeys(self.backend.list_tables(**where), "BASE TABLE")
            hint = (
                f", or give {location.server}::/FOLDER with Parquet files; what another "
                "application saved as a table is seen in a shared catalogue alone "
                "(spark.sql.catalogImplementation hive in spark-defaults.conf)"
            )
        else:
            catalog = f"of_{zlib.crc32(os.fsencode(str(location.path))):x}"
            where = {"database": (catalog, ".".join(schema) or "main")}
            file, run = _literal(str(location.path)), self.backend.con.execute
            run(f"ATTACH IF NOT EXISTS {file} AS {catalog} (READ_ONLY)")
            tables = "SELECT table_name, table_type FROM information_schema.tables"
            found = run(f"{tables} WHERE (table_catalog, table_schema) = (?, ?)", where["database"])
            known = dict(found.fetchall())
        if name not in known:
            others = ", ".join(sorted(known)[:20])
            remedy = f"there are {others}: give one of them" if others else "there are none"
            raise BadInput(f"{location.text}: there is no table {name!r}; {remedy}{hint}")
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
            raise WorkFailed(
                f"{self.name} could not finish ({_first_line(error)}): give it more --memory, or "
                f"more room in --scratch {self.scratch}"
            ) from error


def read_scratch(path: Path, columns: Sequence[str]) -> Iterator[list[NDArray[Any]]]:
    """Read columns that an engine wrote, some rows at a time; it need not run any more."""
    for file in sorted(path.glob("*.parquet")) if path.is_dir() else [path]:  # a folder of Spark
        with pq.ParquetFile(file) as content:
            for batch in content.iter_batches(columns=columns):
                yield [batch.column(name).to_numpy() for name in columns]


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
    backend = _import_ibis("duckdb", "duckdb").duckdb.connect(
        memory_limit=f"{memory_limit >> 20}MiB",
        threads=threads,
        temp_directory=str(scratch / "spilled"),
        autoinstall_known_extensions=False,
    )
    places = [str(Path(str(location.path)).absolute()) for location in locations]
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
    ibis = _import_ibis("pyspark", "spark")
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


def _import_ibis(package: str, extra: str) -> Any:
    try:
        with _ignoring_notes():
            import_module(package)
            import_module(f"ibis.backends.{package}")
    except ImportError as error:
        raise BadInput(
            f"this needs Ibis and {package} ({error}); pip install 'crossgcn[{extra}]'"
        ) from None
    return import_module("ibis")


def _literal(text: str) -> str:
    """Return a text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def _ignoring_notes() -> Iterator[None]:
    """Hide notes for the developers of Ibis and PySpark, about functions of other versions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
        yield


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
