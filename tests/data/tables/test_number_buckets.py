from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from crossgcn.data.tables.encode.numbers import NumberBuckets, list_round_numbers

finite = st.floats(allow_nan=False, allow_infinity=False)
short = st.integers(-30, 30).map(lambda number: number / 4)


def fit(cells: list[float], num_buckets: int = 5) -> NumberBuckets:
    numbers, counts = np.unique(np.array(cells, np.float64), return_counts=True)
    return NumberBuckets.fit(numbers, counts, num_buckets)


def is_named(name: str, number: float) -> bool:
    """Whether a number is in a bucket, judged by the bucket's name."""
    if name == "=(any)":
        return True
    if interval := re.fullmatch(r"=([\[(])(.+), (.+)\)", name):
        low, high = float(interval[2]), float(interval[3])
        return (low <= number if interval[1] == "[" else low < number) and number < high
    bound = float(name[1:])
    return {"=": number == bound, "<": number < bound, ">": number > bound, "≥": number >= bound}[
        name[0]
    ]


@given(st.lists(st.one_of(finite, short), min_size=1, max_size=60), st.integers(1, 8))
def test_every_number_is_in_the_one_bucket_whose_name_says_so(
    cells: list[float], num_buckets: int
) -> None:
    buckets = fit(cells, num_buckets)
    names = buckets.list_names()
    found = buckets.find(np.array(cells))
    for number, bucket in zip(cells, found.tolist(), strict=True):
        assert [is_named(name, number) for name in names].index(True) == bucket
        assert sum(is_named(name, number) for name in names) == 1
    assert set(found.tolist()) == set(range(len(names)))


@given(st.lists(short, max_size=40), finite)
def test_numbers_never_seen_have_a_bucket_and_order_is_kept(
    cells: list[float], number: float
) -> None:
    buckets = fit(cells)
    numbers = np.sort(np.array([*cells, number, -1e308, 1e308]))
    found = buckets.find(numbers)
    assert bool((np.diff(found) >= 0).all())
    assert found[0] == 0
    assert found[-1] == len(buckets.places) - 1


@given(st.lists(finite, min_size=50, max_size=200, unique=True), st.integers(2, 6))
def test_buckets_of_different_numbers_are_about_equally_full(
    cells: list[float], num_buckets: int
) -> None:
    sizes = np.bincount(fit(cells, num_buckets).find(np.array(cells)))
    assert len(sizes) == num_buckets
    assert sizes.min() >= 0.5 * len(cells) / num_buckets - 2
    assert sizes.max() <= 1.5 * len(cells) / num_buckets + 2


@given(finite, finite, st.floats(0, 1))
def test_round_numbers_are_in_the_range(first: float, second: float, share: float) -> None:
    low, high = sorted((first, second))
    if low == high:
        return
    wish = min(max(low + share * (high / 2 - low / 2) * 2, math.nextafter(low, high)), high)
    assert all(low < nice <= high for nice, _ in list_round_numbers(low, high, wish))


@pytest.mark.parametrize(
    ("low", "high", "wish", "nice"),
    [
        (19, 21.25, 20, 20),
        (23.75, 27.5, 25, 25),
        (15, 25, 20, 20),
        (0.0213, 0.0248, 0.0231, 0.024),
        (0.0241, 0.0259, 0.025, 0.025),
        (-0.3, 0.2, 0.1, 0),
        (9_300, 10_700, 9_900, 10_000),
        (3, 4, 4, 4),
        (1e300, 3e300, 2e300, 2e300),
        (-1e-310, -3e-311, -5e-311, -5e-311),
        (1.1, math.nextafter(1.1, 2), math.nextafter(1.1, 2), math.nextafter(1.1, 2)),
    ],
)
def test_the_roundest_number_has_the_fewest_digits(
    low: float, high: float, wish: float, nice: float
) -> None:
    assert next(list_round_numbers(low, high, wish)) == (nice, 0)


def test_ages_are_cut_as_people_would() -> None:
    generator = np.random.default_rng(0)
    bands = np.array([[16, 20], [20, 25], [25, 35], [35, 50], [50, 81]])
    for _ in range(20):
        low, high = bands[generator.integers(5, size=2000)].T
        ages = generator.integers(low, high).tolist()
        assert fit(ages).list_names() == ["<20", "=[20, 25)", "=[25, 35)", "=[35, 50)", "≥50"]


def test_a_heap_of_zeros_has_its_own_bucket() -> None:
    visits = [0.0] * 40 + [float(i) for i in range(1, 61)]
    assert fit(visits).list_names() == ["=0", "=(0, 20)", "=[20, 40)", "≥40"]
    around = [-1.0] * 10 + [-3.0] * 10 + [0.0] * 60 + [2.5] * 10 + [7.0] * 10
    assert fit(around).list_names() == ["<0", "=0", ">0"]


def test_few_values_have_a_bucket_each() -> None:
    buckets = fit([0.5, 1.0, 2.25] * 9)
    assert buckets.list_names() == ["=0.5", "=1", "=2.25"]
    assert buckets.find(np.array([-9.0, 0.7, 1.0, 99.0])).tolist() == [0, 0, 1, 2]
    assert fit([]).list_names() == ["=(any)"]
    assert fit([3.0] * 9).list_names() == ["=3"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bounds": [2, 1]}, "does not ascend"),
        ({"places": [2, 2]}, "does not ascend"),
        ({"places": []}, "do not fit"),
        ({"places": [0, 9]}, "do not fit"),
        ({"places": [1]}, "do not fit"),
        ({"alone": [7]}, "not all bounds"),
        ({"bounds": [math.inf]}, "finite"),
    ],
)
def test_damaged_buckets_are_refused(change: dict[str, list[float]], message: str) -> None:
    content = {"bounds": [1, 2], "alone": [2], "places": [0, 2, 3]}
    NumberBuckets.model_validate(content)
    with pytest.raises(ValidationError, match=message):
        NumberBuckets.model_validate({**content, **change})
