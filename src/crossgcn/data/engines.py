"""Tables that stay where they are: DuckDB files, folders of Parquet, tables of a Spark cluster.

DuckDB and Spark run the same Ibis expressions. Nodes are encoded in memory, as those of files are.
Edges are numbered and made unique by the engine; only unique ones between numbered nodes come into
memory.
"""

from __future__ import annotations

import socket
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from glob import escape
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from crossgcn.data.tables.cells import MOST_WEIGHT, quote
from crossgcn.data.tables.checks import check_tables
from crossgcn.data.tables.graph import TableGraph, encode_graph, refuse_errors
from crossgcn.data.tables.plan import TableChoices, TablePlan, make_plan
from crossgcn.data.tables.problems import CheckedTables
from crossgcn.data.tables.read import PARQUET, make_table, read_table
from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput, CrossGCNError, WorkFailed

if TYPE_CHECKING:
    import ibis.expr.types as ir

DATABASES = (".duckdb", ".ddb", ".db")
SPARK = "spark://"
CONNECT_SECONDS = 10.0
"""How long a Spark master may take to answer."""

SAMPLE_ROWS = 10_000
"""Edges that are read to find the columns of both ends."""


def load_engine_tables(
    nodes: str,
    edges: str,
    choices: TableChoices,
    *,
    directed: bool,
    memory_limit: int,
    threads: int,
    scratch: Path,
    show: Callable[[str], None],
) -> TableGraph:
    """Load a table of nodes and one of edges as a graph.

    Args:
        nodes: A table file, a folder of Parquet, ``file.duckdb::table``, or
            ``spark://host:7077::table``.
        edges: Likewise, in the same engine.
        choices: What the columns of the tables are; inferred where not given.
        directed: Keep the direction of edges.
        memory_limit: Bytes that DuckDB may take; more is done on disk.
        threads: Of DuckDB.
        scratch: Folder for temporary files; workers of Spark must see it under the same path.
        show: Called with each stage of the work.

    Raises:
        BadInput: A table or its engine is not there, or cannot be used; names the remedy.
        WorkFailed: The engine failed.
    """
    locations = [Location.parse(nodes), Location.parse(edges)]
    if not scratch.is_dir():
        raise BadInput(f"{scratch} is no folder for temporary files; make it, or give --scratch")
    with (
        TemporaryDirectory(prefix=".crossgcn-", dir=scratch.resolve()) as folder,
        open_engine(locations, Path(folder), memory_limit, threads) as engine,
    ):
        show("reading the nodes")
        rows_of_nodes, rows_of_edges = map(engine.open, locations, ("nodes", "edges"))
        sample = _read(engine, rows_of_edges.limit(SAMPLE_ROWS), edges, "edges")
        table = _read(engine, rows_of_nodes, nodes, "nodes")
        plan = make_plan(table, sample, choices)
        tables = CheckedTables(table, None, plan)
        problems = check_tables(tables)
        refuse_errors(problems, table.name)
        show("reading the edges")
        ids = table.frame[plan.id_column].tolist()
        edge_index, weights = number_edges(engine, rows_of_edges, edges, plan, ids, directed)
    show("encoding the nodes")  # DuckDB has given back its memory
    edge_weight = None if plan.weight_column is None else weights
    return encode_graph(tables, problems, edge_index, edge_weight, directed=directed)


def _read(engine: Engine, table: ir.Table, name: str, role: str) -> Table:
    """Read a table into memory as text, as files are read."""
    frame = engine.compute(table, role).to_pandas(types_mapper=pd.ArrowDtype)
    return read_table(make_table(frame, name), role)


def number_edges(
    engine: Engine, edges: ir.Table, name: str, plan: TablePlan, ids: Sequence[str], directed: bool
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return each edge once as positions of its ends ``[2, edges]``, and its mean weight.

    Self-loops are left out. Of an undirected edge, the lower position is first.
    """
    import ibis

    columns, weight = [str(plan.source_column), str(plan.destination_column)], plan.weight_column
    rows = pa.table({"node": np.arange(len(ids)), "id": pa.array(ids, pa.string())})
    numbered = engine.write(rows, "ids")
    found = edges.select(
        first=edges[columns[0]].cast("string"),
        second=edges[columns[1]].cast("string"),
        weight=ibis.literal(1.0) if weight is None else _as_number(edges[weight]),
    )
    for end, position in (("first", "source"), ("second", "target")):
        side = numbered.select(id="id", **{position: "node"})
        found = found.left_join(side, [(end, "id")]).drop("id")
    ends = found.source, found.target
    if not directed:
        is_descending = found.source > found.target
        ends = is_descending.ifelse(*ends[::-1]), is_descending.ifelse(*ends)
    fits = (found.weight >= 0) & (found.weight <= MOST_WEIGHT)
    mean = fits.fill_null(False).ifelse(found.weight, np.nan).mean().cast("float32")
    pairs = found.group_by(source=ends[0], target=ends[1])
    unique = engine.compute(pairs.aggregate(weight=mean), "unique")
    if unique["source"].null_count or unique["target"].null_count:
        _refuse_unknown_ends(engine, found, name, columns)
    weights = unique["weight"].to_numpy()
    num_wrong = np.isnan(weights).sum()
    if num_wrong:
        raise BadInput(
            f"{name}, column {weight}: {num_wrong:,} edges have no weight from 0 to "
            f"{MOST_WEIGHT:g}; correct them, or leave them out in a new table"
        )
    index = np.stack([unique["source"].to_numpy(), unique["target"].to_numpy()])
    is_edge = index[0] != index[1]
    return index[:, is_edge], weights[is_edge]


def _refuse_unknown_ends(engine: Engine, found: ir.Table, name: str, columns: list[str]) -> None:
    for column, end, position in (
        (columns[0], "first", "source"),
        (columns[1], "second", "target"),
    ):
        lost = found.filter(found[position].isnull())
        some = engine.compute(
            lost.aggregate(value=lost[end].min(), number=lost.count()), f"lost-{end}"
        )
        value, number = (some[each][0].as_py() for each in some.column_names)
        if number:
            raise BadInput(
                f"{name}, column {column}: {'an empty cell' if value is None else quote(value)} "
                f"is the id of no node ({number:,} such); add the node, or leave such edges out in "
                "a new table"
            )


def _as_number(column: ir.Column) -> ir.Value:
    return column.try_cast("float64") if column.type().is_string() else column.cast("float64")


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
        place, _, table = text.partition("::")
        if place.startswith(SPARK):
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
        return cls(text, None, place, table or None)


@dataclass(frozen=True)
class Engine:
    """A connection, and a folder for what it computes.

    Attributes:
        server: Address of a Spark master; ``None`` for DuckDB.
        backend: The connection of Ibis.
        scratch: Folder for Parquet files; workers of Spark must see it under the same path.
    """

    server: str | None
    backend: Any
    scratch: Path

    def open(self, location: Location, role: str) -> ir.Table:
        """Return a table; refuse one that is not there."""
        remedy = "give a table that it can read"
        with self._reporting(BadInput, f"{location.text} cannot be opened", remedy):
            if location.table is not None:
                table = self._open_named(location, location.table)
            else:
                table = self._open_file(Path(str(location.path)), role)
            return table.rename(str.strip)

    def write(self, rows: pa.Table, name: str) -> ir.Table:
        """Give the engine a table that is in memory."""
        pq.write_table(rows, self.scratch / f"{name}.parquet")
        with self._at_work():
            return self.backend.read_parquet(self._stored(name))

    def compute(self, table: ir.Table, name: str) -> pa.Table:
        """Compute a table through files, because Spark limits what is sent directly."""
        with self._at_work():
            self.backend.to_parquet(table, self._stored(name))
        return pq.read_table(self.scratch / f"{name}.parquet")

    def _stored(self, name: str) -> str:
        path = self.scratch / f"{name}.parquet"
        return str(path) if self.server is None else path.as_uri()

    def _open_file(self, path: Path, role: str) -> ir.Table:
        if self.server is not None:
            return self.backend.read_parquet(str(path))
        if path.is_dir():
            return self.backend.read_parquet(f"{escape(str(path))}/**/*.parquet")
        if path.name.lower().endswith(PARQUET):
            return self.backend.read_parquet(escape(str(path)))
        # Text and workbooks go through memory, so that cells are what training reads in them.
        cells = read_table(path, role).frame
        return self.write(pa.Table.from_pandas(cells, preserve_index=False), f"read-{role}")

    def _open_named(self, location: Location, table: str) -> ir.Table:
        schema, _, name = table.rpartition(".")
        if self.server is None:
            path = str(Path(str(location.path)).resolve())
            catalog = f"of_{zlib.crc32(path.encode()):x}"
            file = "'" + path.replace("'", "''") + "'"
            self.backend.con.execute(f"ATTACH IF NOT EXISTS {file} AS {catalog} (READ_ONLY)")
            where: dict[str, Any] = {"database": (catalog, schema or "main")}
            found = self.backend.con.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
                "AND (table_catalog, table_schema) = (?, ?)",
                where["database"],
            )
            known, hint = [each for (each,) in found.fetchall()], "; views are not run"
        else:
            where = {"database": schema} if schema else {}
            known = self.backend.list_tables(**where)
            hint = f", or give {self.server}::/FOLDER with Parquet files"
        if name not in known:
            others = ", ".join(sorted(known)[:20])
            remedy = f"there are {others}: give one of them" if others else "there are none"
            raise BadInput(f"{location.text}: there is no table {name!r}; {remedy}{hint}")
        return self.backend.table(name, **where)

    def _at_work(self) -> AbstractContextManager[None]:
        """Report a computation that failed."""
        remedy = f"give it more --memory, or more room in --scratch {self.scratch}"
        return self._reporting(WorkFailed, "the work could not be finished", remedy)

    @contextmanager
    def _reporting(self, kind: type[CrossGCNError], what: str, remedy: str) -> Iterator[None]:
        """Report an error of the engine as one of ours; every backend raises others."""
        try:
            with _ignoring_notes():
                yield
        except (CrossGCNError, OSError):
            raise
        except Exception as error:
            engine = self.server or "DuckDB"
            raise kind(f"{what} by {engine} ({_first_line(error)}); {remedy}") from error


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
    try:
        yield Engine(None, backend, scratch)
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


@contextmanager
def _ignoring_notes() -> Iterator[None]:
    """Hide notes for the developers of Ibis and PySpark, about functions of other versions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
        yield


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
