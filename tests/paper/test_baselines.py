"""DeepWalk and SemiEmb."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn import functional

from crossgcn import BadInput
from paper.baselines import SemiEmb, deep_walk, laplacian_penalty, random_walks

RING = torch.tensor([[0, 1, 2, 3, 4, 0, 5], [1, 2, 3, 4, 0, 2, 5]])
"""Five nodes in a ring with a chord; node 5 has a self-loop alone, node 6 nothing."""
EDGES = torch.cat([RING, RING.flip(0)], dim=1)


def test_walks_follow_edges_and_leave_isolated_nodes_alone() -> None:
    walks = random_walks(EDGES, 7, walks_per_node=40, walk_length=5, seed=1)
    assert walks.shape == (280, 5)
    assert np.array_equal(np.sort(walks[:7, 0]), np.arange(7))
    alone = np.isin(walks[:, 0], (5, 6))
    assert (walks[alone, 1:] == -1).all()
    steps = {tuple(step) for w in walks[~alone] for step in pairwise(w)}
    wanted = {(a, b) for a, b in EDGES.T.tolist() if a != b}
    assert steps == wanted
    assert np.array_equal(walks, random_walks(EDGES, 7, walks_per_node=40, walk_length=5, seed=1))


def test_embeddings_bring_neighbours_together() -> None:
    pytest.importorskip("gensim")
    ring = torch.arange(20)
    left = torch.stack([ring, (ring + 1) % 20])
    edges = torch.cat([left, left + 20], dim=1)  # two rings, nothing between them
    vectors = deep_walk(edges, 41, seed=0, walks_per_node=20, dimensions=8)
    assert torch.equal(vectors, deep_walk(edges, 41, seed=0, walks_per_node=20, dimensions=8))
    torch.testing.assert_close(vectors.norm(dim=1), torch.tensor([1.0] * 40 + [0.0]))
    alike = vectors[:40] @ vectors[:40].T
    assert alike[:20, :20].mean() > alike[:20, 20:].mean() + 0.1


def test_a_graph_without_edges_has_zero_embeddings_and_gensim_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("gensim")
    assert not deep_walk(torch.empty(2, 0, dtype=torch.long), 3, seed=0).any()
    monkeypatch.setitem(__import__("sys").modules, "gensim.models.word2vec", None)
    with pytest.raises(BadInput, match="pip install gensim"):
        deep_walk(EDGES, 7, seed=0)


def test_the_penalty_is_the_trace_with_the_laplacian() -> None:
    scores = torch.randn(7, 3, dtype=torch.float64)
    adjacency = torch.zeros(7, 7, dtype=torch.float64)
    adjacency[EDGES[0], EDGES[1]] = 1
    adjacency.fill_diagonal_(0)
    laplacian = adjacency.sum(0).diag() - adjacency
    p = scores.softmax(dim=1)
    expected = (p.T @ laplacian @ p).trace() / (adjacency.sum() / 2)
    torch.testing.assert_close(laplacian_penalty(scores, EDGES), expected)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_semi_emb_is_a_perceptron_of_sparse_rows() -> None:
    x = torch.randn(5, 8) * (torch.rand(5, 8) < 0.4)
    x[2] = 0
    model = SemiEmb(8, 4, 3, dropout=0.5).eval()
    expected = functional.relu(x @ model.first) @ model.second
    torch.testing.assert_close(model(x.to_sparse_csr(), EDGES), expected)
