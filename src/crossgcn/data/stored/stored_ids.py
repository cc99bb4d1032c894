"""The nodes' own names on disk: one text without gaps, and where each name starts in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["StoredIds", "encode_ids"]

PIECE = 1 << 16
"""Names read or written at once."""

# A name from a DataFrame may hold half a character, which is kept as it is.
_CODING = ("utf-8", "surrogatepass")


def encode_ids(ids: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
    """Names as they are stored, a piece at a time.

    Args:
        ids: Of all nodes, in their order.

    Yields:
        Where each name of the piece ends in the text as a whole, and the piece of the text.
    """
    start, left = 0, iter(ids)
    while piece := [name.encode(*_CODING) for name in islice(left, PIECE)]:
        ends = start + np.cumsum([len(name) for name in piece], dtype=np.int64)
        yield ends, np.frombuffer(b"".join(piece), np.uint8)
        start = int(ends[-1])


class StoredIds(Sequence[str]):
    """Names that are read from the disk when they are asked for.

    Args:
        offsets: Where each name starts, and the end of the last, int64 [N + 1].
        text: All names in UTF-8, uint8.
    """

    def __init__(self, offsets: NDArray[Any], text: NDArray[Any]) -> None:
        self._offsets = offsets
        self._text = text

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        if isinstance(at, slice):
            return tuple(self[node] for node in range(len(self))[at])
        node = range(len(self))[at]
        start, end = self._offsets[node : node + 2]
        return self._text[start:end].tobytes().decode(*_CODING)

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), PIECE):
            bounds = self._offsets[first : first + PIECE + 1].tolist()
            text = self._text[bounds[0] : bounds[-1]].tobytes()
            for start, end in pairwise(bounds):
                yield text[start - bounds[0] : end - bounds[0]].decode(*_CODING)

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """The node of that name.

        Raises:
            ValueError: There is none.
        """
        for node, name in islice(enumerate(self), start, stop):
            if name == value:
                return node
        raise ValueError(f"{value!r} is the name of no node")
