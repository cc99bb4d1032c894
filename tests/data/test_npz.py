"""Files of arrays that are damaged, hostile or larger than they look are refused."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossgcn.data.files import read_npz, write_npz
from crossgcn.data.tables.read import read_table
from crossgcn.errors import BadInput


def test_arrays_come_back_in_both_orders(tmp_path: Path) -> None:
    whole = np.arange(12).reshape(3, 4)
    np.savez(tmp_path / "g.npz", rows=whole, columns=np.asfortranarray(whole), one=np.array(7))
    found = read_npz(tmp_path / "g.npz")
    assert (found["rows"] == whole).all() and (found["columns"] == whole).all()
    assert found["one"].shape == () and found["one"] == 7


def test_files_that_are_not_archives_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"g\.npz: no such file"):
        read_npz(tmp_path / "g.npz")
    (tmp_path / "g.npz").write_bytes(b"node,label\n1,2\n")
    with pytest.raises(BadInput, match=r"g\.npz: not an \.npz file"):
        read_npz(tmp_path / "g.npz")


@given(cut=st.floats(0, 1), change=st.integers(1, 255))
def test_what_is_cut_short_is_refused_and_a_changed_byte_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, cut: float, change: int
) -> None:
    path = tmp_path_factory.mktemp("npz") / "g.npz"
    arrays: dict[str, Any] = {"a": np.arange(40), "b": np.ones((3, 2), np.float32)}
    write_npz(path, arrays)
    whole = bytearray(path.read_bytes())
    place = int(cut * (len(whole) - 1))
    path.write_bytes(whole[:place])
    with pytest.raises(BadInput, match=r"g\.npz: "):
        read_npz(path)
    whole[place] ^= change
    path.write_bytes(whole)
    try:
        found = read_npz(path)
    except BadInput as error:
        assert "g.npz: " in str(error)
    else:  # a byte that says nothing about the content, or the name of an array
        assert all(array.tolist() in ([*range(40)], [[1, 1]] * 3) for array in found.values())


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


def test_a_small_archive_with_a_huge_content_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.BytesIO()
    np.save(file, np.zeros(300_000, np.uint8))
    write_member(tmp_path / "g.npz", file.getvalue())
    monkeypatch.setattr("crossgcn.data.files._UNPACKED_BYTES", 1 << 16)
    with pytest.raises(
        BadInput, match=r"unpack to 300,128 or more, .* write it without compression"
    ):
        read_npz(tmp_path / "g.npz")
    with gzip.open(tmp_path / "n.csv.gz", "wb") as packed:
        packed.write(b"id,a\n" + b"1,2\n" * 75_000)
    with pytest.raises(BadInput, match=r"n\.csv\.gz: .* write it without compression"):
        read_table(tmp_path / "n.csv.gz", "nodes")
