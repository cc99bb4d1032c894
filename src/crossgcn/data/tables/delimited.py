"""Text files of rows: commas, semicolons, tabs or bars between cells."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pandas as pd

from crossgcn.errors import BadInput

__all__ = ["INDEX_COLUMN", "read_delimited"]

DELIMITERS = (",", ";", "\t", "|")
NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SEPARATOR_LINE = re.compile(
    rb"(?:\xef\xbb\xbf)?sep=(\t|[!#-&(-/:-@^|~])[ \t]*(?:\r\n|\n|\r)", re.IGNORECASE
)
"""A first line that tells a spreadsheet what stands between cells; it does not show it."""

INDEX_COLUMN = "Unnamed: 0"
"""What pandas calls a first column without a header: the index of a frame it wrote."""


def read_delimited(path: Path, name: str) -> pd.DataFrame:
    """Read a CSV or TSV file, every cell as it is written.

    A first line such as ``sep=;`` says what stands between the cells, and is no row. Without
    one, a ``.tsv`` or ``.tab`` file has tabs between its cells; in others the header shows
    whether it is commas, semicolons, tabs or bars. A first column without a header is called
    :data:`INDEX_COLUMN`.

    Args:
        path: The file, which exists; ``.gz`` is unpacked.
        name: What to call it in messages.

    Raises:
        BadInput: Not UTF-8, or a row that is not like the header, with its number.
    """
    content = _read_bytes(path, name)
    separator = SEPARATOR_LINE.match(content)
    if separator is not None:
        content = content[separator.end() :]
    _check_text(content, name)
    is_tabbed = path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab"))
    with _cells_of_any_length(content):
        if separator is not None:
            delimiter = separator[1].decode()
        else:
            delimiter = "\t" if is_tabbed else _find_delimiter(content, name)
        headers, *cells = _read_rows(content, delimiter, name) or [[]]
    headers = [header.strip() for header in headers]
    if not headers:
        raise BadInput(f"{name}, row 1 is empty; begin the file with the header row")
    if headers[0] == "" and len(headers) > 1 and INDEX_COLUMN not in headers:
        headers[0] = INDEX_COLUMN
    while cells and _is_blank_line(cells[-1], delimiter):
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


@contextmanager
def _cells_of_any_length(content: bytes) -> Iterator[None]:
    """Let a cell be as long as the file, so that no long text is taken for an open quote."""
    before = csv.field_size_limit(len(content) + 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _find_delimiter(content: bytes, name: str) -> str:
    """What cuts the header into the most cells; commas where it makes no difference."""

    def count_cells(delimiter: str) -> int:
        try:
            header = _read_rows(content, delimiter, name, most=1)
        except BadInput:  # Quotes that end before another mark.
            return 0
        return len(header[0]) if header else 0

    return max(DELIMITERS, key=count_cells)


def _read_rows(
    content: bytes, delimiter: str, name: str, most: int | None = None
) -> list[list[str]]:
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    rows: list[list[str]] = []
    try:
        rows.extend(islice(reader, most))
    except csv.Error as error:
        what = f"quotes are wrong ({error})"
        if "unexpected end of data" in str(error):
            what = "a quote is opened and never closed"
        raise BadInput(
            f"{name}, row {len(rows) + 1}: {what}; close it, and write a quote inside quotes "
            'twice: ""'
        ) from None
    return rows


def _is_blank_line(cells: list[str], delimiter: str) -> bool:
    """Whether a row is a line of nothing but space; ``""`` is an empty cell."""
    if len(cells) > 1:
        return delimiter == "\t" and not any(map(str.strip, cells))
    return not cells or cells[0].isspace()


def _check_widths(cells: list[list[str]], width: int, delimiter: str, name: str) -> None:
    for row, cell in enumerate(cells, 2):
        if len(cell) == width:
            continue
        if _is_blank_line(cell, delimiter):
            raise BadInput(f"{name}, row {row} is empty; delete the line")
        remedy = f"the cells of a row are parted by {NAMES.get(delimiter, repr(delimiter))}: " + (
            "put cells that contain one between quotes"
            if len(cell) > width
            else "add the cells that are missing, empty if need be"
        )
        raise BadInput(
            f"{name}, row {row}: {len(cell)} cell(s) where the header has {width}, "
            f"beginning {', '.join(map(repr, cell[:3]))}; {remedy}"
        )
