"""Columns of a node and of its neighbourhood, the inputs of :class:`~crossgcn.CrossHops`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.graph.neighbourhood import Neighbourhood, NeighbourLabels, Smoothing
from crossgcn.graph.sparse_matrix import Features, SparseMatrix, join_columns
from crossgcn.graph.standardise import DENSE_BYTES, Scale, fit_scale

_ENTRY_BYTES = 12
"""Size of an entry of a sparse matrix: its column and its value."""

_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class HopPlan:
    """Which columns describe a node: own, neighbours' means, numbers of neighbours, labels.

    Own columns come first. Then follow, for each hop, the means over neighbours; for directed
    edges those over in-neighbours and those over out-neighbours. Then one number of neighbours
    per direction; and, of one and two hops, the mean label of neighbours and how many of their
    labels are known.

    Attributes:
        num_features: Own columns.
        hops: How far neighbourhoods reach; 0 for own columns alone.
        num_labels: Columns of a label; 0 if neighbours' labels are not shown.
        directed: Keep in-neighbours and out-neighbours apart.
    """

    num_features: int
    hops: int = 2
    num_labels: int = 0
    directed: bool = False

    def __post_init__(self) -> None:
        if self.hops < 0:
            raise BadInput(f"hops is {self.hops}; give 0 for own columns alone, or more")

    @property
    def sides(self) -> tuple[str, ...]:
        """What tells kinds of neighbours apart: nothing, or ``in-`` and ``out-``."""
        if self.hops == 0:
            return ()
        return ("in-", "out-") if self.directed else ("",)

    @property
    def num_blocks(self) -> int:
        """Number of blocks of means over neighbours: one per hop and side."""
        return self.hops * len(self.sides)

    @property
    def label_hops(self) -> int:
        """How far labels are seen: two hops at most."""
        return min(self.hops, 2) if self.num_labels else 0

    @property
    def num_columns(self) -> int:
        """Number of columns in all."""
        means, labels = self.hops * self.num_features, self.label_hops * (self.num_labels + 1)
        return self.num_features + len(self.sides) * (means + 1 + labels)

    def name_columns(
        self, features: Sequence[str], labels: Sequence[str] = (), relation: str = "neighbours"
    ) -> list[str]:
        """Return the name of each column, such as ``"neighbours: age"`` or ``"2 hops: age"``.

        Args:
            features: Names of the own columns.
            labels: Names of the columns of a label.
            relation: What neighbours are called, for example ``"friends"``.
        """
        places = [
            f"{side}{relation}" if hop == 1 else f"{hop} {side}hops"
            for hop in range(1, self.hops + 1)
            for side in self.sides
        ]
        names = list(features) + [f"{place}: {name}" for place in places for name in features]
        names += [f"number of {side}{relation}" for side in self.sides]
        for place in places[: self.label_hops * len(self.sides)]:
            names += [*(f"{place}: {name}" for name in labels), f"{place}: known labels"]
        return names


class HopColumns:
    r"""The columns of every node of a graph, not standardised; computed once.

    With :math:`\bar{\mathbf{N}}` the mean over neighbours, weighted by their edges and without
    the node itself, the means of hop :math:`h` are :math:`\bar{\mathbf{N}}^h\mathbf{X}`. They are
    smoothed (:class:`~crossgcn.graph.neighbourhood.Smoothing`): the mean of two neighbours says
    less than that of two hundred.

    Args:
        x: Own columns, dense or ``torch.sparse_csr``, ``[nodes, columns]``. Dense ones may
            require a gradient.
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
        self._sides = [
            Neighbourhood(edge_index.flip(0) if side == "out-" else edge_index, edge_weight, len(x))
            for side in self.plan.sides
        ]
        features: Features = x if x.layout != torch.sparse_csr else SparseMatrix.from_torch(x)
        if x.requires_grad or _stay_sparse(features, self.plan, edge_index.size(1)):
            out, sides = None, self._sides
        else:
            out = self._with_room(features, device)
            features, sides = out[:, : x.size(1)], [near.to(out.device) for near in self._sides]
        blocks, self.smoothing = _means(features, sides, hops, smoothing, out)
        sizes = [near.num_neighbours.log1p().unsqueeze(1) for near in sides]
        if out is not None and sizes:
            out[:, -len(sizes) :] = torch.cat(sizes, dim=1)
        self.without_labels: Features = join_columns([*blocks, *sizes]) if out is None else out

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
            for near in self._sides
        ]
        return torch.cat(blocks, dim=1)

    def with_labels(self, labels: NeighbourLabels) -> Features:
        """Return all columns, with the labels of neighbours, on the CPU."""
        return join_columns([self.without_labels.to("cpu"), self.label_columns(labels)])

    def _with_room(self, features: Features, device: torch.device | None) -> Tensor:
        """Return a dense matrix of all columns, of which the own ones are filled in."""
        num_nodes, width = features.shape
        dtype = features.values.dtype if isinstance(features, SparseMatrix) else features.dtype
        out = torch.zeros(num_nodes, self.plan.num_columns, dtype=dtype, device=device)
        if isinstance(features, Tensor):
            out[:, :width] = features
            return out
        for rows in torch.split(torch.arange(num_nodes), _ROWS_AT_ONCE):
            dense = features.select_rows(rows).to_scipy().toarray()
            out[rows[0] : rows[-1] + 1, :width] = torch.from_numpy(dense)
        return out


def _means(
    features: Features,
    sides: Sequence[Neighbourhood],
    hops: int,
    smoothing: Smoothing | None,
    out: Tensor | None,
) -> tuple[list[Features], Smoothing]:
    """Return own columns and the means of each hop and side, and how the means are smoothed.

    If there is a matrix ``out``, which starts with the own columns, it takes the means.
    """
    prior = _prior(features) if smoothing is None else smoothing.prior
    blocks, last = [features], [features] * len(sides)
    strengths: list[float] = []
    width = features.shape[1]
    for _ in range(hops):
        for side, near in enumerate(sides):
            if smoothing is None:
                strength = near.estimate_strength(last[side])
            else:
                strength = float(smoothing.strength[len(strengths)])
            start = len(blocks) * width
            room = None if out is None else out[:, start : start + width]
            last[side] = near.mean(last[side], prior, strength, room)
            blocks.append(last[side])
            strengths.append(strength)
    return blocks, Smoothing(prior, torch.tensor(strengths))


def _prior(features: Features) -> Tensor:
    """Return the mean of each column, and 0 for flags: few neighbours then show few of them."""
    if isinstance(features, SparseMatrix):
        matrix = features.to_scipy().astype(np.float64)
        is_flag = abs(matrix - matrix.power(2)).max(axis=0).toarray() == 0
        return torch.from_numpy(np.where(is_flag, 0.0, matrix.mean(axis=0))).float()
    features = features.detach()
    total = torch.zeros(features.size(1), dtype=torch.float64, device=features.device)
    flags = torch.ones(features.size(1), dtype=torch.bool, device=features.device)
    for part in torch.split(features, _ROWS_AT_ONCE):
        total += part.double().sum(0)
        flags &= ((part == 0) | (part == 1)).all(0)
    return torch.where(flags, 0.0, total / max(len(features), 1)).float().cpu()


def _stay_sparse(features: Features, plan: HopPlan, num_edges: int) -> bool:
    """Return whether columns are sparse, large, and smaller than dense ones.

    Most entries are zero only if there are far more own columns than a neighbourhood has
    different values; their number is estimated.
    """
    num_nodes = features.shape[0]
    is_small = 4 * num_nodes * plan.num_columns <= DENSE_BYTES
    if is_small or not isinstance(features, SparseMatrix):
        return False
    own, degree = features.nonzeros / num_nodes, num_edges / num_nodes
    reached = (min(plan.num_features, own * degree**hop) for hop in range(1, plan.hops + 1))
    entries = own + len(plan.sides) * sum(reached)
    return _ENTRY_BYTES * entries < 4 * plan.num_columns
