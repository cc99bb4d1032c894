"""A model over COO edges, over prepared edges, in mini-batches and explained is one function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn import BadInput, CrossGCN, CrossGCNConv, PreparedGraph
from crossgcn.explanation import explain_node
from crossgcn.graph import edges_of_kind
from crossgcn.graph.sampling.batches import NodeBatches
from crossgcn.graph.sampling.source import MemoryGraph
from crossgcn.layers import AGGREGATIONS

EDGES = torch.tensor(  # node 7 is isolated, node 3 has a self-loop
    [[0, 1, 1, 2, 3, 3, 4, 5, 0, 5, 3, 6], [1, 0, 2, 1, 4, 5, 3, 3, 5, 0, 3, 2]]
)
WEIGHTS = torch.linspace(0.3, 2.0, EDGES.size(1))
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "improved": {"improved": True},
    "no self-loops": {"add_self_loops": False},
    "not normalised": {"normalize": False},
    "neither": {"normalize": False, "add_self_loops": False},
    **{aggr: {"aggr": aggr} for aggr in AGGREGATIONS if aggr != "gcn"},
    "mean, no self-loops": {"aggr": "mean", "add_self_loops": False},
    "max, not normalised": {"aggr": "max", "normalize": False},
    "softmax, improved": {"aggr": "softmax", "improved": True},
}


def make(**settings: Any) -> tuple[CrossGCN, Tensor]:
    torch.manual_seed(0)
    model = CrossGCN(5, 4, num_layers=2, out_channels=3, order=[2, 1], **settings).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model, torch.randn(8, 5)


def in_batches(model: CrossGCN, source: MemoryGraph, batch_size: int) -> Tensor:
    """Compute the scores of all nodes in batches with all their neighbours."""
    batches = NodeBatches(
        source,
        torch.arange(8),
        model.propagations,
        fanouts=[-1] * len(model.propagations),
        batch_size=batch_size,
        shuffle=False,
    )
    return torch.cat([model(batch.x, batch.blocks) for batch in batches.epoch(0)])


@pytest.mark.parametrize("setting", SETTINGS)
def test_over_coo_prepared_and_batched_edges(setting: str) -> None:
    model, x = make(**SETTINGS[setting])
    expected = model(x, EDGES, WEIGHTS)
    prepared = PreparedGraph(x, EDGES, WEIGHTS).view(torch.arange(8), model.propagations)
    torch.testing.assert_close(model(*prepared), expected)
    source = MemoryGraph(x, EDGES, WEIGHTS, torch.zeros(8, dtype=torch.long))
    torch.testing.assert_close(in_batches(model, source, 3), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("aggr", ["add", "max"])
def test_improved_edges_without_weights(aggr: str) -> None:
    model, x = make(improved=True, aggr=aggr)
    prepared = PreparedGraph(x, EDGES).view(torch.arange(8), model.propagations)
    torch.testing.assert_close(model(x, EDGES), model(*prepared))
    torch.testing.assert_close(in_batches(model, MemoryGraph(x, EDGES), 8), model(x, EDGES))


@pytest.mark.parametrize("setting", list(SETTINGS)[:5])
def test_explained(setting: str) -> None:
    model, x = make(**SETTINGS[setting])
    data = Data(x=x, edge_index=EDGES, edge_weight=WEIGHTS)
    scores = model(x, EDGES, WEIGHTS)
    for node in (3, 7):
        explained = explain_node(model, data, node, target=1)
        np.testing.assert_allclose(explained.logits, scores[node].detach(), rtol=1e-4, atol=1e-5)
        assert explained.completeness > 0.999


@pytest.mark.parametrize("aggr", AGGREGATIONS)
def test_flow_turns_edges_around(aggr: str) -> None:
    torch.manual_seed(0)
    there = CrossGCNConv(5, 4, aggr=aggr).eval()
    back = CrossGCNConv(5, 4, aggr=aggr, flow="target_to_source").eval()
    back.load_state_dict(there.state_dict())
    x = torch.randn(8, 5)
    torch.testing.assert_close(back(x, EDGES.flip(0), WEIGHTS), there(x, EDGES, WEIGHTS))


def test_what_would_be_two_functions_is_refused_at_construction() -> None:
    with pytest.raises(BadInput, match=r"flow='target_to_source': reverse the edges"):
        CrossGCN(5, 4, num_layers=2, out_channels=3, flow="target_to_source")
    with pytest.raises(BadInput, match="leave normalize and add_self_loops at True"):
        CrossGCNConv(5, 4, improved=True, normalize=False)
    with pytest.raises(ValueError, match="does not support adding self-loops"):
        CrossGCNConv(5, 4, normalize=False, add_self_loops=True)
    with pytest.raises(BadInput, match="'gat' weights edges in its own way"):
        CrossGCNConv(5, 4, aggr="gat", improved=True)


@pytest.mark.parametrize("kind", ["gcn", "improved", "normalised", "given"])
def test_weights_of_prepared_edges_get_gradients(kind: Any) -> None:
    weight = WEIGHTS.double().requires_grad_()
    x = torch.randn(8, 2, dtype=torch.float64)

    def multiply(weight: Tensor, x: Tensor) -> Tensor:
        return edges_of_kind(kind, EDGES, 8, weight, dtype=torch.float64) @ x

    assert torch.autograd.gradcheck(multiply, (weight, x.requires_grad_()))
