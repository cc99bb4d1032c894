"""Sorted entries of a matrix, written as its rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.stored.array_file import ArrayFile

__all__ = ["EntryWriter"]

_HALF, _LOW = np.uint64(32), np.uint64(2**32 - 1)
BLOCK = 1 << 20
"""Rows whose ends are written at once."""


class EntryWriter:
    """Takes entries in order of row and column, and writes where every row ends.

    Args:
        num_rows: Of the matrix, empty ones included.
        offsets: Where each row starts.
        columns: Column of each entry.
        weights: Of each entry, if there are any.
    """

    def __init__(
        self, num_rows: int, offsets: ArrayFile, columns: ArrayFile, weights: ArrayFile | None
    ) -> None:
        self.num_entries = 0
        self.num_self_loops = 0
        self._num_rows = num_rows
        self._offsets = offsets
        self._columns = columns
        self._weights = weights
        self._row = 0
        offsets.append(np.zeros(1, np.int64))

    def append(self, keys: NDArray[np.uint64], weights: NDArray[np.float64] | None) -> None:
        """Add entries.

        Args:
            keys: Row in the upper half, column in the lower, above all that came before.
            weights: One per key.
        """
        rows, columns = (keys >> _HALF).view(np.int64), (keys & _LOW).view(np.int64)
        self.num_self_loops += int((rows == columns).sum())
        # The last row may go on in the next block, so its end is not known yet.
        self._end_rows(rows, int(rows[-1]))
        self._columns.append(columns)
        if self._weights is not None and weights is not None:
            self._weights.append(weights)
        self.num_entries += len(keys)

    def finish(self) -> None:
        """Say where the remaining rows end."""
        self._end_rows(np.empty(0, np.int64), self._num_rows)

    def _end_rows(self, rows: NDArray[np.int64], stop: int) -> None:
        for first in range(self._row, stop, BLOCK):
            these = np.arange(first, min(first + BLOCK, stop))
            self._offsets.append(self.num_entries + np.searchsorted(rows, these, side="right"))
        self._row = max(self._row, stop)
