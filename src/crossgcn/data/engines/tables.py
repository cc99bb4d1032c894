"""Tables in an engine: the nodes are numbered and encoded, the edges are numbered and unique.

The engine orders the nodes by their ids, and a node's number is its place in that order. The
encoders are those of tables in memory: they are fitted to one column at a time and applied to some
rows at a time, and the engine gets the encoded columns as a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from crossgcn.data.engines.connect import Engine
from crossgcn.data.tables.cells import MOST_WEIGHT, quote
from crossgcn.data.tables.checks import COLUMNS, TARGET, check_tables
from crossgcn.data.tables.columns import find_id_column
from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.frames import clean_headers, make_table
from crossgcn.data.tables.graph import refuse_errors
from crossgcn.data.tables.labels import Labels, read_labels
from crossgcn.data.tables.plan import TableChoices, TablePlan, make_plan
from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    import ibis.expr.types as ir

SAMPLE_ROWS = 10_000
"""Rows that are read to find the columns of ids and of both ends."""

MOST_FEATURES = 4096
"""Encoded columns of a table in an engine; wider ones take DuckDB and Spark too long."""

BATCH_BYTES = 32 << 20
"""Encoded rows that are in memory at once."""

COLUMNS_AT_ONCE = 4
"""Columns of the node table whose different values are in memory at once."""

ENCODED = "encoded.parquet"
_SORTED, _ENDS, _EDGES = "nodes.parquet", "ends.parquet", "edges.parquet"


def feature_columns(num_features: int) -> list[str]:
    """Return the names of encoded columns in the engine, which may not like the user's."""
    return [f"x{position}" for position in range(num_features)]


def _read_frame(engine: Engine, columns: Sequence[str], num_rows: int) -> pd.DataFrame:
    """Read the ordered nodes as text; columns with repeated values as categories.

    A cell then takes the four bytes of its category's number.
    """
    frame = {}
    for column in columns:
        cells = engine.column(_SORTED, column).to_pandas(types_mapper=pd.ArrowDtype)
        text = make_table(pd.DataFrame({column: cells}), _SORTED).frame[column]
        frame[column] = text.astype("category") if text.nunique() < num_rows / 4 else text
    return pd.DataFrame(frame)


class _Recent(dict[Any, Any]):
    """A cache of the last few entries."""

    def __setitem__(self, key: Any, value: Any) -> None:
        while len(self) >= COLUMNS_AT_ONCE:
            del self[next(iter(self))]
        super().__setitem__(key, value)


def read_nodes(
    engine: Engine, nodes: ir.Table, name: str, edges: Table | None, choices: TableChoices
) -> tuple[Table, TablePlan]:
    """Order the nodes by id, and decide what their columns are, as for tables in memory.

    Args:
        edges: Some rows of the table of edges.

    Returns:
        The table and its plan.
    """
    clean_headers(nodes.columns, name)
    headers = Table(name, pd.DataFrame(columns=list(nodes.columns), dtype="str"), 1)
    taken = {headers.require(column) for column, _ in choices.node_columns()}
    kept = [column for column in nodes.columns if column not in choices.ignored]
    for column in kept:
        _check_type(name, column, nodes[column].type())
    if choices.id_column is None:
        some = sample_rows(engine, nodes.select(kept), name, "nodes")
        found, _ = find_id_column(some, edges, taken)
        choices = choices.model_copy(update={"id_column": found})
    id_column = str(choices.id_column)
    kind = nodes[id_column].type()
    if not (kind.is_integer() or kind.is_string() or kind.is_uuid()):
        raise BadInput(
            f"{name}, column {id_column}: ids are integers or text, not {kind}; convert the "
            "column, or choose another with --id-column"
        )
    engine.store(_SORTED, nodes.select(kept).order_by(id_column))
    num_rows = engine.count_rows(_SORTED)
    if num_rows == 0:
        raise BadInput(f"{name}: there are no rows of nodes, only headers; add at least one row")
    by_id = f"{name} ordered by {id_column}"
    _check_ids(engine, by_id, id_column)
    frame = _read_frame(engine, kept, num_rows)
    table = Table(by_id, frame, first_row=1, _distinct=_Recent())
    plan = make_plan(table, edges, choices.model_copy(update={"ignored": ()}))
    return plan.with_missing_words(table), plan


def _check_type(name: str, column: str, kind: Any) -> None:
    """Refuse a column whose type is that of no feature."""
    known = kind.is_numeric() or kind.is_boolean() or kind.is_string() or kind.is_uuid()
    known = known or kind.is_date() or kind.is_timestamp() or kind.is_time()
    known = known or (kind.is_array() and kind.value_type.is_primitive()) or kind.is_null()
    if not known:
        raise BadInput(
            f"{name}, column {column}: {kind} is the type of no feature; convert it to numbers, "
            f"text or dates, or leave the column out with --ignore {column}"
        )


def _check_ids(engine: Engine, name: str, column: str) -> None:
    """Refuse an id that is missing or the same as the one before it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    last: str | None = None
    for batch in engine.batches(_SORTED, 1 << 16, [column]):
        ids = batch.column(0).cast(pa.string())
        if ids.null_count or pc.any(pc.equal(pc.utf8_trim_whitespace(ids), "")).as_py():
            raise BadInput(f"{name}: a node has no id; give it one, or delete the row")
        before = pa.concat_arrays([pa.array([last], pa.string()), ids[:-1]])
        same = pc.index(pc.equal(ids, before), True).as_py()
        if same >= 0:
            raise BadInput(
                f"{name}: {quote(ids[same].as_py())} is the id of two rows; keep one row per node, "
                "or choose another column with --id-column"
            )
        last = ids[-1].as_py()


def fit_encoder(nodes: Table, plan: TablePlan) -> tuple[TableEncoder, Labels]:
    """Fit the encoders to one column after the other, and read the labels."""
    labels = read_labels(nodes, plan)
    refuse_errors(check_tables(nodes, None, plan, (*TARGET, *COLUMNS)), nodes.name, None)
    encoder = TableEncoder.fit(nodes, plan)
    num_features = len(encoder.space)
    if num_features > MOST_FEATURES:
        widest = max(encoder.columns, key=lambda column: len(column.feature_names))
        raise BadInput(
            f"{nodes.name}: {num_features:,} features, and tables in an engine may have "
            f"{MOST_FEATURES:,}; {len(widest.feature_names):,} are of column {widest.column}: "
            f"leave it out with --ignore {widest.column}"
        )
    return encoder, labels


def encoded_batches(
    engine: Engine, nodes: Table, plan: TablePlan, encoder: TableEncoder
) -> Iterator[sparse.csr_array]:
    """Write the encoded rows for the engine, and yield the features of some rows at a time.

    The table :data:`ENCODED` has the columns ``node``, ``id``, and ``x0``, ``x1``, ... as 32-bit
    floats.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    width = len(encoder.space)
    is_integer = _fits_int64(engine.stored(_SORTED)[plan.id_column].type())
    id_type = pa.int64() if is_integer else pa.string()
    names = ["node", "id", *feature_columns(width)]
    types = [pa.int64(), id_type, *[pa.float32()] * width]
    done, num_rows = 0, max(1024, BATCH_BYTES // (4 * width))
    with pq.ParquetWriter(
        engine.scratch / ENCODED, pa.schema(zip(names, types, strict=True))
    ) as to:
        for batch in engine.batches(_SORTED, num_rows):
            frame = batch.to_pandas(types_mapper=pd.ArrowDtype)
            rows = replace(make_table(frame, nodes.name), first_row=done + 1)
            features = encoder.transform(rows)
            numbers = pa.array(np.arange(done, done + len(rows)))
            ids = batch.column(plan.id_column).cast(id_type)
            columns = np.ascontiguousarray(features.toarray().T)
            to.write_batch(pa.record_batch([numbers, ids, *map(pa.array, columns)], names=names))
            yield features
            done += len(rows)


def sample_rows(engine: Engine, table: ir.Table, name: str, role: str) -> Table:
    """Return some rows of a table, to find its columns."""
    clean_headers(table.columns, name)
    frame = engine.fetch(table.limit(SAMPLE_ROWS)).to_pandas(types_mapper=pd.ArrowDtype)
    if frame.empty:
        raise BadInput(f"{name}: there are no rows of {role}, only headers; add at least one row")
    return make_table(frame, name)


def number_edges(
    engine: Engine, edges: ir.Table, name: str, plan: TablePlan, *, directed: bool
) -> ir.Table:
    """Replace the ids of both ends by numbers; keep each edge once, and no self-loop.

    Returns:
        ``source``, ``target`` and ``weight``: the mean, if an edge is given several times. Of an
        undirected edge, ``source`` is the lower number.
    """
    import ibis

    ids, weight = engine.stored(ENCODED).select("node", "id"), plan.weight_column
    columns = [str(plan.source_column), str(plan.destination_column)]
    types = [ids.id.type(), *(edges[column].type() for column in columns)]
    kind = "int64" if all(map(_fits_int64, types)) else "string"
    ids = ids.mutate(id=ids.id.cast(kind))
    found = edges.select(
        first=edges[columns[0]].cast(kind),
        second=edges[columns[1]].cast(kind),
        weight=ibis.literal(1.0) if weight is None else _as_number(edges[weight]),
    )
    for end, node in (("first", "source"), ("second", "target")):
        found = found.left_join(ids.select(id="id", **{node: "node"}), [(end, "id")]).drop("id")
    found = engine.store(_ENDS, found.select("source", "target", "weight"))
    _check_ends(engine, found, edges, ids, name, columns)
    is_weight = (found.weight >= 0) & (found.weight <= MOST_WEIGHT)
    wrong = engine.count(found.filter(~is_weight.fill_null(False)))
    if wrong:
        raise BadInput(
            f"{name}, column {weight}: {wrong:,} edges have no weight from 0 to "
            f"{MOST_WEIGHT:g}; correct them, or leave them out in a new table"
        )
    found = found.filter(found.source != found.target)
    if not directed:
        ends = found.source, found.target
        found = found.mutate(source=ibis.least(*ends), target=ibis.greatest(*ends))
    mean = found.weight.mean().cast("float32")
    return engine.store(_EDGES, found.group_by("source", "target").aggregate(weight=mean))


def _fits_int64(kind: Any) -> bool:
    return bool(kind.is_integer() and not kind.is_uint64())


def _as_number(column: ir.Column) -> ir.Value:
    return column.try_cast("float64") if column.type().is_string() else column.cast("float64")


def _check_ends(
    engine: Engine, found: ir.Table, edges: ir.Table, ids: ir.Table, name: str, columns: list[str]
) -> None:
    """Refuse an end that is no node."""
    for column, node in zip(columns, (found.source, found.target), strict=True):
        lost = engine.count(found.filter(node.isnull()))
        if not lost:
            continue
        ends = edges.select(end=edges[column].cast(ids.id.type())).distinct()
        wrong = engine.fetch(ends.anti_join(ids, ends.end == ids.id).order_by("end").limit(1))
        value = wrong["end"][0].as_py()
        raise BadInput(
            f"{name}, column {column}: {'an empty cell' if value is None else quote(str(value))} "
            f"is the id of no node ({lost:,} such); add the node, or leave such "
            "edges out in a new table"
        )
