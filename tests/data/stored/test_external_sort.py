from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from crossgcn.data.stored.external_sort import ENTRY_BYTES, ExternalSort

entries = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 30), st.integers(0, 2**64 - 1)),
        st.floats(0, 2**20, width=32),
    ),
    max_size=300,
)


def drained(sort: ExternalSort) -> tuple[list[int], list[float]]:
    keys: list[int] = []
    means: list[float] = []
    for block, weights in sort.sorted_blocks():
        keys += block.tolist()
        means += [] if weights is None else weights.tolist()
    return keys, means


def slow_means(given: list[tuple[int, float]]) -> dict[int, float]:
    """Add one number after another, in Python's float64."""
    sums: dict[int, tuple[float, int]] = {}
    for key, weight in given:
        total, count = sums.get(key, (0.0, 0))
        sums[key] = (total + weight, count + 1)
    return {key: total / count for key, (total, count) in sorted(sums.items())}


@given(entries, st.integers(1, 400), st.integers(1, 64))
@settings(max_examples=100, deadline=None)
def test_keys_are_sorted_and_unique_with_the_mean_of_their_weights(
    tmp_path_factory: pytest.TempPathFactory,
    given: list[tuple[int, float]],
    most: int,
    piece: int,
) -> None:
    folder = tmp_path_factory.mktemp("sort")
    keys = np.array([key for key, _ in given], np.uint64)
    weights = np.array([weight for _, weight in given], np.float32)
    expected = slow_means(given)
    for weighted in (False, True):
        sort = ExternalSort(folder, most, weighted=weighted)
        for start in range(0, len(keys), piece):
            part = slice(start, start + piece)
            sort.add(keys[part], weights[part] if weighted else None)
        found, means = drained(sort)
        assert found == list(expected)
        assert means == (list(expected.values()) if weighted else [])
        assert not list(folder.iterdir()), "temporary files are removed"


@pytest.mark.parametrize("kind", ["sorted", "one key", "two far apart", "heavy head"])
def test_uneven_keys_are_merged_in_little_memory(kind: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    keys: dict[str, NDArray[np.uint64]] = {
        "sorted": np.arange(2000, dtype=np.uint64) << np.uint64(20),
        "one key": np.full(2000, 2**63 + 7, np.uint64),
        "two far apart": np.where(random.random(2000) < 0.5, 3, 2**64 - 1).astype(np.uint64),
        "heavy head": (random.pareto(0.3, 2000) + 1).clip(0, 2.0**62).astype(np.uint64),
    }
    weights = random.random(2000, dtype=np.float32)
    sort = ExternalSort(tmp_path, 100, weighted=True)
    sort.add(keys[kind], weights)
    expected = slow_means(list(zip(keys[kind].tolist(), weights.tolist(), strict=True)))
    assert drained(sort) == (list(expected), list(expected.values()))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [0.95, 2.5])
def test_memory_stays_below_the_limit_in_memory_and_on_disk(
    weighted: bool, share: float, tmp_path: Path
) -> None:
    most = 200_000
    random = np.random.default_rng(0)
    sort = ExternalSort(tmp_path, most, weighted=weighted)
    num_sorted = 0
    tracemalloc.start()
    for _ in range(int(share * most) // 10_000):
        keys = random.integers(0, 2**60, 10_000, dtype=np.uint64)
        sort.add(keys, random.random(10_000, dtype=np.float32) if weighted else None)
    for block, _ in sort.sorted_blocks():
        num_sorted += len(block)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert num_sorted == int(share * most) // 10_000 * 10_000
    assert 8 * most / 2 < peak < ENTRY_BYTES[weighted] * most
