"""Columns of a node and of its neighbourhood, the inputs of :class:`~crossgcn.CrossHops`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.graph.kept_columns import KeptRows, columns_beside
from crossgcn.graph.matrix import SparseMatrix, make_rows
from crossgcn.graph.neighbourhood import Neighbourhood, NeighbourLabels, Smoothing
from crossgcn.graph.sampling.source import Features, GraphSource

_LEAST_DEVIATION = 1e-3
_DENSE_BYTES = 256 << 20
"""Sparse columns up to this size are made dense, because dense products are faster."""
_ENTRY_BYTES = 12
"""Size of an entry of a sparse matrix: its column and its value."""
_ROWS = 1 << 16
"""Rows that are computed at once."""


_F = TypeVar("_F", Tensor, SparseMatrix)


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
        smoothing: How strongly means over few neighbours are drawn towards the mean over all
            nodes; 0 for plain means. By default estimated from the columns.
    """

    num_features: int
    hops: int = 2
    num_labels: int = 0
    directed: bool = False
    smoothing: float | None = None

    def __post_init__(self) -> None:
        if self.hops < 1:
            raise BadInput(f"hops is {self.hops}; give at least 1")
        if self.smoothing is not None and not 0 <= self.smoothing < math.inf:
            raise BadInput(f"smoothing is {self.smoothing}; give 0 or more, or leave it out")

    @property
    def num_columns(self) -> int:
        """Number of columns in all."""
        labels = self.label_hops * (self.num_labels + 1)
        directions = 2 if self.directed else 1
        return self.num_features + directions * (self.hops * self.num_features + 1 + labels)

    @property
    def num_blocks(self) -> int:
        """Number of blocks of means over neighbours: one per hop and direction."""
        return self.hops * (2 if self.directed else 1)

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


class HopColumns:
    r"""The columns of every node of a graph, not standardised; computed once.

    With :math:`\bar{\mathbf{N}}` the mean over neighbours, weighted by their edges and without
    the node itself, the means of hop :math:`h` are :math:`\bar{\mathbf{N}}^h\mathbf{X}`. They are
    smoothed (:class:`~crossgcn.graph.neighbourhood.Smoothing`): the mean of two neighbours says
    less than that of two hundred.

    Args:
        source: The graph, in memory or on disk; a row lists the in-neighbours of a node.
        hops: As in :class:`HopPlan`; likewise ``directed``.
        folder: Keep dense columns in a file there instead of in memory. Neither they nor the
            graph are then in memory at once.
        identity: What the columns depend on. The file is then kept, with its checksum, and read
            instead of computed anew by the next object of the same identity. Columns that
            ``crossgcn hops`` wrote into the folder of a stored graph are read as well, unless the
            graph is ``sealed_only``.
        smoothing: That of the model which reads the columns, or the strength of all means; 0 for
            plain means. By default the strengths are estimated here.
        device: Compute dense columns on this device, with the whole graph in its memory, and leave
            them there; they are not kept in a file. Labels of neighbours are on the CPU.
    """

    def __init__(
        self,
        source: GraphSource,
        hops: int = 2,
        *,
        directed: bool = False,
        folder: Path | None = None,
        identity: Mapping[str, Any] | None = None,
        smoothing: Smoothing | float | None = None,
        device: torch.device | None = None,
    ) -> None:
        self._given = smoothing
        self.plan = HopPlan(source.num_features, hops, directed=directed)
        self._directions = [Neighbourhood(source)]
        if directed:
            self._directions.append(Neighbourhood(source, outward=True))
        self._kept: KeptRows | None = None
        self.without_labels: Features
        self.smoothing: Smoothing
        stored = source.stored
        if (
            stored is not None
            and not (stored.sealed_only or isinstance(smoothing, int | float))
            and self._read_from(columns_beside(stored, self.plan))
        ):
            self._move_to(device)
            return
        shape = (source.num_nodes, self.plan.num_columns)
        first = source.features(torch.arange(min(1, source.num_nodes)))
        if isinstance(first, SparseMatrix) and self._stays_sparse(source):
            self.without_labels = self._compute_sparse(source)
            return
        if device is not None:
            self.without_labels = torch.zeros(shape, device=device)
            sides = [Neighbourhood(source, device=device)]
            if directed:
                sides.append(Neighbourhood(source, outward=True, device=device))
            self.smoothing = self._compute(source, self.without_labels, sides)
            return
        dtype = first.values.dtype if isinstance(first, SparseMatrix) else first.dtype
        if folder is not None and identity is not None:
            kept = KeptRows(folder, identity, shape)
            if not self._read_from(kept):
                kept.write(lambda out: self._compute(source, out))
                self._read_from(kept)
        else:
            self.without_labels = make_rows(*shape, dtype, folder)
            self.smoothing = self._compute(source, self.without_labels)

    def _move_to(self, device: torch.device | None) -> None:
        if device is not None and isinstance(self.without_labels, Tensor):
            self.without_labels, self._kept = self.without_labels.to(device), None

    def _read_from(self, kept: KeptRows) -> bool:
        """Read the columns from a file; return whether it is complete and of this smoothing."""
        found, given = kept.find(), self._given
        if found is None or (isinstance(given, Smoothing) and not given.equals(found)):
            return False
        sizes = self.plan.num_features, self.plan.num_blocks
        if tuple(each.shape for each in found) != tuple((size,) for size in sizes):
            return False
        self._kept, self.smoothing, self.without_labels = kept, found, kept.map()
        return True

    def __getstate__(self) -> dict[str, Any]:
        """Pickle for other processes; they map a kept file into memory themselves."""
        return self.__dict__ | ({} if self._kept is None else {"without_labels": None})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        if self._kept is not None:
            self.without_labels = self._kept.map()

    @cached_property
    def scale(self) -> Scale:
        """The standardisation of the columns without labels."""
        return fit_scale(self.without_labels, self.plan.num_features)

    def label_columns(self, labels: NeighbourLabels) -> Tensor:
        """Return the labels of neighbours, of one and two hops."""
        plan = replace(self.plan, num_labels=labels.values.size(1))
        blocks = [
            near.mean_labels(labels, hop)
            for hop in range(1, plan.label_hops + 1)
            for near in self._directions
        ]
        return torch.cat(blocks, dim=1)

    def with_labels(self, labels: NeighbourLabels) -> Features:
        """Return all columns, with the labels of neighbours, on the CPU."""
        return join_columns([self.without_labels.to("cpu"), self.label_columns(labels)])

    def _stays_sparse(self, source: GraphSource) -> bool:
        """Return whether sparse columns are large, and smaller than dense ones.

        Sparse columns are held in memory. Most are zero only if there are far more own columns
        than a neighbourhood has different values; the entries are estimated from some nodes.
        """
        plan, nodes = self.plan, torch.arange(0, source.num_nodes, -(-source.num_nodes // 1000))
        if 4 * source.num_nodes * plan.num_columns <= _DENSE_BYTES:
            return False
        sample = source.features(nodes)
        assert isinstance(sample, SparseMatrix)
        own = sample.nonzeros / nodes.numel()
        degree = source.neighbours.numel() / source.num_nodes
        reached = (min(plan.num_features, own * degree**hop) for hop in range(1, plan.hops + 1))
        entries = own + len(self._directions) * sum(reached)
        return bool(_ENTRY_BYTES * entries < 4 * plan.num_columns)

    def _compute(
        self, source: GraphSource, out: Tensor, directions: Sequence[Neighbourhood] | None = None
    ) -> Smoothing:
        """Write all columns, some rows at a time; return how they are smoothed."""
        directions = directions or self._directions
        width, sides = self.plan.num_features, len(directions)
        for nodes in torch.split(torch.arange(source.num_nodes), _ROWS):
            out[nodes[0] : nodes[-1] + 1, :width] = _dense(source.features(nodes))

        def write(near: Neighbourhood, block: int, x: Tensor, prior: Tensor, by: float) -> Tensor:
            means = out[:, (block + 1) * width : (block + 2) * width]
            near.mean(x, means, prior, by)
            return means

        smoothing, _ = self._smooth(out[:, :width], write, directions)
        for side, near in enumerate(directions, start=-sides):
            out[:, self.plan.num_columns + side] = near.num_neighbours.log1p()
        return smoothing

    def _compute_sparse(self, source: GraphSource) -> Features:
        """Compute all columns in memory, where they are not filled in."""
        own = source.features(torch.arange(source.num_nodes))
        assert isinstance(own, SparseMatrix)
        self.smoothing, blocks = self._smooth(own, lambda near, _, *of: near.mean_sparse(*of))
        return self._join(blocks)

    def of(self, x: Tensor) -> Tensor:
        """Return the columns without labels of other features, with a gradient for them."""

        def mean(near: Neighbourhood, _: int, each: Tensor, prior: Tensor, by: float) -> Tensor:
            share = near.share(by).to(x.dtype).unsqueeze(1)
            return share * (near.mean_matrix(x.dtype) @ each) + (1 - share) * prior.to(x.dtype)

        self._given = self.smoothing
        joined = self._join(self._smooth(x, mean)[1])
        assert isinstance(joined, Tensor)
        return joined

    def _smooth(
        self,
        own: _F,
        mean: Callable[[Neighbourhood, int, _F, Tensor, float], _F],
        directions: Sequence[Neighbourhood] | None = None,
    ) -> tuple[Smoothing, list[_F]]:
        """Return the smoothing, and the own columns followed by all blocks of means.

        Args:
            mean: Takes a direction, the number of a block, the columns of which it has the means
                (the own ones, or the last means of the same direction), the prior and the
                strength; returns the block.
        """
        directions = directions or self._directions
        blocks, strengths, sides = [own], [], len(directions)
        given = self._given
        prior = given.prior if isinstance(given, Smoothing) else _prior(own)
        for block in range(self.plan.num_blocks):
            near, x = directions[block % sides], blocks[max(0, block + 1 - sides)]
            if isinstance(given, Smoothing):
                strengths.append(float(given.strength[block]))
            else:
                strengths.append(near.estimate_strength(x) if given is None else given)
            blocks.append(mean(near, block, x, prior, strengths[-1]))
        return Smoothing(prior, torch.tensor(strengths)), blocks

    def _join(self, blocks: Sequence[_F]) -> Features:
        sizes = [near.num_neighbours.log1p().unsqueeze(1) for near in self._directions]
        columns: list[Features] = [*blocks]
        columns += sizes
        return join_columns(columns)


def _prior(own: Features) -> Tensor:
    """Return the mean of each column, and 0 for flags: few neighbours then show few of them."""
    if isinstance(own, SparseMatrix):
        matrix = own.to_scipy().astype(np.float64)
        flags = abs(matrix - matrix.power(2)).max(axis=0).toarray() == 0
        return torch.from_numpy(np.where(flags, 0.0, matrix.mean(axis=0))).float()
    total = torch.zeros(own.size(1), dtype=torch.float64, device=own.device)
    flags = torch.ones(own.size(1), dtype=torch.bool, device=own.device)
    for part in torch.split(own, _ROWS):
        total += part.double().sum(0)
        flags &= ((part == 0) | (part == 1)).all(0)
    return torch.where(flags, 0.0, total / max(len(own), 1)).float().cpu()


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
    rows = columns.shape[0]
    if isinstance(columns, SparseMatrix):
        matrix = columns.to_scipy().astype(np.float64)
        mean, square = matrix.mean(axis=0), matrix.power(2).mean(axis=0)
        largest = abs(matrix).max(axis=0).toarray()
    else:
        total = torch.zeros(3, columns.size(1), dtype=torch.float64, device=columns.device)
        for part in torch.split(columns, _ROWS):
            part = part.double()
            total[0] += part.sum(0)
            total[1] += part.square().sum(0)
            total[2] = torch.maximum(total[2], part.abs().amax(0))
        mean, square, largest = total.cpu().numpy()
        mean, square = mean / rows, square / rows
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    constant = deviation <= 1e-6 * np.maximum(largest, 1e-30)
    deviation = np.where(constant, 1.0, np.maximum(deviation, _LEAST_DEVIATION))
    small = (np.arange(mean.size) < num_features) & (largest <= 1)
    center, deviation = np.where(small, 0.0, mean), np.where(small, 1.0, deviation)
    return Scale(torch.from_numpy(center).float(), torch.from_numpy(deviation).float())


def standardise(columns: Features, scale: Scale) -> Features:
    """Standardise columns; sparse ones are divided only, and the model subtracts the center."""
    if isinstance(columns, SparseMatrix):
        values = columns.values / scale.deviation.to(columns.values)[columns.columns]
        return SparseMatrix(columns.row_offsets, columns.columns, values, columns.shape)
    return (columns - scale.center.to(columns)).div_(scale.deviation.to(columns))


class HopSource(GraphSource):
    """Standardised columns as the features of a graph without edges.

    Small dense ones, and those on a GPU, are standardised once, others when their rows are read.

    Args:
        parts: Columns, side by side; on the device of the first.
        labels: Class or number of each node.
    """

    def __init__(self, parts: Sequence[Features], scale: Scale, labels: Tensor) -> None:
        rows, width = labels.numel(), sum(part.shape[1] for part in parts)
        offsets, none = torch.zeros(rows + 1, dtype=torch.long), torch.empty(0, dtype=torch.long)
        super().__init__(offsets, none, None, labels, width)
        self._parts, self._scale = list(parts), scale
        self._rows: Features | None = None
        dense = [part for part in parts if isinstance(part, Tensor)]
        on_gpu = bool(dense) and dense[0].is_cuda
        if len(dense) == len(parts) and (on_gpu or 4 * rows * width <= _DENSE_BYTES):
            together = join_columns([part.to(dense[0].device) for part in dense])
            self._rows = standardise(together, scale)
            self.device = dense[0].device

    def features(self, nodes: Tensor) -> Features:
        """Return the rows of some nodes."""
        if self._rows is not None:
            return _select_rows(self._rows, nodes)
        rows = [_select_rows(part, nodes) for part in self._parts]
        return standardise(join_columns(rows), self._scale)


def join_columns(blocks: Sequence[Features]) -> Features:
    """Put blocks of columns side by side; the result is sparse if one of them is."""
    if len(blocks) == 1:
        return blocks[0]
    dense = [block for block in blocks if isinstance(block, Tensor)]
    if len(dense) == len(blocks):
        return torch.cat(dense, dim=1)
    parts = [b.to_scipy() if isinstance(b, SparseMatrix) else sp.csr_array(b) for b in blocks]
    return SparseMatrix.from_scipy(sp.hstack(parts, format="csr"))


def _select_rows(block: Features, nodes: Tensor) -> Features:
    if isinstance(block, SparseMatrix):
        return block.select_rows(nodes)
    # several times faster than block[nodes]
    return block.index_select(0, nodes.to(block.device))


def _dense(block: Features) -> Tensor:
    return (
        torch.from_numpy(block.to_scipy().toarray()) if isinstance(block, SparseMatrix) else block
    )
