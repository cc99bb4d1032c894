from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from crossgcn.reproduction.items import Claim, Item, Line, Row
from crossgcn.reproduction.plan import CellResult, ItemResult
from crossgcn.reproduction.verdicts import ClaimResult, evaluate_claims

ROWS = (Row(label="GCN"), Row(label="Cross"))
COLUMNS = (Line(label="one"), Line(label="two"))
BEATS = {"cell": {"row": "Cross"}, "better_than": {"row": "GCN"}}
HIGH, LOW, MIXED = (0.71, 0.72, 0.74), (0.51, 0.50, 0.50), (0.65, 0.55, 0.61)
BASE = (0.60, 0.61, 0.60)

Accuracies = Mapping[tuple[str, str], Sequence[float]]


def judge(
    check: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    accuracies: Accuracies,
    *,
    shortened: tuple[str, ...] = (),
    **entries: Any,
) -> ClaimResult:
    checks = [check] if isinstance(check, Mapping) else check
    settings: dict[str, Any] = {"kind": "table", "rows": ROWS, "columns": COLUMNS}
    claim = Claim(says="Crosses help.", checks=tuple(checks))
    item = Item(name="x", title="X", source="Table 1", claims=(claim,), **(settings | entries))
    cells = tuple(
        CellResult(panel="", row=row, column=column, test_accuracy=tuple(accuracy))
        for (row, column), accuracy in accuracies.items()
    )
    return evaluate_claims(item, ItemResult(item="x", cells=cells, shortened=shortened))[0]


def against_gcn(one: Sequence[float], two: Sequence[float] | None) -> Accuracies:
    cells = {("GCN", "one"): BASE, ("GCN", "two"): BASE, ("Cross", "one"): one}
    return cells | ({} if two is None else {("Cross", "two"): two})


@pytest.mark.parametrize(
    ("one", "two", "outcome"),
    [
        (HIGH, HIGH, "holds"),
        (HIGH, LOW, "holds in part"),
        (HIGH, MIXED, "holds in part"),
        (LOW, LOW, "does not hold"),
        (MIXED, MIXED, "does not hold"),
        (HIGH, None, "holds in part"),
        (LOW, None, "does not hold"),
        (MIXED, None, "not tested"),
    ],
)
def test_a_claim_holds_as_far_as_its_comparisons_show(
    one: Sequence[float], two: Sequence[float] | None, outcome: str
) -> None:
    assert judge(BEATS, against_gcn(one, two)).outcome == outcome


def test_a_claim_says_where_it_holds_and_where_not() -> None:
    claim = judge(BEATS, against_gcn(HIGH, LOW))
    assert claim.where == "Holds for one (+12.00). Refuted for two (-10.00)."
    assert claim.checks[0].text.startswith("+12.00 points, 95 % interval +")
    assert (
        judge(BEATS, against_gcn(HIGH, None)).where == "Holds for one (+12.00). Not tested for two."
    )


def test_an_interval_around_zero_shows_nothing() -> None:
    claim = judge(BEATS, against_gcn(MIXED, HIGH))
    assert [check.outcome for check in claim.checks] == ["not shown", "shown"]


def test_a_single_split_cannot_tell() -> None:
    single = {("GCN", "one"): (0.5,), ("Cross", "one"): (0.9,)}
    claim = judge(BEATS, single)
    assert claim.outcome == "not tested"
    assert "single split" in claim.checks[0].text


def test_a_short_run_that_leaves_everything_open_is_no_test() -> None:
    accuracies = against_gcn(MIXED, MIXED)
    assert judge(BEATS, accuracies).outcome == "does not hold"
    assert judge(BEATS, accuracies, shortened=("2 splits",)).outcome == "not tested"
    refuted = judge(BEATS, against_gcn(LOW, LOW), shortened=("2 splits",))
    assert refuted.outcome == "not tested"
    assert {check.outcome for check in refuted.checks} == {"not shown"}, "it refutes nothing"


def test_either_of_two_rows_is_the_one_that_validation_takes() -> None:
    """Though the other one did better on the test nodes."""
    claim = Claim(
        says="either",
        checks=({"cell": {"row": "Cross"}, "or_row": "Fix", "better_than": {"row": "GCN"}},),
    )
    item = Item(
        name="sample",
        title="A sample",
        source="Table 9",
        kind="table",
        rows=(Row(label="GCN"), Row(label="Cross"), Row(label="Fix")),
        claims=(claim,),
    )
    results = {"GCN": (BASE, BASE), "Cross": (HIGH, LOW), "Fix": (LOW, HIGH)}
    cells = tuple(
        CellResult(panel="", row=row, column="", test_accuracy=test, validation_accuracy=validation)
        for row, (test, validation) in results.items()
    )
    (result,) = evaluate_claims(item, ItemResult(item="sample", cells=cells))
    assert [check.outcome for check in result.checks] == ["refuted"]
    assert result.checks[0].place[0] == "Fix against GCN"


def test_nothing_run_is_nothing_tested() -> None:
    claim = judge(BEATS, {})
    assert claim.outcome == "not tested"
    assert claim.where == "Not tested for one, two."


def test_the_other_cell_takes_what_it_leaves_out_from_the_first() -> None:
    check = {"cell": {"column": "two"}, "better_than": {"column": "one"}}
    accuracies = {
        ("GCN", "one"): BASE,
        ("GCN", "two"): HIGH,
        ("Cross", "one"): BASE,
        ("Cross", "two"): LOW,
    }
    claim = judge(check, accuracies)
    assert [(check.place, check.outcome) for check in claim.checks] == [
        (("GCN", "", "two against one"), "shown"),
        (("Cross", "", "two against one"), "refuted"),
    ]
    assert claim.where == "Holds for GCN (+12.00). Refuted for Cross (-10.00)."


def test_no_cell_is_compared_with_itself_or_with_one_that_does_not_exist() -> None:
    columns = (*COLUMNS, Line(label="three"))
    rows = (Row(label="GCN", columns=("one",)), Row(label="Cross"))
    check = {"cell": {}, "better_than": {"row": "GCN"}}
    claim = judge(check, against_gcn(HIGH, HIGH), rows=rows, columns=columns)
    assert [check.place for check in claim.checks] == [("Cross against GCN", "", "one")]


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        ({"at_least": 60}, "holds"),
        ({"at_least": 60.1}, "does not hold"),
        ({"at_most": 60}, "holds"),
        ({"at_most": 59.9}, "does not hold"),
    ],
)
def test_bounds_are_on_the_mean_in_percent(check: dict[str, float], outcome: str) -> None:
    accuracies = {("GCN", "one"): (0.59, 0.61)}
    claim = judge({"cell": {"row": "GCN", "column": "one"}, **check}, accuracies)
    assert claim.outcome == outcome
    assert claim.where.startswith("60.0, at ")


def test_being_close_is_a_bound_on_the_difference_of_means() -> None:
    accuracies = {("GCN", "one"): (0.60,), ("GCN", "two"): (0.62,)}
    check = {"cell": {"row": "GCN", "column": "one"}, "close_to": {"column": "two"}}
    assert judge({**check, "within": 2.5}, accuracies).outcome == "holds"
    assert judge({**check, "within": 1.5}, accuracies).outcome == "does not hold"
    assert judge({**check, "within": 1.5}, {}).outcome == "not tested"


def test_a_narrower_row_spreads_less_over_the_columns_both_have() -> None:
    check = {"cell": {"row": "Cross"}, "narrower_than": {"row": "GCN"}}
    accuracies = {
        ("Cross", "one"): (0.60,),
        ("Cross", "two"): (0.62,),
        ("GCN", "one"): (0.50,),
        ("GCN", "two"): (0.60,),
    }
    claim = judge(check, accuracies)
    assert claim.outcome == "holds"
    assert claim.checks[0].text == "varies by 2.0 points, the other by 10.0"
    turned = {"cell": {"row": "GCN"}, "narrower_than": {"row": "Cross"}}
    assert judge(turned, accuracies).outcome == "does not hold"
    assert judge(check, {("Cross", "one"): (0.6,)}).outcome == "not tested"


@pytest.mark.parametrize(("at_most", "outcome"), [(1.5, "holds"), (1.2, "does not hold")])
def test_seconds_are_compared_as_a_ratio(at_most: float, outcome: str) -> None:
    check = {"cell": {"row": "Cross"}, "slower_than": {"row": "GCN"}, "at_most": at_most}
    claim = Claim(says="Not much slower.", checks=(check,))
    rows = (Row(label="GCN"), Row(label="Cross"))
    item = Item(name="t", title="T", source="Table 6", kind="timing", rows=rows, claims=(claim,))
    cells = tuple(
        CellResult(
            panel="",
            row=row,
            column="",
            timing={"seconds": [seconds], "mean": seconds, "sd": None},
        )
        for row, seconds in (("GCN", 0.2), ("Cross", 0.27))
    )
    found = evaluate_claims(item, ItemResult(item="t", cells=cells))[0]
    assert found.outcome == outcome
    assert found.where == f"1.35 times the seconds, at most {at_most:g} expected."
    assert evaluate_claims(item, ItemResult(item="t", cells=cells[:1]))[0].outcome == "not tested"


def test_too_many_places_to_tell_are_counted() -> None:
    columns = tuple(Line(label=f"a rather long name of setting {i}") for i in range(12))
    rows = (Row(label="GCN"), Row(label="Cross"))
    accuracies = {("GCN", column.label): BASE for column in columns} | {
        ("Cross", column.label): HIGH if i % 3 else LOW for i, column in enumerate(columns)
    }
    claim = judge(BEATS, accuracies, rows=rows, columns=columns)
    assert claim.where == "Holds in 8 of 12. Refuted in 4 of 12."
