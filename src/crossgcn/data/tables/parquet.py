"""Parquet files, read without rounding."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from crossgcn.errors import BadInput

__all__ = ["read_parquet"]


def read_parquet(path: Path, name: str) -> pd.DataFrame:
    """Read a Parquet file with its own types, so that integers with gaps stay integers.

    Args:
        path: The file, which exists.
        name: What to call it in messages.

    Raises:
        BadInput: pyarrow is not installed, or the file is broken.
    """
    try:
        # Opened here: given a path, pyarrow makes columns of folders called a=b.
        with path.open("rb") as file:
            return pd.read_parquet(file, engine="pyarrow", dtype_backend="pyarrow")
    except ImportError:
        raise BadInput(
            f"{name}: reading Parquet needs pyarrow; pip install 'crossgcn[parquet]', "
            "or save the table as CSV"
        ) from None
    except (OSError, ValueError, TypeError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"{name} cannot be read as Parquet ({reason}); write it again") from None
