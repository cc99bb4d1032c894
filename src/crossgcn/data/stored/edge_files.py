"""Files of edges: a sample of their rows, and the nodes that the ends of edges name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.frames import reporting_damage
from crossgcn.data.tables.read import PARQUET, WORKBOOKS, read_batches, read_headers, read_table
from crossgcn.data.tables.table import Batch, CellKind, Table
from crossgcn.errors import BadInput

SAMPLE_ROWS = 10_000
"""Rows that are read to find the columns of both ends."""

HEAD_BYTES = 1 << 18


@dataclass(frozen=True)
class EdgeFile:
    """A CSV, TSV, Parquet or XLSX file of edges, of which nothing but the headers was read.

    Attributes:
        num_rows: Estimated in text files; ``None`` where only reading the whole file would tell.
        warning: A problem that does not stop the import.
        number_columns: Columns that hold numbers by their type; text files have none.
    """

    path: Path
    headers: tuple[str, ...]
    num_rows: int | None
    warning: str | None = None
    number_columns: frozenset[str] = frozenset()

    @classmethod
    def open(cls, path: Path | str) -> EdgeFile:
        """Read the headers of a file, and the number of rows where the file states it."""
        path, headers = Path(path), read_headers(path)
        if not _is_parquet(path):
            return cls(path, headers, *_inspect_text(path))
        import pyarrow as pa
        import pyarrow.parquet as pq

        with path.open("rb") as file:
            parquet = pq.ParquetFile(file)
            numbers = (
                field.name
                for field in parquet.schema_arrow
                if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
            )
            return cls(path, headers, parquet.metadata.num_rows, None, frozenset(numbers))

    def sample(self) -> Table:
        """Return the first rows as a table; refuse a file without rows."""
        frame = self._sample_parquet() if _is_parquet(self.path) else self._sample_text()
        if frame.empty:
            raise no_edges(self.path)
        return replace(read_table(frame, "edges"), name=str(self.path))

    def kind_of_ids(self, header: str) -> CellKind:
        """Return how to read a column of ids: text as it is written, or numbers if typed so."""
        return "integer" if header in self.number_columns else "text"

    def _sample_text(self) -> pd.DataFrame:
        kinds: dict[str, CellKind] = dict.fromkeys(self.headers, "text")
        for batch in read_batches(self.path, kinds, SAMPLE_ROWS):
            columns = {header: cells.to_pylist() for header, cells in batch.columns.items()}
            return pd.DataFrame(columns, dtype="str").head(SAMPLE_ROWS)
        return pd.DataFrame()

    def _sample_parquet(self) -> pd.DataFrame:
        with reporting_damage(str(self.path)), self.path.open("rb") as file:
            import pyarrow.parquet as pq

            batch = next(pq.ParquetFile(file).iter_batches(SAMPLE_ROWS), None)
            return pd.DataFrame() if batch is None else batch.to_pandas(types_mapper=pd.ArrowDtype)


def no_edges(path: Path) -> BadInput:
    """Return the error for a file without rows."""
    return BadInput(f"{path}: there are no rows of edges; add at least one row")


def _is_parquet(path: Path) -> bool:
    return path.name.lower().endswith(PARQUET)


def _inspect_text(path: Path) -> tuple[int | None, str | None]:
    """Estimate the number of rows, and warn if the last line has no end.

    Of a packed file the rows cannot be estimated, and one that was cut cannot be read at all.
    """
    if path.name.lower().endswith((".gz", *WORKBOOKS)):
        return None, None
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        file.seek(max(0, path.stat().st_size - 2))
        is_whole = file.read().rstrip(b"\0").endswith((b"\n", b"\r"))  # UTF-16 has a zero there
    num_lines = head.count(b"\n")
    num_rows = None if num_lines < 2 else int(path.stat().st_size / len(head) * num_lines)
    warning = (
        f"{path}: the last line does not end in a newline, so the file may have been cut short; "
        "compare it with its source, or add the newline if the file is complete"
    )
    return num_rows, None if is_whole else warning


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
