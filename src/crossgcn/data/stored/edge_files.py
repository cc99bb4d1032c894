"""Files of edges: a sample of their rows, about how many there are, and what looks wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from crossgcn.data.tables.frames import reporting_damage
from crossgcn.data.tables.read import PARQUET, WORKBOOKS, read_batches, read_headers, read_table
from crossgcn.data.tables.table import CellKind, Table
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
