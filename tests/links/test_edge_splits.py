from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from crossgcn.data import load_dataset
from crossgcn.errors import BadInput
from crossgcn.links.edge_splits import (
    EdgeSplit,
    OtherPairs,
    _number_pairs,
    _pairs_of_numbers,
    deal_folds,
    find_pairs,
    make_edge_splits,
    message_edges,
    training_negatives,
)

Pairs = set[tuple[int, int]]


@pytest.fixture(scope="module")
def citeseer() -> Data:
    return load_dataset("citeseer")


def as_set(pairs: Tensor) -> Pairs:
    return {(int(a), int(b)) for a, b in pairs.t()}


def ring(num_nodes: int, **changes: Any) -> Data:
    nodes = torch.arange(num_nodes)
    edge_index = to_undirected(torch.stack([nodes, (nodes + 1) % num_nodes]))
    parts = {"x": torch.ones(num_nodes, 2), "edge_index": edge_index, "name": "ring"}
    return Data(**(parts | changes))


def sets_of(split: EdgeSplit) -> dict[str, Pairs]:
    return {name: as_set(pairs) for name, pairs in vars(split).items()}


def test_every_edge_is_in_one_set_and_self_loops_in_none(citeseer: Data) -> None:
    edges = {(int(a), int(b)) for a, b in citeseer.edge_index.t() if a != b}
    undirected = {(min(pair), max(pair)) for pair in edges}
    for split in make_edge_splits(citeseer, num_splits=2):
        sets = sets_of(split)
        dealt = [sets["train"], sets["validation"], sets["test"]]
        assert set().union(*dealt) == undirected
        assert sum(map(len, dealt)) == len(undirected) == 4552
        assert (len(sets["validation"]), len(sets["test"])) == (228, 455)


def test_negatives_are_edges_nowhere_and_none_is_drawn_twice(citeseer: Data) -> None:
    everywhere = as_set(find_pairs(citeseer))
    for split in make_edge_splits(citeseer, num_splits=3, negatives=2):
        sets = sets_of(split)
        validation, test = sets["validation_negatives"], sets["test_negatives"]
        assert not (validation | test) & everywhere
        assert all(a < b for a, b in validation | test)
        assert len(validation | test) == 2 * (228 + 455)


def test_a_split_depends_on_seed_and_index_only(citeseer: Data) -> None:
    few, many = (make_edge_splits(citeseer, num_splits=count) for count in (2, 3))
    for first, second in zip(few, many, strict=False):
        assert sets_of(first) == sets_of(second)
    assert sets_of(many[0])["test"] != sets_of(many[1])["test"]
    (reseeded,) = make_edge_splits(citeseer, num_splits=1, seed=1)
    assert sets_of(reseeded)["test"] != sets_of(many[0])["test"]
    assert sets_of(reseeded)["test_negatives"] != sets_of(many[0])["test_negatives"]


def test_training_may_draw_any_pair_but_edges_and_those_that_are_scored() -> None:
    data = ring(12)
    (split,) = make_edge_splits(data, num_splits=1, validation_share=0.2, test_share=0.2)
    pool = training_negatives(split, 12)
    known = set().union(*sets_of(split).values())
    free = set(combinations(range(12), 2)) - known
    assert pool.count == len(free)
    assert as_set(pool.draw(pool.count, np.random.default_rng(0))) == free


@given(st.data())
def test_drawing_all_other_pairs_gives_each_of_them_once(data: st.DataObject) -> None:
    num_nodes = data.draw(st.integers(2, 9))
    every = list(combinations(range(num_nodes), 2))
    excluded = data.draw(st.lists(st.sampled_from(every), max_size=2 * len(every)))
    pool = OtherPairs(num_nodes, torch.tensor(excluded, dtype=torch.int64).reshape(-1, 2).t())
    left = set(every) - set(excluded)
    assert pool.count == len(left)
    drawn = pool.draw(pool.count, np.random.default_rng(data.draw(st.integers(0, 99))))
    assert drawn.size(1) == len(left) and as_set(drawn) == left


@given(st.integers(1, 2**31), st.data())
def test_the_number_of_a_pair_leads_back_to_it_whatever_its_size(
    upper: int, data: st.DataObject
) -> None:
    for lower in (0, data.draw(st.integers(0, upper - 1)), upper - 1):
        pair = np.array([[lower], [upper]])
        assert (_pairs_of_numbers(_number_pairs(pair)) == pair).all()


def test_pairs_are_drawn_evenly() -> None:
    pool, generator = OtherPairs(6, torch.tensor([[0, 2], [1, 3]])), np.random.default_rng(0)
    counts = np.zeros((6, 6))
    for _ in range(3000):
        for a, b in pool.draw(3, generator).t().tolist():
            counts[a, b] += 1
    drawn = counts[counts > 0]
    assert len(drawn) == 13
    assert abs(drawn - 9000 / 13).max() < 5 * np.sqrt(9000 / 13)


def test_folds_hold_every_pair_once_and_are_as_large_as_each_other(citeseer: Data) -> None:
    pairs = find_pairs(citeseer)
    folds = deal_folds(pairs, 10, np.random.default_rng(0))
    assert set().union(*map(as_set, folds)) == as_set(pairs)
    assert {fold.size(1) for fold in folds} == {455, 456}


def test_messages_go_both_ways_along_the_given_edges_and_no_others() -> None:
    data = ring(5)
    edge_index, weight = message_edges(data, torch.tensor([[0, 2], [1, 3]]))
    assert as_set(edge_index) == {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert weight is None


def test_messages_keep_weights_and_self_loops() -> None:
    """A node's loop and a pair must not be mistaken for each other, whatever their numbers."""
    edges = torch.tensor([[0, 1, 1, 2, 0, 2, 1, 2], [1, 0, 2, 1, 2, 0, 1, 2]])
    weights = torch.tensor([0.5, 0.5, 2.0, 2.0, 3.0, 3.0, 7.0, 9.0])
    data = Data(x=torch.ones(3, 1), edge_index=edges, edge_weight=weights, name="weighted")
    for kept, expected in (
        ([[1], [2]], {(1, 2): 2.0, (2, 1): 2.0, (1, 1): 7.0, (2, 2): 9.0}),
        ([[0], [2]], {(0, 2): 3.0, (2, 0): 3.0, (1, 1): 7.0, (2, 2): 9.0}),
    ):
        edge_index, weight = message_edges(data, torch.tensor(kept))
        assert weight is not None
        ends = map(tuple, edge_index.t().tolist())
        assert dict(zip(ends, weight.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    ("data", "changes", "message"),
    [
        (ring(30), {"num_splits": 0}, "num_splits is 0; give at least 1"),
        (ring(30), {"negatives": 0}, "negatives is 0"),
        (ring(30), {"seed": -1}, "seed is -1"),
        (ring(30), {"test_share": 1.5}, "test_share is 1.5; give a share of the edges between"),
        (ring(30), {"validation_share": 0.0}, "validation_share is 0.0"),
        (
            ring(30),
            {"test_share": 0.6, "validation_share": 0.4},
            "30 edges between different nodes.*12 for validation and 18 for test.*smaller shares",
        ),
        (
            ring(4, edge_index=torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 1, 3]])),
            {},
            "ring: of 2 edges between different nodes, 1 for validation and 1 for test leave none",
        ),
        (ring(4), {}, "2 negative pairs are asked for, and the graph has 2 pairs without an edge"),
    ],
)
def test_what_cannot_be_split_says_why(data: Data, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make_edge_splits(data, **changes)
