"""Files that each hold the keys of one range, and how keys are divided among them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["KeyPart", "KeyRanges", "Keys"]

Keys = NDArray[np.uint64]

NUM_PARTS = 64
"""A file has at most about this share of a pile's range, and of its keys: one of so many."""

NUM_CELLS = 1 << 16
"""Into so many cells a range is cut; a file has one of them or several."""


@dataclass(frozen=True)
class KeyRanges:
    """Which file a key belongs to: its cell is found by a shift, the file of that in a table.

    Attributes:
        low: No key is below it.
        shift: Bits that do not matter.
        file_of_cell: Keys beyond the last cell belong to it.
    """

    low: int
    shift: int
    file_of_cell: NDArray[np.uint8]

    @classmethod
    def choose(cls, low: int, high: int, sample: Keys) -> KeyRanges:
        """Cut a range so that no file is too wide and, going by a sample, none too full."""
        shift = max(0, (high - low).bit_length() - NUM_CELLS.bit_length() + 1)
        num_cells = ((high - low) >> shift) + 1
        cells = np.minimum((sample - np.uint64(low)) >> np.uint64(shift), np.uint64(num_cells - 1))
        counts = np.bincount(cells.view(np.int64), minlength=num_cells)
        before = np.cumsum(counts) - counts
        by_size = NUM_PARTS * before // len(sample)
        by_range = NUM_PARTS * np.arange(num_cells) // num_cells
        return cls(low, shift, (by_size + by_range).astype(np.uint8))

    def find(self, keys: Keys) -> NDArray[np.uint8]:
        """The file of each key."""
        cells = (keys - np.uint64(self.low)) >> np.uint64(self.shift)
        np.minimum(cells, np.uint64(len(self.file_of_cell) - 1), out=cells)
        return self.file_of_cell[cells.view(np.int64)]


@dataclass
class KeyPart:
    """Keys of one range on disk, in the order they came, and their weights beside them.

    Attributes:
        stem: The files' name, without ending.
        length: How many keys there are.
        low: The lowest of them.
        high: The highest.
    """

    stem: Path
    length: int = 0
    low: int = 2**64
    high: int = -1

    def append(self, keys: Keys, weights: NDArray[np.float32] | None) -> None:
        """Add keys at the end."""
        with self.stem.with_suffix(".keys").open("ab") as file:
            file.write(np.ascontiguousarray(keys).data)
        if weights is not None:
            with self.stem.with_suffix(".weights").open("ab") as file:
                file.write(np.ascontiguousarray(weights).data)
        self.length += len(keys)
        self.low = min(self.low, int(keys.min()))
        self.high = max(self.high, int(keys.max()))

    def read(
        self, start: int, length: int, weighted: bool
    ) -> tuple[Keys, NDArray[np.float32] | None]:
        """Some of the keys, and their weights where there are any."""
        keys = np.fromfile(self.stem.with_suffix(".keys"), np.uint64, length, offset=8 * start)
        if not weighted:
            return keys, None
        path = self.stem.with_suffix(".weights")
        return keys, np.fromfile(path, np.float32, length, offset=4 * start)

    def remove(self) -> None:
        """Give the disk back."""
        for suffix in (".keys", ".weights"):
            self.stem.with_suffix(suffix).unlink(missing_ok=True)
