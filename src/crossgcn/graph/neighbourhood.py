"""Means over the neighbours of every node."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.data.relations import Relation
from crossgcn.errors import BadInput
from crossgcn.graph.sparse_matrix import SparseMatrix

_COPY_BYTES = 1 << 29
"""Maximum size of a contiguous copy of some columns of all nodes."""
_MOST_STRENGTH = 100.0
_MOST_PAIRS = 30_000_000
"""Maximum number of pairs of things of a node, or of nodes of a thing, that are listed."""
_STRENGTH_BYTES = 64 << 20
"""Maximum size of the columns from which the strength of the smoothing is estimated."""


class NeighbourLabels(NamedTuple):
    """Labels of training nodes, which the columns of their neighbours may contain.

    Attributes:
        values: One column per class (one for two classes), or a standardised number,
            ``[nodes, columns]``; rows of unknown nodes are ignored.
        known: Which labels may be used, bool ``[nodes]``.
        prior: Value for nodes without labelled neighbours, ``[columns]``; the mean of the known
            labels by default.
        times: Time of each node, ``[nodes]``; a node then sees labels of earlier nodes only, and
            those of two hops by an earlier neighbour.
    """

    values: Tensor
    known: Tensor
    prior: Tensor | None = None
    times: Tensor | None = None


def neighbour_labels(
    y: Tensor, nodes: Tensor, num_classes: int, times: Tensor | None = None
) -> NeighbourLabels:
    """Return the labels of the training nodes, for the columns of their neighbours.

    Args:
        y: Class or number of each node.
        nodes: The training nodes.
        num_classes: 1 if ``y`` is a number.
    """
    known = torch.zeros(y.numel(), dtype=torch.bool)
    known[nodes] = True
    targets = y[nodes]
    if num_classes == 1:
        values = ((y - targets.mean()) / targets.std(correction=0).clamp(min=1e-12)).unsqueeze(1)
    elif num_classes == 2:
        values = (y == 1).unsqueeze(1)
    else:
        values = torch.nn.functional.one_hot(y.clamp(min=0), num_classes)
    return NeighbourLabels(values.float(), known, times=times)


class Smoothing(NamedTuple):
    r"""Shrinks means over few neighbours towards a prior.

    The mean :math:`m` over :math:`d` neighbours becomes :math:`p + \frac{d}{d + s} (m - p)`, where
    :math:`p` is the prior and :math:`s` the strength. A node without neighbours gets :math:`p`.
    For a flag the prior is 0, so the result is the number of neighbours with the flag, divided
    by :math:`d + s`.

    Attributes:
        prior: Mean of each own column over all nodes; 0 for flags.
        strength: One per block of means, in the order of :class:`~crossgcn.graph.hops.HopPlan`.
    """

    prior: Tensor
    strength: Tensor


class Neighbourhood:
    """Sums and means over the neighbours of every node, without the node itself.

    Args:
        edge_index: Sources and targets, ``[2, edges]``; a node's neighbours are the sources of
            its edges. Parallel edges add up.
        edge_weight: One weight per edge; ones by default.
        num_nodes: Number of nodes, isolated ones included.
    """

    def __init__(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> None:
        source, target = edge_index.numpy()
        weight = np.ones(source.size, np.float32) if edge_weight is None else edge_weight.numpy()
        is_edge = source != target
        if not is_edge.all():
            source, target, weight = source[is_edge], target[is_edge], weight[is_edge]
        shape = (num_nodes, num_nodes)
        adjacency = sp.coo_array((weight.astype(np.float32), (target, source)), shape)
        self._matrix = SparseMatrix.from_scipy(adjacency)
        rows, values = self._matrix.rows, self._matrix.values.double()
        self._number = rows.bincount((values > 0).double(), num_nodes)
        self._total = rows.bincount(values, num_nodes)

    def to(self, device: torch.device | None) -> Self:
        """Return the same neighbourhood, with means computed on a device."""
        if device is None:
            return self
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor | SparseMatrix):
                setattr(other, name, value.to(device))
        return other

    def sum(self, x: Tensor) -> Tensor:
        """Return the weighted sums over neighbours."""
        return self._matrix @ x

    def earlier(self, times: Tensor | None) -> Neighbourhood:
        """Return the same neighbourhood with earlier neighbours only; itself without times."""
        if times is None:
            return self
        links = self._links().tocoo()
        kept = times.numpy()[links.col] < times.numpy()[links.row]
        ends = torch.from_numpy(np.stack([links.col[kept], links.row[kept]]).astype(np.int64))
        return Neighbourhood(ends, torch.from_numpy(links.data[kept]), links.shape[0])

    def _links(self) -> sp.csr_array:
        """Return the weights of all edges, ``[node, neighbour]``."""
        return self._matrix.to_scipy()

    @property
    def num_neighbours(self) -> Tensor:
        """Number of neighbours of each node whose edges have a weight above 0."""
        return self._number.float()

    def mean(self, x: Tensor, prior: Tensor, strength: float, out: Tensor) -> None:
        """Write the smoothed means over neighbours, weighted by edges, into ``out``.

        To save memory, some columns are computed at a time. Gradients flow to ``x``.
        """
        share = torch.where(self._number > 0, self._number / (self._number + strength), 0.0)
        scale, rest = (each.to(x).unsqueeze(1) for each in (self._inverse() * share, 1 - share))
        step = max(1, _COPY_BYTES // (x.element_size() * max(1, len(x))))
        for start in range(0, x.size(1), step):
            here = slice(start, start + step)
            means = self.sum(x[:, here].contiguous())
            out[:, here] = means.mul_(scale).add_(rest * prior[here].to(x))

    @torch.no_grad()
    def estimate_strength(self, x: Tensor) -> float:
        r"""Estimate the strength of the smoothing for the means of these columns, from 0 to 100.

        The strength is the variance of values within neighbourhoods, divided by the variance of
        the means of neighbourhoods that chance does not explain; both are summed over standardised
        columns. This fits a random-effects model by the method of moments. Labels are not used.
        """
        number = self._number
        if not (number > 1).any():
            return 0.0
        num_nodes, num_columns = x.shape
        step = -(-num_columns // max(8, _STRENGTH_BYTES // (8 * num_nodes)))
        values = x[:, ::step].float()
        values = values - values.mean(0)
        deviation = values.square().mean(0).sqrt()
        values = values[:, deviation > 1e-6] / deviation[deviation > 1e-6]
        sums = self.sum(torch.cat([values, values.square()], dim=1))
        means = sums.double() * self._inverse().unsqueeze(1)
        mean, square = means[number > 0].chunk(2, dim=1)
        number = number[number > 0].unsqueeze(1)
        several = (number > 1).squeeze(1)
        spread = (square - mean.square())[several] * (number / (number - 1))[several]
        within = spread.clamp(min=0).mean(0).sum()
        between = mean.var(0, correction=0).sum() - within * (1 / number).mean()
        return (
            min(float(within) / float(between), _MOST_STRENGTH) if between > 0 else _MOST_STRENGTH
        )

    def mean_labels(self, labels: NeighbourLabels, hop: int) -> Tensor:
        """Return the smoothed mean label at the ends of walks, and the log of their number.

        Each step of a walk counts by the weight of its edge, relative to the mean weight of the
        node's edges; with equal weights, a walk counts as one. Walks that return to their start
        are left out, so no node sees its own label.
        """
        known = labels.known.unsqueeze(1)
        shown = torch.where(known, torch.cat([labels.values, torch.ones_like(known)], dim=1), 0.0)
        shown = shown.double()
        prior = shown[:, :-1].sum(0) / shown[:, -1].sum().clamp(min=1)
        if labels.prior is not None:
            prior = labels.prior.to(shown)
        # One over the mean weight of each node's edges.
        counts = torch.where(self._total > 0, self._number / self._total, 0.0)
        reached = counts.unsqueeze(1) * self.sum(shown)
        if hop == 2:
            reached = counts.unsqueeze(1) * self.sum(reached)
            returns = counts * torch.from_numpy(self._sum_returns(counts.numpy()))
            reached -= returns.unsqueeze(1) * shown
        total, count = reached[:, :-1], reached[:, -1:].clamp(min=0)
        return torch.cat([(total + hop * prior) / (count + hop), count.log1p()], dim=1)

    def _inverse(self) -> Tensor:
        """Return one over the sum of the weights of each node's edges."""
        return torch.where(self._total > 0, 1 / self._total, 0.0)

    def _sum_returns(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights of the walks of two steps to each node itself, over each middle."""
        return np.asarray(self._round_trips @ counts)

    @cached_property
    def _round_trips(self) -> sp.csr_array:
        """Weights of the walks of two steps that return to their start, ``[start, middle]``."""
        adjacency = self._matrix.to_scipy().astype(np.float64)
        return sp.csr_array(adjacency.multiply(adjacency.T.tocsr()))


class SharedThings(Neighbourhood):
    r"""Nodes that share a thing, such as planes on one route, are neighbours.

    The rarer a thing, the more it counts: the others that have it count one together, so each of
    :math:`n` nodes with it has the weight :math:`1/(n-1)` for the others. With the memberships
    :math:`\mathbf{B}` and these weights :math:`\mathbf{W}`, sums over neighbours are those by
    :math:`\mathbf{B}\mathbf{W}\mathbf{B}^\top` without its diagonal: two sparse products, and the
    pairs are never listed. The number of neighbours counts a node once for every thing shared.

    Args:
        edge_index: Nodes and things, ``[2, memberships]``; repeated ones count once.
        num_nodes: Number of nodes.
        num_things: Number of things.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int, num_things: int) -> None:
        nodes, things = np.unique(edge_index.numpy(), axis=1)
        size = np.bincount(things, minlength=num_things)
        is_shared = size[things] > 1
        nodes, things = nodes[is_shared], things[is_shared]
        others = (size[things] - 1).astype(np.float64)
        shape = (num_nodes, num_things)
        self._shares = sp.csr_array((1 / others, (nodes, things)), shape)
        members = sp.csr_array((np.ones(len(nodes)), (things, nodes)), shape[::-1])
        self._matrix = SparseMatrix.from_scipy(self._shares)
        self._members = SparseMatrix.from_scipy(members)
        self._own = torch.from_numpy(np.bincount(nodes, 1 / others, num_nodes))
        self._number = torch.from_numpy(np.bincount(nodes, others, num_nodes))
        self._total = torch.from_numpy(np.bincount(nodes, minlength=num_nodes).astype(np.float64))

    def _links(self) -> sp.csr_array:
        return sp.csr_array(self._shares @ self._members.to_scipy())

    def sum(self, x: Tensor) -> Tensor:
        """Return the weighted sums over neighbours; in float64, as the node's own part cancels."""
        exact = x.double()
        sums = self._matrix @ (self._members @ exact) - self._own.unsqueeze(1) * exact
        return sums.to(x.dtype)

    def _sum_returns(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights of the walks of two steps to each node itself, over each middle.

        Two nodes may share several things, so the walks run over pairs: of the things of a node,
        or of the nodes of a thing, whichever are fewer.
        """
        shares = self._shares
        rows = np.repeat(np.arange(shares.shape[0]), np.diff(shares.indptr))
        per_node, per_thing = np.bincount(rows, minlength=1), np.bincount(shares.indices)
        by_node, by_thing = (int(np.dot(each, each)) for each in (per_node, per_thing))
        if min(by_node, by_thing) > _MOST_PAIRS:
            raise BadInput(
                f"nodes share things in {min(by_node, by_thing):,} ways, too many to leave out "
                "their own labels at two hops: give --hops 1, or --set label_features=false"
            )
        members = shares.astype(bool).astype(np.float64)
        if by_thing <= by_node:
            pairs = sp.csr_array(shares @ members.T)
            pairs.setdiag(0)
            return np.asarray(pairs.multiply(pairs) @ counts, np.float64)
        both = sp.csr_array(members.T @ members.multiply(counts[:, np.newaxis]))  # of two things
        size = per_node[rows]
        first = np.repeat(np.arange(len(rows)), size)
        starts = np.cumsum(size) - size - shares.indptr[rows]
        second = np.arange(len(first)) - np.repeat(starts, size)
        walks = np.asarray(both[shares.indices[first], shares.indices[second]]).ravel()
        walks *= shares.data[first] * shares.data[second]
        total = np.bincount(rows[first], walks, shares.shape[0])
        return np.asarray(total - counts * self._own.numpy() ** 2)


def neighbourhood_of(relation: Relation, num_nodes: int) -> Neighbourhood:
    """Return the neighbours of every node in a relation."""
    if relation.things is not None:
        return SharedThings(relation.edge_index, num_nodes, len(relation.things))
    return Neighbourhood(relation.edge_index, relation.edge_weight, num_nodes)


def mean_of_edges(relation: Relation, num_nodes: int) -> Tensor:
    """Return the means of the columns of each node's edges, ``[nodes, columns]``.

    Edges count by their weights; self-loops are left out. Nodes without edges have 0, which is the
    mean of a standardised number and no share of a category.
    """
    source, target = relation.edge_index.numpy()
    weight = np.ones(len(source)) if relation.edge_weight is None else relation.edge_weight.numpy()
    weight = np.where(source == target, 0.0, weight)
    total = np.bincount(target, weight, num_nodes)
    share = np.divide(weight, total[target], where=total[target] > 0, out=np.zeros_like(weight))
    entries = share, (target, np.arange(len(source)))
    means = sp.csr_array(entries, shape=(num_nodes, len(source))) @ relation.edge_attr
    return torch.from_numpy(means.toarray())
