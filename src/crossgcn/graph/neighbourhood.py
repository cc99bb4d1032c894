"""Means over the neighbours of every node."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from crossgcn.graph.sparse_matrix import Features, SparseMatrix

_COPY_BYTES = 1 << 29
"""Memory for a contiguous copy of some columns of all nodes."""
_ROWS_AT_ONCE = 1 << 16
_MOST_STRENGTH = 100.0
_STRENGTH_BYTES = 64 << 20
"""Memory for the columns from which the strength of the smoothing is estimated."""


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
        values = ((y - own.mean()) / own.std(correction=0).clamp(min=1e-12)).unsqueeze(1)
    elif num_classes == 2:
        values = (y == 1).unsqueeze(1)
    else:
        values = torch.nn.functional.one_hot(y.clamp(min=0), num_classes)
    return NeighbourLabels(values.float(), known)


class Smoothing(NamedTuple):
    r"""Shrinks means over few neighbours towards a prior.

    The mean :math:`m` over :math:`d` neighbours becomes :math:`p + \frac{d}{d + s} (m - p)`, where
    :math:`p` is the prior and :math:`s` the strength. A node without neighbours gets :math:`p`.
    For a flag the prior is 0, so this is the number of neighbours that have it, divided by
    :math:`d + s`.

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
        other = source != target
        if not other.all():
            source, target, weight = source[other], target[other], weight[other]
        shape = (num_nodes, num_nodes)
        adjacency = sp.coo_array((weight.astype(np.float32), (target, source)), shape)
        self._matrix = SparseMatrix.from_scipy(adjacency)
        rows, values = self._matrix.rows, self._matrix.values.double()
        self._number = rows.bincount((values > 0).double(), num_nodes)
        self._total = rows.bincount(values, num_nodes)

    def to(self, device: torch.device) -> Neighbourhood:
        """Return the same neighbourhood, with means of dense columns computed on a device."""
        other, matrix = copy(self), self._matrix
        pattern = matrix.pattern.to(device)
        other._matrix = SparseMatrix(
            pattern.row_offsets, pattern.columns, matrix.values.to(device), matrix.shape
        )
        other._number, other._total = self._number.to(device), self._total.to(device)
        return other

    @property
    def num_neighbours(self) -> Tensor:
        """Number of neighbours of each node, of weight above 0."""
        return self._number.float()

    def mean(
        self, x: Features, prior: Tensor, strength: float, out: Tensor | None = None
    ) -> Features:
        """Return the smoothed mean over neighbours, weighted by edges.

        Of a sparse matrix, only columns with a prior are filled in. A dense mean has a gradient
        for ``x``, unless it is written into a matrix ``out``, which takes the least memory.
        """
        share = torch.where(self._number > 0, self._number / (self._number + strength), 0.0)
        scale, rest = self._inverse() * share, 1 - share
        if isinstance(x, SparseMatrix):
            sums = self._matrix.to_scipy() @ x.to_scipy()
            to_mean = sp.diags_array(scale.numpy().astype(sums.dtype))
            column = sp.csr_array(rest.numpy().astype(sums.dtype)[:, None])
            usual = sp.csr_array(prior.numpy().astype(sums.dtype)[None, :])
            return SparseMatrix.from_scipy(to_mean @ sums + column @ usual)
        scale, rest = scale.to(x.dtype).unsqueeze(1), rest.to(x.dtype).unsqueeze(1)
        if out is None:
            return scale * (self._matrix @ x) + rest * prior.to(x)
        parts = (torch.split(each, _ROWS_AT_ONCE) for each in (self._sum(x, out), scale, rest))
        for rows, scale_of_rows, rest_of_rows in zip(*parts, strict=True):
            rows *= scale_of_rows
            rows += rest_of_rows * prior.to(x)
        return out

    @torch.no_grad()
    def estimate_strength(self, x: Features) -> float:
        r"""Return how strongly the means of these columns should be smoothed, from 0 to 100.

        It is the ratio of two variances, summed over standardised columns: of the values within
        a neighbourhood, and of the means of neighbourhoods beyond what chance explains. This is
        the estimate of a random-effects model by the method of moments. No label is read.
        """
        number = self._number
        if not (number > 1).any():
            return 0.0
        num_nodes, num_columns = x.shape
        step = -(-num_columns // max(8, _STRENGTH_BYTES // (8 * num_nodes)))
        if isinstance(x, SparseMatrix):
            values = torch.from_numpy(x.to_scipy().tocsc()[:, ::step].toarray()).float()
        else:
            values = x[:, ::step].float()
        values = values - values.mean(0)
        deviation = values.square().mean(0).sqrt()
        values = values[:, deviation > 1e-6] / deviation[deviation > 1e-6]
        means = self._sum(torch.cat([values, values.square()], dim=1)).double()
        means *= self._inverse().unsqueeze(1)
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
        """Return the smoothed mean of the labels at the end of walks, and how many are known.

        A walk counts as one if all edges weigh the same; otherwise each step counts by the weight
        of its edge, relative to the mean weight of the node's edges. A walk that returns to its
        start is left out, so no column shows a node its own label.
        """
        known = labels.known.unsqueeze(1)
        shown = torch.where(known, torch.cat([labels.values, torch.ones_like(known)], dim=1), 0.0)
        shown = shown.double()
        prior = shown[:, :-1].sum(0) / shown[:, -1].sum().clamp(min=1)
        if labels.prior is not None:
            prior = labels.prior.to(shown)
        # One over the mean weight of each node's edges.
        counts = torch.where(self._total > 0, self._number / self._total, 0.0)
        reached = counts.unsqueeze(1) * self._sum(shown)
        if hop == 2:
            reached = counts.unsqueeze(1) * self._sum(reached)
            returns = counts * torch.from_numpy(self._there_and_back @ counts.numpy())
            reached -= returns.unsqueeze(1) * shown
        total, count = reached[:, :-1], reached[:, -1:].clamp(min=0)
        return torch.cat([(total + hop * prior) / (count + hop), count.log1p()], dim=1).float()

    def _inverse(self) -> Tensor:
        """Return one over the sum of the weights of each node's edges."""
        return torch.where(self._total > 0, 1 / self._total, 0.0)

    def _sum(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the sums over neighbours, computed some columns at a time."""
        out = torch.empty_like(x) if out is None else out
        width = max(1, _COPY_BYTES // (x.element_size() * max(1, len(x))))
        for source, target in zip(
            torch.split(x, width, 1), torch.split(out, width, 1), strict=True
        ):
            target.copy_(self._matrix @ source.contiguous())
        return out

    @cached_property
    def _there_and_back(self) -> sp.csr_array:
        """The weights of walks of two steps that return to their start, by start and middle."""
        adjacency = self._matrix.to_scipy().astype(np.float64)
        return sp.csr_array(adjacency.multiply(adjacency.T.tocsr()))
