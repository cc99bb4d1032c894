from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from crossgcn.data.tables.checks.problems import Problem, quote, show_name


def test_a_cell_is_described_with_place_count_and_remedy() -> None:
    finding = Problem(
        kind="not-a-number",
        severity="error",
        file="nodes.csv",
        message="'abc' is not a number",
        remedy="write a number or leave the cell empty",
        row=17,
        column="age",
        value="abc",
        count=3000,
    )
    assert finding.describe() == (
        "nodes.csv, row 17, column age: 'abc' is not a number (3,000 such); "
        "write a number or leave the cell empty"
    )


def test_a_table_is_described_without_row_column_and_count() -> None:
    finding = Problem("no-feature", "error", "nodes.csv", "no column is left", "add columns")
    assert finding.describe() == "nodes.csv: no column is left; add columns"


def test_json_holds_every_field() -> None:
    finding = Problem("hub", "warning", "edges.csv", "much", "less", 3, "source", "u1", 2)
    assert Problem(**json.loads(json.dumps(finding.to_json()))) == finding


@given(st.text(max_size=300))
def test_what_is_shown_of_a_name_or_value_stays_on_one_line_and_short(text: str) -> None:
    for shown in (quote(text), show_name(text)):
        assert shown.isprintable() and len(shown) < 700
    assert show_name("income in $") == "income in $"
    assert show_name(" a") == "' a'"
    assert quote("x" * 1000) == f"{'x' * 60!r}… (1,000 characters)"
