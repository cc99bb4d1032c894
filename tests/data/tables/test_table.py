from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import os
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crossgcn.data.tables.kinds.words import Separator, split_words
from crossgcn.data.tables.read import read_table
from crossgcn.data.tables.table import Distinct, Table
from crossgcn.errors import BadInput

IDS = [
    "a",
    "007",
    " a",
    "a ",
    "9007199254740993",
    "-5",
    "9223372036854775807",
    "naïve 東京 🦊",
    'with, comma and "quotes"',
    "two\nlines",
    "=cmd()",
    "3.0",
    "1e5",
    "null island",
]


def write_csv(path: Path, rows: list[list[str]], delimiter: str = ",") -> Path:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    return path


def save(kind: str, folder: Path, ids: list[Any]) -> Path | pd.DataFrame:
    """A table of these ids and a second column, as a file of some kind or as it is."""
    frame = pd.DataFrame({"id": ids, "x": ["v"] * len(ids)})
    if kind == "frame":
        return frame
    path = folder / f"nodes.{kind}"
    if kind == "parquet":
        frame.to_parquet(path)
        return path
    rows = [["id", "x"], *([str(name), "v"] for name in ids)]
    return write_csv(path, rows, "\t" if kind == "tsv" else ",")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
@example(IDS)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_ids_survive_every_kind_of_file(tmp_path: Path, ids: list[str]) -> None:
    whole: list[Any] = [2**53 + 1, -(2**63), 2**63 - 1, 0, -7]
    for kind in ("csv", "tsv", "parquet", "frame"):
        for written in ([*ids, "end"], whole):
            found = read_table(save(kind, tmp_path, written), "nodes").frame["id"]
            assert found.tolist() == list(map(str, written))


TYPED: dict[str, tuple[Any, list[str]]] = {
    "whole floats, as integers with gaps become": ([1.0, None, 3.0], ["1", "", "3"]),
    "whole numbers with gaps": (
        pd.array([2**53 + 1, None, 2**64 - 1], "UInt64"),
        ["9007199254740993", "", "18446744073709551615"],
    ),
    "floats": ([0.1, 2.0, 1e300], ["0.1", "2.0", "1e+300"]),
    "short floats": (np.array([0.1, 2.5, 0.3], np.float32), ["0.1", "2.5", "0.3"]),
    "infinities": ([np.inf, -np.inf, np.nan], ["inf", "-inf", ""]),
    "truth values": ([True, False, True], ["true", "false", "true"]),
    "truth values with gaps": ([True, None, False], ["true", "", "false"]),
    "days": (pd.to_datetime(["2024-01-01", "NaT", "2024-02-03"]), ["2024-01-01", "", "2024-02-03"]),
    "times": (
        pd.to_datetime(["2024-01-01 10:30", "NaT", "2024-02-03 00:00"]),
        ["2024-01-01 10:30:00", "", "2024-02-03 00:00:00"],
    ),
    "times with a zone": (
        pd.to_datetime(["2024-01-01 10:30", "NaT", "2024-02-03"], utc=True, format="mixed"),
        ["2024-01-01 10:30:00+00:00", "", "2024-02-03 00:00:00+00:00"],
    ),
    "large lists": (
        pd.Series([["a", "b;c"], [], None], dtype=pd.ArrowDtype(pa.large_list(pa.string()))),
        ['["a", "b;c"]', "[]", ""],
    ),
    "bytes": ([b"a", b"007", None], ["a", "007", ""]),
    "dates": ([datetime.date(2024, 1, 1)] * 3, ["2024-01-01"] * 3),
    "lists": ([["a", "b;c"], [], None], ['["a", "b;c"]', "[]", ""]),
    "categories of numbers": (pd.Categorical([1.0, None, 3.0]), ["1", "", "3"]),
    "categories": (pd.Categorical(["x", None, "y"]), ["x", "", "y"]),
    "decimals": ([Decimal("1.20"), None, Decimal("3")], ["1.20", "", "3.00"]),
}


@pytest.mark.parametrize("name", TYPED)
def test_frames_and_parquet_are_written_as_the_same_text(tmp_path: Path, name: str) -> None:
    values, wanted = TYPED[name]
    frame = pd.DataFrame({"x": values})
    frame.to_parquet(path := tmp_path / "nodes.parquet")
    if name == "decimals":  # Parquet has one number of decimals for a whole column.
        assert read_table(frame, "nodes").frame["x"].tolist() == ["1.20", "", "3"]
    else:
        assert read_table(frame, "nodes").frame["x"].tolist() == wanted
    assert read_table(path, "nodes").frame["x"].tolist() == wanted


def test_a_frame_may_mix_types_and_hold_sets() -> None:
    mixed = [1, "x", 2.5, True, {"b", "a"}, 2**70, np.int64(4), None]
    table = read_table(pd.DataFrame({"x": pd.Series(mixed, dtype=object)}), "nodes")
    wanted = ["1", "x", "2.5", "true", '["a", "b"]', str(2**70), "4", ""]
    assert table.frame["x"].tolist() == wanted


def test_a_named_index_is_a_column_and_row_numbers_are_not(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": ["a", "b"], "x": [1, 2]})
    named = frame.set_index("id")
    for name, source in (("named", named), ("shuffled", frame.iloc[::-1])):
        source.to_parquet(path := tmp_path / f"{name}.parquet")
        for table in (read_table(source, "nodes"), read_table(path, "nodes")):
            assert table.columns == ("id", "x")


def test_rows_are_counted_as_in_a_spreadsheet(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "n.csv", [["id", "x"], ["a", "two\nlines"], ["b", "1"]])
    assert read_table(path, "nodes").row_number(1) == 3
    frame = read_table(pd.DataFrame({"id": ["a", "b"]}), "edges")
    assert (frame.name, frame.row_number(1)) == ("edges", 2)
    assert read_table(str(path), "nodes").name == str(path)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "CSV"])
@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_the_delimiter_is_found(tmp_path: Path, ending: str, mark: str, newline: str) -> None:
    rows = [["id", '"a b"', " c "], ["1", "x y", "3"], ["2", "", " 4"]]
    content = "".join(mark.join(row) + newline for row in rows).encode("utf-8-sig")
    path = tmp_path / f"nodes.{ending}"
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    table = read_table(path, "nodes")
    assert table.columns == ("id", "a b", "c")
    assert table.frame.to_numpy().tolist() == [["1", "x y", "3"], ["2", "", " 4"]]


def test_headers_may_contain_other_delimiters(tmp_path: Path) -> None:
    (tmp_path / "n.tsv").write_text("id\ta, b, c\n1\t2\n")
    assert read_table(tmp_path / "n.tsv", "nodes").columns == ("id", "a, b, c")
    (tmp_path / "n.csv").write_text('"id";"age, in years"\n1;2\n')
    assert read_table(tmp_path / "n.csv", "nodes").columns == ("id", "age, in years")


@pytest.mark.parametrize(
    ("name", "content", "ids"),
    [
        ("n.csv", "id,x\n1,2\n\n\n", ["1"]),
        ("n.csv", "id,x\n1,2\n  \n\n \t\n", ["1"]),
        ("n.csv", "id,x\n1,2\n,\n,\n", ["1"]),
        ("n.tsv", "id\tx\n1\t2\n\t\n  \n", ["1"]),
        ("n.csv", "id\n1\n \n", ["1"]),
        ("n.csv", "id\n1\n\n3\n", ["1", "", "3"]),
        ("n.csv", 'id\n1\n""\n', ["1", ""]),
    ],
)
def test_lines_of_space_end_a_file(tmp_path: Path, name: str, content: str, ids: list[str]) -> None:
    (tmp_path / name).write_text(content)
    assert read_table(tmp_path / name, "nodes").frame["id"].tolist() == ids


def test_a_cell_may_be_long_and_the_limit_of_others_stays(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    long = "long " * 40_000
    (tmp_path / "n.csv").write_text(f'id,x\n1,{long}\n2,"{long}"\n')
    assert read_table(tmp_path / "n.csv", "nodes").frame["x"].tolist() == [long, long]
    (tmp_path / "n.csv").write_text(f'id,x\n1,{long}\n2,"{long}\n')
    with pytest.raises(BadInput, match="row 3: a quote is opened and never closed"):
        read_table(tmp_path / "n.csv", "nodes")
    assert csv.field_size_limit() == before


def test_an_index_without_a_header_is_named_as_pandas_does(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": ["a", "b"], "x": [1, 2]})
    frame.to_csv(tmp_path / "n.csv")
    table = read_table(tmp_path / "n.csv", "nodes")
    assert table.columns == tuple(pd.read_csv(tmp_path / "n.csv").columns)
    assert table.frame["id"].tolist() == ["a", "b"]
    assert read_table(pd.DataFrame({0: ["a"], 1: ["b"]}), "nodes").columns == ("0", "1")


@pytest.mark.parametrize("name", ["-", "/dev/null", "pipe", "pipe.csv"])
def test_pipes_are_refused_before_they_are_waited_for(tmp_path: Path, name: str) -> None:
    path = tmp_path / name if name.startswith("pipe") else Path(name)
    if name.startswith("pipe"):
        os.mkfifo(path)
    with pytest.raises(BadInput, match=r"is a pipe or device, .*give the nodes as a file"):
        read_table(path, "nodes")


@pytest.mark.parametrize("source", [{"id": [1]}, None, [1], 3, b"n.csv", pd.Series([1])])
def test_objects_that_are_not_tables_are_refused(source: Any) -> None:
    with pytest.raises(BadInput, match=r"edges: '\w+' is not a table; give the path .* DataFrame"):
        read_table(source, "edges")


BAD: dict[str, tuple[str, bytes, str]] = {
    "empty": ("n.csv", b" \n", "row 1 is empty; begin the file"),
    "only a mark of its encoding": ("n.csv", b"\xef\xbb\xbf", "row 1 is empty"),
    "header only": ("n.csv", b"id,x\n\n", "no rows of nodes, only headers; add"),
    "begins with a blank line": ("n.csv", b"\nid,x\n1,2\n", "row 1 is empty; begin"),
    "line of space inside": ("n.csv", b"id,x\n1,2\n  \n3,4\n", "row 3: expected 2 columns, got 1"),
    "short row": (
        "n.csv",
        b"id,x\n1,2\n3\n",
        r"n\.csv, row 3: expected 2 col.*got 1: 3; .* add",
    ),
    "long row": ("n.csv", b"id,x\n1,2,9\n", r"row 2: expected 2 .*got 3: 1,2,9; .*in quotes"),
    "open quote": ("n.csv", b'id,x\n1,2\n3,"4\n5,6\n', "row 3: a quote is opened and never clos"),
    "huge open quote": ("n.csv", b'id,x\n1,"' + b"1,2\n" * 99999, "row 2: a quote is opened"),
    "open quote inside": ("n.csv", b'id,x\n1,2\n"3,4\n', r"row 3: .*close every quote"),
    "same header twice": ("n.csv", b"id,x, x\n1,2,3\n", "columns 2 and 3 are both called 'x'"),
    "no header at all": ("n.csv", b'""\n1\n', "row 1 is empty; begin"),
    "no header": ("n.csv", b"id,,x\n1,2,3\n", "row 1: column 2 of 3 has no header; name it"),
    "ending": ("n.xls", b"PK", r"the ending '.xls' is none of .csv.*save the table as CSV"),
    "no gzip": (
        "n.csv.gz",
        b"id,x\n",
        r"n.csv.gz cannot be read \(Not a gzipped file.*give a whole",
    ),
    "cut gzip": (
        "n.csv.gz",
        gzip.compress(b"id,x\n1,2\n" * 9)[:-9],
        r"cannot be read \(Compressed file ended",
    ),
    "no parquet": (
        "n.parquet",
        b"id,x\n1,2\n",
        "cannot be read as Parquet .*damaged: write it again",
    ),
    "empty parquet": ("n.pq", b"", "cannot be read as Parquet"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_is_refused_with_place_and_remedy(tmp_path: Path, name: str) -> None:
    file, content, message = BAD[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(BadInput, match=message):
        read_table(tmp_path / file, "nodes")


def test_a_file_that_may_not_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, mode: str) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "n.csv").write_text("id,x\n1,2\n")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(BadInput, match=r"n.csv cannot be read \(Permission denied\)"):
        read_table(tmp_path / "n.csv", "nodes")


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"n.csv does not exist; give the edges as a file"):
        read_table(tmp_path / "n.csv", "edges")
    (tmp_path / "n.csv").mkdir()
    with pytest.raises(BadInput, match=r"n.csv is a folder; give the nodes as a file"):
        read_table(tmp_path / "n.csv", "nodes")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame(), "nodes: there are no headers; begin"),
        (pd.DataFrame({"id": []}), "nodes: there are no rows of nodes"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "columns 1 and 2 are both called 'a'"),
        (pd.DataFrame([[1, 2]], columns=["a", None]), "column 2 of 2 has no header"),
    ],
)
def test_frames_are_held_to_the_same_rules(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_table(frame, "nodes")


def test_an_unknown_column_is_answered_with_the_nearest() -> None:
    table = read_table(pd.DataFrame({"Gender": ["f"], "age": [3]}), "nodes")
    with pytest.raises(BadInput, match=r"no column 'gendre': did you mean 'Gender'\?$"):
        table.require("gendre")
    wide = Table("w", pd.DataFrame({f"c{i}": ["1"] for i in range(500)}), 2)
    with pytest.raises(BadInput, match=r"its 500 columns are c0, .*, c9 and 490 more\."):
        wide.require("?")


def test_missing_cells_have_many_names() -> None:
    cells = ["", "  ", "NA", "n/a", "NaN", " null ", "None", "0", "nano", "no", "-"]
    distinct = Distinct.of(pd.Series(cells, dtype="str"))
    assert distinct.missing[distinct.codes].tolist() == [True] * 7 + [False] * 4


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3.0),
        (" -3.5e2 ", -350.0),
        ("+.5", 0.5),
        ("1.", 1.0),
        ("1e999", np.inf),
        ("-Infinity", -np.inf),
        *(
            (text, None)
            for text in ("", "1,50,0", "10 00", "1_000", "0x10", "٣", "10 kg", "e5", "nan")
        ),
    ],
)
def test_numbers_are_plain_decimals(text: str, number: float | None) -> None:
    for others in (["7"], ["x", "7"]):
        column = pd.Series([text, *others], dtype="str")
        parsed = Table("t", pd.DataFrame({"x": column}), 2).distinct("x").numbers
        assert np.array_equal(parsed[0], np.nan if number is None else number, equal_nan=True)


@given(st.floats(allow_nan=False))
def test_a_float_reads_back_the_same_to_the_last_bit(value: float) -> None:
    table = read_table(pd.DataFrame({"x": [value, 0.5]}), "nodes")
    column = table.distinct("x")
    assert column.numbers[column.codes[0]] == value


word = st.text("abcdefg h", min_size=1, max_size=4).map(str.strip).filter(bool)


@given(st.lists(word, unique=True))
def test_words_survive_every_way_of_writing_them(words: list[str]) -> None:
    separators: tuple[Separator, ...] = (";", "|", ",")
    for separator in separators:
        for space in ("", " "):
            assert split_words((separator + space).join(words), separator) == words
    assert split_words(json.dumps(words), "json") == words
    assert split_words(str(words), "json") == words


@pytest.mark.parametrize(
    ("cell", "separator", "words"),
    [
        ("red;blue;red", ";", ["red", "blue"]),
        (";red;;", ";", ["red"]),
        (" ", ";", []),
        ("", "json", []),
        ('["a,b", "c", 3, true]', "json", ["a,b", "c", "3", "true"]),
        ("[a, 'b']", "json", ["a", "b"]),
        ("red  blue\tgreen", " ", ["red", "blue", "green"]),
    ],
)
def test_words_are_cleaned(cell: str, separator: Separator, words: list[str]) -> None:
    assert split_words(cell, separator) == words


def test_a_nul_character_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_bytes(b"id,town\na,Oslo\nb,Os\0lo\nc,\0\n")
    with pytest.raises(BadInput, match=r"n\.csv, row 3, column town: 'Os\\x00lo' has a NUL"):
        read_table(path, "nodes")
    path.write_bytes("id,town\na,Oslo\n".encode("utf-16-le"))
    with pytest.raises(BadInput, match=r"n\.csv, row 1.*NUL character.*text file as UTF-8"):
        read_table(path, "nodes")
    frame = pd.DataFrame({"id": ["a", "b"], "size": [1, 2], "town": ["Oslo", "\0"]})
    with pytest.raises(BadInput, match=r"nodes, row 2, column town: '\\x00' has a NUL character"):
        read_table(frame, "nodes")


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


@cache
def content_of(kind: str) -> bytes:
    """A good table as a file of some kind."""
    frame = pd.DataFrame({"id": ["a", "b", "c"], "x": [1.5, 2.0, 3.0], "y": ["p", "q;r", '"s"']})
    file = io.BytesIO()
    if kind == "xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(file, index=False)
    elif kind == "parquet":
        frame.to_parquet(file)
    else:
        text = frame.to_csv(index=False, sep="\t" if kind == "tsv" else ",").encode()
        file.write(gzip.compress(text) if kind == "csv.gz" else text)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "parquet", "xlsx"])
@given(data=st.data())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_damaged_file_is_read_or_refused_in_words(
    kind: str, tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / f"nodes.{kind}"
    content = bytearray(content_of(kind))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        damage = data.draw(st.sampled_from(["byte", "cut", "insert", "repeat"]))
        if damage == "byte":
            content[at] = data.draw(st.integers(0, 255))
        elif damage == "cut":
            del content[at : at + data.draw(st.integers(1, 40))]
        elif damage == "insert":
            content[at:at] = data.draw(st.binary(min_size=1, max_size=8))
        else:
            content[at:at] = content[at : at + 30]
        content = content or bytearray(b"x")
    path.write_bytes(bytes(content))
    try:
        table = read_table(path, "nodes")
    except BadInput as error:
        assert str(path) in str(error) or path.name in str(error)
    else:
        assert len(table) > 0 and len(set(table.columns)) == len(table.columns)
