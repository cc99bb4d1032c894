"""External sort: 64-bit keys with optional weights, sorted in bounded memory on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Weights = NDArray[np.float64]
Entries = NDArray[Any]
"""Keys alone, or records of :data:`WEIGHTED`."""

WEIGHTED = np.dtype([("key", np.uint64), ("weight", np.float32)])

ENTRY_BYTES = {False: 32, True: 72}
"""Memory that sorting takes per entry, without weights and with them."""

PIECE = 1 << 18
"""Entries that are divided among files, or read back, at once."""

NUM_PARTS = 64
"""A file gets at most about this share of the range of keys, and of the keys seen so far."""

NUM_CELLS = 1 << 16
"""The range of keys is cut into this many cells, of which a file gets one or more."""


@dataclass(frozen=True)
class _Ranges:
    """Which file a key belongs to; a shift and a table are faster than a binary search."""

    low: int
    shift: int
    file_of_cell: NDArray[np.uint8]

    @classmethod
    def choose(cls, low: int, high: int, sample: Keys) -> _Ranges:
        """Cut a range so that no file is too wide and, going by a sample, none too full."""
        shift = max(0, (high - low).bit_length() - NUM_CELLS.bit_length() + 1)
        num_cells = ((high - low) >> shift) + 1
        cells = np.minimum((sample - np.uint64(low)) >> np.uint64(shift), np.uint64(num_cells - 1))
        counts = np.bincount(cells.view(np.int64), minlength=num_cells)
        by_size = NUM_PARTS * (np.cumsum(counts) - counts) // len(sample)
        by_range = NUM_PARTS * np.arange(num_cells) // num_cells
        return cls(low, shift, (by_size + by_range).astype(np.uint8))

    def find(self, keys: Keys) -> NDArray[np.uint8]:
        """Return the file of each key; keys beyond the range belong to the last."""
        cells = (keys - np.uint64(self.low)) >> np.uint64(self.shift)
        np.minimum(cells, np.uint64(len(self.file_of_cell) - 1), out=cells)
        return self.file_of_cell[cells.view(np.int64)]


@dataclass
class _Part:
    """A file with the entries of one range of keys, in the order they were added."""

    path: Path
    length: int = 0
    low: int = 2**64
    high: int = -1

    def append(self, entries: Entries) -> None:
        with self.path.open("ab") as file:
            file.write(np.ascontiguousarray(entries).data)
        keys = _keys(entries)
        self.length += len(keys)
        self.low = min(self.low, int(keys.min()))
        self.high = max(self.high, int(keys.max()))

    def read(self, dtype: np.dtype[Any], start: int, length: int) -> Entries:
        return np.fromfile(self.path, dtype, length, offset=dtype.itemsize * start)


class ExternalSort:
    """Take keys in any order and return them in ascending order, each once.

    Up to ``most_entries`` are sorted in memory. More are divided among files, each for a range
    of keys; a file that is still too large is sorted in the same way. The weights of one key
    are added in the order they came, so the result depends neither on the size of the batches
    nor on the memory limit.

    Args:
        folder: For temporary files, which are removed as they are read.
        limits: Lowest and highest possible key, where they are known.
        file_names: Numbers for the names of the files, each used once.
    """

    def __init__(
        self,
        folder: Path,
        most_entries: int,
        *,
        weighted: bool,
        limits: tuple[int, int] | None = None,
        file_names: Iterator[int] | None = None,
    ) -> None:
        self._folder = folder
        self._most = max(most_entries, 1)
        self._dtype = WEIGHTED if weighted else np.dtype(np.uint64)
        self._limits = limits
        self._file_names = count() if file_names is None else file_names
        self._held: list[Entries] = []
        self._num_held = 0
        self._ranges: _Ranges | None = None
        self._parts: dict[int, _Part] = {}

    def add(self, keys: Keys, weights: NDArray[np.float32] | None = None) -> None:
        """Add entries; keys without weights are kept, not copied."""
        if weights is None:
            self._add(keys)
            return
        entries = np.empty(len(keys), WEIGHTED)
        entries["key"], entries["weight"] = keys, weights
        self._add(entries)

    def sorted_blocks(self) -> Iterator[tuple[Keys, Weights | None]]:
        """Yield all keys in ascending order with the mean weight of each, in blocks."""
        if self._ranges is None:
            if self._held:
                entries = np.concatenate(self._held)
                self._held = []
                yield merge_repeats(entries)
            return
        self._spill()
        for number in sorted(self._parts):
            yield from self._sort_part(self._parts.pop(number))

    def _add(self, entries: Entries) -> None:
        for start in range(0, len(entries), PIECE):
            self._held.append(entries[start : start + PIECE])
            self._num_held += len(self._held[-1])
            if self._num_held > self._most:
                self._spill()

    def _spill(self) -> None:
        """Move the entries in memory to the files of their ranges."""
        if not self._held:
            return
        if self._ranges is None:
            # A sample is enough: it decides the sizes of the files, not the result.
            pieces = [_keys(piece)[:: 1 + len(piece) // 4096] for piece in self._held]
            sample = np.concatenate(pieces)
            self._ranges = _Ranges.choose(*(self._limits or (0, int(sample.max()))), sample)
        self._num_held = 0
        self._held.reverse()
        while self._held:
            entries = self._held.pop()
            part_of = self._ranges.find(_keys(entries))
            order = np.argsort(part_of, kind="stable")  # NumPy sorts 8-bit integers by counting.
            entries = entries[order]
            stops = np.cumsum(np.bincount(part_of)).tolist()
            for number, (start, stop) in enumerate(zip([0, *stops], stops, strict=False)):
                if stop > start:
                    self._part(number).append(entries[start:stop])

    def _part(self, number: int) -> _Part:
        if number not in self._parts:
            self._parts[number] = _Part(self._folder / f"{next(self._file_names)}")
        return self._parts[number]

    def _sort_part(self, part: _Part) -> Iterator[tuple[Keys, Weights | None]]:
        if part.length <= self._most:
            entries = part.read(self._dtype, 0, part.length)
            part.path.unlink()
            yield merge_repeats(entries)
            return
        pieces = (part.read(self._dtype, start, PIECE) for start in range(0, part.length, PIECE))
        if part.low == part.high:
            total = 0.0
            for piece in pieces if self._dtype == WEIGHTED else ():
                total = _sum_in_order(np.concatenate([[total], piece["weight"]]))
            part.path.unlink()
            mean = np.array([total / part.length]) if self._dtype == WEIGHTED else None
            yield np.array([part.low], np.uint64), mean
            return
        smaller = ExternalSort(
            self._folder,
            self._most,
            weighted=self._dtype == WEIGHTED,
            limits=(part.low, part.high),
            file_names=self._file_names,
        )
        for piece in pieces:
            smaller._add(piece)
        part.path.unlink()
        yield from smaller.sorted_blocks()


def merge_repeats(entries: Entries) -> tuple[Keys, Weights | None]:
    """Sort at least one entry, keep each key once, and average its weights.

    Keys without weights are sorted in place.
    """
    weights = None
    if entries.dtype == WEIGHTED:
        keys = np.ascontiguousarray(entries["key"])
        order = np.argsort(keys, kind="stable")
        keys, weights = keys[order], entries["weight"][order]
    else:
        keys = entries
        keys.sort()
    is_first = np.empty(len(keys), bool)
    is_first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    if weights is None:
        return keys[is_first], None
    group = np.cumsum(is_first) - 1
    # bincount adds in order, so both directions of an edge get the same sum.
    return keys[is_first], np.bincount(group, weights=weights) / np.bincount(group)


def _sum_in_order(values: Weights) -> float:
    return float(np.bincount(np.zeros(len(values), np.int64), weights=values)[0])


def _keys(entries: Entries) -> Keys:
    return entries["key"] if entries.dtype == WEIGHTED else entries
