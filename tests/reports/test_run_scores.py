from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossgcn.reports.run_report.scores import Calibration, Confusion

PREDICTIONS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40))
def test_scores_equal_those_counted_node_by_node(pairs: list[tuple[int, int]]) -> None:
    confusion = Confusion.measure("abcd", [t for t, _ in pairs], [p for _, p in pairs])
    for (row, column), count in np.ndenumerate(confusion.counts):
        assert count == pairs.count((row, column))
    for position, score in enumerate(confusion.scores):
        of_class = [predicted == position for true, predicted in pairs if true == position]
        taken = [true == position for true, predicted in pairs if predicted == position]
        assert score.support == len(of_class)
        assert score.recall == (sum(of_class) / len(of_class) if of_class else None)
        assert score.precision == (sum(taken) / len(taken) if taken else None)
        if score.precision and score.recall:
            harmonic = 2 / (1 / score.precision + 1 / score.recall)
            assert score.f1 == pytest.approx(harmonic)
    right = [true == predicted for true, predicted in pairs]
    assert confusion.accuracy == (sum(right) / len(right) if right else None)


def test_a_class_without_nodes_and_predictions_has_no_scores() -> None:
    present, absent = Confusion.measure("ab", [0, 0, 0], [0, 0, 0]).scores
    assert (present.precision, present.recall, present.f1) == (1.0, 1.0, 1.0)
    assert (absent.precision, absent.recall, absent.f1) == (None, None, None)


@given(PREDICTIONS, st.integers(1, 12))
def test_calibration_error_is_that_of_sorting_predictions_into_bins(
    predictions: list[tuple[float, bool]], num_bins: int
) -> None:
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, correct in predictions:
        edges = np.linspace(0, 1, num_bins + 1)[1:-1]  # an edge belongs to the bin below it
        bins.setdefault(sum(confidence > edges), []).append((confidence, correct))
    gap = sum(
        abs(math.fsum(c for c, _ in each_bin) - sum(right for _, right in each_bin))
        for each_bin in bins.values()
    )
    calibration = Calibration.measure(
        [confidence for confidence, _ in predictions],
        [correct for _, correct in predictions],
        num_bins,
    )
    assert calibration.expected_error == pytest.approx(gap / len(predictions), abs=1e-12)
    assert calibration.total == len(predictions)
    assert [each.confidence for each in calibration.bins] == sorted(
        each.confidence for each in calibration.bins
    )


def test_without_predictions_there_is_nothing_to_calibrate() -> None:
    empty = Calibration.measure([], [])
    assert (empty.bins, empty.expected_error, empty.total) == ((), None, 0)
