r"""Columns of neighbourhoods of tables in DuckDB, in Parquet or in Spark, written for training.

They are the columns of :class:`~crossgcn.graph.hops.HopColumns` without labels. Each block of means
is an Ibis expression, which DuckDB and Spark compute alike: a join of the edges with a table of
columns and a sum for each node, stored as Parquet; the next hop reads it. Sums are 64-bit floats.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch_geometric.data import Data

from crossgcn.data.engines.connect import Engine, Location, open_engine, read_scratch
from crossgcn.data.engines.tables import (
    ENCODED,
    SAMPLE_ROWS,
    common_id_type,
    feature_columns,
    fetch_table,
    number_edges,
    write_encoded,
)
from crossgcn.data.files import temporary_folder
from crossgcn.data.tables.checks import check_tables
from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.graph import TableGraph, refuse_errors
from crossgcn.data.tables.labels import read_labels, read_roles
from crossgcn.data.tables.plan import TableChoices, make_plan
from crossgcn.data.tables.read import PARQUET
from crossgcn.errors import BadInput
from crossgcn.graph.hop_file import HopTable, write_hop_file
from crossgcn.graph.hops import HopColumns, HopPlan
from crossgcn.graph.neighbourhood import Smoothing, limit_strength, strength_step

if TYPE_CHECKING:
    import ibis.expr.types as ir

ENGINE_MEMORY = 4 << 30
"""Default for the bytes that DuckDB may take."""


def write_hops(
    nodes: str,
    edges: str,
    *,
    out: Path | str,
    choices: TableChoices | None = None,
    hops: int = 2,
    directed: bool = False,
    memory_limit: int = ENGINE_MEMORY,
    threads: int = 1,
    scratch: Path | str | None = None,
    show: Callable[[str], None] = lambda stage: None,
) -> HopTable:
    """Compute the columns of every node and its neighbourhood where the tables are.

    Args:
        nodes: A table file, a folder of Parquet, ``file.duckdb::table``, or
            ``spark://host:7077::table``.
        edges: Likewise, in the same engine.
        out: The Parquet file to write, with ids, target, split, columns and neighbours.
        choices: What the columns of the tables are; inferred where not given.
        hops: How far neighbourhoods reach.
        directed: Keep in-neighbours and out-neighbours apart.
        memory_limit: Bytes that DuckDB may take; more is done on disk.
        threads: Of DuckDB.
        scratch: Folder for temporary files; by default that of ``out``. Workers of Spark must see
            it under the same path.
        show: Called with each stage of the work.

    Raises:
        BadInput: A table or its engine is not there, or cannot be used; names the remedy.
        WorkFailed: The engine failed, or the disk is full.
    """
    out, choices = Path(out), choices or TableChoices()
    if choices.name_column is not None:
        raise BadInput(
            f"name_column is {choices.name_column!r}, but the file of columns keeps no names, "
            "only ids; leave it out"
        )
    locations = [Location.parse(nodes), Location.parse(edges)]
    _check_out(out, locations)
    folder = Path(out.absolute().parent if scratch is None else scratch)
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder for temporary files; make it, or give --scratch")
    name = f".{out.name}.{zlib.crc32(os.fsencode(out.resolve())):08x}.hops"
    with temporary_folder(folder.resolve() / name, out) as temporary:
        with open_engine(locations, temporary, memory_limit, threads) as engine:
            show("reading the nodes")
            of_edges = engine.open(locations[1], "edges")
            graph, own = _encode_nodes(engine, locations, of_edges, choices)
            show("reading the edges")
            numbered = number_edges(engine, of_edges, own, edges, graph.plan, directed)
            plan = HopPlan(len(graph.encoder.space), hops, directed=directed)
            smoothing = _compute_blocks(engine, own, numbered, plan, show)
        # DuckDB has given back its memory.
        show(f"writing {out}")
        table = _collect(temporary, graph, plan, smoothing, out)
        write_hop_file(table)
    return table


def _check_out(out: Path, locations: list[Location]) -> None:
    """Refuse a name that is no Parquet file, and the file of a table."""
    if not out.name.lower().endswith(PARQUET) or out.is_dir():
        raise BadInput(f"{out}: give the Parquet file to write, such as --out columns.parquet")
    if not out.absolute().parent.is_dir():
        raise BadInput(f"{out}: its folder does not exist; make {out.parent} first")
    for location in locations:
        path = None if location.path is None else Path(location.path).resolve()
        if path in (out.resolve(), *out.resolve().parents):
            raise BadInput(f"{out} is where the table {location.text} is: give another --out")


def _encode_nodes(
    engine: Engine, locations: Sequence[Location], edges: ir.Table, choices: TableChoices
) -> tuple[TableGraph, ir.Table]:
    """Return the nodes as a graph without features and edges, and their features in the engine."""
    nodes, (of_nodes, of_edges) = engine.open(locations[0], "nodes"), locations
    some = fetch_table(engine, edges.limit(SAMPLE_ROWS), of_edges.text, "edges")
    table = fetch_table(engine, nodes, of_nodes.text, "nodes")
    plan = make_plan(table, some, choices)
    table = plan.with_missing_words(table)
    problems = check_tables(table, None, plan)
    refuse_errors(problems, table.name)
    encoder, labels = TableEncoder.fit(table, plan), read_labels(table, plan)
    roles = read_roles(table, plan.split_column, labels)
    data = Data(
        y=torch.from_numpy(labels.values),
        num_classes=len(labels.names),
        name=table.name,
        roles=None if roles is None else torch.from_numpy(roles),
    )
    id_type = common_id_type(nodes[plan.id_column].type())
    own = write_encoded(engine, table, plan, encoder, id_type)
    ids = tuple(table.frame[plan.id_column])
    return TableGraph(data, ids, labels.names, encoder, plan, tuple(problems)), own


def _near(side: int) -> str:
    return f"near-{side}.parquet"


def _means_of(block: int) -> str:
    return f"means-{block}.parquet"


def _compute_blocks(
    engine: Engine, own: ir.Table, edges: ir.Table, plan: HopPlan, show: Callable[[str], None]
) -> Smoothing:
    """Compute and store the means over neighbours; return how they are smoothed."""
    nodes, names = own.select("node"), feature_columns(plan.num_features)
    show("ordering the neighbours")
    # Ordered by node: DuckDB then adds up in a third less time, and in less memory.
    directions = [
        engine.compute(_near(side), near.order_by(["node", "neighbour"]))
        for side, near in enumerate(_directions(edges, plan.directed))
    ]
    sides, tables, strengths = len(directions), [own], []
    prior = _prior(engine, own, names)
    for block in range(plan.num_blocks):
        near, x = directions[block % sides], tables[max(0, block + 1 - sides)]
        show(f"hop {block // sides + 1}: strength of the smoothing")
        strengths.append(_estimate_strength(engine, near, x, names))
        show(f"hop {block // sides + 1}: means over neighbours")
        means = _means(near, x, nodes, dict(zip(names, prior, strict=True)), strengths[-1])
        tables.append(engine.compute(_means_of(block), means))
    return Smoothing(torch.tensor(prior), torch.tensor(strengths))


def _collect(
    scratch: Path, graph: TableGraph, plan: HopPlan, smoothing: Smoothing, out: Path
) -> HopTable:
    """Read what the engine computed into the matrix that training reads from the file."""
    names, sides = feature_columns(plan.num_features), 2 if plan.directed else 1
    columns = torch.empty(len(graph.ids), plan.num_columns)
    blocks = [ENCODED, *map(_means_of, range(plan.num_blocks))]
    matrix = columns.numpy()
    for block, stored in enumerate(blocks):
        first = block * plan.num_features
        for nodes, *values in read_scratch(scratch / stored, ["node", *names]):
            matrix[nodes, first : first + len(names)] = np.column_stack(values)
    for side in range(sides):
        for nodes, number in read_scratch(scratch / _means_of(side), ["node", "number"]):
            matrix[nodes, side - sides] = np.log1p(number)
    none = [np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)]
    near = read_scratch(scratch / _near(0), ["node", "neighbour", "weight"])
    *ends, weight = map(np.concatenate, zip(none, *near, strict=True))
    data = graph.data
    data.x = columns[:, : plan.num_features]
    data.edge_index = torch.from_numpy(np.stack(ends[::-1] if plan.directed else ends))
    if graph.plan.weight_column is not None:
        data.edge_weight = torch.from_numpy(weight)
    if plan.directed:
        data.directed = True
    computed = HopColumns.computed(
        columns, plan, smoothing, data.edge_index, data.get("edge_weight")
    )
    return HopTable(**vars(graph), columns=computed, path=out)


def _directions(edges: ir.Table, directed: bool) -> list[ir.Table]:
    """Return the neighbours of each node, of weight above 0, in each direction."""
    edges = edges.filter(edges.weight > 0)
    into = edges.select("weight", node="target", neighbour="source")
    out_of = edges.select("weight", node="source", neighbour="target")
    return [into, out_of] if directed else [into.union(out_of)]


def _prior(engine: Engine, own: ir.Table, names: Sequence[str]) -> list[float]:
    """Return the mean of each column, and 0 for flags, in 32 bits."""
    means = {f"{name}_mean": own[name].cast("float64").mean() for name in names}
    flags = {f"{name}_flag": ((own[name] == 0) | (own[name] == 1)).all() for name in names}
    of = engine.fetch(own.aggregate(**means, **flags)).to_pylist()[0]
    prior = [0.0 if of[f"{name}_flag"] else of[f"{name}_mean"] for name in names]
    return torch.tensor(prior).tolist()


def _sums(near: ir.Table, values: ir.Table) -> ir.Table:
    """Return for each node its number of neighbours, their weight, and sums of their columns.

    Args:
        values: Columns by ``neighbour``.
    """
    names = [name for name in values.columns if name != "neighbour"]
    joined = near.inner_join(values, "neighbour")
    sums = {name: (joined.weight * joined[name].cast("float64")).sum() for name in names}
    number, total = joined.count().cast("float64"), joined.weight.cast("float64").sum()
    return joined.group_by("node").aggregate(number=number, total=total, **sums)


def _means(
    near: ir.Table, x: ir.Table, nodes: ir.Table, prior: dict[str, float], strength: float
) -> ir.Table:
    """Return the smoothed means of all nodes, weighted by edges, and the number of neighbours."""
    sums = _sums(near, x.select(*prior, neighbour="node"))
    share = sums.number / (sums.number + strength)
    means = {name: share * sums[name] / sums.total for name in prior}
    means = {name: mean + (1 - share) * prior[name] for name, mean in means.items()}
    found = nodes.left_join(sums.select("node", "number", **means), "node")
    filled = {name: found[name].fill_null(usual).cast("float32") for name, usual in prior.items()}
    return found.select("node", number=found.number.fill_null(0.0).cast("float32"), **filled)


def _estimate_strength(engine: Engine, near: ir.Table, x: ir.Table, names: Sequence[str]) -> float:
    """Return the strength as :meth:`~crossgcn.graph.neighbourhood.Neighbourhood.estimate_strength`.

    Columns are centred before they are squared.
    """
    names = names[:: strength_step(engine.count(x), len(names))]
    spreads = {f"{name}_var": x[name].cast("float64").var(how="pop") for name in names}
    centers = {f"{name}_mean": x[name].cast("float64").mean() for name in names}
    of_all = engine.fetch(x.aggregate(**spreads, **centers)).to_pylist()[0]
    variance = {name: of_all[f"{name}_var"] for name in names}
    names = [name for name in names if variance[name] > 1e-12]
    values = {name: x[name].cast("float64") - of_all[f"{name}_mean"] for name in names}
    squares = {f"{name}_square": value * value for name, value in values.items()}
    sums = _sums(near, x.select(neighbour=x.node, **values, **squares))
    means = {name: sums[name] / sums.total for name in (*values, *squares)}
    found = sums.select("number", **means)
    several = found.number > 1
    within = {
        f"{name}_within": (
            (found[f"{name}_square"] - found[name] * found[name]).clip(lower=0.0)
            * (found.number / (found.number - 1).nullif(0.0))
        ).mean(where=several)
        for name in names
    }
    between = {f"{name}_between": found[name].var(how="pop") for name in names}
    inverse, most = (1 / found.number).mean(), found.number.max()
    at = engine.fetch(found.aggregate(inverse=inverse, most=most, **within, **between))
    measured = at.to_pylist()[0]
    if not measured["most"] or measured["most"] <= 1:
        return 0.0
    inside = sum(measured[f"{name}_within"] / variance[name] for name in names)
    outside = sum(measured[f"{name}_between"] / variance[name] for name in names)
    return limit_strength(inside, outside - inside * measured["inverse"])
