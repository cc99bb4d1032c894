"""Tables that are larger than they look, or whose files are damaged, are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossgcn.data.tables.read import read_table
from crossgcn.errors import BadInput


def test_parquet_with_text_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "nodes.parquet"
    pd.DataFrame({"id": ["2021-09-11", "b"]}).to_parquet(path, compression=None)
    path.write_bytes(path.read_bytes().replace(b"2021-09-11", b"20\xff1-09-11"))
    with pytest.raises(BadInput, match="cannot be read as Parquet"):
        read_table(path, "nodes")


def test_hostile_parquet_metadata_is_refused(tmp_path: Path) -> None:
    for about in ("{", "[]", "null", json.dumps({"index_columns": [7], "columns": [{}]})):
        table = pa.table({"id": [1, 2], "b": [3, 4]}).replace_schema_metadata({"pandas": about})
        pq.write_table(table, tmp_path / "n.parquet")
        try:
            assert len(read_table(tmp_path / "n.parquet", "nodes")) == 2
        except BadInput as error:
            assert "n.parquet cannot be read as Parquet" in str(error)
