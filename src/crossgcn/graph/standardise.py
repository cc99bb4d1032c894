"""Standardise columns, and read standardised rows of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from crossgcn.graph.sparse_matrix import Features, SparseMatrix, join_columns, select_rows

DENSE_BYTES = 256 << 20
"""Columns up to this size are made dense and standardised once: dense products are faster."""

_LEAST_DEVIATION = 1e-3
_ROWS_AT_ONCE = 1 << 16


class Scale(NamedTuple):
    """Standardisation of columns: ``(x - center) / deviation``.

    Values below ``low`` count as ``low``, and values above ``high`` as ``high``: a polynomial must
    not be trusted beyond the values that it was trained on.
    """

    center: Tensor
    deviation: Tensor
    low: Tensor | None = None
    high: Tensor | None = None

    def narrow(self, kept: Tensor) -> Scale:
        """Return the standardisation of some of the columns."""
        low, high = (None if each is None else each[kept] for each in (self.low, self.high))
        return Scale(self.center[kept], self.deviation[kept], low, high)


def fit_scale(columns: Features, num_features: int) -> Scale:
    """Return the mean and the standard deviation of each column over all nodes.

    The first ``num_features`` columns, a node's own, are left as they are if their values are
    between -1 and 1 (flags, ranks). Standardising them would let the rarest flags dominate.
    """
    rows = columns.shape[0]
    if isinstance(columns, SparseMatrix):
        matrix = columns.to_scipy().astype(np.float64)
        mean, square = matrix.mean(axis=0), matrix.power(2).mean(axis=0)
        largest = abs(matrix).max(axis=0).toarray()
    else:
        total = torch.zeros(3, columns.size(1), dtype=torch.float64, device=columns.device)
        for part in torch.split(columns, _ROWS_AT_ONCE):
            part = part.double()
            total[0] += part.sum(0)
            total[1] += part.square().sum(0)
            total[2] = torch.maximum(total[2], part.abs().amax(0))
        mean, square, largest = total.cpu().numpy()
        mean, square = mean / rows, square / rows
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    is_constant = deviation <= 1e-6 * np.maximum(largest, 1e-30)
    deviation = np.where(is_constant, 1.0, np.maximum(deviation, _LEAST_DEVIATION))
    is_left = (np.arange(mean.size) < num_features) & (largest <= 1)
    center, deviation = np.where(is_left, 0.0, mean), np.where(is_left, 1.0, deviation)
    return Scale(torch.from_numpy(center).float(), torch.from_numpy(deviation).float())


def fit_range(columns: Features, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the least and the largest value of each column among some nodes.

    Of sparse columns, 0 is always one of the values.
    """
    if isinstance(columns, SparseMatrix):
        matrix = columns.to_scipy()[nodes.numpy()]
        least, largest = (each.toarray().ravel() for each in (matrix.min(0), matrix.max(0)))
        return torch.from_numpy(least).clamp(max=0), torch.from_numpy(largest).clamp(min=0)
    bounds = [
        torch.aminmax(columns[part.to(columns.device)], dim=0)
        for part in torch.split(nodes, _ROWS_AT_ONCE)
    ]
    low = torch.stack([each.min for each in bounds]).amin(0)
    high = torch.stack([each.max for each in bounds]).amax(0)
    return low.cpu(), high.cpu()


def standardise(columns: Features, scale: Scale) -> Features:
    """Cut and standardise columns; sparse ones are not centered, and the model does that."""
    if isinstance(columns, SparseMatrix):
        values = columns.values
        if scale.low is not None and scale.high is not None:
            low, high = (each.to(values)[columns.columns] for each in (scale.low, scale.high))
            values = values.clamp(low, high)
        values = values / scale.deviation.to(values)[columns.columns]
        return SparseMatrix(columns.row_offsets, columns.columns, values, columns.shape)
    center, deviation = scale.center.to(columns), scale.deviation.to(columns)
    standard = (columns - center).div_(deviation)
    if scale.low is None or scale.high is None:
        return standard
    low, high = ((each.to(columns) - center) / deviation for each in (scale.low, scale.high))
    return standard.clamp_(low, high)


class HopRows:
    """Standardised columns, of which training and scoring read some rows at a time.

    Small dense columns, and those on a GPU, are standardised once, others when they are read.

    Args:
        parts: Columns, side by side; rows are on the device of the first part.
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
        is_small = 4 * labels.numel() * self.num_columns <= DENSE_BYTES
        if not self.are_sparse and (is_small or dense[0].is_cuda):
            together = join_columns([part.to(dense[0].device) for part in dense])
            self._standardised = standardise(together, scale)
            self.device = dense[0].device

    def narrow(self, kept: Tensor) -> HopRows:
        """Return the rows of some of the columns, dense if they are small.

        Args:
            kept: Which columns, bool ``[columns]``.
        """
        widths = [part.shape[1] for part in self._parts]
        of_parts = torch.split(kept, widths)
        parts = [_select_columns(*each) for each in zip(self._parts, of_parts, strict=True)]
        return HopRows(parts, self._scale.narrow(kept), self.labels)

    def rows(self, nodes: Tensor) -> Features:
        """Return the rows of some nodes."""
        if self._standardised is not None:
            return select_rows(self._standardised, nodes)
        rows = [select_rows(part, nodes) for part in self._parts]
        return standardise(join_columns(rows), self._scale)


def _select_columns(part: Features, kept: Tensor) -> Features:
    """Return some columns, dense if they are small."""
    if isinstance(part, Tensor):
        return part[:, kept.to(part.device)]
    columns = part.to_scipy()[:, kept.numpy()]
    if columns.dtype.itemsize * columns.shape[0] * columns.shape[1] <= DENSE_BYTES:
        return torch.from_numpy(columns.toarray())
    return SparseMatrix.from_scipy(columns)
