"""Load tables from DuckDB files, folders of Parquet and Spark clusters.

DuckDB and Spark run the same Ibis expressions. The table of nodes is read into memory and encoded
there. The engine maps the ends of edges to row numbers and removes duplicates; only unique edges
are read into memory.
"""

from __future__ import annotations

import socket
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from crossgcn.data.relations import Relation
from crossgcn.data.tables.cells import MOST_WEIGHT, quote
from crossgcn.data.tables.edges import RelationPlan, join_relations
from crossgcn.data.tables.graph import TableGraph, encode_graph, refuse_errors
from crossgcn.data.tables.plan import TableChoices, make_plan
from crossgcn.data.tables.problems import CheckedTables
from crossgcn.data.tables.read import PARQUET, make_table, read_table
from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput, CrossGCNError, WorkFailed

if TYPE_CHECKING:
    import ibis.expr.types as ir

DATABASES = (".duckdb", ".ddb", ".db")
SPARK = "spark://"
CONNECT_SECONDS = 10.0
"""Timeout for connecting to a Spark master."""

SAMPLE_ROWS = 10_000
"""Number of edges from which the columns of both ends are inferred."""

_ENDS, _POSITIONS = ("first", "second"), ("source", "target")


def load_engine_tables(
    nodes: str,
    edges: str | Mapping[str, str],
    choices: TableChoices,
    through: Mapping[str, str] | None = None,
    *,
    memory_limit: int,
    threads: int,
    scratch: Path,
    show: Callable[[str], None],
) -> TableGraph:
    """Load a table of nodes and tables of edges as a graph.

    Columns that describe edges are encoded in memory, all else about edges is done by the engine.

    Args:
        nodes: A table file, a folder of Parquet, ``file.duckdb::table``,
            ``spark://host:7077::table``, or ``spark://host:7077::/folder`` with Parquet files that
            every worker can read.
        edges: Like ``nodes``, in the same engine; one table, or several by name.
        choices: Roles of the columns; those not given are inferred.
        through: Tables of nodes and things that nodes share, by name.
        memory_limit: Memory limit of DuckDB in bytes; larger computations spill to disk.
        threads: Number of DuckDB's threads.
        scratch: Folder for temporary files; Spark workers must reach it under the same path.
        show: Called with the name of each stage.

    Raises:
        BadInput: If a table or its engine is missing or cannot be used.
        WorkFailed: If the engine fails.
    """
    named = {choices.relation.strip(): edges} if isinstance(edges, str) else edges
    named = join_relations(named, through)
    places = [nodes, *named.values()]
    servers = {_server_of(name) for name in places}
    if len(servers) > 1:
        raise BadInput(
            f"{' and '.join(places)} are in different places; give all tables of one Spark "
            "cluster, or none"
        )
    (server,) = servers
    if not scratch.is_dir():
        raise BadInput(f"{scratch}: no such folder for temporary files; make it or give --scratch")
    with TemporaryDirectory(prefix=".crossgcn-", dir=scratch.resolve()) as name:
        folder = Path(name)
        connected = _duckdb(folder, memory_limit, threads) if server is None else _spark(server)
        with connected as backend:
            engine = Engine(server, backend, folder)
            show("reading the nodes")
            table = engine.read(engine.open(nodes, "nodes"), nodes, "nodes")
            rows = {name: engine.open(place, "edges") for name, place in named.items()}
            cells = {
                name: engine.read(rows[name].limit(SAMPLE_ROWS), place, "edges")
                for name, place in named.items()
            }
            plan = make_plan(table, cells, choices, through or ())
            described = [
                each.name
                for each in plan.relations
                if each.features or engine.varies_later(each, rows[each.name], cells[each.name])
            ]
            if described:
                cells |= {each: engine.read(rows[each], named[each], "edges") for each in described}
                plan = make_plan(table, cells, choices, through or ())
            tables = CheckedTables(table, {name: cells[name] for name in described}, plan)
            refuse_errors(tables)
            show("reading the edges")
            ids = table.frame[plan.id_column].tolist()
            relations = {each.plan.name: each.relation() for each in tables.relations}
            for each in plan.relations:
                if each.name not in relations:
                    edges = rows[each.name]
                    relations[each.name] = number_edges(engine, edges, named[each.name], each, ids)
    show("encoding the nodes")  # after DuckDB has released its memory
    in_order = [relations[each.name] for each in plan.relations]
    return encode_graph(tables, in_order, joined=False)


def _server_of(name: str) -> str | None:
    """Return the address of a Spark master, or ``None`` for a table that DuckDB reads."""
    place, _, table = name.partition("::")
    if not place.startswith(SPARK):
        return None
    if not table:
        raise BadInput(
            f"{name} names no table; give {name}::TABLE, or {name}::/FOLDER with Parquet files "
            "that every worker can read"
        )
    return place


def number_edges(
    engine: Engine, edges: ir.Table, name: str, plan: RelationPlan, ids: Sequence[str]
) -> Relation:
    """Return unique edges by the row numbers of their ends, with their mean weights.

    Self-loops are removed. Undirected edges have the lower row number first. Of nodes that share
    things, the second end is the number of the thing.
    """
    import ibis

    columns, weight = [plan.source_column, plan.destination_column], ibis.literal(1.0)
    if plan.edge_weight is not None:
        written = edges[plan.edge_weight]
        cast = written.try_cast if written.type().is_string() else written.cast
        weight = cast("float64")
    ends = [edges[column].cast("string") for column in columns]
    things, tables = None, [engine.number(ids)] * 2
    if plan.through:
        found = engine.compute(edges.select(thing=ends[1]).distinct())["thing"]
        things = tuple(sorted(each for each in found.to_pylist() if each and each.strip()))
        tables[1] = engine.number(things)
    found = edges.select(first=ends[0], second=ends[1], weight=weight)
    for end, position, table in zip(_ENDS, _POSITIONS, tables, strict=True):
        side = table.select(id="id", **{position: "node"})
        found = found.left_join(side, [(end, "id")]).drop("id")
    fits = (found.weight >= 0) & (found.weight <= MOST_WEIGHT)
    mean = fits.fill_null(False).ifelse(found.weight, np.nan).mean().cast("float32")
    is_directed = plan.directed or plan.through
    unique = engine.compute(unique_edges(found, is_directed, weight=mean))
    if unique["source"].null_count or unique["target"].null_count:
        _refuse_unknown_ends(engine, found, name, columns)
    weights = unique["weight"].to_numpy()
    num_wrong = np.isnan(weights).sum()
    if num_wrong:
        raise BadInput(
            f"{name}, column {plan.edge_weight}: {num_wrong:,} edges have no weight between 0 "
            f"and {MOST_WEIGHT:g}; correct or delete them"
        )
    index = np.stack([unique["source"].to_numpy(), unique["target"].to_numpy()])
    is_edge = (index[0] != index[1]) | plan.through
    index, weights = index[:, is_edge], weights[is_edge]
    given = None if plan.edge_weight is None else torch.from_numpy(weights)
    return Relation(plan.title, torch.from_numpy(index), given, plan.directed, things=things)


def unique_edges(edges: ir.Table, directed: bool, **values: Any) -> ir.Table:
    """Return each edge once; undirected ones have the lower end first.

    Args:
        edges: A table with a ``source`` and a ``target``.
        values: What is computed from parallel edges, by the name of its column.
    """
    source, target = edges.source, edges.target
    if not directed:
        is_descending = edges.source > edges.target
        source = is_descending.ifelse(edges.target, edges.source)
        target = is_descending.ifelse(edges.source, edges.target)
    if not values:
        return edges.select(source=source, target=target).distinct()
    return edges.group_by(source=source, target=target).aggregate(**values)


def _refuse_unknown_ends(engine: Engine, found: ir.Table, name: str, columns: list[str]) -> None:
    for column, end, position in zip(columns, _ENDS, _POSITIONS, strict=True):
        lost = found.filter(found[position].isnull())
        counted = lost.aggregate(value=lost[end].min(), number=lost.count())
        (some,) = engine.compute(counted).to_pylist()
        if some["number"]:
            shown = "an empty cell" if some["value"] is None else quote(some["value"])
            raise BadInput(
                f"{name}, column {column}: {shown} is not the id of a node ({some['number']:,} "
                "such edges); add the node, or delete these edges"
            )


@dataclass(frozen=True)
class Engine:
    """A connection to DuckDB or Spark, and a folder for its results.

    Attributes:
        server: Address of a Spark master; ``None`` for DuckDB.
        backend: The Ibis connection.
        scratch: Folder for Parquet files; Spark workers must reach it under the same path.
    """

    server: str | None
    backend: Any
    scratch: Path

    def open(self, name: str, role: str) -> ir.Table:
        """Open a table by its name, as given to :func:`load_engine_tables`."""
        place, _, table = name.partition("::")
        remedy = "give a table that it can read"
        with self._reporting(BadInput, f"{name} cannot be opened", remedy):
            if self.server is None:
                found = self._open_duckdb(Path(place), table, role)
            elif "/" in table:
                found = self.backend.read_parquet(table)
            else:
                schema, _, table = table.rpartition(".")
                hint = f", or give {place}::/FOLDER with Parquet files"
                where = {"database": schema} if schema else {}
                _require(name, table, self.backend.list_tables(**where), hint)
                found = self.backend.table(table, **where)
            return found.rename(str.strip)

    def _open_duckdb(self, path: Path, table: str, role: str) -> ir.Table:
        if path.suffix.lower() in DATABASES:
            schema, _, table = table.rpartition(".")
            catalog = f"of_{zlib.crc32(bytes(path.resolve())):x}"
            file = "'" + str(path.resolve()).replace("'", "''") + "'"
            self.backend.con.execute(f"ATTACH IF NOT EXISTS {file} AS {catalog} (READ_ONLY)")
            where = (catalog, schema or "main")
            found = self.backend.con.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
                "AND (table_catalog, table_schema) = (?, ?)",
                where,
            )
            known = [each for (each,) in found.fetchall()]
            _require(str(path), table, known, f"; give tables as {path}::TABLE (views are not run)")
            return self.backend.table(table, database=where)
        if table:
            raise BadInput(
                f"{path}::{table}: only a DuckDB file has tables, and its name ends in .duckdb"
            )
        if path.is_dir():
            return self.backend.read_parquet(f"{escape(str(path))}/**/*.parquet")
        if path.name.lower().endswith(PARQUET):
            return self.backend.read_parquet(escape(str(path)))
        # Text and workbooks are read in memory, so that cells are parsed as in training.
        cells = read_table(path, role).frame
        return self.write(pa.Table.from_pandas(cells, preserve_index=False))

    def read(self, table: ir.Table, name: str, role: str) -> Table:
        """Read a table into memory as text."""
        frame = self.compute(table).to_pandas(types_mapper=pd.ArrowDtype)
        return read_table(make_table(frame, name), role)

    def varies_later(self, plan: RelationPlan, edges: ir.Table, sample: Table) -> bool:
        """Return whether a column that is the same in all rows of a sample is not in others."""
        return any(
            self.compute(edges.select(column.name).distinct().limit(2)).num_rows > 1
            for column in plan.columns
            if not column.chosen and len(sample.distinct(column.name).values) == 1
        )

    def number(self, names: Sequence[str]) -> ir.Table:
        """Pass names with their positions to the engine."""
        ids = pa.array(names, pa.string())
        return self.write(pa.table({"node": np.arange(len(names)), "id": ids}))

    def write(self, rows: pa.Table) -> ir.Table:
        """Pass a table in memory to the engine, through a file."""
        path = self._new_file()
        pq.write_table(rows, path)
        with self._reporting():
            return self.backend.read_parquet(self._location(path))

    def compute(self, table: ir.Table) -> pa.Table:
        """Compute a table, and return it through a file, since Spark limits direct transfers."""
        path = self._new_file()
        with self._reporting():
            self.backend.to_parquet(table, self._location(path))
        rows = pq.read_table(path)
        rmtree(path.parent)
        return rows

    def _new_file(self) -> Path:
        return Path(mkdtemp(dir=self.scratch), "rows.parquet")

    def _location(self, path: Path) -> str:
        return str(path) if self.server is None else path.as_uri()

    @contextmanager
    def _reporting(
        self,
        kind: type[CrossGCNError] = WorkFailed,
        what: str = "the work could not be finished",
        remedy: str = "give it more --memory, or more room in --scratch",
    ) -> Iterator[None]:
        """Convert errors of the engine to ``kind``; each backend has its own error types."""
        try:
            with _hiding_deprecations():
                yield
        except (CrossGCNError, OSError):
            raise
        except Exception as error:
            engine = self.server or "DuckDB"
            raise kind(f"{what} by {engine} ({_first_line(error)}); {remedy}") from error


def _require(place: str, table: str, known: list[str], hint: str) -> None:
    """Raise an error that lists the known tables if ``table`` is not one of them."""
    if table not in known:
        others = ", ".join(sorted(known)[:20])
        remedy = f"there are {others}: give one of them" if others else "there are none"
        raise BadInput(f"{place}: there is no table {table!r}; {remedy}{hint}")


@contextmanager
def _duckdb(scratch: Path, memory_limit: int, threads: int) -> Iterator[Any]:
    """Connect to embedded DuckDB, which spills to disk beyond its memory limit."""
    backend = import_ibis("duckdb", "ibis.backends.duckdb").duckdb.connect(
        memory_limit=f"{memory_limit >> 20}MiB",
        threads=threads,
        temp_directory=str(scratch / "spilled"),
        autoinstall_known_extensions=False,
    )
    try:
        yield backend
    finally:
        backend.disconnect()


@contextmanager
def _spark(server: str) -> Iterator[Any]:
    """Connect to a Spark cluster."""
    _check_answers(server)
    ibis = import_ibis("pyspark", "ibis.backends.pyspark", extra="spark")
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
        yield ibis.pyspark.connect(session)
    finally:
        if is_ours:
            session.stop()


def _check_answers(server: str) -> None:
    """Raise an error if a master does not answer; Spark itself would retry for a minute."""
    host, _, port = server.removeprefix(SPARK).split(",")[0].rpartition(":")
    try:
        with socket.create_connection((host, int(port)), CONNECT_SECONDS):
            return
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{server} does not answer ({error}); give the address that the web page of the Spark "
            "master shows, such as spark://host:7077"
        ) from None


def import_ibis(*modules: str, extra: str = "duckdb") -> Any:
    """Return Ibis after importing some modules, or raise an error that names the extra."""
    try:
        with _hiding_deprecations():
            for module in modules:
                import_module(module)
    except ImportError as error:
        raise BadInput(
            f"this needs Ibis and {extra} ({error}); pip install 'crossgcn[{extra}]'"
        ) from None
    return import_module("ibis")


@contextmanager
def _hiding_deprecations() -> Iterator[None]:
    """Hide deprecation warnings meant for the developers of Ibis and PySpark."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
        yield


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
