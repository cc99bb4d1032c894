"""Verdicts on numbers, and on claims."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paper.cells import Claim, Item, Line, Measured, Number, Place, Result, Row
from paper.items import ITEMS
from paper.verdicts import (
    beats,
    better_on_validation,
    close_to,
    evaluate_claims,
    is_within,
    judge,
    row_beats,
    takes_at_most,
    varies_less,
)

A, B = Place("a", "", "left"), Place("b", "", "left")


def result_of(
    claim: Claim | None = None, paper: Number | None = None, **cells: list[float]
) -> Result:
    """Make a result with rows a and b; ``cells`` are accuracies in percent by ``row_column``."""
    item = Item(
        "made",
        "Table 9",
        "Made up",
        "table",
        rows=(Row("a", paper={"left": paper} if paper else {}), Row("b", compare_with="a")),
        columns=(Line("left"), Line("right")),
        claims=() if claim is None else (claim,),
    )
    measured = {
        Place(name[0], "", name[2:]): Measured(
            test_accuracy=tuple(each / 100 for each in values),
            validation_accuracy=(0.5,),
        )
        for name, values in cells.items()
    }
    return Result(item, measured)


@pytest.mark.parametrize(
    ("paper", "name", "words"),
    [
        (Number(72.0, 2.0), "within one sd", "within one sd"),
        (Number(74.0, 2.0), "outside", "outside"),
        (Number(73.0, tolerance=3.0), "within one sd", "within 3 points"),
        (Number(71.0), "not judged", "not judged"),
    ],
)
def test_a_number_agrees_within_the_papers_deviation(paper: Number, name: str, words: str) -> None:
    verdict = judge(result_of(paper=paper, a_left=[70, 72]), A)
    assert verdict is not None
    assert (verdict.name, verdict.words) == (name, words)


def test_what_the_paper_leaves_open_is_no_disagreement() -> None:
    result = result_of(paper=Number(80, 1), a_left=[70, 72])
    open_item = replace(result.item, not_reproducible="It does not say how.")
    verdict = judge(replace(result, item=open_item), A)
    assert verdict is not None and verdict.name == "not reproducible as described"
    assert judge(result_of(a_left=[70]), A) is None
    assert judge(result_of(paper=Number(80, 1)), A) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "outcome"),
    [
        ([72, 74, 75], [70, 72, 72], "shown"),
        ([70, 72, 72], [72, 74, 75], "refuted"),
        ([70, 75], [72, 71], "not shown"),
        ([72], [70], "not tested"),
        ([72, 73], [70, 71, 72], "not tested"),
    ],
)
def test_a_model_beats_another_if_the_paired_interval_is_above_zero(
    ours: list[float], theirs: list[float], outcome: str
) -> None:
    check = beats(result_of(b_left=ours, a_left=theirs), B, A)
    assert (check.outcome, check.place) == (outcome, Place("b against a", "", "left"))


def test_levels_ranges_and_choices_are_judged_by_means() -> None:
    result = result_of(a_left=[60, 62], a_right=[70, 72], b_left=[61, 62], b_right=[64, 65])
    assert is_within(result, A, at_least=60).outcome == "shown"
    assert is_within(result, A, at_most=60).outcome == "refuted"
    assert close_to(result, A, B, within=1).outcome == "shown"
    assert close_to(result, A, A._replace(column="right"), within=5).outcome == "refuted"
    (narrow,) = varies_less(result, "b", "a")
    assert (narrow.outcome, narrow.number) == ("shown", "3.0 against 10.0")
    better = replace(result.measured[B], validation_accuracy=(0.9,))
    chosen = replace(result, measured={**result.measured, B: better})
    assert better_on_validation(chosen, A, "b") == B
    assert better_on_validation(chosen, B, "a") == B


def test_seconds_are_compared_as_a_ratio() -> None:
    item = ITEMS["training-time"]
    gcn, cross = Place("GCN", "", "32"), Place("Cross-GCN", "", "32")
    result = Result(
        item, {gcn: Measured(timing={"mean": 0.2}), cross: Measured(timing={"mean": 0.28})}
    )
    check = takes_at_most(result, cross, gcn, 1.5)
    assert (check.outcome, check.number) == ("shown", "1.40×")
    assert takes_at_most(result, cross, gcn, 1.3).outcome == "refuted"


B_BEATS_A = Claim("B beats A.", row_beats("b", "a"), "It has a reason.")


@pytest.mark.parametrize(
    ("left", "right", "outcome"),
    [
        ([3, 4, 4], [3, 4, 4], "holds"),
        ([3, 4, 4], [-3, -4, -4], "holds in part"),
        ([-3, -4, -4], [3, -3, 0], "does not hold"),
        ([3, 4, 4], None, "holds in part"),
        (None, None, "not tested"),
    ],
)
def test_a_claim_holds_where_all_its_checks_are_shown(
    left: list[float] | None, right: list[float] | None, outcome: str
) -> None:
    cells = {
        f"{row}_{column}": [70 + (each if row == "b" else 0) for each in values]
        for row in "ab"
        for column, values in (("left", left), ("right", right))
        if values is not None
    }
    (claim,) = evaluate_claims(result_of(B_BEATS_A, None, **cells))
    assert (claim.says, claim.finding) == ("B beats A.", "It has a reason.")
    assert claim.outcome == outcome
    assert len(claim.checks) == 2
    assert claim.label(claim.checks[0]) == "left"


def test_a_short_run_refutes_nothing() -> None:
    result = result_of(B_BEATS_A, a_left=[70, 72, 73], b_left=[60, 62, 62])
    (claim,) = evaluate_claims(replace(result, shortened=("2 of 20 training sets",)))
    assert claim.outcome == "not tested"
    assert claim.where == "Not shown for left (-10.33). Not tested for right."


@pytest.mark.parametrize("item", ITEMS.values(), ids=lambda item: item.name)
def test_every_item_is_consistent(item: Item) -> None:
    labels = {row.label for row in item.rows}
    columns = {column.label for column in item.columns}
    assert len(item.cells) == len(item.panels) * len(item.rows) * len(item.columns)
    for row in item.rows:
        assert row.compare_with in {None, *labels} - {row.label}
        assert row.paper.keys() | row.reasons.keys() <= columns
    assert set(item.quick_columns or ()) <= columns
    claims = evaluate_claims(Result(item, {}))
    assert [claim.outcome for claim in claims] == ["not tested"] * len(item.claims)
    places = {"", *(label for place in item.cells for label in place)}
    for claim in claims:
        assert claim.says.endswith(".") and claim.checks
        for check in claim.checks:
            parts = {part for label in check.place for part in label.split(" against ")}
            assert parts <= places, claim.says
