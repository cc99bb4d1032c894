"""Tables of an engine as numbers: nodes are encoded in memory, edges are numbered in the engine.

A node's number is its position in the table. The encoders are those of tables in memory, and the
engine gets the encoded columns as a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from crossgcn.data.engines.connect import Engine
from crossgcn.data.tables.cells import MOST_WEIGHT, quote
from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.read import make_table
from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    import ibis.expr.types as ir

SAMPLE_ROWS = 10_000
"""Edges that are read to find the columns of both ends."""

MOST_FEATURES = 4096
"""Encoded columns of a table in an engine; wider ones take DuckDB and Spark too long."""

BATCH_BYTES = 32 << 20
"""Encoded rows that are dense at once."""

ENCODED, _ENDS, _EDGES = "encoded.parquet", "ends.parquet", "edges.parquet"


def fetch_table(engine: Engine, table: ir.Table, name: str, role: str) -> Table:
    """Read a table of an engine as text."""
    frame = engine.fetch(table).to_pandas(types_mapper=pd.ArrowDtype)
    found = make_table(frame, name)
    if frame.empty:
        raise BadInput(f"{name}: there are no rows of {role}, only headers; add at least one row")
    return found


def feature_columns(num_features: int) -> list[str]:
    """Return the names of encoded columns in the engine, which may not like the user's."""
    return [f"x{position}" for position in range(num_features)]


def write_encoded(
    engine: Engine, nodes: Table, plan: TablePlan, encoder: TableEncoder, id_type: str
) -> ir.Table:
    """Give the engine a table with ``node``, ``id`` and the features ``x0``, ``x1``, ..."""
    width = len(encoder.space)
    if width > MOST_FEATURES:
        widest = max(encoder.columns, key=lambda column: len(column.feature_names))
        raise BadInput(
            f"{nodes.name}: {width:,} features, and tables in an engine may have "
            f"{MOST_FEATURES:,}; {len(widest.feature_names):,} are of column {widest.column}: "
            f"leave it out with --ignore {widest.column}"
        )
    ids = pa.array(nodes.frame[plan.id_column], pa.string()).cast(id_type)
    at_once = max(1024, BATCH_BYTES // (4 * width))

    def parts() -> Iterator[pa.Table]:
        for first in range(0, len(nodes), at_once):
            some = nodes.frame.iloc[first : first + at_once].reset_index(drop=True)
            rows = replace(nodes, frame=some, first_row=nodes.row_number(first), _distinct={})
            dense = encoder.transform(rows).toarray().astype(np.float32, copy=False)
            numbers = np.arange(first, first + len(rows))
            columns = dict(zip(feature_columns(width), dense.T, strict=True))
            yield pa.table({"node": numbers, "id": ids.slice(first, len(rows)), **columns})

    return engine.write(ENCODED, parts())


def number_edges(
    engine: Engine, edges: ir.Table, encoded: ir.Table, name: str, plan: TablePlan, directed: bool
) -> ir.Table:
    """Replace the ids of both ends by numbers; keep each edge once, and no self-loop.

    Returns:
        ``source``, ``target`` and ``weight``: the mean, if an edge is given several times. Of an
        undirected edge, ``source`` is the lower number.
    """
    import ibis

    ids, weight = encoded.select("node", "id"), plan.weight_column
    columns = [str(plan.source_column), str(plan.destination_column)]
    kind = common_id_type(ids.id.type(), *(edges[column].type() for column in columns))
    ids = ids.mutate(id=ids.id.cast(kind))
    found = edges.select(
        first=edges[columns[0]].cast(kind),
        second=edges[columns[1]].cast(kind),
        weight=ibis.literal(1.0) if weight is None else _as_number(edges[weight]),
    )
    for end, node in (("first", "source"), ("second", "target")):
        found = found.left_join(ids.select(id="id", **{node: "node"}), [(end, "id")]).drop("id")
    found = engine.compute(_ENDS, found)
    for column, end, node in zip(columns, ("first", "second"), ("source", "target"), strict=True):
        lost = found.filter(found[node].isnull())
        num_lost = engine.count(lost)
        if num_lost:
            value = engine.fetch(lost.select(end).order_by(end).limit(1))[end][0].as_py()
            raise BadInput(
                f"{name}, column {column}: "
                f"{'an empty cell' if value is None else quote(str(value))} is the id of no node "
                f"({num_lost:,} such); add the node, or leave such edges out in a new table"
            )
    is_weight = (found.weight >= 0) & (found.weight <= MOST_WEIGHT)
    num_wrong = engine.count(found.filter(~is_weight.fill_null(False)))
    if num_wrong:
        raise BadInput(
            f"{name}, column {weight}: {num_wrong:,} edges have no weight from 0 to "
            f"{MOST_WEIGHT:g}; correct them, or leave them out in a new table"
        )
    found = found.filter(found.source != found.target)
    if not directed:
        ends = found.source, found.target
        found = found.mutate(source=ibis.least(*ends), target=ibis.greatest(*ends))
    mean = found.weight.mean().cast("float32")
    return engine.compute(_EDGES, found.group_by("source", "target").aggregate(weight=mean))


def common_id_type(*types: Any) -> str:
    """Return the type in which ids of these types are equal: text, unless all are integers."""
    fit = all(kind.is_integer() and not kind.is_uint64() for kind in types)
    return "int64" if fit else "string"


def _as_number(column: ir.Column) -> ir.Value:
    return column.try_cast("float64") if column.type().is_string() else column.cast("float64")
