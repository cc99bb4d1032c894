from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data import load_dataset, plant_crosses, reddit400k_shaped
from crossgcn.data.datasets.load import citeseer_cross, read_bundled_citeseer
from crossgcn.graph import edges_of_kind


@given(
    labels=st.lists(st.integers(-1, 4), min_size=1, max_size=60),
    order=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
def test_a_product_is_positive_for_its_own_class_and_no_other(
    labels: list[int], order: int, seed: int
) -> None:
    y = torch.tensor(labels)
    x = plant_crosses(y, 5, order, generator=torch.Generator().manual_seed(seed))
    for node, label in enumerate(labels):
        for group in range(5):
            product = x[node, group * order : (group + 1) * order].double().prod()
            assert (product > 0) == (label == group), (node, group)


def test_single_columns_stay_standard_normal_within_each_class() -> None:
    y = torch.zeros(40_000, dtype=torch.int64)
    x = plant_crosses(y, 2, 2, generator=torch.Generator().manual_seed(1))
    assert x.mean(0).abs().max() < 0.03
    assert (x.std(0) - 1).abs().max() < 0.03
    flipped_first = (x[:, 0] < 0).float().mean()
    assert abs(float(flipped_first) - 0.5) < 0.02, "either column may be the one that flips"


def test_only_the_features_differ_from_citeseer() -> None:
    plain, crossed = read_bundled_citeseer(), citeseer_cross()
    assert torch.equal(plain.y, crossed.y)
    assert torch.equal(plain.edge_index, crossed.edge_index)
    assert torch.equal(plain.roles, crossed.roles)
    assert crossed.name == "citeseer-cross"
    assert crossed.num_features == 12


@pytest.fixture(scope="module")
def graph() -> Data:
    return reddit400k_shaped()


def test_it_has_the_counts_of_the_papers_table(graph: Data) -> None:
    source, target = graph.edge_index
    assert graph.x.shape == (30_000, 602) and graph.x.dtype == torch.float32
    assert int((source < target).sum()) == 386_742 == graph.edge_index.shape[1] // 2
    assert len(torch.unique(source * 30_000 + target)) == 2 * 386_742
    assert not (source == target).any()
    backward = torch.sort(target * 30_000 + source).values
    assert torch.equal(torch.sort(source * 30_000 + target).values, backward)
    assert torch.equal(torch.unique(graph.y), torch.arange(41))


def test_three_in_five_nodes_train_and_every_node_has_a_role(graph: Data) -> None:
    assert torch.bincount(graph.roles[0].long()).tolist() == [0, 18_000, 3_000, 9_000]
    assert (graph.y >= 0).all()


def test_few_nodes_have_very_many_neighbours(graph: Data) -> None:
    degree = torch.bincount(graph.edge_index[0], minlength=30_000).sort(descending=True).values
    assert degree[0] > 20 * degree.double().mean()
    assert degree[:300].sum() > 0.1 * degree.sum(), "the first hundredth holds a tenth of the ends"
    assert degree[15_000] < degree.double().mean() < degree[3_000]


def _nearest_mean_accuracy(x: Tensor, graph: Data) -> float:
    """Of a classifier too simple to be tuned: the nearest mean of the training nodes."""
    train, test = graph.roles[0] == 1, graph.roles[0] == 3
    sums = torch.zeros(41, 602).index_add(0, graph.y[train], x[train])
    means = sums / torch.bincount(graph.y[train]).unsqueeze(1)
    return float((torch.cdist(x[test], means).argmin(1) == graph.y[test]).float().mean())


def test_a_node_tells_its_class_and_its_neighbours_tell_more(graph: Data) -> None:
    adjacency = edges_of_kind("gcn", graph.edge_index, 30_000)
    majority = torch.bincount(graph.y[graph.roles[0] == 3]).max() / 9_000
    alone = _nearest_mean_accuracy(graph.x, graph)
    together = _nearest_mean_accuracy(adjacency @ (adjacency @ graph.x), graph)
    assert majority < 0.15
    assert 0.3 < alone < 0.7
    assert together > alone + 0.2


def test_the_seed_decides_everything(graph: Data) -> None:
    again, other = load_dataset("reddit400k-shaped"), load_dataset("reddit400k-shaped", seed=1)
    for name in ("x", "edge_index", "y", "roles"):
        assert torch.equal(again[name], graph[name]), name
        assert not torch.equal(other[name], graph[name]), name
    assert other.edge_index.shape == graph.edge_index.shape
