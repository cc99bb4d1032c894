"""Find the node that each end of an edge names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.table import Batch

BATCH_ROWS = 1 << 18
"""Rows of edges that are read and looked up at once."""

_WHOLE = r"(0|-?[1-9][0-9]{0,17})"
"""A whole number as it is written without leading zeros; longer ones are compared as text."""


class NumberLookup:
    """Ends that are numbers of nodes; any number is a node if ``num_nodes`` is not known."""

    batch_rows = BATCH_ROWS

    def __init__(self, num_nodes: int | None) -> None:
        self._num_nodes = 2**32 if num_nodes is None else num_nodes

    def find(self, batch: Batch, header: str) -> NDArray[np.int64]:
        """Return the numbers of a column; refuse one that is no node."""
        numbers = _integers(batch, header, batch.columns[header])
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= self._num_nodes):
            at = int(np.flatnonzero((numbers < 0) | (numbers >= self._num_nodes))[0])
            last = f"{self._num_nodes - 1:,}"
            remedy = f"number the nodes from 0 to {last}, or give a table of them"
            raise batch.error(header, at, "is no node", remedy)
        return numbers


class IdLookup:
    """Ends that are ids from a table of nodes, compared as text to the last character.

    Ids that are all whole numbers are compared as numbers, which is several times as fast,
    after a check that each cell is written as the id is: ``007`` is not the node ``7``.
    """

    def __init__(self, ids: Sequence[str], remedy: str) -> None:
        import pyarrow as pa

        self._remedy = remedy
        self._numbers: pd.Index[Any] | None = None
        self._texts: Any = None
        self.batch_rows = BATCH_ROWS
        if all(map(re.compile(_WHOLE).fullmatch, ids)):
            self._numbers = pd.Index(np.array(ids, np.int64))
        else:
            self._texts = pa.array(ids, pa.string())
            # Arrow hashes all ids anew for each batch, so batches grow with the ids.
            self.batch_rows = max(BATCH_ROWS, len(ids) // 2)

    def find(self, batch: Batch, header: str) -> NDArray[np.int64]:
        """Return the node of each cell of a column; refuse a cell that is the id of no node."""
        import pyarrow as pa
        import pyarrow.compute as pc

        cells = batch.columns[header]
        if self._numbers is not None:
            found = self._numbers.get_indexer(pd.Index(self._as_numbers(batch, header)))
        else:
            at = pc.index_in(cells.cast(pa.string()), value_set=self._texts)
            found = pc.fill_null(at, -1).to_numpy(zero_copy_only=False)
        if len(found) and found.min() < 0:
            raise self._unknown(batch, header, int(np.flatnonzero(found < 0)[0]))
        return np.asarray(found, np.int64)

    def _as_numbers(self, batch: Batch, header: str) -> NDArray[np.int64]:
        """Return the numbers of a column that are written as :data:`_WHOLE` demands."""
        import pyarrow as pa
        import pyarrow.compute as pc

        cells = batch.columns[header]
        if pa.types.is_integer(cells.type):
            return _integers(batch, header, cells)
        try:
            numbers = cells.cast(pa.int64())
        except pa.ArrowInvalid:
            numbers = None
        if numbers is None or not numbers.cast(pa.string()).equals(cells):
            whole = pc.fill_null(pc.match_substring_regex(cells, f"^{_WHOLE}$"), False)
            wrong = np.flatnonzero(~whole.to_numpy(zero_copy_only=False))
            raise self._unknown(batch, header, int(wrong[0]))
        return _integers(batch, header, numbers)

    def _unknown(self, batch: Batch, header: str, position: int) -> Exception:
        return batch.error(header, position, "is the id of no node", self._remedy)


def _integers(batch: Batch, header: str, cells: Any) -> NDArray[np.int64]:
    if cells.null_count:
        at = int(np.flatnonzero(cells.is_null().to_numpy(zero_copy_only=False))[0])
        raise batch.error(header, at, "is no node", "write the number of a node")
    numbers: NDArray[np.int64] = cells.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
