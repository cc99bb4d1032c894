from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossgcn.data.files import write_table
from crossgcn.errors import BadInput


def cells_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_numbers_are_numbers_and_missing_cells_are_empty(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    frame = pd.DataFrame(
        {
            "id": [2**53 + 1, -7],
            "p": [-0.25, float("nan")],
            "who": ['Zoë, "the" 猫\nof 2', None],
            "sure": [True, False],
            "group": pd.Categorical(["=a", "b"]),
        },
        index=[5, 5],
    )
    write_table(path, frame)
    assert path.read_bytes().count(b"\r") == 0
    assert cells_of(path) == [
        ["id", "p", "who", "sure", "group"],
        ["9007199254740993", "-0.25", 'Zoë, "the" 猫\nof 2', "True", "=a"],
        ["-7", "", "", "False", "b"],
    ]


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.lists(texts, min_size=1), texts)
def test_any_text_comes_back_from_csv(
    tmp_path_factory: pytest.TempPathFactory, values: list[str], header: str
) -> None:
    path = tmp_path_factory.mktemp("export") / "out.csv"
    write_table(path, pd.DataFrame({"row": range(len(values)), header: values}))
    rows = cells_of(path)
    assert rows[0] == ["row", header]
    assert [row[1] for row in rows[1:]] == values


@given(st.lists(texts, min_size=1, max_size=5))
def test_parquet_keeps_every_text(
    tmp_path_factory: pytest.TempPathFactory, values: list[str]
) -> None:
    path = tmp_path_factory.mktemp("export") / "out.parquet"
    frame = pd.DataFrame({"=x": values, "n": [2**53 + 1] * len(values)})
    write_table(path, frame)
    pd.testing.assert_frame_equal(pd.read_parquet(path), frame)


def test_another_ending_is_refused_with_both_that_work(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"out\.xlsx.*\.csv or in \.parquet"):
        write_table(tmp_path / "out.xlsx", pd.DataFrame({"a": [1]}))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_and_a_folder_of_that_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"absent/out.csv: its folder does not exist; make "):
        write_table(tmp_path / "absent" / "out.csv", pd.DataFrame({"a": [1]}))
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(BadInput, match="is not a regular file; give another path"):
        write_table(tmp_path / "out.csv", pd.DataFrame({"a": [1]}))


def test_what_parquet_cannot_hold_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    path.write_bytes(b"before")
    with pytest.raises(BadInput, match="values of one type"):
        write_table(path, pd.DataFrame({"a": [1, "b"]}))
    with pytest.raises(BadInput, match="its own name"):
        write_table(path, pd.DataFrame([[1, 2]], columns=["a", "a"]))
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
