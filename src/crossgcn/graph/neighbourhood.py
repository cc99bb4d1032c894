"""Means over the neighbours of every node."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from crossgcn.graph.matrix import SparseMatrix
from crossgcn.graph.sampling.batches import ExactRows
from crossgcn.graph.sampling.source import Features, GraphSource, adjacency_rows
from crossgcn.kernels import Pattern

_ROWS, _WIDTH = 1 << 16, 64
"""Rows and columns that are computed at once."""
_COPY_BYTES, _FEWEST = 1 << 29, 8
"""Memory for a copy of some columns of all nodes, and how many it must have room for."""
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
    r"""How means over few neighbours are drawn towards what is usual.

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

    @classmethod
    def none(cls, num_features: int, num_blocks: int) -> Smoothing:
        """Return the smoothing that leaves means as they are, and 0 where there are none."""
        return cls(torch.zeros(num_features), torch.zeros(num_blocks))

    def equals(self, other: Smoothing) -> bool:
        """Return whether both are the same as 32-bit floats."""
        pairs = zip(self, other, strict=True)
        return all(torch.equal(mine.float(), others.float()) for mine, others in pairs)


class Neighbourhood:
    """Sums and means over the neighbours of every node, without the node itself.

    Args:
        outward: Out-neighbours instead of in-neighbours.
        device: Keep the whole adjacency there, and compute sums and means of dense columns on this
            device. By default, they are computed on the CPU, some rows at a time.
    """

    def __init__(
        self, source: GraphSource, *, outward: bool = False, device: torch.device | None = None
    ) -> None:
        self._source, self._outward, self._device = source, outward, device
        self._exact = ExactRows(source)

    @property
    def num_neighbours(self) -> Tensor:
        """Number of neighbours of each node."""
        return self._sizes[0].float()

    @cached_property
    def _sizes(self) -> tuple[Tensor, Tensor]:
        """The number of neighbours of each node, of weight above 0, and the sum of weights."""
        if self._device is not None:
            return self._sizes_on_device()
        sizes = torch.zeros(2, self._source.num_nodes, dtype=torch.float64)
        for chunk in self._exact.chunks():
            rows = adjacency_rows(self._source, chunk, "neighbours")
            values = rows.values.double()
            parts = (values > 0).double(), values
            if self._outward:
                sizes.index_add_(1, rows.columns, torch.stack(parts))
            else:
                size, here = chunk.numel(), slice(chunk[0], chunk[-1] + 1)
                sizes[:, here] = torch.stack([rows.rows.bincount(each, size) for each in parts])
        return sizes[0], sizes[1]

    def _sizes_on_device(self) -> tuple[Tensor, Tensor]:
        matrix = self._matrix
        sums = []
        for values in ((matrix.values > 0).double(), matrix.values.double()):
            if self._outward:
                empty = values.new_zeros(matrix.shape[1])
                sums.append(empty.index_add_(0, matrix.columns, values))
            else:
                until = torch.cat([values.new_zeros(1), values.cumsum(0)])
                sums.append(until[matrix.row_offsets.long()].diff())
        return sums[0], sums[1]

    @cached_property
    def _matrix(self) -> SparseMatrix:
        """The whole adjacency on the device; self-loops have the value 0."""
        source, device = self._source, self._device
        assert device is not None
        source.check_all()
        pattern = Pattern(source.offsets, source.neighbours).to(device)
        if source.weights is None:
            values = torch.ones(pattern.columns.numel(), device=device)
        else:
            values = source.weights.to(device, copy=True)
        values[pattern.rows == pattern.columns] = 0.0
        shape = (source.num_nodes, source.num_nodes)
        return SparseMatrix(pattern.row_offsets, pattern.columns, values, shape)

    @cached_property
    def _inverse(self) -> Tensor:
        total = self._sizes[1]
        return torch.where(total > 0, 1 / total, 0.0)

    def mean(self, x: Tensor, out: Tensor, prior: Tensor, strength: float) -> None:
        """Write the smoothed mean, weighted by edges, into a matrix of zeros."""
        self._sum(x, out)
        share = self.share(strength)
        parts = (torch.split(each, _ROWS) for each in (out, self._inverse * share, 1 - share))
        for rows, scale, rest in zip(*parts, strict=True):
            rows *= scale.to(x.dtype).unsqueeze(1)
            rows += rest.to(x.dtype).unsqueeze(1) * prior.to(x)

    def share(self, strength: float) -> Tensor:
        """Return the share of each node's own mean in its smoothed mean."""
        number = self._sizes[0]
        return torch.where(number > 0, number / (number + strength), 0.0)

    def estimate_strength(self, x: Features) -> float:
        r"""Return how strongly the means of these columns should be smoothed, from 0 to 100.

        It is the ratio of two variances, summed over standardised columns: of the values within
        a neighbourhood, and of the means of neighbourhoods beyond what chance explains. This is
        the estimate of a random-effects model by the method of moments. No label is read.
        """
        number = self._sizes[0]
        if not (number > 1).any():
            return 0.0
        step = strength_step(*x.shape)
        if isinstance(x, SparseMatrix):
            values = torch.from_numpy(x.to_scipy().tocsc()[:, ::step].toarray()).float()
        else:
            values = x[:, ::step].float()
        values = values - values.mean(0)
        deviation = values.square().mean(0).sqrt()
        values = values[:, deviation > 1e-6] / deviation[deviation > 1e-6]
        both = torch.cat([values, values.square()], dim=1)
        means = self._sum(both, torch.zeros_like(both)).double() * self._inverse.unsqueeze(1)
        mean, square = means[number > 0].chunk(2, dim=1)
        number = number[number > 0].unsqueeze(1)
        several = (number > 1).squeeze(1)
        spread = (square - mean.square())[several] * (number / (number - 1))[several]
        within = spread.clamp(min=0).mean(0).sum()
        between = mean.var(0, correction=0).sum() - within * (1 / number).mean()
        return limit_strength(float(within), float(between))

    def mean_matrix(self, dtype: torch.dtype) -> SparseMatrix:
        """Return the matrix of the mean over neighbours, of a graph in memory."""
        nodes = torch.arange(self._source.num_nodes)
        rows = adjacency_rows(self._source, nodes, "neighbours").to_scipy().astype(np.float64)
        scale = sp.diags_array(self._inverse.numpy())
        matrix = SparseMatrix.from_scipy(scale @ (rows.T if self._outward else rows))
        matrix.values = matrix.values.to(dtype)
        return matrix

    def mean_sparse(self, x: SparseMatrix, prior: Tensor, strength: float) -> SparseMatrix:
        """Return the smoothed mean of a sparse matrix; only columns with a prior are filled in."""
        matrix, parts = x.to_scipy(), []
        for chunk in self._exact.chunks():
            rows = adjacency_rows(self._source, chunk, "neighbours").to_scipy()
            own = matrix[chunk.numpy()]
            parts.append(rows.T @ own if self._outward else rows @ matrix)
        sums = sum(parts[1:], parts[0]) if self._outward else sp.vstack(parts, format="csr")
        share = self.share(strength)
        scale = sp.diags_array((self._inverse * share).numpy().astype(sums.dtype))
        rest = sp.csr_array((1 - share).numpy().astype(sums.dtype)[:, None])
        usual = sp.csr_array(prior.numpy().astype(sums.dtype)[None, :])
        return SparseMatrix.from_scipy(scale @ sums + rest @ usual)

    def mean_labels(self, labels: NeighbourLabels, hop: int) -> Tensor:
        """Return the smoothed mean of the labels at the end of walks, and how many are known.

        A walk counts as one if all edges weigh the same; otherwise each step counts by the weight
        of its edge, relative to the mean weight of the node's edges. A walk that returns to its
        start is left out, so no column shows a node its own label.
        """
        known = labels.known.unsqueeze(1)
        own = torch.where(known, torch.cat([labels.values, torch.ones_like(known)], dim=1), 0.0)
        own = own.double()
        prior = own[:, :-1].sum(0) / own[:, -1].sum().clamp(min=1)
        if labels.prior is not None:
            prior = labels.prior.to(own)
        counts = self._counts.unsqueeze(1)
        reached = counts * self._sum(own, torch.zeros_like(own))
        if hop == 2:
            reached = counts * self._sum(reached, torch.zeros_like(own))
            reached -= self._returns.unsqueeze(1) * own
        total, count = reached[:, :-1], reached[:, -1:].clamp(min=0)
        return torch.cat([(total + hop * prior) / (count + hop), count.log1p()], dim=1).float()

    def _sum(self, x: Tensor, out: Tensor) -> Tensor:
        """Add the sums over neighbours to a matrix, some rows and columns at a time."""
        if self._device is not None:
            matrix, x = self._matrix, x.contiguous()
            out += matrix.multiply_transposed(x) if self._outward else matrix @ x
            return out
        fits = _COPY_BYTES // (x.element_size() * max(1, len(x)))
        if not x.is_contiguous() and (self._outward or fits < min(_FEWEST, x.size(1))):
            return self._sum_of_few(x, out)
        width = x.size(1) if x.is_contiguous() else min(fits, x.size(1))
        for source, target in zip(
            torch.split(x, width, 1), torch.split(out, width, 1), strict=True
        ):
            source = source.contiguous()
            for chunk in self._exact.chunks():
                rows = adjacency_rows(self._source, chunk, "neighbours")
                if self._outward:
                    target += rows.multiply_transposed(source[chunk])
                else:
                    target[chunk[0] : chunk[-1] + 1] += rows @ source
        return out

    def _sum_of_few(self, x: Tensor, out: Tensor) -> Tensor:
        """Do so with less memory: copy the columns of each chunk's neighbours alone."""
        for chunk in self._exact.chunks():
            nodes, block = self._exact.block(chunk, "neighbours")
            for source, target in zip(
                torch.split(x, _WIDTH, 1), torch.split(out, _WIDTH, 1), strict=True
            ):
                if self._outward:
                    target[nodes] += block.multiply_transposed(source[chunk])
                else:
                    target[chunk[0] : chunk[-1] + 1] += block @ source.index_select(0, nodes)
        return out

    @cached_property
    def _counts(self) -> Tensor:
        """One over the mean weight of each node's edges."""
        number, total = self._sizes
        return torch.where(total > 0, number / total, 0.0)

    @cached_property
    def _returns(self) -> Tensor:
        """What all walks of two steps from each node back to itself count."""
        source = self._source
        total = torch.zeros(source.num_nodes, dtype=torch.float64)
        for chunk in self._exact.chunks():
            rows = adjacency_rows(source, chunk, "neighbours")
            starts, values = chunk[rows.rows], rows.values.double()
            back = source.find_entries(rows.columns.numpy(), starts.numpy())
            values *= torch.from_numpy(back >= 0) * self._counts[rows.columns]
            if source.weights is not None:
                values *= source.weights[back]  # the last weight where there is no way back
            total.index_add_(0, starts, values)
        return self._counts * total


def strength_step(num_nodes: int, num_columns: int) -> int:
    """Return of how many columns one is read to estimate the strength of the smoothing."""
    return -(-num_columns // max(8, _STRENGTH_BYTES // (8 * num_nodes)))


def limit_strength(within: float, between: float) -> float:
    """Return the ratio of two variances, from 0 to 100."""
    return min(within / between, _MOST_STRENGTH) if between > 0 else _MOST_STRENGTH
