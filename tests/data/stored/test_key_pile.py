from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from crossgcn.data.stored import external_sort as key_parts
from crossgcn.data.stored import external_sort as key_pile
from crossgcn.data.stored.external_sort import KeyPile

entries = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 30), st.integers(0, 2**64 - 1)),
        st.floats(0, 2**20, width=32),
    ),
    max_size=300,
)


def drained(pile: KeyPile) -> tuple[list[int], list[float]]:
    keys: list[int] = []
    means: list[float] = []
    for block, weights in pile.drain():
        keys += block.tolist()
        means += [] if weights is None else weights.tolist()
    return keys, means


def slow_means(given: list[tuple[int, float]]) -> dict[int, float]:
    """One number after another, in Python's own float64."""
    sums: dict[int, tuple[float, int]] = {}
    for key, weight in given:
        total, count = sums.get(key, (0.0, 0))
        sums[key] = (total + weight, count + 1)
    return {key: total / count for key, (total, count) in sorted(sums.items())}


@given(entries, st.integers(1, 400), st.integers(1, 64), st.booleans())
@settings(max_examples=150, deadline=None)
def test_keys_come_sorted_and_once_with_the_mean_of_their_weights(
    tmp_path_factory: pytest.TempPathFactory,
    given: list[tuple[int, float]],
    most: int,
    piece: int,
    knows_limits: bool,
) -> None:
    folder = tmp_path_factory.mktemp("pile")
    keys = np.array([key for key, _ in given], np.uint64)
    weights = np.array([weight for _, weight in given], np.float32)
    limits = (0, 2**64 - 1) if knows_limits else None
    expected = slow_means(given)
    for weighted in (False, True):
        pile = KeyPile(folder, most, weighted=weighted, limits=limits)
        for start in range(0, len(keys), piece):
            part = slice(start, start + piece)
            pile.add(keys[part], weights[part] if weighted else None)
        found, means = drained(pile)
        assert found == list(expected)
        assert means == (list(expected.values()) if weighted else [])
        assert not list(folder.iterdir()), "files are gone once they were read"


@pytest.mark.parametrize("kind", ["sorted", "one key", "two far apart", "heavy head"])
def test_uneven_keys_are_divided_until_they_fit(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_pile, "PIECE", 64)
    random = np.random.default_rng(0)
    keys: dict[str, NDArray[np.uint64]] = {
        "sorted": np.arange(5000, dtype=np.uint64) << np.uint64(20),
        "one key": np.full(5000, 2**63 + 7, np.uint64),
        "two far apart": np.where(random.random(5000) < 0.5, 3, 2**64 - 1).astype(np.uint64),
        "heavy head": (random.pareto(0.3, 5000) + 1).clip(0, 2.0**62).astype(np.uint64),
    }
    weights = random.random(5000, dtype=np.float32)
    pile = KeyPile(tmp_path, 100, weighted=True)
    pile.add(keys[kind], weights)
    expected = slow_means(list(zip(keys[kind].tolist(), weights.tolist(), strict=True)))
    assert drained(pile) == (list(expected), list(expected.values()))


def test_no_more_is_held_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest array that is ever sorted, on input that comes sorted, as edge lists do."""
    monkeypatch.setattr(key_pile, "PIECE", 32)
    longest = 0
    plain = key_pile.join_repeats

    def watched(keys: NDArray[np.uint64], weights: None) -> object:
        nonlocal longest
        longest = max(longest, len(keys))
        return plain(keys, weights)

    monkeypatch.setattr(key_pile, "join_repeats", watched)
    pile = KeyPile(tmp_path, 256, weighted=False)
    pile.add(np.repeat(np.arange(4000, dtype=np.uint64), 3))
    assert drained(pile)[0] == list(range(4000))
    assert 0 < longest <= 256


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [0.95, 2.5])
def test_sorting_takes_no_more_memory_than_an_entry_is_reckoned_at(
    weighted: bool, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_pile, "PIECE", 1 << 14)
    most = 200_000
    of_cells = 8 * 8 * key_parts.NUM_CELLS
    random = np.random.default_rng(0)
    pile = KeyPile(tmp_path, most, weighted=weighted)
    held = 0
    tracemalloc.start()
    for _ in range(int(share * most) // 10_000):
        keys = random.integers(0, 2**60, 10_000, dtype=np.uint64)
        pile.add(keys, random.random(10_000, dtype=np.float32) if weighted else None)
    for block, _ in pile.drain():
        held += len(block)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held == int(share * most) // 10_000 * 10_000
    assert 8 * most / 2 < peak < key_pile.ENTRY_BYTES[weighted] * most + of_cells
