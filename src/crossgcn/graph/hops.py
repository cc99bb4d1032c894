"""Columns of a node and of its neighbourhood, the inputs of :class:`~crossgcn.CrossHops`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from crossgcn.data.relations import NEIGHBOURS, Relation, shape_of
from crossgcn.errors import BadInput
from crossgcn.graph.neighbourhood import (
    NeighbourLabels,
    Smoothing,
    mean_of_edges,
    neighbourhood_of,
)
from crossgcn.graph.standardise import Scale, fit_scale

_ROWS_AT_ONCE = 1 << 16


class RelationNames(NamedTuple):
    """What a relation is called, and the columns of its edges."""

    name: str = NEIGHBOURS
    columns: Sequence[str] = ()


def named(relation: Relation, *, features: bool = False) -> RelationNames:
    """Return the names of a relation, with the table columns of its edges or their features."""
    space = relation.space
    return RelationNames(relation.name, space.names if features else space.fields)


@dataclass(frozen=True)
class HopPlan:
    """The columns that describe a node, by itself and by its neighbours in each relation.

    Own columns come first. Means over neighbours follow, hop by hop, of each relation apart;
    directed edges have means over in-neighbours and means over out-neighbours. Then come the
    numbers of neighbours and the means of columns of edges. Last come, for one and two hops, the
    mean label of neighbours and the number of known labels.

    Attributes:
        num_features: Number of own columns.
        hops: Number of hops of the neighbourhood; 0 for own columns alone.
        num_labels: Number of columns of a label; 0 without neighbours' labels.
        directed: Keep in-neighbours and out-neighbours apart; one for each of several relations.
        edge_columns: Number of columns of the edges of each relation; empty for none.
    """

    num_features: int
    hops: int = 2
    num_labels: int = 0
    directed: bool | tuple[bool, ...] = False
    edge_columns: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.hops < 0:
            raise BadInput(f"hops is {self.hops}; give 0 for own columns alone, or more")

    @classmethod
    def of(cls, num_features: int, hops: int, relations: Sequence[Relation]) -> HopPlan:
        """Return the columns of nodes in a graph with these relations."""
        shape = shape_of(relations)  # lists, as in JSON
        for key, value in shape.items():
            shape[key] = tuple(value) if isinstance(value, list) else value
        return cls(num_features, hops, **shape)

    @property
    def sides(self) -> tuple[tuple[int, str], ...]:
        """The kinds of neighbours: number of the relation, and ``in-``, ``out-`` or nothing."""
        if self.hops == 0:
            return ()
        directed = (self.directed,) if isinstance(self.directed, bool) else self.directed
        return tuple(
            (relation, side)
            for relation, has_sides in enumerate(directed)
            for side in (("in-", "out-") if has_sides else ("",))
        )

    @property
    def num_blocks(self) -> int:
        """Number of blocks of means over neighbours: one per hop and side."""
        return self.hops * len(self.sides)

    @property
    def label_hops(self) -> int:
        """Number of hops with labels: two at most."""
        return min(self.hops, 2) if self.num_labels else 0

    @property
    def num_means(self) -> int:
        """Number of own columns and means of these over neighbours."""
        return (1 + self.num_blocks) * self.num_features

    @property
    def first_label(self) -> int:
        """Position of the first column of labels: the number of columns without labels."""
        of_edges = [self.edge_columns[each] for each, _ in self.sides if self.edge_columns]
        return self.num_means + len(self.sides) + sum(of_edges)

    @property
    def num_columns(self) -> int:
        """Total number of columns."""
        return self.first_label + len(self.sides) * self.label_hops * (self.num_labels + 1)

    @property
    def side_of(self) -> list[int]:
        """The position in ``sides`` of each column; -1 for own columns."""
        sides = range(len(self.sides))

        def repeat(counts: Sequence[int]) -> list[int]:
            return [side for side, count in zip(sides, counts, strict=True) for _ in range(count)]

        of_edges = [self.edge_columns[each] if self.edge_columns else 0 for each, _ in self.sides]
        means = repeat([self.num_features] * len(sides)) * self.hops
        labels = repeat([self.num_labels + 1] * len(sides)) * self.label_hops
        return [-1] * self.num_features + means + [*sides] + repeat(of_edges) + labels

    def name_columns(
        self,
        features: Sequence[str],
        labels: Sequence[str] = (),
        relations: Sequence[RelationNames] = (RelationNames(),),
    ) -> list[str]:
        """Return the name of each column, such as ``"ties: age"`` or ``"2 hops of ties: age"``.

        With one relation, further hops are ``"2 hops: age"``.

        Args:
            features: Names of the own columns.
            labels: Names of the columns of a label.
            relations: What the relations and the columns of their edges are called.
        """
        sides = [(side, relations[number]) for number, side in self.sides]
        places = [f"{side}{each.name}" for side, each in sides] if self.hops else []
        for hop in range(2, self.hops + 1):
            places += [
                f"{hop} {side}hops" + (f" of {each.name}" if len(relations) > 1 else "")
                for side, each in sides
            ]
        names = list(features) + [f"{place}: {name}" for place in places for name in features]
        names += [f"number {_join(each.name)} {side}{each.name}" for side, each in sides]
        names += [f"{side}{each.name}: {name}" for side, each in sides for name in each.columns]
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
        x: Own columns, dense or ``torch.sparse_csr``, ``[nodes, columns]``. Dense ones may
            require a gradient.
        relations: A node's neighbours are the sources of its edges. Parallel edges add up.
        hops: See :class:`HopPlan`.
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
        relations: Sequence[Relation],
        *,
        hops: int = 2,
        smoothing: Smoothing | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.plan = HopPlan.of(x.size(1), hops, relations)
        of_sides = [
            _flip(relations[number]) if side == "out-" else relations[number]
            for number, side in self.plan.sides
        ]
        self._sides = [neighbourhood_of(each, len(x)) for each in of_sides]
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
        for place, near in enumerate(sides, self.plan.num_means):
            out[:, place] = near.num_neighbours.log1p()
        place = self.plan.num_means + len(sides)
        for relation in of_sides:
            if relation.edge_attr is not None:
                width = len(relation.space)
                out[:, place : place + width] = mean_of_edges(relation, len(x)).to(out)
                place += width
        self.without_labels, self.smoothing = out, Smoothing(prior, torch.tensor(strengths))

    @cached_property
    def scale(self) -> Scale:
        """The standardisation of the columns without labels."""
        return fit_scale(self.without_labels, self.plan.num_features)

    def label_columns(self, labels: NeighbourLabels) -> Tensor:
        """Return the columns of neighbours' labels, for one and two hops."""
        plan = replace(self.plan, num_labels=labels.values.size(1))
        sides = [near.earlier(labels.times) for near in self._sides]
        blocks = [
            near.mean_labels(labels, hop) for hop in range(1, plan.label_hops + 1) for near in sides
        ]
        return torch.cat(blocks, dim=1).to(self.without_labels.dtype)

    def with_labels(self, labels: NeighbourLabels) -> Tensor:
        """Return all columns, with the labels of neighbours, on the CPU."""
        return torch.cat([self.without_labels.cpu(), self.label_columns(labels)], dim=1)


def _join(relation: str) -> str:
    return "with" if relation.startswith("same ") else "of"


def _flip(relation: Relation) -> Relation:
    return relation._replace(edge_index=relation.edge_index.flip(0))


def _prior(features: Tensor) -> Tensor:
    """Return the mean of each column, and 0 for flags; few neighbours then mean few flags."""
    features = features.detach()
    total = torch.zeros(features.size(1), dtype=torch.float64, device=features.device)
    flags = torch.ones(features.size(1), dtype=torch.bool, device=features.device)
    for part in torch.split(features, _ROWS_AT_ONCE):
        total += part.double().sum(0)
        flags &= ((part == 0) | (part == 1)).all(0)
    return torch.where(flags, 0.0, total / max(len(features), 1)).float().cpu()
