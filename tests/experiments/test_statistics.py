from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from crossgcn.errors import BadInput
from crossgcn.experiments.statistics import paired_difference, summarise

fractions = st.lists(st.integers(0, 1000).map(lambda n: n / 1000), min_size=2, max_size=30)


@given(fractions)
def test_a_summary_is_numpys_with_n_minus_one(values: list[float]) -> None:
    summary = summarise(values)
    assert summary.mean == pytest.approx(np.mean(values))
    assert summary.sd == pytest.approx(np.std(values, ddof=1), abs=1e-12)
    assert summary.count == len(values)


@given(fractions, st.data())
def test_a_paired_difference_is_scipys_paired_test(
    baseline: list[float], data: st.DataObject
) -> None:
    size = len(baseline)
    ours = data.draw(st.lists(st.floats(0, 1, width=16), min_size=size, max_size=size))
    difference = paired_difference(ours, baseline)
    changes = np.subtract(ours, baseline)
    assert difference.mean == pytest.approx(changes.mean(), abs=1e-12)
    assert difference.standard_error == pytest.approx(scipy.stats.sem(changes), abs=1e-12)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("size", [2, 3, 20])
def test_the_interval_is_students(size: int, level: float) -> None:
    generator = np.random.default_rng(size)
    ours, baseline = generator.random(size).tolist(), generator.random(size).tolist()
    difference = paired_difference(ours, baseline)
    interval = difference.interval(level)
    assert interval is not None and difference.standard_error is not None
    expected = scipy.stats.t.interval(
        level, size - 1, loc=difference.mean, scale=difference.standard_error
    )
    assert interval == pytest.approx(expected)
    assert (interval == difference.interval()) == (level == 0.95)


def test_one_split_has_a_mean_and_no_spread() -> None:
    assert summarise([0.7]).sd is None
    difference = paired_difference([0.75], [0.5])
    assert (difference.mean, difference.standard_error) == (0.25, None)
    assert difference.interval() is None


def test_different_numbers_of_splits_cannot_be_paired() -> None:
    with pytest.raises(BadInput, match="same splits on both sides; got 2 and 3"):
        paired_difference([0.1, 0.2], [0.1, 0.2, 0.3])


def test_nothing_cannot_be_averaged() -> None:
    with pytest.raises(BadInput, match="nothing to average"):
        summarise([])


@given(fractions, st.floats(0, 10))
def test_overlapping_splits_never_narrow_the_error(values: list[float], ratio: float) -> None:
    plain = paired_difference(values, [0.0] * len(values))
    corrected = paired_difference(values, [0.0] * len(values), test_to_train=ratio)
    assert plain.standard_error is not None and corrected.standard_error is not None
    variance = plain.standard_error**2 * (1 + ratio * len(values))
    assert corrected.standard_error == pytest.approx(math.sqrt(variance))
