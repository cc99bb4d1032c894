"""Entries of a matrix, sorted and joined in bounded memory with the help of the disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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


Weights = NDArray[np.float64]

ENTRY_BYTES = {False: 32, True: 72}
"""Memory that sorting takes for each entry, without weights and with them."""

PIECE = 1 << 18
"""Entries that are divided or read back at once."""

_NO_KEYS: Keys = np.empty(0, np.uint64)


class KeyPile:
    """Gathers keys in any order, gives them back in rising order, each once.

    What fits is sorted in memory. What does not is divided among files, each for a range of
    keys, chosen so that none is too wide and, going by the keys seen so far, none too full;
    a file that still does not fit is a pile of its own. Weights of one key are added up in
    the order they came, so the result depends neither on the size of the pieces nor on the
    memory allowed.

    Args:
        folder: For files that do not outlive the pile.
        most_entries: So many are kept in memory.
        weighted: Whether keys bring weights.
        limits: Lowest and highest key to be expected, where that is known.
        numbers: Names for the files, each different.
    """

    def __init__(
        self,
        folder: Path,
        most_entries: int,
        *,
        weighted: bool,
        limits: tuple[int, int] | None = None,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self._folder = folder
        self._most = max(most_entries, 1)
        self._weighted = weighted
        self._limits = limits
        self._numbers = count() if numbers is None else numbers
        self._keys: list[Keys] = []
        self._weights: list[NDArray[np.float32]] = []
        self._held = 0
        self._ranges: KeyRanges | None = None
        self._parts: dict[int, KeyPart] = {}

    def add(self, keys: Keys, weights: NDArray[np.float32] | None = None) -> None:
        """Add entries; they are kept, not copied."""
        for start in range(0, len(keys), PIECE):
            self._keys.append(keys[start : start + PIECE])
            if weights is not None:
                self._weights.append(weights[start : start + PIECE])
            self._held += len(self._keys[-1])
            if self._held > self._most:
                self._spill()

    def drain(self) -> Iterator[tuple[Keys, Weights | None]]:
        """All keys in rising order, in blocks, with the mean weight of each."""
        if self._ranges is None:
            keys, weights = self._take()
            if len(keys):
                yield join_repeats(keys, weights)
            return
        self._spill()
        for number in sorted(self._parts):
            yield from self._drain_part(self._parts.pop(number))

    def _take(self) -> tuple[Keys, NDArray[np.float32] | None]:
        """Everything held, which is held no longer."""
        pieces, self._keys, self._held = self._keys, [], 0
        keys = np.concatenate(pieces) if pieces else _NO_KEYS
        pieces.clear()
        if not self._weighted:
            return keys, None
        weights = np.concatenate(self._weights) if self._weights else np.empty(0, np.float32)
        self._weights = []
        return keys, weights

    def _spill(self) -> None:
        """Divide what is held among the parts on disk."""
        if not self._keys:
            return
        if self._ranges is None:
            self._ranges = self._choose_ranges()
        pieces, self._keys, self._held = self._keys, [], 0
        of_pieces, self._weights = self._weights, []
        for at, keys in enumerate(pieces):
            part_of = self._ranges.find(keys)
            order = np.argsort(part_of, kind="stable")  # Eight bits are sorted by counting.
            stops = np.cumsum(np.bincount(part_of))
            keys = keys[order]
            weights = of_pieces[at][order] if self._weighted else None
            start = 0
            for number, stop in enumerate(stops.tolist()):
                if stop > start:
                    chosen = None if weights is None else weights[start:stop]
                    self._part(number).append(keys[start:stop], chosen)
                start = stop
            pieces[at] = _NO_KEYS  # Given back before the next is divided.

    def _choose_ranges(self) -> KeyRanges:
        # A sample is enough: it steers the sizes of the files, not the result.
        sample = np.concatenate([piece[:: 1 + len(piece) // 4096] for piece in self._keys])
        low, high = (0, int(sample.max())) if self._limits is None else self._limits
        return KeyRanges.choose(low, high, sample)

    def _part(self, number: int) -> KeyPart:
        if number not in self._parts:
            self._parts[number] = KeyPart(self._folder / f"{next(self._numbers)}")
        return self._parts[number]

    def _drain_part(self, part: KeyPart) -> Iterator[tuple[Keys, Weights | None]]:
        if part.length <= self._most:
            keys, weights = part.read(0, part.length, self._weighted)
            part.remove()
            yield join_repeats(keys, weights)
            return
        if part.low == part.high:
            yield self._join_single(part)
            return
        pile = KeyPile(
            self._folder,
            self._most,
            weighted=self._weighted,
            limits=(part.low, part.high),
            numbers=self._numbers,
        )
        for start in range(0, part.length, PIECE):
            keys, weights = part.read(start, PIECE, self._weighted)
            pile.add(keys, weights)
        part.remove()
        yield from pile.drain()

    def _join_single(self, part: KeyPart) -> tuple[Keys, Weights | None]:
        key = np.array([part.low], np.uint64)
        total = 0.0
        if self._weighted:
            for start in range(0, part.length, PIECE):
                _, weights = part.read(start, PIECE, True)
                assert weights is not None
                total = _sum_in_order(total, weights)
        part.remove()
        return key, np.array([total / part.length]) if self._weighted else None


def join_repeats(keys: Keys, weights: NDArray[np.float32] | None) -> tuple[Keys, Weights | None]:
    """Sort keys, keep each once, and take the mean of its weights.

    Args:
        keys: At least one; sorted in place where there are no weights.
        weights: One per key.
    """
    order = None
    if weights is None:
        keys.sort()
    else:
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
    is_first = np.empty(len(keys), bool)
    is_first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    if weights is None:
        return keys[is_first], None
    group = np.cumsum(is_first) - 1
    # bincount adds one after another, so both directions of an edge get the same sum.
    sums = np.bincount(group, weights=weights[order])
    return keys[is_first], sums / np.bincount(group)


def _sum_in_order(total: float, weights: NDArray[np.float32]) -> float:
    values = np.concatenate([[total], weights])
    return float(np.bincount(np.zeros(len(values), np.int64), weights=values)[0])
