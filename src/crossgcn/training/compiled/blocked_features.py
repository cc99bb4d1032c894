"""Sparse features of so many columns that the first layer's gradient is never whole.

A gradient as large as the weight would be written, read once and forgotten, which takes
longer than to compute it. Here the weight goes by in blocks: a block's gradient is summed
and its step of Adam taken before the next block's begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossgcn.graph import SparseMatrix
from crossgcn.kernels.cpu import loops as cpu_loops
from crossgcn.kernels.cpu import loops as cpu_wide
from crossgcn.kernels.cpu.loops import call
from crossgcn.kernels.draws import threshold

Array = Any

_WEIGHTS_PER_BLOCK = 1 << 21
"""Smaller blocks are no faster, and threads wait for each other at the end of every one."""

_ENTRIES_PER_BLOCK = 1 << 18
"""Frequent columns may all come first: with equal work in all blocks, and about equal
columns within each, threads share every block."""


class BlockedFeatures:
    """Features, less what was dropped, and their transpose in blocks of columns.

    Args:
        matrix: The features.
        width: Weights of each column.

    Attributes:
        current: Offsets, columns and values, as :meth:`drop` left them.
    """

    def __init__(self, matrix: SparseMatrix, width: int) -> None:
        self.matrix, self.width = matrix, width
        self.values = matrix.values.numpy()
        self.whole = (matrix.row_offsets.numpy(), matrix.columns.numpy(), self.values)
        self.current = self.whole
        self._key: tuple[int, int] | None = None
        self._p = 0.0

    def drop(self, key: tuple[int, int] | None, p: float) -> None:
        """Drop entries at random.

        Args:
            key: Seed and step; nothing is dropped without them.
            p: Probability of each.
        """
        self._key, self._p = key, p
        self.current = self.whole
        if key is None or p == 0.0:
            return
        out, size = self._dropped[0], self.values.size
        bounds, seeds = np.array([0, size]), np.array([key[0]])
        arguments = (self.values, self.values, out, bounds, seeds, key[1], 0, *_fate(p), False)
        call(cpu_loops.drop, size, *arguments)
        self.current = (*self.whole[:2], out)

    def each_gradient(self, for_projections: Array, use: Callable[[int, int, Array], None]) -> None:
        """Compute the weight's gradient, block by block.

        Args:
            for_projections: The gradient of what the weight gives, ``[rows, width]``.
            use: Called with the first column of a block, the one after its last, and the
                gradient of these columns' weights, which nobody keeps.
        """
        transpose, dense = self._transpose, torch.from_numpy(for_projections)
        values = self._transposed_values(transpose)
        for block in transpose.blocks:
            gradient = torch.embedding_bag(
                dense,
                transpose.rows[block.entries],
                block.offsets,
                False,
                0,
                False,
                values[block.entries],
                True,
            )[0]
            use(block.first, block.last, gradient.numpy())

    def _transposed_values(self, transpose: _Transpose) -> Tensor:
        """What is left of them; nobody asked for a mask, so it is drawn again."""
        if self._key is None or self._p == 0.0:
            return transpose.values
        out = self._dropped[1]
        call(
            cpu_wide.drop_ordered,
            out.size,
            transpose.values.numpy(),
            transpose.order,
            out,
            *self._key,
            *_fate(self._p),
        )
        return torch.from_numpy(out)

    @cached_property
    def _dropped(self) -> tuple[Array, Array]:
        """Room for what is left of the values, and of the transpose's."""
        return np.empty_like(self.values), np.empty_like(self.values)

    @cached_property
    def _transpose(self) -> _Transpose:
        pattern, order = self.matrix._transposed()
        offsets = pattern.row_offsets
        bounds = _block_bounds(offsets.numpy(), max(1, _WEIGHTS_PER_BLOCK // self.width)).tolist()
        blocks = [
            _Block(
                first,
                last,
                slice(int(offsets[first]), int(offsets[last])),
                offsets[first : last + 1] - offsets[first],
            )
            for first, last in pairwise(bounds)
        ]
        values = self.matrix.values[order]
        return _Transpose(pattern.columns, values, order.numpy().astype(np.uint32), blocks)


@dataclass(frozen=True)
class _Block:
    """Columns ``first`` to ``last``, with their entries and where each one's begin in them."""

    first: int
    last: int
    entries: slice
    offsets: Tensor


@dataclass(frozen=True)
class _Transpose:
    rows: Tensor
    values: Tensor
    order: Array
    blocks: list[_Block]


def _fate(p: float) -> tuple[np.uint32, np.float32]:
    """The random number from which an entry is kept, and what it is then multiplied by."""
    return np.uint32(threshold(p)), np.float32(1.0 / (1.0 - p))


def _block_bounds(offsets: Array, most_columns: int) -> Array:
    """Where blocks of at most so many columns, and of about so many entries, begin."""
    columns = offsets.size - 1
    by_entries = np.searchsorted(offsets, np.arange(0, int(offsets[-1]), _ENTRIES_PER_BLOCK))
    return np.unique(np.concatenate([np.arange(0, columns, most_columns), by_entries, [columns]]))
