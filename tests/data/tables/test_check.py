"""Every rule of the check: what sets it off, and that clean tables set off none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from clean_tables import draw_edges, make_customers, make_random_nodes

from crossgcn.data.tables.checks import RULES, check_tables
from crossgcn.data.tables.graph import open_tables
from crossgcn.data.tables.plan import TableChoices, make_plan
from crossgcn.data.tables.problems import CheckedTables, Problem
from crossgcn.data.tables.read import read_table

N = 60
ROWS = range(N)
IDS = [f"u{i}" for i in ROWS]
PAIRS = [(i, (i + step) % N) for i in ROWS for step in (2, 4)]
PAIRS += [(i, i + 1) for i in range(0, N - 1, 10)]


def nodes_with(**new: Sequence[Any] | Mapping[int, Any]) -> pd.DataFrame:
    """Good nodes with other columns, or other cells by the position of the row."""
    frame = pd.DataFrame(
        {
            "id": IDS,
            "colour": [("red", "green", "blue")[i * i % 7 % 3] for i in ROWS],
            "size": [f"{1 + (i * 37 % 101) / 8}" for i in ROWS],
            "member": [str(i * i % 11 % 2) for i in ROWS],
            "buys": [("yes", "no")[i % 2] for i in ROWS],
        }
    )
    return _changed(frame, new)


def edges_with(*more: tuple[Any, Any], **new: Sequence[Any] | Mapping[int, Any]) -> pd.DataFrame:
    """Good edges and some more, or with other columns."""
    ends = [(IDS[a], IDS[b]) for a, b in PAIRS] + list(more)
    return _changed(pd.DataFrame(ends, columns=["source", "target"]), new)


def _changed(frame: pd.DataFrame, new: Mapping[str, Any]) -> pd.DataFrame:
    for name, values in new.items():
        if isinstance(values, Mapping):
            cells = list(frame[name]) if name in frame else [""] * len(frame)
            for row, value in values.items():
                cells[row] = value
            values = cells
        frame[name] = list(values)
    return frame


def varied(*values: Any) -> list[Any]:
    """The values dealt out so that they have nothing to do with the class."""
    return [values[i * i % 53 * 7 % len(values)] for i in ROWS]


def check(
    nodes: pd.DataFrame, edges: pd.DataFrame | None = None, **choices: Any
) -> tuple[Problem, ...]:
    tables = open_tables(nodes, edges, TableChoices(**{"target": "buys", **choices}))
    return tuple(check_tables(tables))


Case = tuple[pd.DataFrame, pd.DataFrame | None, dict[str, Any], str]
E = edges_with()
NUMBERS = [str(i * 7 % 41 + 0.25) for i in ROWS]
ERRORS: dict[str, list[Case]] = {
    "missing-id": [(nodes_with(id={3: " "}), None, {"id_column": "id"}, "row 4, column id")],
    "duplicate-id": [(nodes_with(id={9: "u3"}), E, {}, "row 10.*'u3' is already the id of row 4")],
    "no-target": [
        (nodes_with(buys=[""] * N), E, {}, "0 nodes have a label"),
        (nodes_with(buys=["a"] * N), E, {}, "60 nodes have a label, with 1 classes"),
        (nodes_with(buys=["a"] * 59 + ["b"]), E, {}, "nodes of each to train, to validate and to"),
        (nodes_with(buys=[f"x{i}" for i in ROWS]), E, {}, "with 60 classes in all"),
        (nodes_with(buys=["1.5"] * N), E, {"task": "regression"}, "with 1 different numbers"),
        (nodes_with(buys=["1.5", "2", *[""] * 58]), E, {"task": "regression"}, "2 nodes have a"),
    ],
    "rare-classes": [
        (nodes_with(buys={0: "c"}), E, {"rare_classes": "refuse"}, r"need 10 nodes .*'c' \(1\)")
    ],
    "unknown-split": [
        (nodes_with(split=["train", "tst", "validation", "test"] * 15), E, {}, "row 2.*'tst' is no")
    ],
    "unknown-time": [
        (nodes_with(day=[2, "x", 3] * 20), E, {"time_column": "day"}, "row 2.*'x' is no time")
    ],
    "unfilled-split": [
        (nodes_with(split=["train"] * 30 + ["test"] * 30), E, {}, "no labelled node is for valid"),
        (
            nodes_with(
                split=["train"] * 30 + ["test"] * 20 + ["val"] * 10,
                buys=dict.fromkeys(range(12), "c"),
            ),
            *(E, {}, "class 'c' has no node for validation"),
        ),
    ],
    "no-feature": [(nodes_with()[["id", "buys"]], E, {}, "no column is left to learn from")],
    "wrong-cell": [
        (nodes_with(size={5: "unknown"}), E, {}, "row 6.*'unknown'.*--missing unknown"),
        (nodes_with(size={5: "1e400"}), E, {}, "'1e400' is not a finite number"),
        (
            nodes_with(day=[f"{i % 28 + 1}.5.2024" for i in range(59)] + ["31.2.2024"]),
            *(E, {}, r"row 60.*'31\.2\.2024' is not a date written %d\.%m\.%Y"),
        ),
        (nodes_with(size=[f"{i} %" for i in range(59)] + ["7"]), E, {}, "'7' has no percent sign"),
        (nodes_with(size={5: "7 %"}), E, {}, "'7 %' has a percent sign, .* are plain numbers"),
    ],
    "wrong-target": [
        (nodes_with(buys=["x", *NUMBERS[1:]]), E, {}, "row 1, column buys: 'x' is not a finite")
    ],
    "missing-edge-end": [(nodes_with(), edges_with(("u1", "")), {}, "edge has only one end")],
    "unknown-edge-end": [
        (nodes_with(), edges_with(("u1", "x")), {}, "'x' is not a node.*--unknown-ids drop"),
        (
            *(nodes_with(), pd.DataFrame({"source": ["7", "8"], "target": ["8", "9"]})),
            *({"unknown_ids": "drop"}, "'7' is not a node: 4 of 4 ends.*such as 'u0'"),
        ),
    ],
    "bad-edge-weight": [
        (nodes_with(), edges_with(weight=["1"] * (len(PAIRS) - 1) + [bad]), {}, "not a weight")
        for bad in ("", "-1", "inf", "1e38", "heavy")
    ],
}
WARNINGS: dict[str, list[Case]] = {
    "rare-classes": [
        (nodes_with(buys={0: "c"}), E, {}, r"too few: 'c' \(1\).*their labels are left out")
    ],
    "knows-the-future": [
        (
            nodes_with(day=["2020-05-01"] * N, left=["2020-04-30", "2020-05-02"] * 30),
            E,
            {"time_column": "day"},
            "row 2.*'2020-05-02' is after the time.*30 such.*--ignore left",
        )
    ],
    "ambiguous-value": [
        (nodes_with(price=[f"{1 + i % 9}.{100 + i * 7}" for i in ROWS]), E, {}, "'1.100' is read"),
    ],
    "missing-word": [
        (nodes_with(grade=varied("none", "low", "high")), E, {}, "'none'.*--missing=-none"),
        (nodes_with(buys=["none", "some"] * 30), E, {}, "counts as a class.*--missing none"),
    ],
    "mixed-column": [
        (
            nodes_with(rent=[str(300 + i) if i % 3 else "free" for i in ROWS]),
            *(E, {}, "row 1, column rent: 'free' is text, and 40 of 60 cells are numbers"),
        )
    ],
    "gives-target-away": [
        (
            nodes_with(also=list(nodes_with()["buys"].map({"yes": "J", "no": "N"}))),
            *(E, {}, "column also: the column alone tells the class of 100 %"),
        ),
        (
            nodes_with(paid=[i % 2 * 90 + i % 7 * 0.5 for i in ROWS]),
            E,
            {},
            "tells the class of 100",
        ),
        (
            nodes_with(buys=NUMBERS, twice=[float(n) * 2 + 0.01 for n in NUMBERS]),
            *(E, {}, "tells the number: ranks correlate by 1.00"),
        ),
    ],
    "unknown-edge-end": [
        (
            *(nodes_with(), edges_with(("u1", "x")), {"unknown_ids": "drop"}),
            "such edges are left out",
        )
    ],
    "repeated-edge": [
        (nodes_with(), edges_with(("u0", "u2")), {}, "row 127.*edge from 'u0' is listed before"),
        (nodes_with(), edges_with(("u2", "u0")), {}, "perhaps the other way round"),
    ],
    "isolated-node": [(nodes_with(), edges_with().iloc[:50], {}, r"'u2\d' has no edges")],
}
CASES = [
    pytest.param(severity, kind, case, id=f"{kind}-{number}")
    for severity, cases in (("error", ERRORS), ("warning", WARNINGS))
    for kind, several in cases.items()
    for number, case in enumerate(several)
]


@pytest.mark.parametrize(("severity", "kind", "case"), CASES)
def test_each_rule_names_place_and_remedy(severity: str, kind: str, case: Case) -> None:
    nodes, edges, choices, words = case
    found = [problem for problem in check(nodes, edges, **choices) if problem.kind == kind]
    assert found and found[0].severity == severity
    told = found[0].describe()
    assert pd.Series([told]).str.contains(words, regex=True).all(), told


def test_every_rule_is_set_off_by_some_table() -> None:
    known = {*ERRORS, *WARNINGS, "text-encoding"}
    assert {rule.__name__.replace("_", "-") for rule in RULES} == known
    assert all(rule.__doc__ for rule in RULES)


def test_good_tables_set_off_no_alarm() -> None:
    assert check(nodes_with(), E) == ()
    customers = make_customers()
    edges = draw_edges(customers["customer"], customers["leaves"], 0)
    assert check(customers, edges, target="leaves") == ()


@pytest.mark.parametrize("seed", range(6))
def test_random_tables_set_off_no_error(seed: int) -> None:
    nodes = make_random_nodes(seed)
    edges = draw_edges(nodes["id"], nodes["label"], seed)
    found = check(nodes, edges, target="label")
    assert [problem for problem in found if problem.severity == "error"] == []


def test_the_same_problem_in_many_columns_is_reported_once() -> None:
    names = {f"size{i}": [*NUMBERS[1:], "unknown"] for i in range(6)}
    (found,) = [each for each in check(nodes_with(**names), E) if each.kind == "wrong-cell"]
    assert "likewise columns size1, size2" in found.message and found.count == 6


def test_files_in_other_encodings_are_told(tmp_path: Any) -> None:
    nodes = nodes_with(colour=varied("rouge", "crème", "bleu"))
    nodes.to_csv(tmp_path / "n.csv", index=False, encoding="cp1252")
    table = read_table(tmp_path / "n.csv", "nodes")
    plan = make_plan(table, None, TableChoices(target="buys"))
    assert "read as Windows-1252" in check_tables(CheckedTables(table, {}, plan))[0].message
    assert np.isin("crème", table.frame["colour"])
