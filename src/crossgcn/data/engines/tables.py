"""Tables of an engine as a graph: edges are numbered and made unique where they are.

Nodes are encoded in memory, as those of files are. Of the edges, only unique ones between numbered
nodes come into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from crossgcn.data.engines.connect import Engine, Location, open_engine
from crossgcn.data.tables.cells import MOST_WEIGHT, quote
from crossgcn.data.tables.checks import check_tables
from crossgcn.data.tables.graph import TableGraph, encode_graph, refuse_errors
from crossgcn.data.tables.plan import TableChoices, TablePlan, make_plan
from crossgcn.data.tables.problems import CheckedTables
from crossgcn.data.tables.read import make_table, read_table
from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    import ibis.expr.types as ir

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
