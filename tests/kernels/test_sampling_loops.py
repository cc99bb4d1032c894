"""Drawing, numbering and weighing: what they promise, and compiled as in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from crossgcn.kernels import sampling as plain_sampling
from crossgcn.kernels.sampling import ALL, draw_key, shuffle, shuffle_on_device

cpu_sampling = pytest.importorskip("crossgcn.kernels.cpu.sampling")
BOTH = pytest.mark.parametrize("loops", [plain_sampling, cpu_sampling], ids=["plain", "compiled"])
Array = NDArray[Any]


def rows_of(matrix: Array) -> tuple[Array, Array]:
    """Offsets and neighbours of a matrix of zeros and ones."""
    offsets = np.concatenate([[0], matrix.sum(axis=1).cumsum()]).astype(np.int64)
    return offsets, np.nonzero(matrix)[1].astype(np.int32)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Array, Array]:
    """A dense adjacency, and some of its nodes in some order."""
    size = draw(st.integers(1, 60))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    matrix = generator.random((size, size)) < draw(st.floats(0.0, 1.0))
    nodes = generator.permutation(size)[: draw(st.integers(0, size))]
    return matrix, nodes.astype(np.int64)


FANOUTS = st.sampled_from([ALL, 1, 2, 7, 48, 49, 55])


@given(graphs(), FANOUTS, st.booleans(), st.integers(0, 2**63))
def test_compiled_loops_do_what_plain_ones_do(
    graph: tuple[Array, Array], fanout: int, skip_own: bool, seed: int
) -> None:
    matrix, nodes = graph
    offsets, neighbours = rows_of(matrix)
    given_ = (offsets, neighbours, nodes, fanout, draw_key(seed), skip_own)
    starts, entries = plain_sampling.draw_entries(*given_)
    found, numbers = plain_sampling.number(nodes, neighbours[entries])
    same((starts, entries), cpu_sampling.draw_entries(*given_))
    same((found, numbers), cpu_sampling.number(nodes, neighbours[entries]))
    for wanted in (nodes, nodes[::-1]):
        ends = (offsets, neighbours, nodes, wanted)
        entries_of = plain_sampling.find_entries(*ends)
        same([entries_of], [cpu_sampling.find_entries(*ends)])
        assert ((entries_of >= 0) == matrix[nodes, wanted]).all()
    values, own_values = np.arange(entries.size) + 0.5, -np.arange(nodes.size) - 0.5
    if skip_own:
        own_columns = np.arange(nodes.size)
        block = (starts, neighbours[entries], numbers, values, nodes, own_columns, own_values)
        same(plain_sampling.insert_own(*block), cpu_sampling.insert_own(*block))
    for weights in (np.empty(0), np.random.default_rng(seed % 97).random(neighbours.size)):
        half = (offsets, neighbours, weights, skip_own, len(matrix) // 3, len(matrix))
        np.testing.assert_allclose(
            plain_sampling.row_weights(*half), cpu_sampling.row_weights(*half), rtol=1e-12
        )


@BOTH
@given(graphs(), FANOUTS, st.booleans())
def test_different_neighbours_are_drawn_as_many_as_asked_for_in_order(
    loops: Any, graph: tuple[Array, Array], fanout: int, skip_own: bool
) -> None:
    matrix, nodes = graph
    offsets, neighbours = rows_of(matrix)
    starts, entries = loops.draw_entries(offsets, neighbours, nodes, fanout, 7, skip_own)
    for i, node in enumerate(nodes):
        drawn = neighbours[entries[starts[i] : starts[i + 1]]]
        there = np.flatnonzero(matrix[node])
        if skip_own:
            there = there[there != node]
        assert set(drawn) <= set(there)
        assert (np.diff(drawn) > 0).all()
        assert drawn.size == (there.size if fanout == ALL else min(fanout, there.size))


@BOTH
@pytest.mark.parametrize("fanout", [3, 60])
def test_every_set_of_neighbours_is_as_likely_as_any_other(loops: Any, fanout: int) -> None:
    degree, rounds = fanout + 4, 4000
    offsets = np.arange(rounds + 1) * degree
    neighbours = np.tile(np.arange(degree), rounds)
    _, entries = loops.draw_entries(offsets, neighbours, np.arange(rounds), fanout, 11, False)
    drawn = np.zeros((rounds, degree))
    np.put_along_axis(drawn, (entries % degree).reshape(rounds, fanout), 1.0, axis=1)
    together = drawn.T @ drawn / rounds
    single = fanout / degree
    pair = single * (fanout - 1) / (degree - 1)
    expected = np.where(np.eye(degree) > 0, single, pair)
    error = np.sqrt(expected * (1 - expected) / rounds)
    assert (np.abs(together - expected) < 5 * error).all()


@BOTH
def test_draws_depend_on_key_and_node_and_on_nothing_else(loops: Any) -> None:
    matrix = np.random.default_rng(0).random((80, 80)) < 0.5
    offsets, neighbours = rows_of(matrix)
    nodes = np.arange(80)

    def drawn(key: int, asked: Array) -> dict[int, list[int]]:
        starts, entries = loops.draw_entries(offsets, neighbours, asked, 5, key, True)
        return {int(n): list(entries[starts[i] : starts[i + 1]]) for i, n in enumerate(asked)}

    whole = drawn(draw_key(1, 2, 3), nodes)
    assert drawn(draw_key(1, 2, 3), nodes[::-3]).items() <= whole.items()
    other = drawn(draw_key(1, 2, 4), nodes)
    assert sum(whole[node] == other[node] for node in range(80)) < 3


@BOTH
def test_keys_tell_the_order_of_their_numbers_apart_and_a_shuffle_keeps_all(loops: Any) -> None:
    keys = {draw_key(*numbers) for numbers in np.ndindex(6, 6, 6)}
    assert len(keys) == 216 and all(0 <= key < 2**64 for key in keys)
    nodes = np.arange(5, 105)
    first, again, other = (loops.shuffle(nodes, draw_key(seed)) for seed in (3, 3, 4))
    assert sorted(first) == list(nodes) and list(first) == list(again) != list(other)


@pytest.mark.parametrize("size", [0, 1, 2, 1000])
@pytest.mark.parametrize("key", [0, 1, 2**63, 2**64 - 1, draw_key(5, 7)])
def test_a_device_shuffles_as_numpy_does(key: int, size: int) -> None:
    nodes = torch.arange(3, 3 + size)
    assert shuffle_on_device(nodes, key).tolist() == shuffle(nodes.numpy(), key).tolist()


@given(st.integers(0, 300), st.integers(0, 2**64 - 1), st.sampled_from([np.int64, np.int32]))
@example(1_000_000, 7, np.int64)
def test_a_compiled_shuffle_gives_the_order_of_the_plain_one(
    size: int, key: int, dtype: type[np.integer[Any]]
) -> None:
    nodes = (np.arange(size) * 7 + 3).astype(dtype)
    plain, compiled = (each.shuffle(nodes, key) for each in (plain_sampling, cpu_sampling))
    np.testing.assert_array_equal(plain, compiled, strict=True)


@BOTH
def test_weights_of_a_row_count_a_node_itself_once_or_not_at_all(loops: Any) -> None:
    matrix = np.array([[1, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)
    offsets, neighbours = rows_of(matrix)
    weights = np.array([0.5, 2.0, 4.0], np.float32)
    assert list(loops.row_weights(offsets, neighbours, weights, True, 0, 3)) == [2.5, 5.0, 1.0]
    assert list(loops.row_weights(offsets, neighbours, weights, False, 0, 3)) == [2.0, 4.0, 0.0]
    assert list(loops.row_weights(offsets, neighbours, weights[:0], True, 1, 3)) == [2.0, 1.0]


def same(left: Any, right: Any) -> None:
    for one, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(one, other)
