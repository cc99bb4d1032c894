"""Random walks and the embeddings learned from them."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crossgcn import BadInput, load_dataset
from crossgcn.models.deep_walk import DeepWalkSettings, embed_nodes, random_walks

QUICK = DeepWalkSettings(walks_per_node=10, walk_length=10, window=3, dimensions=8, epochs=2)


def two_cliques(size: int = 12) -> torch.Tensor:
    """Two cliques with one edge between them."""
    within = torch.combinations(torch.arange(size)).t()
    return torch.cat([within, within + size, torch.tensor([[0], [size]])], dim=1)


def test_nodes_that_are_near_in_the_graph_are_near_in_the_embedding() -> None:
    vectors = embed_nodes(two_cliques(), 24, 0, QUICK).double()
    unit = vectors / vectors.norm(dim=1, keepdim=True)
    alike = unit @ unit.t()
    same = torch.arange(24) // 12 == (torch.arange(24) // 12).unsqueeze(1)
    between = alike[~same].mean()
    within = alike[same & ~torch.eye(24, dtype=torch.bool)].mean()
    assert within > between + 0.5


def test_an_isolated_node_has_the_zero_vector_and_all_others_have_length_one() -> None:
    edges = torch.cat([two_cliques(), torch.tensor([[24], [24]])], dim=1)
    vectors = embed_nodes(edges, 26, 0, QUICK)
    assert not vectors[24:].any()
    torch.testing.assert_close(vectors[:24].norm(dim=1), torch.ones(24))


def test_a_seed_gives_the_same_bytes_and_another_seed_others(small_graph: Data) -> None:
    first, again, other = (
        embed_nodes(small_graph.edge_index, 90, seed, QUICK).numpy().tobytes() for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_the_callers_randomness_is_left_alone() -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].tobytes()  # type: ignore[index]
    embed_nodes(two_cliques(), 24, 0, QUICK)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tobytes() == before[1]  # type: ignore[index]


@pytest.mark.parametrize("edges", [[[], []], [[0, 2], [0, 2]]])
def test_a_graph_without_edges_is_refused(edges: list[list[int]]) -> None:
    with pytest.raises(BadInput, match=r"learns from edges .* has none: .*--model mlp"):
        embed_nodes(torch.tensor(edges, dtype=torch.long), 3, 0, QUICK)


def test_without_gensim_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim", None)
    monkeypatch.setitem(sys.modules, "gensim.models.word2vec", None)
    with pytest.raises(
        BadInput, match=r"gensim.*not installed: pip install 'crossgcn\[deepwalk\]'"
    ):
        embed_nodes(two_cliques(), 24, 0, QUICK)


# A triangle with a tail, one edge stored twice, a self-loop, and two nodes apart, one looping.
EDGES = torch.tensor([[0, 1, 2, 2, 1, 3, 5], [1, 2, 0, 3, 0, 3, 5]])
NEIGHBOURS = {0: {1, 2}, 1: {0, 2}, 2: {0, 1, 3}, 3: {2}}


def walk(edge_index: Tensor = EDGES, num_nodes: int = 6, **changes: Any) -> NDArray[np.int32]:
    settings: dict[str, Any] = {"walks_per_node": 5, "walk_length": 8, "seed": 0, **changes}
    return random_walks(edge_index, num_nodes, **settings)


def test_every_step_is_along_an_edge_and_none_is_a_self_loop() -> None:
    for row in walk(walks_per_node=40).tolist():
        if row[0] in (4, 5):
            assert row[1:] == [-1] * 7
            continue
        for here, there in pairwise(row):
            assert there in NEIGHBOURS[here]


def test_walks_on_citeseer_are_paths_of_its_graph() -> None:
    data = load_dataset("citeseer")
    edges = set(map(tuple, data.edge_index.t().tolist()))
    walks = walk(data.edge_index, data.num_nodes, walks_per_node=1, walk_length=6)
    whole = walks[walks[:, 1] >= 0]
    assert {*walks[:, 0].tolist()} == {*range(3327)}
    assert all(
        (here, there) in edges and here != there
        for row in whole.tolist()
        for here, there in pairwise(row)
    )
    connected = {node for edge in edges if edge[0] != edge[1] for node in edge}
    assert {*whole[:, 0].tolist()} == connected


def test_every_round_starts_once_at_every_node_in_an_order_of_its_own() -> None:
    starts = walk(walks_per_node=7)[:, 0].reshape(7, 6)
    assert (np.sort(starts, axis=1) == np.arange(6)).all()
    assert len({tuple(order) for order in starts.tolist()}) > 1


def test_long_walks_visit_nodes_in_proportion_to_their_degrees() -> None:
    visits = walk(EDGES[:, :6], 4, walks_per_node=50, walk_length=2000)[:, 100:]
    share = np.bincount(visits.ravel(), minlength=4) / visits.size
    np.testing.assert_allclose(share, np.array([2, 2, 3, 1]) / 8, atol=0.005)


def test_neighbours_are_equally_likely_however_often_their_edge_is_stored() -> None:
    walks = walk(walks_per_node=20_000, walk_length=2)
    after_two = walks[walks[:, 0] == 2, 1]
    share = np.bincount(after_two, minlength=4)[[0, 1, 3]] / after_two.size
    np.testing.assert_allclose(share, 1 / 3, atol=0.015)


def test_a_seed_gives_the_same_walks_and_another_seed_others(small_graph: Data) -> None:
    first, again, other = (walk(small_graph.edge_index, 90, seed=seed) for seed in (3, 3, 4))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_a_walk_of_one_node_is_its_start() -> None:
    assert walk(walk_length=1).shape == (30, 1)
    assert (walk(torch.empty(2, 0, dtype=torch.long), 3)[:, 1:] == -1).all()


@pytest.mark.parametrize("setting", ["walks_per_node", "walk_length"])
def test_walks_that_are_none_are_refused(setting: str) -> None:
    with pytest.raises(BadInput, match=f"{setting} must be at least 1; got 0"):
        walk(EDGES, 6, **{setting: 0})
