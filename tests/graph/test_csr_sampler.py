"""Our sampler in PyG's loader, and PyG's in the place of ours."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_geometric.typing
from sampling_cases import draw_edges, memory_graph
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import GraphSAGE
from torch_geometric.sampler import NeighborSampler, NodeSamplerInput
from torch_geometric.utils import trim_to_layer

from crossgcn import BadInput
from crossgcn.graph.sampling.batches import Batch, NodeBatches
from crossgcn.graph.sampling.sampler import CSRSampler, make_sampler
from crossgcn.graph.sampling.source import MemoryGraph


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
    with pytest.raises(BadInput, match="needs pyg-lib"):
        make_sampler(memory_graph(), [3], which="pyg")
    with pytest.raises(BadInput, match="ours"):
        make_sampler(memory_graph(), [3], which="our")  # type: ignore[arg-type]


# pyg-lib has no build here. What follows stands in for torch.ops.pyg.neighbor_sample, with its
# order of arguments and results, its numbering, and draws that follow torch's generator.


def neighbor_sample(
    colptr: Tensor, row: Tensor, seed: Tensor, fanouts: list[int], *others: Any
) -> tuple[Any, ...]:
    """Node by node, hop by hop; each node is drawn for once, after the hop that found it."""
    assert row.dtype == colptr.dtype == seed.dtype == torch.int64
    assert others[-6:] == (True, False, True, False, "uniform", True)
    numbers = {int(node): place for place, node in enumerate(seed)}
    sources: list[int] = []
    targets: list[int] = []
    entries: list[int] = []
    num_nodes, num_edges, begin = [len(numbers)], [], 0
    for fanout in fanouts:
        end, before = len(numbers), len(entries)
        for place, node in list(enumerate(numbers))[begin:end]:
            first, last = int(colptr[node]), int(colptr[node + 1])
            chosen = torch.arange(last - first)
            if 0 <= fanout < last - first:
                chosen = torch.randperm(last - first)[:fanout]
            for entry in (first + chosen).tolist():
                sources.append(numbers.setdefault(int(row[entry]), len(numbers)))
                targets.append(place)
                entries.append(entry)
        num_nodes.append(len(numbers) - end)
        num_edges.append(len(entries) - before)
        begin = end
    lists = (sources, targets, list(numbers), entries)
    return (*(torch.tensor(each, dtype=torch.long) for each in lists), num_nodes, num_edges)


@pytest.fixture
def pyg_lib(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYG_LIB", "EDGE_TIME_NEIGHBOR_SAMPLE", "WEIGHTED_NEIGHBOR_SAMPLE"):
        monkeypatch.setattr(torch_geometric.typing, f"WITH_{name}", True)
    monkeypatch.setattr(torch.ops.pyg, "neighbor_sample", neighbor_sample, raising=False)


@pytest.mark.usefixtures("pyg_lib")
def test_pygs_own_sampler_takes_our_place_where_pyg_lib_is_installed() -> None:
    source = memory_graph()
    assert isinstance(make_sampler(source, [3, 2]), NeighborSampler)
    assert isinstance(make_sampler(source, [3, 2], which="ours"), CSRSampler)
    output = make_sampler(source, [-1]).sample_from_nodes(NodeSamplerInput(None, torch.arange(60)))
    loops = (output.row == output.col).sum()
    assert loops == 0 and output.edge.numel() < source.neighbours.numel()


@pytest.mark.usefixtures("pyg_lib")
def test_pygs_sampler_copies_no_rows_that_suit_it_and_refuses_those_of_no_graph() -> None:
    source = MemoryGraph(torch.ones(4, 1), torch.tensor([[0, 1, 2], [1, 2, 3]]))
    source.neighbours = source.neighbours.long()
    sampler: Any = make_sampler(source, [2])
    assert sampler.row.data_ptr() == source.neighbours.data_ptr()
    assert sampler.colptr.data_ptr() == source.offsets.data_ptr()
    assert sampler.edge_permutation is None
    source.neighbours[1] = 4
    with pytest.raises(BadInput, match="node 4 is none of 4"):
        make_sampler(source, [2])


@pytest.mark.usefixtures("pyg_lib")
@pytest.mark.parametrize("fanout", [2, 100])
def test_blocks_are_made_from_pygs_output_as_from_ours(fanout: int) -> None:
    source = memory_graph()
    nodes = torch.arange(0, 60, 6)
    kinds: Any = ("gcn", "gcn")
    exact = next(iter(batches(source, nodes, kinds, None).epoch(0)))
    wanted = propagate(exact)
    order = exact.targets.argsort()
    rounds = 1 if fanout == 100 else 200
    drawn = []
    for epoch in range(rounds):
        batch = next(iter(batches(source, nodes, kinds, [fanout, fanout]).epoch(epoch)))
        assert batch.blocks[1].own is not None
        drawn.append(propagate(batch)[batch.targets.argsort()])
    mean = torch.stack(drawn).mean(dim=0)
    error = torch.stack(drawn).std(dim=0, correction=0) / rounds**0.5
    assert ((mean - wanted[order]).abs() <= 5 * error + 1e-5).all()


@pytest.mark.usefixtures("pyg_lib")
def test_pygs_draws_follow_the_seed_and_leave_torchs_generator_alone() -> None:
    source, nodes, kinds = memory_graph(), torch.arange(40), ("gcn",)
    state = torch.random.get_rng_state()

    def draw(epoch: int) -> Tensor:
        return next(iter(batches(source, nodes, kinds, [2]).epoch(epoch))).blocks[0].columns

    first, again, other = draw(0), draw(0), draw(1)
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), state)


def propagate(batch: Batch) -> Tensor:
    assert isinstance(batch.x, Tensor)
    return batch.blocks[1] @ (batch.blocks[0] @ batch.x.double())


def batches(source: Any, nodes: Tensor, kinds: Any, fanouts: list[int] | None) -> NodeBatches:
    return NodeBatches(source, nodes, kinds, fanouts=fanouts, batch_size=100, seed=1)
