"""Numbers that no training survives, and files that are larger than they look, are refused."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from crossgcn import from_tables
from crossgcn.data.files import UNPACK_LIMIT, read_npz
from crossgcn.data.tables.read import read_table
from crossgcn.errors import BadInput


def test_a_heavy_edge_of_a_table_is_named_by_its_row(tmp_path: Path) -> None:
    rows = "\n".join(f"{node},{node % 3},{'ab'[node % 2]}" for node in range(40))
    (tmp_path / "nodes.csv").write_text(f"id,size,kind\n{rows}\n")
    (tmp_path / "edges.csv").write_text("source,target,weight\n0,1,1\n1,2,1e38\n")
    named = r"edges\.csv, row 3, column weight: .*1e38.* is not a weight from 0 to 1e\+30"
    with pytest.raises(BadInput, match=named):
        from_tables(tmp_path / "nodes.csv", tmp_path / "edges.csv", target="kind")


def write_member(path: Path, content: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content)


def header(text: str, content: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    padded = text.encode("latin1").ljust(118) + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(padded)) + padded + content


@pytest.mark.parametrize(
    "content",
    [
        header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**63},)}}", b"AAAA"),
        header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**32}, {2**32})}}"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", b"AAAA"),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (9,)}", b"AAAA"),
        header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"AAAAAAAA"),
        header("{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,)}", b"AAAAAAAA"),
        header("{'descr': '<f4', 'fortran_order': 'maybe', 'shape': (1,)}", b"AAAA"),
        header("{'descr': 'zz', 'fortran_order': False, 'shape': (1,)}", b"AAAA"),
        header("{'descr': '<f4', 'shape': (1,)}", b"AAAA"),
        header("(" * 110),
        header("{" * 60),
        header("__import__('os')"),
        header("\x00" * 50),
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", b"AAAA", b"\x09\x00"),
        b"\x93NUMPY\x01\x00\xff\xff",
        b"\x93NUM",
        b"",
    ],
)
def test_a_damaged_header_is_refused_with_its_array(content: bytes, tmp_path: Path) -> None:
    write_member(tmp_path / "g.npz", content)
    with pytest.raises(BadInput, match=r"g\.npz: .* array 'x\.npy' cannot be read \(.*write it"):
        read_npz(tmp_path / "g.npz")


def test_both_orders_of_an_array_are_read(tmp_path: Path) -> None:
    whole = np.arange(12).reshape(3, 4)
    np.savez(tmp_path / "g.npz", rows=whole, columns=np.asfortranarray(whole), one=np.array(7))
    found = read_npz(tmp_path / "g.npz")
    assert (found["rows"] == whole).all() and (found["columns"] == whole).all()
    assert found["one"].shape == () and found["one"] == 7


def test_arrays_in_the_other_byte_order(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.arange(3, dtype=">i4"))
    found = read_npz(tmp_path / "a.npz")["a"]
    assert found.dtype.isnative and found.tolist() == [0, 1, 2]


def test_a_small_archive_with_a_huge_content_needs_consent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.BytesIO()
    np.save(file, np.zeros(300_000, np.uint8))
    write_member(tmp_path / "g.npz", file.getvalue())
    monkeypatch.setattr("crossgcn.data.files._UNPACKED_BYTES", 1 << 16)
    with pytest.raises(BadInput, match=rf"unpack to 300,128 or more, .* set {UNPACK_LIMIT}"):
        read_npz(tmp_path / "g.npz")
    with gzip.open(tmp_path / "n.csv.gz", "wb") as packed:
        packed.write(b"id,a\n" + b"1,2\n" * 75_000)
    with pytest.raises(BadInput, match=rf"n\.csv\.gz: .* set {UNPACK_LIMIT}"):
        read_table(tmp_path / "n.csv.gz", "nodes")
    monkeypatch.setenv(UNPACK_LIMIT, "300128")
    assert len(read_table(tmp_path / "n.csv.gz", "nodes")) == 75_000
    assert read_npz(tmp_path / "g.npz")["x"].size == 300_000


def test_a_million_columns_are_refused(tmp_path: Path) -> None:
    names = ",".join(f"c{n}" for n in range(100_001))
    (tmp_path / "wide.csv").write_text(names + "\n" + "," * 100_000 + "\n")
    with pytest.raises(BadInput, match=r"has 100,001 columns, and tables may have 100,000"):
        read_table(tmp_path / "wide.csv", "nodes")


def test_parquet_with_text_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "nodes.parquet"
    pd.DataFrame({"id": ["2021-09-11", "b"]}).to_parquet(path, compression=None)
    path.write_bytes(path.read_bytes().replace(b"2021-09-11", b"20\xff1-09-11"))
    with pytest.raises(BadInput, match="cannot be read as Parquet"):
        read_table(path, "nodes")


def test_hostile_parquet_metadata_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for about in ("{", "[]", "null", json.dumps({"index_columns": [7], "columns": [{}]})):
        table = pa.table({"id": [1, 2], "b": [3, 4]}).replace_schema_metadata({"pandas": about})
        pq.write_table(table, tmp_path / "n.parquet")
        try:
            assert len(read_table(tmp_path / "n.parquet", "nodes")) == 2
        except BadInput as error:
            assert "n.parquet cannot be read as Parquet" in str(error)
