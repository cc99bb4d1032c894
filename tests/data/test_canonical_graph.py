from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from crossgcn import BadInput, Experiment, RunConfig, read_graph, save_graph
from crossgcn.data import canonical_graph, csr_tensor

NODES = torch.arange(60)
NAN, INF = float("nan"), float("inf")


def by_hand(**changes: Any) -> Data:
    """A graph as PyG users keep theirs: masks, no name, no class count."""
    generator = torch.Generator().manual_seed(0)
    parts: dict[str, Any] = {
        "x": torch.randn(60, 4, generator=generator, dtype=torch.float64),
        "edge_index": torch.randint(60, (2, 150), generator=generator),
        "y": NODES % 3,
        "train_mask": NODES < 20,
        "val_mask": (NODES >= 20) & (NODES < 40),
        "test_mask": NODES >= 40,
    }
    return Data(**(parts | changes))


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
    with pytest.raises(BadInput, match=r"data: edge_index\[1, 4\] is 60"):
        outside = by_hand()
        outside.edge_index[1, 4] = 60
        Experiment([RunConfig(splits="public")], outside)


def test_a_column_of_each_mask_is_a_split_and_a_plain_mask_holds_for_all() -> None:
    data = by_hand()
    data.train_mask = torch.stack([data.train_mask, data.val_mask], dim=1)
    data.val_mask = data.train_mask.flip(1)
    first, second = canonical_graph(data).roles.tolist()
    assert first == [1] * 20 + [2] * 20 + [3] * 20
    assert second == [2] * 20 + [1] * 20 + [3] * 20


@given(
    edges=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.floats(0, 2**99, width=32))),
    weighted=st.booleans(),
)
def test_the_canonical_form_is_the_same_from_memory_a_file_and_itself(
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
    canonical = canonical_graph(data)
    assert list(zip(*canonical.edge_index.tolist(), strict=True)) == both_ways
    assert ("edge_weight" in canonical) == weighted
    if weighted:
        lists = [copies[min(pair), max(pair)] for pair in both_ways]
        means = torch.tensor([sum(weights) / len(weights) for weights in lists])
        torch.testing.assert_close(canonical.edge_weight, means)

    assert_same(canonical_graph(canonical), canonical)
    path = tmp_path_factory.mktemp("graphs") / "g.npz"
    save_graph(path, data)
    assert_same(read_graph(path), canonical)


def test_sparse_features_of_64_bits_become_32() -> None:
    rows = torch.arange(61)
    x = csr_tensor(rows, rows[:60], torch.full((60,), 0.1, dtype=torch.float64), (60, 60))
    found = canonical_graph(by_hand(x=x)).x
    assert found.dtype == torch.float32 and found.values().equal(torch.full((60,), 0.1))


def test_edge_attributes_are_not_taken_for_weights() -> None:
    assert "edge_weight" not in canonical_graph(by_hand(edge_attr=torch.rand(150, 1)))


def changed(shape: tuple[int, ...], **cells: float) -> torch.Tensor:
    """Ones but for some cells, such as ``at_7_1=nan``."""
    tensor = torch.ones(shape)
    for name, value in cells.items():
        tensor[tuple(map(int, name.split("_")[1:]))] = value
    return tensor


NO_MASKS = dict.fromkeys(("train_mask", "val_mask", "test_mask"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": None}, "^data: x is missing; it must be float"),
        ({"x": torch.ones(60)}, r"x is float32 \[60\]"),
        ({"x": torch.ones(0, 3)}, "at least one of each"),
        ({"x": torch.eye(60).to_sparse()}, "layout torch.sparse_coo; it must be .* dense or"),
        ({"x": changed((60, 4), at_3_1=INF)}, r"data: x row 3, column 1 is inf"),
        ({"x": changed((60, 4), at_9_1=NAN, at_7_3=NAN)}, "row 7, column 3 is nan .*2 such in all"),
        ({"x": changed((60, 4), at_3_1=-1e30)}, r"x row 3, column 1 is -1e\+30 .*scale features"),
        ({"edge_index": None}, "edge_index is missing"),
        ({"edge_index": torch.tensor([[0], [60]])}, r"edge_index\[1, 0\] is 60"),
        ({"edge_index": torch.tensor([[0], [-1]])}, r"edge_index\[1, 0\] is -1"),
        ({"edge_index": torch.tensor([[0], [1]], dtype=torch.int32)}, "edge_index is int32"),
        ({"edge_index": torch.zeros(3, 1, dtype=torch.int64)}, r"edge_index is int64 \[3, 1\]"),
        ({"y": None}, "y is missing"),
        ({"y": NODES.view(60, 1)}, r"y is int64 \[60, 1\]"),
        ({"y": NODES[:2]}, r"y is int64 \[2\]; it must be int64 \[60\]"),
        ({"y": NODES - 2}, r"y\[0\] is -2 .* labels are 0"),
        ({"y": NODES, "num_classes": 2}, r"y\[2\] is 2 .* num_classes is 2: raise it"),
        ({"y": changed((60,), at_5=INF)}, r"y\[5\] is inf .* or NaN where it is unknown"),
        ({"edge_weight": torch.ones(3)}, r"edge_weight is float32 \[3\]; it must be float \[150\]"),
        ({"edge_weight": torch.ones(150, 1)}, r"edge_weight is float32 \[150, 1\]"),
        ({"edge_weight": [1.0] * 150}, "edge_weight is of type list"),
        ({"edge_weight": changed((150,), at_1=-0.5)}, r"edge_weight\[1\] is -0.5 .*not negative"),
        ({"edge_weight": changed((150,), at_0=NAN)}, r"edge_weight\[0\] is nan .* finite"),
        ({"edge_weight": changed((150,), at_0=1e38)}, r"edge_weight\[0\] is 1e\+38"),
        ({"val_mask": None}, r"^data: val_mask is missing; .* as all of train_mask, val_mask"),
        ({"test_mask": torch.zeros(60)}, r"test_mask is float32 \[60\]; it must be booleans"),
        ({"test_mask": NODES[:59] > 0}, r"test_mask is bool \[59\]; .*\[60\] or \[60, 1\]"),
        ({"test_mask": [True] * 60}, "test_mask is of type list"),
        ({"test_mask": NODES >= 7}, "split 0, node 7 is in train_mask and in test_mask"),
        (
            {"test_mask": torch.arange(120).view(60, 2) == 15},
            "split 1, node 7 is in train_mask and in test_mask",
        ),
        (
            {"val_mask": torch.zeros(60, 2) > 0, "test_mask": torch.zeros(60, 3) > 0},
            r"val_mask is bool \[60, 2\]; it must be booleans \[60\] or \[60, 3\]",
        ),
        ({"roles": torch.ones(1, 60)}, "has both roles and train_mask"),
        (NO_MASKS | {"roles": torch.ones(1, 60)}, r"roles is float32 \[1, 60\]; it must be integ"),
        (NO_MASKS | {"roles": torch.full((1, 60), 257)}, r"roles\[0, 0\] is 257"),
        (NO_MASKS | {"roles": NODES.view(1, 60) - 3}, r"roles\[0, 0\] is -3"),
        (NO_MASKS | {"roles": NODES[:59].view(1, 59)}, r"roles is int64 \[1, 59\]"),
    ],
)
def test_what_a_model_would_fail_on_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        canonical_graph(by_hand(**changes))


FEW = 5


def directed_graph(edges: list[tuple[int, int, float]], weighted: bool) -> Data:
    ends = np.array([edge[:2] for edge in edges], np.int64).reshape(-1, 2).T.copy()
    return Data(
        x=torch.eye(FEW),
        edge_index=torch.from_numpy(ends),
        edge_weight=torch.tensor([edge[2] for edge in edges]) if weighted else None,
        y=torch.arange(FEW) % 2,
        num_classes=2,
        name="mine",
        directed=True,
    )


def table_of(data: Data) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Weight from each node to each other, nowhere twice."""
    table = np.full((FEW, FEW), np.nan)
    weights = (
        np.ones(data.edge_index.size(1))
        if data.get("edge_weight") is None
        else (data.edge_weight.numpy())
    )
    for (source, target), weight in zip(data.edge_index.T.tolist(), weights, strict=True):
        assert np.isnan(table[source, target])
        table[source, target] = weight
    return table


ENDS = st.integers(0, FEW - 1)
EDGES = st.lists(st.tuples(ENDS, ENDS, st.integers(0, 40).map(lambda n: n / 8)), min_size=1)


@given(EDGES, st.booleans())
def test_repeated_edges_become_one_and_none_is_turned(
    edges: list[tuple[int, int, float]], weighted: bool
) -> None:
    expected = np.full((FEW, FEW), np.nan)
    for source, target, _ in edges:
        same = [weight for *ends, weight in edges if ends == [source, target]]
        expected[source, target] = np.float32(np.mean(same)) if weighted else 1.0
    adopted = canonical_graph(directed_graph(edges, weighted))
    np.testing.assert_array_equal(table_of(adopted), expected)
    again = canonical_graph(adopted)
    assert again.directed and torch.equal(again.edge_index, adopted.edge_index)


@pytest.mark.parametrize("weighted", [False, True])
def test_files_keep_the_direction(tmp_path: Path, weighted: bool) -> None:
    data = directed_graph(
        [(3, 0, 2.0), (0, 3, 1.0), (4, 1, 0.5), (2, 2, 3.0), (4, 0, 1.5)], weighted
    )
    save_graph(tmp_path / "mine.npz", data)
    loaded = read_graph(tmp_path / "mine.npz")
    save_graph(tmp_path / "again.npz", loaded)
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "mine.npz").read_bytes()
    assert loaded.directed and loaded.edge_index.size(1) == 5
    np.testing.assert_array_equal(table_of(loaded), table_of(canonical_graph(data)))
