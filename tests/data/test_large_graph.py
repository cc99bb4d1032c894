from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data import make_splits
from crossgcn.data.datasets.generated import large_graph
from crossgcn.errors import BadInput
from crossgcn.graph import edges_of_kind


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    folder = tmp_path_factory.mktemp("large") / "graph"
    return large_graph(folder, 20_000, 250_000, 50, 12, seed=4).to_data()


def test_nearly_all_edges_are_different_and_none_is_a_self_loop(data: Data) -> None:
    source, target = data.edge_index
    assert not (source == target).any()
    assert 0.97 * 250_000 < int((source < target).sum()) <= 250_000
    assert (data.x.shape, data.num_classes) == ((20_000, 50), 12)
    sizes = torch.bincount(data.y)
    assert (sizes.diff() <= 0).all() and sizes[0] > 3 * sizes[-1] > 0


def test_few_nodes_have_very_many_neighbours_wherever_they_are(data: Data) -> None:
    degree = torch.bincount(data.edge_index[0], minlength=20_000)
    ordered = degree.sort(descending=True).values
    assert ordered[0] > 20 * degree.double().mean()
    assert ordered[:200].sum() > 0.07 * degree.sum()
    heaviest = degree.topk(200).indices
    assert 0.4 < float((heaviest < 10_000).double().mean()) < 0.6


def _nearest_mean_accuracy(x: Tensor, data: Data) -> float:
    train, test = data.roles[0] == 1, data.roles[0] == 3
    sums = torch.zeros(12, x.shape[1]).index_add(0, data.y[train], x[train])
    means = sums / torch.bincount(data.y[train]).unsqueeze(1)
    return float((torch.cdist(x[test], means).argmin(1) == data.y[test]).float().mean())


def test_a_node_tells_its_class_and_its_neighbours_tell_more(data: Data) -> None:
    adjacency = edges_of_kind("gcn", data.edge_index, 20_000)
    majority = float(torch.bincount(data.y).max()) / 20_000
    alone = _nearest_mean_accuracy(data.x, data)
    together = _nearest_mean_accuracy(adjacency @ data.x, data)
    assert majority + 0.1 < alone < together - 0.05
    (split,) = make_splits(data, "public")
    assert (len(split.train), len(split.validation), len(split.test)) == (12_000, 2_000, 6_000)


def test_the_seed_decides_every_byte_and_memory_none(tmp_path: Path) -> None:
    prints = [
        large_graph(tmp_path / f"{at}", 3_000, 60_000, 8, 5, seed, memory_limit=limit).fingerprint
        for at, (seed, limit) in enumerate([(1, 1 << 28), (1, 1 << 20), (2, 1 << 28)])
    ]
    assert prints[0] == prints[1] != prints[2]


def test_sizes_that_make_no_graph_are_refused(tmp_path: Path) -> None:
    for sizes, words in (
        ((1, 10, 2, 1), "num_nodes is 1; give 2 or more"),
        ((10, 0, 2, 1), "num_edges is 0; give 1 or more"),
        ((10, 10, 2, 9), "give fewer classes, or more nodes"),
        ((10, 10, 2, 2, -1), "seed is -1"),
    ):
        with pytest.raises(BadInput, match=words):
            large_graph(tmp_path / "graph", *sizes)
    assert list(tmp_path.iterdir()) == []
