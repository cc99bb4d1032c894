"""Means over the neighbours of every node."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from crossgcn.graph.sparse_matrix import SparseMatrix

_COPY_BYTES = 1 << 29
"""Maximum size of a contiguous copy of some columns of all nodes."""
_MOST_STRENGTH = 100.0
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
    """

    values: Tensor
    known: Tensor
    prior: Tensor | None = None


def neighbour_labels(y: Tensor, nodes: Tensor, num_classes: int) -> NeighbourLabels:
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
    return NeighbourLabels(values.float(), known)


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

    def to(self, device: torch.device | None) -> Neighbourhood:
        """Return the same neighbourhood, with means computed on a device."""
        if device is None:
            return self
        other = copy(self)
        other._matrix = self._matrix.to(device)
        other._number, other._total = self._number.to(device), self._total.to(device)
        return other

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
            means = self._matrix @ x[:, here].contiguous()
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
        sums = self._matrix @ torch.cat([values, values.square()], dim=1)
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
        reached = counts.unsqueeze(1) * (self._matrix @ shown)
        if hop == 2:
            reached = counts.unsqueeze(1) * (self._matrix @ reached)
            returns = counts * torch.from_numpy(self._round_trips @ counts.numpy())
            reached -= returns.unsqueeze(1) * shown
        total, count = reached[:, :-1], reached[:, -1:].clamp(min=0)
        return torch.cat([(total + hop * prior) / (count + hop), count.log1p()], dim=1).float()

    def _inverse(self) -> Tensor:
        """Return one over the sum of the weights of each node's edges."""
        return torch.where(self._total > 0, 1 / self._total, 0.0)

    @cached_property
    def _round_trips(self) -> sp.csr_array:
        """Weights of the walks of two steps that return to their start, ``[start, middle]``."""
        adjacency = self._matrix.to_scipy().astype(np.float64)
        return sp.csr_array(adjacency.multiply(adjacency.T.tocsr()))
