"""Files of edges, read a piece at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.columns import shorten
from crossgcn.data.tables.table import DELIMITED, PARQUET
from crossgcn.errors import BadInput

__all__ = ["CellKind", "EdgeFile", "EdgePiece", "need_pyarrow", "open_edge_file"]

CellKind = Literal["integer", "text", "number"]
"""How a column is read: whole numbers, text to the last character, or any numbers."""

SAMPLE_ROWS = 10_000
"""So many rows are looked at to find out which columns hold the ends."""

PIECE_ROWS = 1 << 18


@dataclass(frozen=True)
class EdgePiece:
    """Some rows of a file, one after another.

    Attributes:
        columns: Arrow arrays by header.
        first_row: The number of the first of the rows, as a spreadsheet counts them.
        name: The file's.
    """

    columns: Mapping[str, Any]
    first_row: int
    name: str

    def refuse(self, header: str, position: int, what: str, remedy: str) -> BadInput:
        """An error that names file, row, column and value."""
        value = self.columns[header][position].as_py()
        shown = "an empty cell" if value is None else shorten(str(value))
        return BadInput(
            f"{self.name}, row {self.first_row + position}, column {header}: {shown} {what}; "
            f"{remedy}"
        )

    def integers(self, header: str) -> NDArray[np.int64]:
        """A column of whole numbers.

        Raises:
            BadInput: A cell is empty.
        """
        column = self.columns[header]
        if column.null_count:
            at = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise self.refuse(header, at, "is no node", "write the number of a node")
        numbers: NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers

    def weights(self, header: str) -> NDArray[np.float32]:
        """A column of weights.

        Raises:
            BadInput: A cell holds no number, or one below 0 or beyond 32 bits.
        """
        numbers: NDArray[np.float64] = (
            self.columns[header].to_numpy(zero_copy_only=False).astype(np.float64)
        )
        wrong = np.flatnonzero(~((numbers >= 0) & (numbers <= np.finfo(np.float32).max)))
        if len(wrong):
            raise self.refuse(
                header, int(wrong[0]), "is no weight", "write a number that is not negative"
            )
        return numbers.astype(np.float32)


class EdgeFile(Protocol):
    """A file of edges.

    Attributes:
        name: As it was given.
        columns: Its headers.
        num_rows: How many edges, about; none where only reading it would tell.
        warning: What may be wrong with it, if anything.
    """

    name: str
    columns: tuple[str, ...]
    num_rows: int | None
    warning: str | None

    def sample(self) -> pd.DataFrame:
        """The first rows."""

    def whole_numbers(self, header: str) -> bool:
        """Whether a column may be read as whole numbers."""

    def pieces(self, kinds: Mapping[str, CellKind], rows: int) -> Iterator[EdgePiece]:
        """The chosen columns, at most about so many rows at once."""


def open_edge_file(source: Path | str) -> EdgeFile:
    """Look at a file of edges; its ending says what it is.

    Args:
        source: CSV, TSV (each also with ``.gz``) or Parquet.

    Raises:
        BadInput: It is not there, of no known kind, or broken; or pyarrow is not installed.
    """
    path, name = Path(source), str(source)
    ending = path.name.lower()
    if not ending.endswith(DELIMITED + PARQUET):
        raise BadInput(
            f"{name}: the ending {path.suffix!r} is none of {', '.join(DELIMITED + PARQUET)}; "
            "save the edges as CSV, TSV or Parquet"
        )
    if path.is_dir():
        raise BadInput(f"{name} is a folder; give the files of edges in it")
    if not path.exists():
        raise BadInput(f"{name} does not exist; give the table of edges")
    if not os.access(path, os.R_OK):
        raise BadInput(f"{name} cannot be read; give a file you may read")
    need_pyarrow(name)
    if ending.endswith(PARQUET):
        from crossgcn.data.stored.parquet_edges import ParquetEdges

        return ParquetEdges(path, name)
    from crossgcn.data.stored.delimited_edges import DelimitedEdges

    return DelimitedEdges(path, name)


def need_pyarrow(name: str) -> ModuleType:
    """The package that reads files in pieces.

    Args:
        name: Of the file to be read.
    """
    try:
        import pyarrow
    except ImportError:
        raise BadInput(
            f"{name}: reading edges in pieces needs pyarrow; pip install 'crossgcn[parquet]'"
        ) from None
    module: ModuleType = pyarrow
    return module


def require_columns(wanted: Sequence[str], columns: Sequence[str], name: str) -> None:
    """Refuse a file that lacks a column the first file has."""
    for header in wanted:
        if header not in columns:
            raise BadInput(
                f"{name}: there is no column {header!r}; its columns are {', '.join(columns)}: "
                "give files with the same headers"
            )
