"""Write tables to CSV and Parquet files."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd

from crossgcn.data.files import replacing
from crossgcn.errors import BadInput


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a DataFrame without its index to ``.csv``, ``.parquet`` or ``.pq``, atomically."""
    ending = path.suffix.lower()
    if ending not in (".csv", ".parquet", ".pq"):
        raise BadInput(
            f"{path}: cannot tell the format from the name; end it in .csv or in .parquet"
        )
    if not path.parent.is_dir():
        raise BadInput(f"{path}: there is no folder {path.parent}; make it, or write elsewhere")
    if path.is_dir():
        raise BadInput(f"{path}: is a folder; give the name of a file in it")
    with replacing(path) as file:
        if ending == ".csv":
            text: str = frame.to_csv(index=False, lineterminator="\n")
            if "\r" in text:  # at a carriage return without quotes, readers would end the row
                text = frame.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
            file.write(text.encode())
            return
        try:
            frame.to_parquet(file, engine="pyarrow", index=False)
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"{path}: Parquet cannot hold this table ({error}); give each column its own name "
                "and values of one type"
            ) from None
