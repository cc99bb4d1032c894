"""Numbers, dates, ids and text as spreadsheets and programs write them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from crossgcn.data.tables.graph import (
    TableGraph,
    describe_encoding,
    load_new_tables,
    load_tables,
    read_encoding,
)
from crossgcn.data.tables.plan import TableChoices
from crossgcn.data.tables.read import read_table
from crossgcn.errors import BadInput

SIZE = 60


def load(edges: pd.DataFrame | None = None, **columns: Any) -> TableGraph:
    nodes = {"id": [f"n{row}" for row in range(SIZE)], "buys": ["yes", "no"] * (SIZE // 2)}
    return load_tables(pd.DataFrame({**nodes, **columns}), edges, TableChoices(target="buys"))


def feature(graph: TableGraph, name: str) -> list[float]:
    found: list[float] = graph.matrix.toarray()[:, graph.encoder.space.names.index(name)].tolist()
    return found


NUMBERS = [1110.5 + 37 * (row * row % 53) for row in range(SIZE)]


@pytest.mark.parametrize(
    "write",
    [
        lambda number: f"{number:.2f}".replace(".", ","),
        lambda number: f"${number:,.2f}",
        lambda number: f"{number:,.2f} €".translate(str.maketrans(",.", ".,")),
        lambda number: f"{number:,.1f}".replace(",", " "),
        lambda number: f"{number}%",
        lambda number: f"£ {number:,}",
    ],
)
def test_numbers_are_read_as_people_write_them(write: Any) -> None:
    plain = load(price=NUMBERS)
    written = load(price=list(map(write, NUMBERS)))
    assert written.encoder.space == plain.encoder.space
    np.testing.assert_array_equal(written.matrix.toarray(), plain.matrix.toarray())


def test_negative_prices_and_whole_ones() -> None:
    graph = load(price=[f"-${row},000" if row % 2 else f"{row}" for row in range(SIZE)])
    (column,) = graph.encoder.columns
    assert column.kind == "numeric" and column.ranks.numbers[0] == -59_000.0


def test_new_nodes_are_read_with_the_decimal_sign_of_the_training_table() -> None:
    trained = load(price=[f"{row},25" for row in range(SIZE)])
    encoding = read_encoding(describe_encoding(trained))
    new = pd.DataFrame({"id": ["x", "y"], "price": ["1,250", "30,25"]})
    x = load_new_tables(new, None, *encoding, trained.ids).x.toarray()
    np.testing.assert_array_equal(x, trained.matrix.toarray()[[1, 30]])


def test_several_currencies_are_no_numbers() -> None:
    graph = load(price=[f"{'€$'[row % 2]}{row % 17}" for row in range(SIZE)])
    assert graph.encoder.columns[0].kind == "categorical"


def test_ids_with_and_without_decimals_are_the_same() -> None:
    ids = [str(row) for row in range(SIZE)]
    ends = pd.DataFrame({"from": [f"{row}.0" for row in range(59)], "to": range(1, 60)})
    assert load(ends, id=ids, size=NUMBERS).data.edge_index.shape[1] == 2 * 59
    turned = pd.DataFrame({"from": range(59), "to": range(1, 60)})
    graph = load(turned, id=[f"{row}.0" for row in range(SIZE)], size=NUMBERS)
    assert graph.data.edge_index.shape[1] == 2 * 59
    with pytest.raises(BadInput, match=r"'1.5' is not a node"):
        load(pd.DataFrame({"from": ["1.5", *"2345"], "to": range(5)}), id=ids, size=NUMBERS)


@pytest.mark.parametrize(
    ("codec", "encoding"),
    [("utf-16", "UTF-16"), ("latin-1", "latin-1"), ("cp1252", "latin-1"), ("utf-8", "UTF-8")],
)
def test_text_in_other_encodings_is_read(tmp_path: Path, codec: str, encoding: str) -> None:
    (tmp_path / "n.csv").write_bytes("id,town\n1,Évora\n2,Köln\n".encode(codec))
    table = read_table(tmp_path / "n.csv", "nodes")
    assert table.encoding == encoding
    assert table.frame["town"].tolist() == ["Évora", "Köln"]


DAYS = [pd.Timestamp("2023-11-30") + pd.Timedelta(days=3 * row) for row in range(SIZE)]


@pytest.mark.parametrize("style", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%Y/%m/%d 12:30"])
def test_dates_are_year_month_weekday_and_days(style: str) -> None:
    written = [day.strftime(style) for day in DAYS]
    written[7] = ""
    graph = load(joined=written)
    assert set(graph.encoder.space.fields) == {"joined"}
    for name, wanted in {
        "joined year=2024": [day.year == 2024 for day in DAYS],
        "joined month=1": [day.month == 1 for day in DAYS],
        "joined weekday=Mon": [day.weekday() == 0 for day in DAYS],
        "joined year=(missing)": [False] * SIZE,
    }.items():
        wanted[7] = "missing" in name
        assert feature(graph, name) == [float(is_so) for is_so in wanted], name
    ranks = feature(graph, "joined days rank")
    assert ranks[7] == 0 and np.all(np.diff(np.delete(ranks, 7)) > 0)
    encoding = read_encoding(describe_encoding(graph))
    new = pd.DataFrame({"id": ["x"], "joined": ["2024-01-02"]})
    x = load_new_tables(new, None, *encoding, graph.ids).x.toarray()
    np.testing.assert_array_equal(x[0], graph.matrix.toarray()[11])
    with pytest.raises(BadInput, match="'31 June' is not a date"):
        load_new_tables(new.assign(joined="31 June"), None, *encoding, graph.ids)


def test_a_workbook_is_read_like_a_table(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["id", "age", "joined", None], [7, 31.5, DAYS[0].to_pydatetime()], [8, None, None]):
        book.active.append(row)
    book.save(tmp_path / "n.xlsx")
    table = read_table(tmp_path / "n.xlsx", "nodes")
    assert (table.columns, table.first_row) == (("id", "age", "joined"), 2)
    assert table.frame.to_numpy().tolist() == [["7", "31.5", "2023-11-30"], ["8", "", ""]]
    (tmp_path / "bad.xlsx").write_bytes(b"PK")
    with pytest.raises(BadInput, match=r"bad.xlsx cannot be read as XLSX"):
        read_table(tmp_path / "bad.xlsx", "nodes")


def test_the_extra_for_workbooks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "n.xlsx").write_bytes(b"PK")
    with pytest.raises(BadInput, match=r"n.xlsx: reading XLSX needs openpyxl; pip install 'cross"):
        read_table(tmp_path / "n.xlsx", "nodes")


@pytest.mark.parametrize(
    "write",
    [
        lambda number: f"({-number})" if number < 0 else f"{number}",
        lambda number: f"{number}".replace("-", "\N{MINUS SIGN}"),
        lambda number: f"{1_000_000 + number:,}".replace(",", "."),
    ],
)
def test_other_signs_and_marks_of_numbers(write: Any) -> None:
    numbers = [37 * (row * row % 53) - 500 for row in range(SIZE)]
    graph = load(price=list(map(write, numbers)))
    (column,) = graph.encoder.columns
    shift = 1_000_000 if "." in write(1) else 0
    assert column.kind == "numeric"
    assert column.ranks.numbers[0] == min(numbers) + shift


@pytest.mark.parametrize("written", ["17 May {}", "May 17, {}", "17-may-{}", "{}-05"])
def test_months_may_be_named_or_stand_without_a_day(written: str) -> None:
    graph = load(since=[written.format(1990 + row % 30) for row in range(SIZE)])
    assert graph.plan.columns[-1].kind == "date"
    assert feature(graph, "since year=2010")[20] == 1.0


def test_utf_16_without_a_mark_and_unnamed_empty_columns(tmp_path: Path) -> None:
    rows = [f"n{row},{'Zürich' if row % 3 else 'Łódź'},,\n" for row in range(SIZE)]
    text = "id,city,,\n" + "".join(rows)
    for codec in ("utf-16-le", "utf-16-be", "utf-8"):
        (tmp_path / "n.csv").write_bytes(text.encode(codec))
        table = read_table(tmp_path / "n.csv", "nodes")
        assert list(table.columns) == ["id", "city"]
        assert table.frame["city"].iloc[0] == "Łódź"
    (tmp_path / "n.csv").write_text(text.replace("n7,Zürich,,", "n7,Zürich,,5"))
    with pytest.raises(BadInput, match="row 9: ' 5' is in a column without a header"):
        read_table(tmp_path / "n.csv", "nodes")
