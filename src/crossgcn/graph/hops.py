"""Columns of a node and of its neighbourhood, the inputs of :class:`~crossgcn.CrossHops`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.graph.neighbourhood import Neighbourhood, NeighbourLabels, Smoothing
from crossgcn.graph.sparse_matrix import Features, SparseMatrix

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
        x: Own columns, dense or ``torch.sparse_csr``, ``[nodes, columns]``.
        edge_index: Sources and targets, ``[2, edges]``; a node's neighbours are the sources of
            its edges. Parallel edges add up.
        edge_weight: One weight per edge; ones by default.
        hops: As in :class:`HopPlan`; likewise ``directed``.
        smoothing: That of the model which reads the columns; estimated here by default.
        device: Compute dense columns on this device, with the whole graph in its memory, and leave
            them there. Labels of neighbours are on the CPU.

    Attributes:
        without_labels: All columns but the labels of neighbours.
        smoothing: How the means are smoothed.
    """

    def __init__(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        hops: int = 2,
        directed: bool = False,
        smoothing: Smoothing | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.plan = HopPlan(x.size(1), hops, directed=directed)
        self._edges = edge_index, edge_weight, x.size(0)
        own: Features = x if x.layout != torch.sparse_csr else SparseMatrix.from_torch(x)
        self.without_labels: Features
        if isinstance(own, SparseMatrix) and self._stays_sparse(own):
            directions = self._directions
            self.smoothing, blocks = _smooth(
                own, lambda near, _, *of: near.mean_sparse(*of), directions, hops, smoothing
            )
            self.without_labels = _join(blocks, directions)
            return
        directions = self._directions
        if device is not None and device.type != "cpu":
            directions = [near.to(device) for near in directions]
        self.without_labels, self.smoothing = self._compute(own, directions, smoothing, device)

    @classmethod
    def of_rows(
        cls,
        columns: Tensor,
        plan: HopPlan,
        smoothing: Smoothing,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
    ) -> HopColumns:
        """Return columns that were computed before; the edges serve labels of neighbours."""
        self = cls.__new__(cls)
        self.plan, self.without_labels, self.smoothing = plan, columns, smoothing
        self._edges = edge_index, edge_weight, len(columns)
        return self

    @cached_property
    def _directions(self) -> list[Neighbourhood]:
        edge_index, edge_weight, num_nodes = self._edges
        directions = [Neighbourhood(edge_index, edge_weight, num_nodes)]
        if self.plan.directed:
            directions.append(Neighbourhood(edge_index.flip(0), edge_weight, num_nodes))
        return directions

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

    def of(self, x: Tensor) -> Tensor:
        """Return the columns without labels of other features, with a gradient for them."""

        def mean(near: Neighbourhood, _: int, each: Tensor, prior: Tensor, by: float) -> Tensor:
            share = near.share(by).to(x.dtype).unsqueeze(1)
            return share * (near.mean_matrix(x.dtype) @ each) + (1 - share) * prior.to(x.dtype)

        _, blocks = _smooth(x, mean, self._directions, self.plan.hops, self.smoothing)
        joined = _join(blocks, self._directions)
        assert isinstance(joined, Tensor)
        return joined

    def _stays_sparse(self, x: SparseMatrix) -> bool:
        """Return whether sparse columns are large, and smaller than dense ones.

        Most are zero only if there are far more own columns than a neighbourhood has different
        values; the entries are estimated.
        """
        plan, num_nodes = self.plan, x.shape[0]
        if 4 * num_nodes * plan.num_columns <= _DENSE_BYTES:
            return False
        own, degree = x.nonzeros / num_nodes, self._edges[0].size(1) / num_nodes
        reached = (min(plan.num_features, own * degree**hop) for hop in range(1, plan.hops + 1))
        entries = own + len(self._directions) * sum(reached)
        return bool(_ENTRY_BYTES * entries < 4 * plan.num_columns)

    def _compute(
        self,
        own: Features,
        directions: Sequence[Neighbourhood],
        given: Smoothing | None,
        device: torch.device | None,
    ) -> tuple[Tensor, Smoothing]:
        """Return all columns as one dense matrix, and how they are smoothed."""
        width, sides, num_nodes = self.plan.num_features, len(directions), own.shape[0]
        dtype = own.values.dtype if isinstance(own, SparseMatrix) else own.dtype
        out = torch.zeros(num_nodes, self.plan.num_columns, dtype=dtype, device=device)
        if isinstance(own, SparseMatrix):
            for rows in torch.split(torch.arange(num_nodes), _ROWS):
                dense = own.select_rows(rows).to_scipy().toarray()
                out[rows[0] : rows[-1] + 1, :width] = torch.from_numpy(dense)
        else:
            out[:, :width] = own

        def write(near: Neighbourhood, block: int, x: Tensor, prior: Tensor, by: float) -> Tensor:
            means = out[:, (block + 1) * width : (block + 2) * width]
            near.mean(x, means, prior, by)
            return means

        smoothing, _ = _smooth(out[:, :width], write, directions, self.plan.hops, given)
        for side, near in enumerate(directions, start=-sides):
            out[:, self.plan.num_columns + side] = near.num_neighbours.log1p()
        return out, smoothing


def _smooth(
    own: _F,
    mean: Callable[[Neighbourhood, int, _F, Tensor, float], _F],
    directions: Sequence[Neighbourhood],
    hops: int,
    given: Smoothing | None,
) -> tuple[Smoothing, list[_F]]:
    """Return the smoothing, and the own columns followed by all blocks of means.

    Args:
        mean: Takes a direction, the number of a block, the columns of which it has the means
            (the own ones, or the last means of the same direction), the prior and the
            strength; returns the block.
    """
    blocks, strengths, sides = [own], [], len(directions)
    prior = _prior(own) if given is None else given.prior
    for block in range(hops * sides):
        near, x = directions[block % sides], blocks[max(0, block + 1 - sides)]
        strengths.append(
            near.estimate_strength(x) if given is None else float(given.strength[block])
        )
        blocks.append(mean(near, block, x, prior, strengths[-1]))
    return Smoothing(prior, torch.tensor(strengths)), blocks


def _join(blocks: Sequence[Features], directions: Sequence[Neighbourhood]) -> Features:
    sizes = [near.num_neighbours.log1p().unsqueeze(1) for near in directions]
    return join_columns([*blocks, *sizes])


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


class HopRows:
    """Standardised columns, of which training and scoring read some rows at a time.

    Small dense columns, and those on a GPU, are standardised once, others when they are read.

    Args:
        parts: Columns, side by side; on the device of the first.
        scale: Their standardisation.
        labels: Class or number of each node.

    Attributes:
        device: Where rows are; ``labels`` are on the CPU.
        are_sparse: Whether rows are sparse matrices.
    """

    def __init__(self, parts: Sequence[Features], scale: Scale, labels: Tensor) -> None:
        self.labels = labels
        self.num_columns = sum(part.shape[1] for part in parts)
        self.device = torch.device("cpu")
        self._parts, self._scale = list(parts), scale
        self._standardised: Features | None = None
        dense = [part for part in parts if isinstance(part, Tensor)]
        self.are_sparse = len(dense) < len(parts)
        is_small = 4 * labels.numel() * self.num_columns <= _DENSE_BYTES
        if not self.are_sparse and (is_small or dense[0].is_cuda):
            together = join_columns([part.to(dense[0].device) for part in dense])
            self._standardised = standardise(together, scale)
            self.device = dense[0].device

    def rows(self, nodes: Tensor) -> Features:
        """Return the rows of some nodes."""
        if self._standardised is not None:
            return _select_rows(self._standardised, nodes)
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
