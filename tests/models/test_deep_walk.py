from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from crossgcn import BadInput
from crossgcn.models.deep_walk import DeepWalkSettings, embed_nodes

QUICK = DeepWalkSettings(walks_per_node=10, walk_length=10, window=3, dimensions=8, epochs=2)

PRINT_BYTES = """
import sys, torch
from crossgcn.models.deep_walk import DeepWalkSettings, embed_nodes
edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 6, 6]])
vectors = embed_nodes(edges, 8, 3, DeepWalkSettings(walks_per_node=4, walk_length=5, dimensions=8))
sys.stdout.write(vectors.numpy().tobytes().hex())
"""


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


def test_processes_that_hash_differently_learn_the_same() -> None:
    learned = {
        subprocess.run(
            [sys.executable, "-c", PRINT_BYTES],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(learned) == 1
    (hexadecimal,) = learned
    assert np.frombuffer(bytes.fromhex(hexadecimal), np.float32).reshape(8, 8)[:7].any()


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
