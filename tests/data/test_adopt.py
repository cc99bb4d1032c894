from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from crossgcn import BadInput, Experiment, RunConfig, read_graph, save_graph
from crossgcn.data import adopt_graph
from crossgcn.data.citeseer_cross import citeseer_cross


def by_hand() -> Data:
    """A graph as PyG users keep theirs: masks, no name, no class count."""
    nodes = torch.arange(60)
    generator = torch.Generator().manual_seed(0)
    return Data(
        x=torch.randn(60, 4, generator=generator, dtype=torch.float64),
        edge_index=torch.randint(60, (2, 150), generator=generator),
        y=nodes % 3,
        train_mask=nodes < 20,
        val_mask=(nodes >= 20) & (nodes < 40),
        test_mask=nodes >= 40,
    )


def test_masks_become_roles_and_classes_are_counted() -> None:
    data = adopt_graph(by_hand())
    assert data.roles.tolist() == [[1] * 20 + [2] * 20 + [3] * 20]
    assert data.num_classes == 3
    assert data.x.dtype == torch.float32
    assert "roles" not in by_hand()


def test_a_graph_by_hand_can_be_trained_on_and_saved(tmp_path: Path) -> None:
    (runs,) = Experiment([RunConfig(splits="public", epochs=3)], by_hand()).run()
    assert len(runs.test_accuracy) == 1
    path = tmp_path / "mine.npz"
    save_graph(path, by_hand())
    assert torch.equal(read_graph(path).roles, adopt_graph(by_hand()).roles)


def test_what_is_complete_stays_as_it_is() -> None:
    data = citeseer_cross()
    adopted = adopt_graph(data)
    assert torch.equal(adopted.x, data.x)
    assert torch.equal(adopted.roles, data.roles)
    assert (adopted.name, adopted.num_classes) == (data.name, data.num_classes)


def test_overlapping_masks_and_odd_layouts_are_refused() -> None:
    overlapping = by_hand()
    overlapping.test_mask[7] = True
    with pytest.raises(BadInput, match=r"data: node 7 is in train_mask and in test_mask"):
        adopt_graph(overlapping)
    coo = by_hand()
    coo.x = coo.x.to_sparse_coo()
    with pytest.raises(BadInput, match=r"layout torch.sparse_coo; give it dense or"):
        adopt_graph(coo)
    outside = by_hand()
    outside.edge_index[1, 4] = 60
    with pytest.raises(BadInput, match=r"data: edge_index\[1, 4\] is 60"):
        Experiment([RunConfig(splits="public")], outside)
    infinite = by_hand()
    infinite.x[3, 1] = float("inf")
    with pytest.raises(BadInput, match=r"data: x row 3, column 1 is inf"):
        Experiment([RunConfig(splits="public")], infinite)
    with pytest.raises(BadInput, match=r"data: x is missing"):
        adopt_graph(Data(y=torch.zeros(3, dtype=torch.int64)))
