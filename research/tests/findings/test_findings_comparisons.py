from __future__ import annotations

from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from crossgcn.experiments.statistics import PairedDifference, paired_difference
from research.findings.records import (
    CellRecord,
    Comparison,
    FindingsRecord,
    compare_rows,
    expected_false_alarms,
    judge_difference,
)
from research.findings.tables import Column, FindingsTable, Row

TABLE = FindingsTable(
    name="peers",
    title="Some",
    compares="this against that",
    columns=(Column(label="cora", settings={}), Column(label="pubmed", settings={})),
    rows=(
        Row(label="plain", settings={}),
        Row(label="crossed", settings={}, against=("plain",)),
        Row(label="rival", settings={}, against=("plain", "crossed")),
    ),
)


def cell(row: str, *accuracies: float) -> CellRecord:
    return CellRecord(row=row, column="cora", settings={}, device="cpu", test_accuracy=accuracies)


def test_differences_are_paired_and_in_points() -> None:
    plain, crossed, rival = (0.5, 0.6, 0.7), (0.52, 0.61, 0.75), (0.4, 0.5, 0.6)
    record = FindingsRecord(
        table="peers",
        cells=(cell("plain", *plain), cell("crossed", *crossed), cell("rival", *rival)),
    )
    found = {(c.row, c.against): c for c in compare_rows(TABLE, record)}
    assert list(found) == [("crossed", "plain"), ("rival", "plain"), ("rival", "crossed")]
    by_hand = [100 * (a - b) for a, b in zip(crossed, plain, strict=True)]
    difference = found["crossed", "plain"].difference
    assert difference.mean == pytest.approx(fmean(by_hand))
    assert difference.standard_error == pytest.approx(stdev(by_hand) / 3**0.5)
    assert found["rival", "plain"].outcome == "worse"
    assert [c.is_twin for c in found.values()] == [True, True, False]


def test_what_failed_or_is_missing_is_not_compared() -> None:
    failed = CellRecord(row="plain", column="cora", settings={}, device="cpu", failure="diverged")
    record = FindingsRecord(table="peers", cells=(failed, cell("crossed", 0.5), cell("rival", 0.6)))
    assert [(c.row, c.against) for c in compare_rows(TABLE, record)] == [("rival", "crossed")]


@given(st.lists(st.tuples(*[st.floats(0, 1)] * 2), min_size=2, max_size=20))
def test_better_one_way_is_worse_the_other_way(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = zip(*pairs, strict=True)
    opposite = {"better": "worse", "worse": "better", "no difference": "no difference"}
    forth = judge_difference(paired_difference(ours, theirs))
    assert judge_difference(paired_difference(theirs, ours)) == opposite[forth]


@pytest.mark.parametrize(
    ("mean", "error", "outcome"),
    [
        (2.1, 1.0, "better"),
        (2.0, 1.0, "no difference"),
        (-2.1, 1.0, "worse"),
        (0.0, 0.0, "no difference"),
        (1.0, 0.0, "better"),
        (50.0, None, "no difference"),
    ],
)
def test_two_standard_errors_decide(mean: float, error: float | None, outcome: str) -> None:
    assert judge_difference(PairedDifference(mean, error, 20)) == outcome


def test_false_alarms_are_those_of_students_distribution() -> None:
    def comparison(count: int) -> Comparison:
        return Comparison("a", "b", "c", True, PairedDifference(0.0, 1.0, count))

    for count in (2, 10, 20):
        wanted = 2 * stats.t.sf(2, count - 1)
        assert expected_false_alarms([comparison(count)] * 7) == pytest.approx(7 * wanted)
    assert expected_false_alarms([comparison(20)]) == pytest.approx(0.06, abs=0.001)
    assert expected_false_alarms([comparison(10)]) == pytest.approx(0.077, abs=0.001)
    assert expected_false_alarms([comparison(1)]) == 0
