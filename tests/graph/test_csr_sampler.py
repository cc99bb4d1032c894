"""Our sampler in PyG's loader."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sampling_cases import draw_edges
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import GraphSAGE
from torch_geometric.utils import trim_to_layer

from crossgcn import BadInput
from crossgcn.graph.sampling.sampler import CSRSampler


@pytest.fixture
def data() -> Data:
    x, edges, weight = draw_edges()
    return Data(x=x, edge_index=edges, edge_attr=weight.unsqueeze(1), y=torch.arange(60) % 3)


def loader_of(data: Data, fanouts: list[int], **settings: Any) -> NodeLoader:
    sampler = CSRSampler.from_data(data, fanouts, seed=4)
    return NodeLoader(data, node_sampler=sampler, batch_size=16, **settings)


def test_a_pyg_model_sees_the_whole_graph_where_all_neighbours_are_drawn(data: Data) -> None:
    torch.manual_seed(0)
    model = GraphSAGE(6, 8, num_layers=2, out_channels=3).eval()
    whole = model(data.x, data.edge_index)
    seen = 0
    for batch in loader_of(data, [-1, -1]):
        scores = model(batch.x, batch.edge_index)[: batch.batch_size]
        torch.testing.assert_close(scores, whole[batch.n_id[: batch.batch_size]])
        seen += batch.batch_size
    assert seen == 60


def test_hops_are_counted_as_pyg_trims_them(data: Data) -> None:
    torch.manual_seed(0)
    model = GraphSAGE(6, 8, num_layers=2, out_channels=3).eval()
    for batch in loader_of(data, [4, 2]):
        counts = batch.num_sampled_nodes, batch.num_sampled_edges
        assert sum(counts[0]) == batch.num_nodes and sum(counts[1]) == batch.num_edges
        x, edges = batch.x, batch.edge_index
        for layer, conv in enumerate(model.convs):
            x, edges, _ = trim_to_layer(layer, *counts, x, edges)
            x = conv(x, edges) if layer == 1 else conv(x, edges).relu()
        whole = model(batch.x, batch.edge_index)
        torch.testing.assert_close(x[: batch.batch_size], whole[: batch.batch_size])


def test_each_node_has_as_many_edges_as_its_hop_draws_and_they_are_the_graphs(data: Data) -> None:
    weights: dict[tuple[int, int], set[float]] = {}
    for (source, target), weight in zip(
        data.edge_index.t().tolist(), data.edge_attr.flatten().tolist(), strict=True
    ):
        weights.setdefault((source, target), set()).add(weight)
    degrees = torch.bincount(data.edge_index[1], minlength=60)
    for batch in loader_of(data, [3, 2]):
        drawn = torch.bincount(batch.edge_index[1], minlength=batch.num_nodes)
        first, second, _ = batch.num_sampled_nodes
        hop = torch.tensor([3] * first + [2] * second + [0] * (batch.num_nodes - first - second))
        assert torch.equal(drawn, hop.minimum(degrees[batch.n_id]))
        assert batch.e_id.unique().numel() == batch.num_edges
        ends = batch.n_id[batch.edge_index].t().tolist()
        for (source, target), weight in zip(ends, batch.edge_attr.flatten().tolist(), strict=True):
            assert weight in weights[source, target]


def test_every_pass_draws_anew_and_a_seed_repeats_them(data: Data) -> None:
    def passes() -> list[list[int]]:
        loader = loader_of(data, [2])
        return [torch.cat([batch.e_id for batch in loader]).tolist() for _ in range(2)]

    first, second = passes()
    assert first != second and passes() == [first, second]


def test_what_it_cannot_do_is_refused(data: Data) -> None:
    with pytest.raises(BadInput, match=r"at least 1, or -1 for all; got \[3, 0\]"):
        CSRSampler.from_data(data, [3, 0])
    with pytest.raises(BadInput, match="around nodes"):
        CSRSampler.from_data(data, [3]).sample_from_edges(None)
