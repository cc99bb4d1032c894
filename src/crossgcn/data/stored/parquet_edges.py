"""Parquet files of edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from crossgcn.data.stored.edge_files import SAMPLE_ROWS, CellKind, EdgePiece, require_columns
from crossgcn.errors import BadInput

__all__ = ["ParquetEdges"]

_TYPES = {"integer": pa.int64(), "text": pa.string(), "number": pa.float64()}
_BROKEN = (OSError, pa.ArrowException, ValueError)


class ParquetEdges:
    """A Parquet file of edges, of which a row group at a time is in memory.

    Args:
        path: The file.
        name: What to call it in messages.

    Raises:
        BadInput: It is no Parquet file, or cut short.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self.warning: str | None = None
        self._path = path
        try:
            with path.open("rb") as file:
                footer = pq.ParquetFile(file)
                self._schema = footer.schema_arrow
                self.num_rows: int | None = footer.metadata.num_rows
        except _BROKEN as error:
            raise self._broken(error, 0) from None
        self.columns = tuple(self._schema.names)

    def sample(self) -> pd.DataFrame:
        """The first rows."""
        try:
            with self._path.open("rb") as file:
                batches = pq.ParquetFile(file).iter_batches(batch_size=SAMPLE_ROWS)
                first = next(batches, None)
        except _BROKEN as error:
            raise self._broken(error, 0) from None
        return pd.DataFrame() if first is None else first.to_pandas(types_mapper=pd.ArrowDtype)

    def whole_numbers(self, header: str) -> bool:
        """Whether a column has integers, or numbers that may all be whole."""
        kind = self._schema.field(header).type
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))

    def pieces(self, kinds: Mapping[str, CellKind], rows: int) -> Iterator[EdgePiece]:
        """The chosen columns, so many rows at once."""
        require_columns(list(kinds), self.columns, self.name)
        done = 0
        try:
            with self._path.open("rb") as file:
                # Opened here: given a path, pyarrow makes columns of folders called a=b.
                parquet = pq.ParquetFile(file)
                for batch in parquet.iter_batches(batch_size=rows, columns=list(kinds)):
                    columns = {
                        header: self._cast(batch.column(header), header, kind, done + 1)
                        for header, kind in kinds.items()
                    }
                    yield EdgePiece(columns, done + 1, self.name)
                    done += len(batch)
        except _BROKEN as error:
            if isinstance(error, BadInput):
                raise
            raise self._broken(error, done) from None

    def _cast(self, column: pa.Array, header: str, kind: CellKind, first_row: int) -> pa.Array:
        try:
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            if kind == "text" and pa.types.is_floating(column.type):
                column = column.cast(pa.int64())  # Whole numbers have no point as text.
            return column.cast(_TYPES[kind])
        except pa.ArrowException as error:
            reason = str(error).splitlines()[0]
            raise BadInput(
                f"{self.name}, from row {first_row} on, column {header}: cannot be read as "
                f"{kind} ({reason}); mend the column"
            ) from None

    def _broken(self, error: Exception, done: int) -> BadInput:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        where = f" after row {done:,}" if done else ""
        return BadInput(
            f"{self.name} cannot be read as Parquet{where} ({reason}); it is cut short or damaged: "
            "write or fetch it again"
        )
