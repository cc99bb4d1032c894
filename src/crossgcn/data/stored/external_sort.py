"""External sort: 64-bit keys with optional weights, sorted in bounded memory on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.uint64]
Weights = NDArray[np.float64]
Entries = NDArray[Any]
"""Keys alone, or records of :data:`WEIGHTED`."""

WEIGHTED = np.dtype([("key", np.uint64), ("weight", np.float32)])

ENTRY_BYTES = {False: 32, True: 72}
"""Memory that sorting takes per entry, without weights and with them."""


class ExternalSort:
    """Take keys in any order and return them in ascending order, each once.

    Up to ``most_entries`` are sorted in memory. More are written to ``folder`` as sorted runs,
    which are merged at the end and removed as they are read. The weights of one key are added
    in the order they came, so the result depends neither on the size of the batches nor on the
    memory limit.
    """

    def __init__(self, folder: Path, most_entries: int, *, weighted: bool) -> None:
        self._folder = folder
        self._most = max(most_entries, 1)
        self._weighted = weighted
        self._held: list[Entries] = []
        self._num_held = 0
        self._runs: list[_Run] = []

    def add(self, keys: Keys, weights: NDArray[np.float32] | None = None) -> None:
        """Add entries; keys without weights are kept, not copied."""
        entries = keys if weights is None else _join(keys, weights)
        while len(entries):
            room = self._most - self._num_held
            self._held.append(entries[:room])
            self._num_held += len(self._held[-1])
            entries = entries[room:]
            if len(entries):
                self._spill()

    def sorted_blocks(self) -> Iterator[tuple[Keys, Weights | None]]:
        """Yield all keys in ascending order with the mean weight of each, in blocks."""
        if not self._runs:
            if self._held:
                yield _merge_repeats(self._take_sorted())
            return
        self._spill()
        block = max(1, self._most // (2 * len(self._runs)))
        while runs := [run for run in self._runs if run.fill(block)]:
            # Lower keys than this are all in memory.
            bound = min((_keys(run.head)[-1] for run in runs if run.num_left), default=None)
            parts = [run.take_below(bound) for run in runs]
            if any(map(len, parts)):
                yield _merge_repeats(_sort(np.concatenate(parts)))
            else:
                yield self._merge_long(runs, bound, block)

    def _take_sorted(self) -> Entries:
        entries = np.concatenate(self._held)
        self._held, self._num_held = [], 0
        return _sort(entries)

    def _spill(self) -> None:
        """Write the entries in memory to a sorted run."""
        if self._held:
            entries = self._take_sorted()
            if not self._weighted:
                entries = entries[_is_first(entries)]
            self._runs.append(_Run(self._folder / str(len(self._runs)), entries))

    def _merge_long(self, runs: list[_Run], key: Any, block: int) -> tuple[Keys, Weights | None]:
        """Merge all entries of the lowest key, which may be more than fit into memory."""
        total, count = 0.0, 0
        for run in runs:
            while run.fill(block) and len(same := run.take_below(key, "right")):
                count += len(same)
                if self._weighted:
                    total = _sum_in_order(np.concatenate([[total], same["weight"]]))
        return np.array([key], np.uint64), np.array([total / count]) if self._weighted else None


class _Run:
    """Sorted entries in a file, of which the lowest are in memory as ``head``."""

    def __init__(self, path: Path, entries: Entries) -> None:
        path.write_bytes(entries.data)
        self._path = path
        self._start = 0
        self.num_left = len(entries)
        self.head = np.empty(0, entries.dtype)

    def fill(self, block: int) -> bool:
        """Read on if less than half a block is in memory; return whether anything is left."""
        if self.num_left and len(self.head) <= block // 2:
            more = np.fromfile(
                self._path, self.head.dtype, block - len(self.head), offset=self._start
            )
            self.head = np.concatenate([self.head, more])
            self._start += more.nbytes
            self.num_left -= len(more)
            if self.num_left == 0:
                self._path.unlink()
        return len(self.head) > 0

    def take_below(self, key: Any, side: Literal["left", "right"] = "left") -> Entries:
        """Remove the entries below a key from ``head``, or all if it is ``None``.

        Args:
            side: ``"right"`` to remove those of the key as well.
        """
        stop = len(self.head) if key is None else np.searchsorted(_keys(self.head), key, side)
        taken, self.head = self.head[:stop], self.head[stop:]
        return taken


def _sort(entries: Entries) -> Entries:
    """Sort by key; keys without weights are sorted in place."""
    if entries.dtype == WEIGHTED:
        keys = np.ascontiguousarray(entries["key"])
        order = np.argsort(keys, kind="stable")
        return _join(keys[order], entries["weight"][order])
    entries.sort()
    return entries


def _merge_repeats(entries: Entries) -> tuple[Keys, Weights | None]:
    """Keep each key of sorted entries once, and average its weights."""
    keys = np.ascontiguousarray(_keys(entries))
    is_first = _is_first(keys)
    if entries.dtype != WEIGHTED:
        return keys[is_first], None
    group = np.cumsum(is_first) - 1
    # bincount adds in order, so both directions of an edge get the same sum.
    return keys[is_first], np.bincount(group, weights=entries["weight"]) / np.bincount(group)


def _is_first(keys: Keys) -> NDArray[np.bool_]:
    is_first = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    return is_first


def _sum_in_order(values: Weights) -> float:
    return float(np.bincount(np.zeros(len(values), np.int64), weights=values)[0])


def _join(keys: Keys, weights: NDArray[np.float32]) -> Entries:
    entries = np.empty(len(keys), WEIGHTED)
    entries["key"], entries["weight"] = keys, weights
    return entries


def _keys(entries: Entries) -> Keys:
    return entries["key"] if entries.dtype == WEIGHTED else entries
