"""Columns of a node and of its neighbourhood, the inputs of :class:`~crossgcn.CrossHops`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.graph.matrix import SparseMatrix, make_rows
from crossgcn.graph.sampling.batches import ExactRows
from crossgcn.graph.sampling.blocks import adjacency_rows
from crossgcn.graph.sampling.source import Features, GraphSource, MemoryGraph

_LEAST_DEVIATION = 1e-3
_DENSE_BYTES = 256 << 20
"""Sparse columns up to this size are made dense, because dense products are faster."""


class NeighbourLabels(NamedTuple):
    """Labels that neighbours may show: those of training nodes only.

    Attributes:
        values: One column per class (one for two classes), or a standardised number,
            ``[nodes, columns]``; rows of unknown nodes are ignored.
        known: Which labels may be shown, bool ``[nodes]``.
        prior: What a node without labelled neighbours is shown, ``[columns]``; the mean of the
            known labels by default.
    """

    values: Tensor
    known: Tensor
    prior: Tensor | None = None


@dataclass(frozen=True)
class HopPlan:
    """Which columns describe a node: own, neighbours' means, numbers of neighbours, labels.

    Own columns come first. Then follow, for each hop, the means over neighbours; for directed
    edges those over in-neighbours and those over out-neighbours. Then one number of neighbours
    per direction; and, of one and two hops, the mean label of neighbours and how many of their
    labels are known.

    Attributes:
        num_features: Own columns.
        hops: How far neighbourhoods reach, at least 1.
        num_labels: Columns of a label; 0 if neighbours' labels are not shown.
        directed: Keep in-neighbours and out-neighbours apart.
    """

    num_features: int
    hops: int = 2
    num_labels: int = 0
    directed: bool = False

    def __post_init__(self) -> None:
        if self.hops < 1:
            raise BadInput(f"hops is {self.hops}; give at least 1")

    @property
    def num_columns(self) -> int:
        """Number of columns in all."""
        labels = self.label_hops * (self.num_labels + 1)
        directions = 2 if self.directed else 1
        return self.num_features + directions * (self.hops * self.num_features + 1 + labels)

    @property
    def label_hops(self) -> int:
        """How far labels are seen: two hops at most."""
        return min(self.hops, 2) if self.num_labels else 0

    def name_columns(
        self, features: Sequence[str], labels: Sequence[str] = (), relation: str = "neighbours"
    ) -> list[str]:
        """Return the name of each column, such as ``"neighbours: age"`` or ``"2 hops: age"``.

        Args:
            features: Names of the own columns.
            labels: Names of the columns of a label.
            relation: What neighbours are called, for example ``"friends"``.
        """
        sides = ["in-", "out-"] if self.directed else [""]
        places = [
            f"{side}{relation}" if hop == 1 else f"{hop} {side}hops"
            for hop in range(1, self.hops + 1)
            for side in sides
        ]
        names = list(features) + [f"{place}: {name}" for place in places for name in features]
        names += [f"number of {side}{relation}" for side in sides]
        for place in places[: self.label_hops * len(sides)]:
            names += [*(f"{place}: {name}" for name in labels), f"{place}: known labels"]
        return names


def neighbour_labels(y: Tensor, nodes: Tensor, num_classes: int) -> NeighbourLabels:
    """Return the labels of some nodes, as their neighbours may see them.

    Args:
        y: Class or number of each node.
        nodes: The training nodes.
        num_classes: 1 if ``y`` is a number.
    """
    known = torch.zeros(y.numel(), dtype=torch.bool)
    known[nodes] = True
    own = y[nodes]
    if num_classes == 1:
        deviation = own.std().clamp(min=1e-12) if own.numel() > 1 else 1.0
        values = ((y - own.mean()) / deviation).unsqueeze(1)
    elif num_classes == 2:
        values = (y == 1).unsqueeze(1)
    else:
        values = torch.nn.functional.one_hot(y.clamp(min=0), num_classes)
    return NeighbourLabels(values.float(), known)


class HopColumns:
    r"""The columns of every node of a graph, not standardised; computed once.

    With :math:`\bar{\mathbf{N}}` the mean over neighbours, weighted by their edges and without
    the node itself, the means of hop :math:`h` are :math:`\bar{\mathbf{N}}^h\mathbf{X}`. A node
    without neighbours has zeros there.

    Args:
        source: The graph, in memory or on disk; a row lists the in-neighbours of a node.
        hops: As in :class:`HopPlan`; likewise ``directed``.
        folder: Keep the columns in a temporary file there instead of in memory.
    """

    def __init__(
        self,
        source: GraphSource,
        hops: int = 2,
        *,
        directed: bool = False,
        folder: Path | None = None,
    ) -> None:
        self.plan = HopPlan(source.num_features, hops, directed=directed)
        self._folder = folder
        self._directions = [Neighbourhood(source)]
        if directed:
            self._directions.append(Neighbourhood(_reversed(source)))
        own = source.features(torch.arange(source.num_nodes))
        blocks, last = [own], [own for _ in self._directions]
        for _ in range(hops):
            last = [near.mean(x) for near, x in zip(self._directions, last, strict=True)]
            blocks += last
        sizes = [near.num_neighbours.log1p().unsqueeze(1) for near in self._directions]
        self.without_labels = _concatenate([*blocks, *sizes], folder)

    def with_labels(self, labels: NeighbourLabels) -> Features:
        """Add the labels of neighbours, of one and two hops."""
        plan = replace(self.plan, num_labels=labels.values.size(1))
        blocks = [
            near.mean_labels(labels, hop)
            for hop in range(1, plan.label_hops + 1)
            for near in self._directions
        ]
        return _concatenate([self.without_labels, *blocks], self._folder)


class Neighbourhood:
    """Sums and means over the neighbours of every node, without the node itself."""

    def __init__(self, source: GraphSource) -> None:
        self._source = source
        self._exact = ExactRows(source)
        sizes = [(rows.row_offsets.diff(), rows.values) for rows in self._rows()]
        self.num_neighbours = torch.cat([size for size, _ in sizes]).float()
        nodes = torch.arange(source.num_nodes).repeat_interleave(self.num_neighbours.long())
        weights = torch.cat([values for _, values in sizes]).double()
        total = torch.zeros(source.num_nodes, dtype=torch.float64).index_add_(0, nodes, weights)
        self._inverse = torch.where(total > 0, 1 / total, 0.0)

    def mean(self, x: Features) -> Features:
        """Return the mean over neighbours, weighted by their edges."""
        if isinstance(x, SparseMatrix):
            matrix = x.to_scipy()
            sums = sp.vstack([rows.to_scipy() @ matrix for rows in self._rows()], format="csr")
            sums = sp.diags_array(self._inverse.numpy().astype(sums.dtype)) @ sums
            return SparseMatrix.from_scipy(sums)
        return self._sum(x) * self._inverse.to(x).unsqueeze(1)

    def mean_labels(self, labels: NeighbourLabels, hop: int) -> Tensor:
        """Return the smoothed mean of the labels at the end of walks, and how many are known.

        A walk that returns to its start is left out, so no column shows a node its own label.
        """
        known = labels.known.unsqueeze(1)
        own = torch.where(known, torch.cat([labels.values, torch.ones_like(known)], dim=1), 0.0)
        own = own.double()
        prior = own[:, :-1].sum(0) / own[:, -1].sum().clamp(min=1)
        if labels.prior is not None:
            prior = labels.prior.to(own)
        reached = self._sum(own)
        if hop == 2:
            reached = self._sum(reached) - self._returns().unsqueeze(1) * own
        total, count = reached[:, :-1], reached[:, -1:].clamp(min=0)
        return torch.cat([(total + hop * prior) / (count + hop), count.log1p()], dim=1).float()

    def _sum(self, x: Tensor) -> Tensor:
        return torch.cat([rows.to(x.device) @ x for rows in self._rows(x.dtype)])

    def _returns(self) -> Tensor:
        """Return the weight of all walks of two steps from a node back to itself."""
        rows = sp.vstack([rows.to_scipy() for rows in self._rows(torch.float64)], format="csr")
        return torch.from_numpy(rows.multiply(rows.T).sum(axis=1))

    def _rows(self, dtype: torch.dtype = torch.float32) -> Iterator[SparseMatrix]:
        for chunk in self._exact.chunks():
            rows = adjacency_rows(self._source, chunk, "neighbours")
            yield SparseMatrix(rows.row_offsets, rows.columns, rows.values.to(dtype), rows.shape)


class Scale(NamedTuple):
    """Standardisation of columns: ``(x - center) / deviation``."""

    center: Tensor
    deviation: Tensor


def fit_scale(columns: Features, num_features: int) -> Scale:
    """Return the mean and the deviation of each column over all nodes.

    Own columns whose values are between -1 and 1 (flags, ranks) are left as they are.
    Standardising them would let the rarest flags dominate.

    Args:
        num_features: Own columns.
    """
    if isinstance(columns, SparseMatrix):
        matrix = columns.to_scipy().astype(np.float64)
        mean, square = matrix.mean(axis=0), matrix.power(2).mean(axis=0)
        largest = abs(matrix).max(axis=0).toarray()
    else:
        parts = [part.double() for part in torch.split(columns, 1 << 16)]
        mean = torch.stack([part.sum(0) for part in parts]).sum(0).numpy() / len(columns)
        square = torch.stack([part.square().sum(0) for part in parts]).sum(0).numpy() / len(columns)
        largest = torch.stack([part.abs().amax(0) for part in parts]).amax(0).numpy()
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    constant = deviation <= 1e-6 * np.maximum(largest, 1e-30)
    deviation = np.where(constant, 1.0, np.maximum(deviation, _LEAST_DEVIATION))
    small = (np.arange(mean.size) < num_features) & (largest <= 1)
    center, deviation = np.where(small, 0.0, mean), np.where(small, 1.0, deviation)
    return Scale(torch.from_numpy(center).float(), torch.from_numpy(deviation).float())


def standardise(columns: Features, scale: Scale) -> Features:
    """Standardise columns; sparse ones are divided only, and the model subtracts the center."""
    if isinstance(columns, SparseMatrix):
        values = columns.values / scale.deviation[columns.columns]
        return SparseMatrix(columns.row_offsets, columns.columns, values, columns.shape)
    return (columns - scale.center.to(columns)) / scale.deviation.to(columns)


def _reversed(source: GraphSource) -> GraphSource:
    """Return the graph with all edges turned around, in memory and without features."""
    rows = torch.arange(source.num_nodes).repeat_interleave(source.offsets.diff())
    edges = torch.stack([rows, source.neighbours.long()])
    return MemoryGraph(torch.empty(source.num_nodes, 0), edges, source.weights)


def _concatenate(blocks: Sequence[Features], folder: Path | None) -> Features:
    rows, width = blocks[0].shape[0], sum(block.shape[1] for block in blocks)
    if isinstance(blocks[0], SparseMatrix) and 4 * rows * width > _DENSE_BYTES:
        parts = [b.to_scipy() if isinstance(b, SparseMatrix) else sp.csr_array(b) for b in blocks]
        return SparseMatrix.from_scipy(sp.hstack(parts, format="csr"))
    if folder is None:
        return torch.cat([_dense(block) for block in blocks], dim=1)
    columns, first = make_rows(rows, width, torch.float32, folder), 0
    for block in blocks:
        columns[:, first : first + block.shape[1]] = _dense(block)
        first += block.shape[1]
    return columns


def _dense(block: Features) -> Tensor:
    return (
        torch.from_numpy(block.to_scipy().toarray()) if isinstance(block, SparseMatrix) else block
    )
