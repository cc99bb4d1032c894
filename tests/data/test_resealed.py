"""Files whose checksums are right and whose content does not fit: as somebody may forge them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pandas as pd
import pytest

from crossgcn.data import read_graph
from crossgcn.data.files import read_bytes, read_npz, write_json, write_npz
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.seals import add_checksum, digest_of_file
from crossgcn.data.tables.read import read_table
from crossgcn.errors import BadInput
from crossgcn.experiments.run_folder import open_run

Command = Callable[..., CompletedProcess[str]]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("x_shape", np.array([90, 2**62]), r"x_shape is \[90, \d+\]; it must be"),
        ("y", np.zeros(90), "y holds numbers, but num_classes is 3"),
    ],
)
def test_arrays_that_do_not_fit(graph_file: Path, name: str, value: Any, words: str) -> None:
    write_npz(graph_file, read_npz(graph_file) | {name: value})
    with pytest.raises(BadInput, match=words):
        read_graph(graph_file)


@pytest.mark.parametrize("place", [30, 32])
def test_arrays_hidden_by_a_flipped_bit(graph_file: Path, place: int) -> None:
    """Of the length of a comment, or of further fields, in the archive's list."""
    content = bytearray(graph_file.read_bytes())
    entry = content.rindex(b"PK\1\2", 0, content.rindex(b"PK\1\2"))
    content[entry + place] ^= 64
    graph_file.write_bytes(content)
    with pytest.raises(BadInput, match=r"not an \.npz file, or cut short"):
        read_graph(graph_file)


@pytest.mark.parametrize("name", ["encoding", "extra"])
def test_a_description_of_another_type(name: str) -> None:
    with pytest.raises(BadInput, match="is not an object"):
        Preprocess.from_json({"classes": ["a"], name: [1]})


def test_a_description_that_is_a_text() -> None:
    with pytest.raises(BadInput, match="is not an object"):
        Preprocess.from_json("classes")  # type: ignore[arg-type]


def test_arrays_in_the_other_byte_order(tmp_path: Path) -> None:
    write_npz(tmp_path / "a.npz", {"a": np.arange(3, dtype=">i4")})
    found = read_npz(tmp_path / "a.npz")["a"]
    assert found.dtype.isnative and found.tolist() == [0, 1, 2]


def test_halves_of_characters_are_no_names_of_files() -> None:
    for name in ("\ud800", "\x00"):
        with pytest.raises(OSError, match="not the name of a file"):
            read_bytes(Path(name))


def test_parquet_with_text_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "nodes.parquet"
    pd.DataFrame({"id": ["2021-09-11", "b"]}).to_parquet(path, compression=None)
    path.write_bytes(path.read_bytes().replace(b"2021-09-11", b"20\xff1-09-11"))
    with pytest.raises(BadInput, match="cannot be read as Parquet"):
        read_table(path, "nodes")


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("nodes.json", {"ids": ["a", "b"]}, "names of nodes, classes or features do not fit"),
        ("nodes.json", {"ids": [*range(90)]}, "names of nodes, classes or features do not fit"),
        ("nodes.json", {"ids": None, "names": ["a"]}, "names of nodes, classes or features do not"),
        ("splits.npz", {"roles": np.zeros((1, 89), np.int8)}, "no role for each of 90 nodes"),
    ],
)
def test_a_run_with_parts_of_another(
    crossgcn: Command, graph_file: Path, name: str, change: Any, words: str
) -> None:
    quick = ("--splits", "public", "--epochs", 1, "--workers", 1, "--model", "gcn")
    assert crossgcn("train", graph_file, *quick, "--out", "run").returncode == 0
    (write_npz if name.endswith(".npz") else write_json)(Path("run", name), change)
    chosen = json.loads(Path("run/chosen.json").read_bytes())
    del chosen["sha256"]
    chosen["files"][name] = digest_of_file(Path("run", name))
    write_json(Path("run/chosen.json"), add_checksum(chosen))
    with pytest.raises(BadInput, match=words):
        open_run(Path("run"))
