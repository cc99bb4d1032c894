"""Sparse features with so many columns that the first weight's gradient is never stored.

Writing and reading a gradient as large as the weight takes longer than computing it. Here the
gradient is computed in blocks of columns, and Adam updates each block before the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossgcn.graph import SparseMatrix
from crossgcn.kernels.cpu import loops as cpu_loops
from crossgcn.kernels.cpu.loops import call
from crossgcn.kernels.draws import threshold

Array = Any
Key = tuple[int, int]
"""Seed and step, which decide the dropped entries."""

_WEIGHTS_PER_BLOCK = 1 << 21
"""Smaller blocks are not faster, and threads wait for each other at the end of each."""

_ENTRIES_PER_BLOCK = 1 << 18
"""Frequent columns may all come first. With about the same number of entries in all blocks,
threads share the work of each."""


class BlockedFeatures:
    """Features after dropout, and their transpose in blocks of columns.

    Attributes:
        current: Offsets, columns and values after the last :meth:`drop`.
    """

    def __init__(self, matrix: SparseMatrix, width: int) -> None:
        self.matrix, self.width = matrix, width
        self.values = matrix.values.numpy()
        self.whole = (matrix.row_offsets.numpy(), matrix.columns.numpy(), self.values)
        self.current = self.whole
        self._key: Key | None = None
        self._p = 0.0

    def drop(self, key: Key | None, p: float) -> None:
        """Drop entries with probability ``p``; none without a key."""
        self._key, self._p = key, p
        self.current = self.whole
        if key is not None and p > 0.0:
            drop(self.values, self.values, self._dropped[0], key, p)
            self.current = (*self.whole[:2], self._dropped[0])

    def each_gradient(
        self, grad_projections: Array, use: Callable[[int, int, Array], None]
    ) -> None:
        """Compute the weight's gradient, block by block.

        Args:
            grad_projections: ``[rows, width]``.
            use: Called with the first column of a block, the one after its last, and the
                gradient of their weights.
        """
        rows, values, order, blocks = self._transpose
        if self._key is not None and self._p > 0.0:
            out = self._dropped[1]  # after dropout; the mask is drawn again
            arguments = (values.numpy(), order, out, *self._key, *fate(self._p))
            call(cpu_loops.drop_ordered, out.size, *arguments)
            values = torch.from_numpy(out)
        for first, last, entries, offsets in blocks:
            dense = torch.from_numpy(grad_projections)
            use(first, last, bag(dense, rows[entries], offsets, values[entries]))

    @cached_property
    def _dropped(self) -> tuple[Array, Array]:
        """Arrays for the values after dropout, and for the transposed ones."""
        return np.empty_like(self.values), np.empty_like(self.values)

    @cached_property
    def _transpose(self) -> tuple[Tensor, Tensor, Array, list[tuple[int, int, slice, Tensor]]]:
        """Rows, values and order of the transposed entries, and the blocks of columns.

        A block is its first column, the one after its last, its entries, and the offset of each
        column in them.
        """
        pattern, order = self.matrix._transposed()
        offsets = pattern.row_offsets
        bounds = _block_bounds(offsets.numpy(), max(1, _WEIGHTS_PER_BLOCK // self.width)).tolist()
        blocks = [
            (
                first,
                last,
                slice(int(offsets[first]), int(offsets[last])),
                offsets[first : last + 1] - offsets[first],
            )
            for first, last in pairwise(bounds)
        ]
        values = self.matrix.values[order]
        return pattern.columns, values, order.numpy().astype(np.uint32), blocks


def drop(
    taken: Array, x: Array, out: Array, key: Key, p: float, *, site: int = 0, activate: bool = False
) -> None:
    """Drop entries of ``taken``; with ``activate``, also where ``x`` is not positive."""
    bounds, seeds = np.array([0, out.size]), np.array([key[0]])
    arguments = (taken, x, out, bounds, seeds, key[1], site, *fate(p), activate)
    call(cpu_loops.drop, out.size, *arguments)


def bag(dense: Tensor, columns: Tensor, offsets: Tensor, values: Tensor) -> Array:
    """Return the product of a sparse matrix, by its entries, and a dense one."""
    return torch.embedding_bag(dense, columns, offsets, False, 0, False, values, True)[0].numpy()


def fate(p: float) -> tuple[np.uint32, np.float32]:
    """Return the random number from which an entry is kept, and the scale of kept entries."""
    return np.uint32(threshold(p)), np.float32(1.0 / (1.0 - p))


def _block_bounds(offsets: Array, most_columns: int) -> Array:
    """Return the bounds of blocks with limited numbers of columns and entries."""
    columns = offsets.size - 1
    by_entries = np.searchsorted(offsets, np.arange(0, int(offsets[-1]), _ENTRIES_PER_BLOCK))
    return np.unique(np.concatenate([np.arange(0, columns, most_columns), by_entries, [columns]]))
