"""Which node an end of an edge names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.stored.edge_files import PIECE_ROWS, CellKind, EdgePiece

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
SPARSE = 8
"""Ids up to so many times as high as there are nodes are looked up in a table."""


class NodeFinder(Protocol):
    """Finds nodes by what a file of edges says.

    Attributes:
        kind: How to read the columns of both ends.
        piece_rows: How many rows to look up at once.
    """

    kind: CellKind
    piece_rows: int

    def find(self, piece: EdgePiece, header: str) -> NDArray[np.int64]:
        """The node that each cell names."""


def find_nodes(ids: Sequence[str], whole_numbers: bool, remedy: str) -> NodeFinder:
    """A finder for nodes that have ids.

    Args:
        ids: Of the nodes, all different.
        whole_numbers: Whether both columns of ends can be read as such.
        remedy: What to do about an end that is no node.
    """
    if whole_numbers and all(map(_WHOLE.fullmatch, ids)):
        return NumberedIds(np.array(ids, np.int64), remedy)
    return NamedNodes(ids, remedy)


class NumberedNodes:
    """Ends are the nodes' own numbers.

    Args:
        num_nodes: How many there are; any number will do where that is not known.
    """

    kind: CellKind = "integer"
    piece_rows = PIECE_ROWS

    def __init__(self, num_nodes: int | None) -> None:
        self._most = 2**32 if num_nodes is None else num_nodes

    def find(self, piece: EdgePiece, header: str) -> NDArray[np.int64]:
        """The numbers as they are, if there are such nodes."""
        numbers = piece.integers(header)
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= self._most):
            at = int(np.flatnonzero((numbers < 0) | (numbers >= self._most))[0])
            raise piece.refuse(
                header,
                at,
                "is no node",
                f"number the nodes from 0 to {self._most - 1:,}, or give a table of them",
            )
        return numbers


class NumberedIds:
    """Nodes have numbers for ids, with gaps or out of order.

    Args:
        ids: Of each node.
        remedy: What to do about an end that is no node.
    """

    kind: CellKind = "integer"
    piece_rows = PIECE_ROWS

    def __init__(self, ids: NDArray[np.int64], remedy: str) -> None:
        self._remedy = remedy
        self._order = np.argsort(ids)
        self._ids = ids[self._order]
        self._low = int(self._ids[0])
        width = int(self._ids[-1]) - self._low + 1
        self._table: NDArray[np.int64] | None = None
        if width <= SPARSE * len(ids):
            self._table = np.full(width, -1, np.int64)
            self._table[self._ids - self._low] = self._order

    def find(self, piece: EdgePiece, header: str) -> NDArray[np.int64]:
        """The node of each id."""
        numbers = piece.integers(header)
        if self._table is not None:
            at = np.clip(numbers, self._low, self._low + len(self._table) - 1)
            found = np.where(at == numbers, self._table[at - self._low], -1)
        else:
            at = np.minimum(np.searchsorted(self._ids, numbers), len(self._ids) - 1)
            found = np.where(self._ids[at] == numbers, self._order[at], -1)
        return _refuse_unknown(found, piece, header, self._remedy)


class NamedNodes:
    """Nodes have text for ids, compared to the last character.

    Args:
        ids: Of each node.
        remedy: What to do about an end that is no node.
    """

    kind: CellKind = "text"

    def __init__(self, ids: Sequence[str], remedy: str) -> None:
        import pyarrow as pa

        self._remedy = remedy
        self._ids = pa.array(ids, pa.string())
        # Arrow hashes all ids anew for every piece, so pieces are as large as that.
        self.piece_rows = max(PIECE_ROWS, len(ids) // 2)

    def find(self, piece: EdgePiece, header: str) -> NDArray[np.int64]:
        """The node of each id."""
        import pyarrow.compute as pc

        at = pc.index_in(piece.columns[header], value_set=self._ids)
        found = pc.fill_null(at, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return _refuse_unknown(found, piece, header, self._remedy)


def _refuse_unknown(
    found: NDArray[np.int64], piece: EdgePiece, header: str, remedy: str
) -> NDArray[np.int64]:
    unknown = np.flatnonzero(found < 0)
    if len(unknown):
        raise piece.refuse(header, int(unknown[0]), "is the id of no node", remedy)
    return found
