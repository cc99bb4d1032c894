"""Columns of a node and of its neighbourhood, the inputs of :class:`~crossgcn.CrossHops`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.graph.neighbourhood import Neighbourhood, NeighbourLabels, Smoothing
from crossgcn.graph.standardise import Scale, fit_scale

_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class HopPlan:
    """The columns that describe a node: own, neighbours' means, numbers of neighbours, labels.

    Own columns come first. Means over neighbours follow, hop by hop; directed edges have means
    over in-neighbours and means over out-neighbours. Then come the numbers of neighbours, one per
    direction. Last come, for one and two hops, the mean label of neighbours and the number of
    known labels.

    Attributes:
        num_features: Number of own columns.
        hops: Number of hops of the neighbourhood; 0 for own columns alone.
        num_labels: Number of columns of a label; 0 without neighbours' labels.
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
        """Prefixes of the kinds of neighbours: none, or ``in-`` and ``out-``."""
        if self.hops == 0:
            return ()
        return ("in-", "out-") if self.directed else ("",)

    @property
    def num_blocks(self) -> int:
        """Number of blocks of means over neighbours: one per hop and side."""
        return self.hops * len(self.sides)

    @property
    def label_hops(self) -> int:
        """Number of hops with labels: two at most."""
        return min(self.hops, 2) if self.num_labels else 0

    @property
    def num_columns(self) -> int:
        """Total number of columns."""
        means, labels = self.hops * self.num_features, self.label_hops * (self.num_labels + 1)
        return self.num_features + len(self.sides) * (means + 1 + labels)

    def name_columns(
        self, features: Sequence[str], labels: Sequence[str] = (), relation: str = "neighbours"
    ) -> list[str]:
        """Return the name of each column, such as ``"neighbours: age"`` or ``"2 hops: age"``.

        Args:
            features: Names of the own columns.
            labels: Names of the columns of a label.
            relation: Word for neighbours, for example ``"friends"``.
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
        hops: See :class:`HopPlan`, also for ``directed``.
        smoothing: The smoothing of a trained model; by default it is estimated from ``x``.
        device: Compute and keep the columns on this device, with the whole graph in its memory.
            Labels of neighbours are on the CPU.

    Attributes:
        without_labels: All columns but the labels of neighbours, dense ``[nodes, columns]``.
        smoothing: The smoothing of the means.
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
        sides = [near.to(device) for near in self._sides]
        out = torch.zeros(len(x), self.plan.num_columns, dtype=x.dtype, device=device)
        width = x.size(1)
        out[:, :width] = x.to_dense()
        prior = _prior(out[:, :width]) if smoothing is None else smoothing.prior
        strengths = [] if smoothing is None else smoothing.strength.tolist()
        for block in range(self.plan.num_blocks):
            near, before = sides[block % len(sides)], max(block + 1 - len(sides), 0)
            values, means = (out[:, at * width : (at + 1) * width] for at in (before, block + 1))
            if smoothing is None:
                strengths.append(near.estimate_strength(values))
            near.mean(values, prior, strengths[block], means)
        for place, near in enumerate(sides, self.plan.num_columns - len(sides)):
            out[:, place] = near.num_neighbours.log1p()
        self.without_labels, self.smoothing = out, Smoothing(prior, torch.tensor(strengths))

    @cached_property
    def scale(self) -> Scale:
        """The standardisation of the columns without labels."""
        return fit_scale(self.without_labels, self.plan.num_features)

    def label_columns(self, labels: NeighbourLabels) -> Tensor:
        """Return the columns of neighbours' labels, for one and two hops."""
        plan = replace(self.plan, num_labels=labels.values.size(1))
        blocks = [
            near.mean_labels(labels, hop)
            for hop in range(1, plan.label_hops + 1)
            for near in self._sides
        ]
        return torch.cat(blocks, dim=1)

    def with_labels(self, labels: NeighbourLabels) -> Tensor:
        """Return all columns, with the labels of neighbours, on the CPU."""
        return torch.cat([self.without_labels.cpu(), self.label_columns(labels)], dim=1)


def _prior(features: Tensor) -> Tensor:
    """Return the mean of each column, and 0 for flags; few neighbours then mean few flags."""
    features = features.detach()
    total = torch.zeros(features.size(1), dtype=torch.float64, device=features.device)
    flags = torch.ones(features.size(1), dtype=torch.bool, device=features.device)
    for part in torch.split(features, _ROWS_AT_ONCE):
        total += part.double().sum(0)
        flags &= ((part == 0) | (part == 1)).all(0)
    return torch.where(flags, 0.0, total / max(len(features), 1)).float().cpu()
