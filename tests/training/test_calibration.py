"""Intervals and sets against counting, and how often they hold the truth."""

from __future__ import annotations

from math import ceil
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from crossgcn.errors import BadInput
from crossgcn.training.calibration import Misses, judge

SEEDS, SHARES = st.integers(0, 10_000), st.sampled_from([0.5, 0.75, 0.8, 0.9, 0.95])


@given(SEEDS, st.integers(19, 60), SHARES)
def test_an_interval_has_the_numbers_that_are_missed_no_further_than_enough_others(
    seed: int, count: int, share: float
) -> None:
    draws = np.random.default_rng(seed)
    y, held, spread = draws.normal(size=count), draws.normal(size=count), draws.random(count)
    scores, spreads = draws.normal(size=(5, 1)), draws.random(5)
    found = Misses.measure(y, held[:, None], spread).predict(scores, spreads, share)
    typical = median(abs(a - b) for a, b in zip(y, held, strict=True))
    others = [abs(a - b) / (s + typical) for a, b, s in zip(y, held, spread, strict=True)]
    needed = ceil(round((count + 1) * share, 6))
    for (low, high), (score,), own in zip(found, scores, spreads, strict=True):
        for number in np.linspace(score - 9, score + 9, 200):
            miss = abs(number - score) / (own + typical)
            assert (low <= number <= high) == (sum(o < miss for o in others) < needed)


@given(SEEDS, st.integers(19, 60), st.integers(2, 4), SHARES)
def test_a_set_has_the_classes_that_are_no_less_likely_than_enough_others(
    seed: int, count: int, classes: int, share: float
) -> None:
    draws = np.random.default_rng(seed)
    y, held = draws.integers(classes, size=count), draws.normal(size=(count, classes))
    scores, none = draws.normal(size=(5, classes)), np.zeros(count)
    found = Misses.measure(y, held, none).predict(scores, none, share)
    others = [1 - softmax(row)[label] for row, label in zip(held, y, strict=True)]
    needed = ceil(round((count + 1) * share, 6))
    for inside, row in zip(found, softmax(scores, axis=1), strict=True):
        for label in range(classes):
            is_likely = sum(other < 1 - row[label] for other in others) < needed
            assert inside[label] == is_likely


@pytest.mark.parametrize("share", [0.5, 0.8, 0.9, 0.95])
def test_so_many_new_rows_are_inside_whatever_the_model(share: float) -> None:
    draws, inside = np.random.default_rng(0), []
    for _ in range(400):
        spread = draws.random(200)
        y, scores = draws.normal(size=200) * spread, draws.normal(size=(200, 1))
        misses = Misses.measure(y[:99], scores[:99], spread[:99])
        answers = misses.predict(scores[99:], spread[99:], share)
        inside.append(judge(answers, y[99:])[0])
    assert np.mean(inside) == pytest.approx(share, abs=0.01)


def test_rows_whose_bags_differ_have_wider_intervals() -> None:
    y, none = np.arange(40.0), np.zeros(40)
    misses = Misses.measure(y, y[:, None] + 1, none)
    (low, high), (wide_low, wide_high) = misses.predict(np.zeros((2, 1)), np.array([0, 0.5]), 0.9)
    assert (low, high) == pytest.approx((-1, 1))
    assert (wide_low, wide_high) == pytest.approx((-1.5, 1.5))
    exact = Misses.measure(y, y[:, None], none).predict(y[:, None], none, 0.9)
    np.testing.assert_array_equal(exact, np.stack([y, y], axis=1))


@pytest.mark.parametrize(("count", "share"), [(9, 0.95), (2_000, 0.4999), (2_000, 1), (99, np.nan)])
def test_what_held_out_rows_cannot_promise_is_refused(count: int, share: float) -> None:
    misses = Misses([0.0] * count)
    with pytest.raises(BadInput, match=r"cannot be promised by .* give --interval 50 to "):
        misses.predict(np.zeros((1, 1)), np.zeros(1), share)
    assert len(Misses([0.0] * 999).predict(np.zeros((3, 2)), np.zeros(3), 0.999)) == 3
    with pytest.raises(BadInput, match="there are no validation nodes"):
        Misses.measure(np.empty(0), np.empty((0, 1)), np.empty(0))
