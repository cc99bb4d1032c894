"""Standardise columns, and read rows of standardised columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

_ONCE_BYTES = 256 << 20
"""Columns up to this size are standardised once, at the cost of a copy."""

_LEAST_DEVIATION = 1e-3
_ROWS_AT_ONCE = 1 << 16


class Scale(NamedTuple):
    """Standardisation of columns: ``(x - center) / deviation``.

    Values are clipped to ``low`` and ``high``, because a polynomial extrapolates badly beyond the
    values that it was trained on.
    """

    center: Tensor
    deviation: Tensor
    low: Tensor
    high: Tensor

    def narrow(self, kept: Tensor) -> Scale:
        """Return the standardisation of some of the columns."""
        return Scale(*(each[kept] for each in self))

    def with_range_of(self, columns: Tensor, nodes: Tensor) -> Scale:
        """Return the standardisation with the least and largest values of some nodes as bounds."""
        bounds = [
            torch.aminmax(columns[part.to(columns.device)], dim=0)
            for part in torch.split(nodes, _ROWS_AT_ONCE)
        ]
        low = torch.stack([each.min for each in bounds]).amin(0)
        high = torch.stack([each.max for each in bounds]).amax(0)
        return self._replace(low=low.cpu(), high=high.cpu())


def fit_scale(columns: Tensor, num_features: int) -> Scale:
    """Return the mean and the standard deviation of each column over all nodes, without bounds.

    The first ``num_features`` columns, a node's own, are not scaled if their values are between
    -1 and 1 (flags, ranks). Standardising these would let the rarest flags dominate.
    """
    total = torch.zeros(3, columns.size(1), dtype=torch.float64, device=columns.device)
    for part in torch.split(columns, _ROWS_AT_ONCE):
        part = part.double()
        total[0] += part.sum(0)
        total[1] += part.square().sum(0)
        total[2] = torch.maximum(total[2], part.abs().amax(0))
    mean, square, largest = total.cpu().numpy()
    mean, square = mean / len(columns), square / len(columns)
    deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
    is_constant = deviation <= 1e-6 * np.maximum(largest, 1e-30)
    deviation = np.where(is_constant, 1.0, np.maximum(deviation, _LEAST_DEVIATION))
    is_kept = (np.arange(mean.size) < num_features) & (largest <= 1)
    center, deviation = np.where(is_kept, 0.0, mean), np.where(is_kept, 1.0, deviation)
    means, deviations = (torch.from_numpy(each).float() for each in (center, deviation))
    infinite = torch.full_like(means, torch.inf)
    return Scale(means, deviations, -infinite, infinite)


def standardise(columns: Tensor, scale: Scale) -> Tensor:
    """Clip and standardise columns."""
    center, deviation, low, high = (each.to(columns) for each in scale)
    standard = (columns - center).div_(deviation)
    return standard.clamp_((low - center) / deviation, (high - center) / deviation)


class HopRows:
    """Standardised columns, of which training and scoring read some rows at a time.

    Small columns and columns on a GPU are standardised once, others whenever rows are read.

    Args:
        parts: Blocks of columns; rows are on the device of the first block.
        scale: The standardisation of the columns.
        labels: Class or number of each node, on the CPU.
    """

    def __init__(self, parts: Sequence[Tensor], scale: Scale, labels: Tensor) -> None:
        self.labels = labels
        self.num_columns = sum(part.size(1) for part in parts)
        self.device = parts[0].device
        self._parts, self._scale = parts, scale
        self._standardised: Tensor | None = None
        is_small = 4 * labels.numel() * self.num_columns <= _ONCE_BYTES
        if is_small or self.device.type == "cuda":
            together = torch.cat([part.to(self.device) for part in parts], dim=1)
            self._standardised = standardise(together, scale)

    def narrow(self, kept: Tensor) -> HopRows:
        """Return the rows of some of the columns.

        Args:
            kept: Which columns, bool ``[columns]``.
        """
        of_parts = torch.split(kept, [part.size(1) for part in self._parts])
        parts = [
            part[:, chosen.to(part.device)]
            for part, chosen in zip(self._parts, of_parts, strict=True)
        ]
        return HopRows(parts, self._scale.narrow(kept), self.labels)

    def rows(self, nodes: Tensor) -> Tensor:
        """Return the rows of some nodes."""
        if self._standardised is not None:
            return self._standardised.index_select(0, nodes)
        rows = torch.cat([part.index_select(0, nodes) for part in self._parts], dim=1)
        return standardise(rows, self._scale)
