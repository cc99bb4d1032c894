from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from crossgcn import BadInput, Experiment, RunConfig, read_graph, save_graph
from crossgcn.data import canonical_graph
from crossgcn.data.datasets.citeseer_cross import citeseer_cross


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


def assert_same(first: Data, second: Data) -> None:
    """Every tensor bit for bit, and every name but the graph's own."""
    assert set(first.keys()) == set(second.keys())
    for key in set(first.keys()) - {"name"}:
        if isinstance(first[key], torch.Tensor):
            assert torch.equal(first[key], second[key]), key
        else:
            assert first[key] == second[key], key


def test_masks_become_roles_and_classes_are_counted() -> None:
    data = canonical_graph(by_hand())
    assert data.roles.tolist() == [[1] * 20 + [2] * 20 + [3] * 20]
    assert data.num_classes == 3
    assert data.x.dtype == torch.float32
    assert "roles" not in by_hand()


def test_a_graph_by_hand_can_be_trained_on_and_saved(tmp_path: Path) -> None:
    (runs,) = Experiment([RunConfig(splits="public", epochs=3)], by_hand()).run()
    assert len(runs.test_accuracy) == 1
    path = tmp_path / "mine.npz"
    save_graph(path, by_hand())
    assert torch.equal(read_graph(path).roles, canonical_graph(by_hand()).roles)


def test_what_is_complete_stays_as_it_is() -> None:
    data = citeseer_cross()
    adopted = canonical_graph(data)
    assert torch.equal(adopted.x, data.x)
    assert torch.equal(adopted.roles, data.roles)
    assert (adopted.name, adopted.num_classes) == (data.name, data.num_classes)


def test_a_column_of_each_mask_is_a_split_and_a_plain_mask_holds_for_all() -> None:
    data = by_hand()
    data.train_mask = torch.stack([data.train_mask, data.val_mask], dim=1)
    data.val_mask = data.train_mask.flip(1)
    first, second = canonical_graph(data).roles.tolist()
    assert first == [1] * 20 + [2] * 20 + [3] * 20
    assert second == [2] * 20 + [1] * 20 + [3] * 20


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"val_mask": None}, r"^data: val_mask is missing; give all of train_mask, val_mask"),
        ({"test_mask": torch.zeros(60)}, r"test_mask is float32 \[60\]; it must be booleans"),
        (
            {"test_mask": torch.zeros(59) > 0},
            r"test_mask is bool \[59\]; .*\[60\], or \[60, splits",
        ),
        ({"test_mask": [True] * 60}, r"test_mask is of type list"),
        ({"roles": torch.ones(1, 60)}, "has both roles and train_mask"),
        (
            {"val_mask": torch.zeros(60, 2) > 0, "test_mask": torch.zeros(60, 3) > 0},
            "val_mask has 2 columns where another mask has 3",
        ),
        (
            {"test_mask": torch.arange(120).view(60, 2) == 15},
            "split 1, node 7 is in train_mask and in test_mask",
        ),
    ],
)
def test_masks_that_do_not_fit_are_named_and_called_no_arrays(
    changes: dict[str, Any], message: str
) -> None:
    data = by_hand()
    for name, mask in changes.items():
        data[name] = mask
    with pytest.raises(BadInput, match=message) as caught:
        canonical_graph(data)
    assert "array" not in str(caught.value)


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (torch.ones(1, 60), r"roles is float32 \[1, 60\]; it must be integers"),
        (torch.full((1, 60), 257), r"roles\[0, 0\] is 257"),
    ],
)
def test_roles_are_checked_before_they_are_narrowed(roles: torch.Tensor, message: str) -> None:
    data = Data(x=by_hand().x, edge_index=by_hand().edge_index, y=by_hand().y, roles=roles)
    with pytest.raises(BadInput, match=message):
        canonical_graph(data)


@settings(deadline=None, max_examples=60)
@given(
    edges=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.floats(0, 2**127, width=32))),
    weighted=st.booleans(),
)
def test_a_graph_in_memory_a_file_of_it_and_one_adopted_twice_are_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    edges: list[tuple[int, int, float]],
    weighted: bool,
) -> None:
    copies: dict[tuple[int, int], list[float]] = {}
    for source, target, weight in edges:
        copies.setdefault((min(source, target), max(source, target)), []).append(weight)
    both_ways = sorted({pair for low, high in copies for pair in ((low, high), (high, low))})

    data = Data(
        x=torch.eye(5),
        edge_index=torch.tensor([edge[:2] for edge in edges], dtype=torch.int64).view(-1, 2).t(),
        y=torch.tensor([0, 1, 0, 1, -1]),
    )
    if weighted:
        data.edge_weight = torch.tensor([edge[2] for edge in edges], dtype=torch.float64)
    adopted = canonical_graph(data)
    assert list(zip(*adopted.edge_index.tolist(), strict=True)) == both_ways
    assert ("edge_weight" in adopted) == weighted
    if weighted:
        lists = [copies[min(pair), max(pair)] for pair in both_ways]
        means = torch.tensor([sum(weights) / len(weights) for weights in lists])
        torch.testing.assert_close(adopted.edge_weight, means)

    assert_same(canonical_graph(adopted), adopted)
    path = tmp_path_factory.mktemp("graphs") / "g.npz"
    save_graph(path, data)
    assert_same(read_graph(path), adopted)


def test_edge_attributes_are_not_taken_for_weights() -> None:
    data = by_hand()
    data.edge_attr = torch.rand(150, 1)
    assert "edge_weight" not in canonical_graph(data)


def test_overlapping_masks_and_odd_layouts_are_refused() -> None:
    overlapping = by_hand()
    overlapping.test_mask[7] = True
    with pytest.raises(BadInput, match=r"data: node 7 is in train_mask and in test_mask"):
        canonical_graph(overlapping)
    coo = by_hand()
    coo.x = coo.x.to_sparse_coo()
    with pytest.raises(BadInput, match=r"layout torch.sparse_coo; give it dense or"):
        canonical_graph(coo)
    outside = by_hand()
    outside.edge_index[1, 4] = 60
    with pytest.raises(BadInput, match=r"data: edge_index\[1, 4\] is 60"):
        Experiment([RunConfig(splits="public")], outside)
    infinite = by_hand()
    infinite.x[3, 1] = float("inf")
    with pytest.raises(BadInput, match=r"data: x row 3, column 1 is inf"):
        Experiment([RunConfig(splits="public")], infinite)
    with pytest.raises(BadInput, match=r"data: x is missing"):
        canonical_graph(Data(y=torch.zeros(3, dtype=torch.int64)))
