from __future__ import annotations

from typing import Any

import pytest

from crossgcn.reproduction.items import Item, PaperValue, Row, read_item
from crossgcn.reproduction.plan import CellResult, ItemResult
from crossgcn.reproduction.verdicts import baseline_of, judge_cell, measured, paired_with

UNCLEAR = "The paper does not say how many nodes were trained on."


def item(**entries: Any) -> Item:
    settings = {"name": "one", "title": "One", "source": "Table 1", "kind": "table"}
    return Item(**(settings | {"rows": (Row(label="GCN"),)} | entries))


def cell(*accuracy: float, row: str = "GCN", **entries: Any) -> CellResult:
    return CellResult(panel="", row=row, column="", test_accuracy=accuracy, **entries)


def paper(mean: float, sd: float | None = None, tolerance: float | None = None) -> PaperValue:
    return PaperValue(mean=mean, sd=sd, tolerance=tolerance)


@pytest.mark.parametrize(
    ("accuracy", "name"),
    [(0.70, "within one sd"), (0.72, "within one sd"), (0.68, "within one sd"), (0.721, "outside")],
)
def test_one_standard_deviation_decides_and_its_edge_is_inside(accuracy: float, name: str) -> None:
    verdict = judge_cell(cell(accuracy, accuracy, paper=paper(70.0, 2.0)), item())
    assert verdict is not None
    assert verdict.name == name
    assert verdict.difference == pytest.approx(100 * accuracy - 70)


def test_a_tolerance_stands_in_and_says_so() -> None:
    near = judge_cell(cell(0.72, paper=paper(70.0, tolerance=3)), item())
    far = judge_cell(cell(0.74, paper=paper(70.0, tolerance=3)), item())
    assert near is not None and far is not None
    assert (near.name, near.words) == ("within one sd", "within 3 points")
    assert far.name == "outside"


def test_outside_gives_the_reason_of_the_cell_and_inside_gives_none() -> None:
    reason = "GIN1 got stuck there."
    outside = judge_cell(cell(0.5, paper=paper(70.0, 2.0), reason=reason), item())
    inside = judge_cell(cell(0.7, paper=paper(70.0, 2.0), reason=reason), item())
    assert outside is not None and inside is not None
    assert (outside.words, outside.reasons) == ("outside", (reason,))
    assert (inside.words, inside.reasons) == ("within one sd", ())


def test_what_the_paper_does_not_describe_cannot_disagree_but_may_agree() -> None:
    unclear = item(not_reproducible=UNCLEAR)
    off = judge_cell(cell(0.5, paper=paper(70.0, 2.0), reason="Nor the width."), unclear)
    near = judge_cell(cell(0.7, paper=paper(70.0, 2.0)), unclear)
    assert off is not None and near is not None
    assert off.name == "not reproducible as described"
    assert off.reasons == (UNCLEAR, "Nor the width.")
    assert near.name == "within one sd"


def test_without_a_number_on_either_side_there_is_no_verdict() -> None:
    assert judge_cell(cell(0.7), item()) is None
    assert judge_cell(cell(paper=paper(70.0, 2.0)), item()) is None


def test_without_any_deviation_nothing_is_judged() -> None:
    verdict = judge_cell(cell(0.7, paper=paper(70.0)), item())
    assert verdict is not None
    assert verdict.name == "not judged"


@pytest.mark.parametrize(
    ("ours", "printed", "name"),
    [
        (3312, 3312, "the same"),
        (3327, 3312, "differs"),
        (0.03607, 0.036, "the same"),
        (0.0367, 0.036, "differs"),
        (0.0516, 0.052, "the same"),
    ],
)
def test_a_statistic_is_the_same_to_the_digits_that_are_printed(
    ours: float, printed: float, name: str
) -> None:
    counted = CellResult(
        panel="",
        row="GCN",
        column="",
        statistics={"value": ours},
        paper=paper(printed),
        reason="Unlabelled nodes.",
    )
    verdict = judge_cell(counted, item(kind="statistics"))
    assert verdict is not None
    assert verdict.name == name
    assert verdict.reasons == (() if name == "the same" else ("Unlabelled nodes.",))


def test_what_was_made_to_match_is_not_judged() -> None:
    counted = CellResult(
        panel="",
        row="Reddit400K",
        column="nodes",
        paper=PaperValue(mean=30000),
        statistics={"value": 30000},
    )
    verdict = judge_cell(counted, read_item("datasets"))
    assert verdict is not None
    assert verdict.name == "not judged"


def test_seconds_are_measured_and_depend_on_the_machine() -> None:
    timed = CellResult(
        panel="",
        row="GCN",
        column="",
        timing={"seconds": [0.1, 0.3], "mean": 0.2, "sd": 0.14},
        paper=paper(0.433),
    )
    ours = measured(timed)
    verdict = judge_cell(timed, item(kind="timing", not_reproducible="Another machine."))
    assert ours is not None and ours.mean == 0.2
    assert verdict is not None
    assert verdict.name == "not reproducible as described"
    assert verdict.difference == pytest.approx(-0.233)


def test_pairs_are_in_points_against_the_row_named() -> None:
    gcn, cross = cell(0.60, 0.70), cell(0.61, 0.73, row="Cross", compare_with="GCN")
    result = ItemResult(item="one", cells=(gcn, cross))
    assert baseline_of(cross, result) is gcn
    assert baseline_of(gcn, result) is None
    paired = paired_with(cross, gcn)
    assert paired is not None
    assert paired.mean == pytest.approx(2.0)
    assert paired.standard_error == pytest.approx(1.0)


def test_cells_with_other_splits_cannot_be_paired() -> None:
    assert paired_with(cell(0.6, 0.7), cell(0.6)) is None
    assert paired_with(cell(0.6), None) is None
    assert paired_with(cell(), cell()) is None
