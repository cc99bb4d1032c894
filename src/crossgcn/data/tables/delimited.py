"""Text files of rows: commas, semicolons, tabs or bars between cells."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from crossgcn.errors import BadInput

__all__ = ["read_delimited"]

DELIMITERS = (",", ";", "\t", "|")
NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


def read_delimited(path: Path, name: str) -> pd.DataFrame:
    """Read a CSV or TSV file, every cell as it is written.

    A ``.tsv`` or ``.tab`` file has tabs between its cells; in others the header shows
    whether it is commas, semicolons, tabs or bars.

    Args:
        path: The file, which exists; ``.gz`` is unpacked.
        name: What to call it in messages.

    Raises:
        BadInput: Not UTF-8, or a row that is not like the header, with its number.
    """
    content = _read_bytes(path, name)
    _check_text(content, name)
    is_tabbed = path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab"))
    delimiter = "\t" if is_tabbed else _find_delimiter(content, name)
    rows = _read_rows(content, delimiter, name)
    headers = [header.strip() for header in next(rows, [])]
    if not headers:
        raise BadInput(f"{name}, row 1 is empty; begin the file with the header row")
    cells = list(rows)
    while cells and not cells[-1]:
        cells.pop()
    if len(headers) == 1:
        cells = [row or [""] for row in cells]
    _check_widths(cells, len(headers), delimiter, name)
    columns = zip(*cells, strict=True) if cells else ([] for _ in headers)
    frame = pd.DataFrame({at: pd.Series(column, dtype="str") for at, column in enumerate(columns)})
    frame.columns = pd.Index(headers, dtype="str")
    return frame


def _read_bytes(path: Path, name: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(
            f"{name} cannot be read ({error.strerror}); give a file you may read"
        ) from None
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise BadInput(f"{name} is no whole gzip file ({error}); compress it again") from None
    if not content.strip():
        raise BadInput(f"{name} is empty; give a header row and at least one row below it")
    return content


def _check_text(content: bytes, name: str) -> None:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadInput(f"{name} is written as UTF-16; save it as 'CSV UTF-8'")
    try:
        content.decode()
    except UnicodeDecodeError as error:
        row = _line_of(content, error.start)
        raise BadInput(
            f"{name}, row {row}: byte {error.object[error.start]:#04x} is no UTF-8; save the file "
            "as 'CSV UTF-8', or convert it: iconv -f latin1 -t utf-8"
        ) from None
    if b"\0" in content:
        row = _line_of(content, content.index(0))
        raise BadInput(f"{name}, row {row}: there is a NUL byte; write the file again as text")


def _line_of(content: bytes, position: int) -> int:
    return len((content[:position] + b".").splitlines())


def _find_delimiter(content: bytes, name: str) -> str:
    """What cuts the header into the most cells; commas where it makes no difference."""

    def count_cells(delimiter: str) -> int:
        try:
            return len(next(_read_rows(content, delimiter, name), []))
        except BadInput:  # Quotes that end before another mark.
            return 0

    return max(DELIMITERS, key=count_cells)


def _read_rows(content: bytes, delimiter: str, name: str) -> Iterator[list[str]]:
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    row = 1
    try:
        for cells in reader:
            yield cells
            row += 1
    except csv.Error as error:
        what = f"quotes are wrong ({error})"
        if "unexpected end of data" in str(error):
            what = "a quote is opened and never closed"
        elif "field limit" in str(error):
            what = f"a quote is opened and not closed for {csv.field_size_limit():,} characters"
        raise BadInput(
            f'{name}, row {row}: {what}; close it, and write a quote inside quotes twice: ""'
        ) from None


def _check_widths(cells: list[list[str]], width: int, delimiter: str, name: str) -> None:
    for row, cell in enumerate(cells, 2):
        if len(cell) == width:
            continue
        if not cell:
            raise BadInput(f"{name}, row {row} is empty; delete the line")
        remedy = f"the cells of a row are parted by {NAMES[delimiter]}: " + (
            "put cells that contain one between quotes"
            if len(cell) > width
            else "add the cells that are missing, empty if need be"
        )
        raise BadInput(
            f"{name}, row {row}: {len(cell)} cell(s) where the header has {width}, "
            f"beginning {', '.join(map(repr, cell[:3]))}; {remedy}"
        )
