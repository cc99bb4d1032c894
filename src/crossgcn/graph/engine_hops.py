r"""Columns of neighbourhoods as Ibis expressions, which DuckDB and Spark compute alike.

They are the columns of :class:`~crossgcn.graph.hops.HopColumns` without labels. Each block of means
is a join of the edges with a table of columns and a sum for each node, stored as Parquet; the next
hop reads it. Sums are 64-bit floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from crossgcn.data.engines.connect import Engine
from crossgcn.data.engines.tables import ENCODED, feature_columns
from crossgcn.errors import WorkFailed
from crossgcn.graph.hops import HopPlan
from crossgcn.graph.neighbourhood import Smoothing, limit_strength, strength_step

if TYPE_CHECKING:
    import ibis.expr.types as ir

_GROUP_BYTES = 64 << 20
"""Columns of all blocks that are in memory at once: a row group of the file."""
_LEAST_ROWS = 1024


class ColumnMeans:
    """The means of own columns, read some rows at a time: the prior of the smoothing."""

    def __init__(self, num_features: int) -> None:
        self._total, self._num_rows = np.zeros(num_features), 0
        self._is_flag = np.ones(num_features, bool)

    def add(self, rows: sparse.csr_array) -> None:
        """Add some rows."""
        self._total += rows.sum(axis=0, dtype=np.float64)
        self._num_rows += rows.shape[0]
        self._is_flag[rows.indices[rows.data != 1]] = False

    @property
    def prior(self) -> Tensor:
        """The mean of each column, and 0 for flags."""
        means = np.where(self._is_flag, 0.0, self._total / max(self._num_rows, 1))
        return torch.from_numpy(means).float()


@dataclass(frozen=True)
class EngineHops:
    """Columns of neighbourhoods, stored in the files of an engine, in the order of the nodes.

    Attributes:
        blocks: Names of the stored means, in the order of the plan.
        near: Name of the stored neighbours, from which messages come.
    """

    engine: Engine
    plan: HopPlan
    smoothing: Smoothing
    blocks: tuple[str, ...]
    near: str

    def rows(self) -> Iterator[tuple[pa.Array, list[NDArray[np.float32]], list[pa.Array]]]:
        """Yield ids, columns and lists of neighbours and their weights, some nodes at a time."""
        names, sides = feature_columns(self.plan.num_features), 2 if self.plan.directed else 1
        at_once = max(_LEAST_ROWS, _GROUP_BYTES // (4 * self.plan.num_columns))
        own = self.engine.batches(ENCODED, at_once, ["node", "id", *names])
        means = [
            self.engine.batches(block, at_once, ["node", "number", *names]) for block in self.blocks
        ]
        lists, first = self._neighbours(), 0
        for batch, *others in zip(own, *means, strict=True):
            columns, numbers = list(batch.columns[2:]), []
            for block, each in zip((ENCODED, *self.blocks), (batch, *others), strict=True):
                expected = np.arange(first, first + len(batch))
                if not np.array_equal(each.column("node").to_numpy(), expected):
                    raise WorkFailed(
                        f"{self.engine.name} returned {block} in another order than asked"
                    )
            for each in others:
                numbers.append(np.log1p(each.column("number").to_numpy()))
                columns += each.columns[2:]
            first += len(batch)
            values = [column.to_numpy().astype(np.float32, copy=False) for column in columns]
            yield batch.column("id"), [*values, *numbers[:sides]], lists.until(first)

    def _neighbours(self) -> _NeighbourLists:
        return _NeighbourLists(
            self.engine.batches(self.near, 1 << 20, ["node", "neighbour", "weight"])
        )


class _NeighbourLists:
    """Lists of neighbours and weights of consecutive nodes, from edges ordered by node."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches, self._first = batches, 0
        self._held = [np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64)]

    def until(self, last: int) -> list[pa.Array]:
        """Return the lists of the nodes after those of the last call, up to a node."""
        parts = [self._held]
        while not len(parts[-1][0]) or parts[-1][0][-1] < last:
            batch = next(self._batches, None)
            if batch is None:
                break
            parts.append([column.to_numpy() for column in batch.columns])
        nodes, *values = (np.concatenate(each) for each in zip(*parts, strict=True))
        end = int(np.searchsorted(nodes, last))
        self._held = [each[end:] for each in (nodes, *values)]
        offsets = np.searchsorted(nodes[:end], np.arange(self._first, last + 1))
        self._first = last
        return [pa.ListArray.from_arrays(offsets.astype(np.int32), each[:end]) for each in values]


def compute_hops(
    engine: Engine, edges: ir.Table, plan: HopPlan, prior: Tensor, show: Callable[[str], None]
) -> EngineHops:
    """Compute the means over neighbours.

    Args:
        edges: ``source``, ``target`` and ``weight``, each edge once.
        prior: Of the smoothing.
        show: Called with each stage of the work.
    """
    own = engine.stored(ENCODED)
    nodes, names = own.select("node"), feature_columns(plan.num_features)
    show("ordering the neighbours")
    # Ordered by node: DuckDB then adds up in a third less time, and in less memory.
    files = [f"near-{side}.parquet" for side in range(2 if plan.directed else 1)]
    directions = [
        engine.store(name, near.order_by(["node", "neighbour"]))
        for name, near in zip(files, _directions(edges, plan.directed), strict=True)
    ]
    tables, strengths, stored = [own], [], []
    for block in range(plan.num_blocks):
        sides = len(directions)
        near, x = directions[block % sides], tables[max(0, block + 1 - sides)]
        show(f"hop {block // sides + 1}: strength of the smoothing")
        strengths.append(_estimate_strength(engine, near, x, names))
        show(f"hop {block // sides + 1}: means over neighbours")
        means = _means(near, x, nodes, dict(zip(names, prior.tolist(), strict=True)), strengths[-1])
        stored.append(f"hop-{block}.parquet")
        tables.append(engine.store(stored[-1], means.order_by("node")))
    smoothing = Smoothing(prior, torch.tensor(strengths))
    return EngineHops(engine, plan, smoothing, tuple(stored), files[0])


def _directions(edges: ir.Table, directed: bool) -> list[ir.Table]:
    """Return the neighbours of each node, of weight above 0, in each direction."""
    edges = edges.filter(edges.weight > 0).mutate(weight=edges.weight.cast("float64"))
    into = edges.select("weight", node="target", neighbour="source")
    out_of = edges.select("weight", node="source", neighbour="target")
    return [into, out_of] if directed else [into.union(out_of)]


def _sums(near: ir.Table, values: ir.Table) -> ir.Table:
    """Return for each node its number of neighbours, their weight, and sums of their columns.

    Args:
        values: Columns by ``neighbour``.
    """
    names = [name for name in values.columns if name != "neighbour"]
    joined = near.inner_join(values, "neighbour")
    sums = {name: (joined.weight * joined[name].cast("float64")).sum() for name in names}
    number, total = joined.count().cast("float64"), joined.weight.sum()
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
