"""Read Parquet files: whole, or in batches of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from crossgcn.data.tables.frames import check_headers, make_table
from crossgcn.data.tables.table import Batch, CellKind, Table, arrow_type
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa


def read_all(path: Path, name: str) -> Table:
    """Read a whole file."""
    with _reporting_damage(name), path.open("rb") as file:
        # With a path instead of a file, pyarrow makes columns of folders called a=b.
        frame = pd.read_parquet(file, engine="pyarrow", dtype_backend="pyarrow")
    return make_table(frame, name)


def read_headers(path: Path, name: str) -> tuple[str, ...]:
    """Return the headers of a file."""
    with _reporting_damage(name), path.open("rb") as file:
        import pyarrow.parquet as pq

        headers = tuple(pq.ParquetFile(file).schema_arrow.names)
    check_headers(headers, name)
    return headers


def read_batches(
    path: Path, name: str, columns: Mapping[str, CellKind], batch_rows: int
) -> Iterator[Batch]:
    """Read some columns of a file, ``batch_rows`` rows at a time."""
    import pyarrow.parquet as pq

    num_read = 0
    with path.open("rb") as file:
        with _reporting_damage(name):
            batches = pq.ParquetFile(file).iter_batches(batch_rows, columns=list(columns))
        while True:
            with _reporting_damage(name, f" after row {num_read:,}" if num_read else ""):
                batch = next(batches, None)
            if batch is None:
                return
            arrays = {
                header: _cast(batch.column(header), header, kind, name, num_read + 1)
                for header, kind in columns.items()
            }
            yield Batch(name, arrays, num_read + 1)
            num_read += len(batch)


def _cast(column: pa.Array, header: str, kind: CellKind, name: str, first_row: int) -> pa.Array:
    import pyarrow as pa

    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if kind == "text" and pa.types.is_floating(column.type):
            column = column.cast(pa.int64())  # Whole numbers have no point as text.
        return column.cast(arrow_type(kind))
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise BadInput(
            f"{name}, from row {first_row} on, column {header}: cannot be read as {kind} "
            f"({reason}); correct the column"
        ) from None


@contextmanager
def _reporting_damage(name: str, after: str = "") -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise BadInput(
            f"{name}: reading Parquet needs pyarrow; pip install 'crossgcn[parquet]', "
            "or save the table as CSV"
        ) from None
    except BadInput:
        raise
    except (OSError, ValueError, TypeError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(
            f"{name} cannot be read as Parquet{after} ({reason}); it is cut short or damaged: "
            "write it again"
        ) from None
