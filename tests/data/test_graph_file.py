from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from crossgcn.data import csr_tensor, read_graph, read_planetoid, save_graph
from crossgcn.data.datasets.load import read_bundled_citeseer
from crossgcn.errors import BadInput

CSR: dict[str, Any] = {
    "x_indptr": [0, 2, 2, 3],
    "x_indices": [0, 3, 1],
    "x_data": [1.0, 2.0, 3.0],
    "x_shape": [3, 4],
}
GRAPH: dict[str, Any] = {**CSR, "edge_index": [[0, 1, 2], [1, 2, 2]], "y": [0, 1, -1]}


def write(path: Path, without: str = "", **changes: Any) -> Path:
    arrays = {name: value for name, value in (GRAPH | changes).items() if name != without}
    np.savez(path, **arrays)
    return path


def dense(**changes: Any) -> dict[str, Any]:
    arrays = {name: value for name, value in GRAPH.items() if name not in CSR}
    return {**arrays, "x": np.eye(3, dtype=np.float32), **changes}


def assert_same(first: Data, second: Data) -> None:
    assert first.x.layout == second.x.layout
    assert torch.equal(first.x.to_dense(), second.x.to_dense())
    for name in ("edge_index", "y", "roles"):
        assert torch.equal(first[name], second[name]), name
    assert (first.num_nodes, first.num_classes) == (second.num_nodes, second.num_classes)


def test_the_bundled_graph_survives_a_round_trip(tmp_path: Path) -> None:
    data = read_bundled_citeseer()
    save_graph(tmp_path / "copy.npz", data)
    assert_same(read_graph(tmp_path / "copy.npz"), data)


@pytest.mark.skipif("CROSSGCN_DATA" not in os.environ, reason="CROSSGCN_DATA is not set")
def test_the_bundled_graph_is_the_raw_one() -> None:
    raw = read_planetoid("citeseer")
    assert_same(read_bundled_citeseer(), raw)


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    data = read_bundled_citeseer()
    save_graph(tmp_path / "one.npz", data)
    os.utime(tmp_path / "one.npz", (0, 0))
    save_graph(tmp_path / "two.npz", data)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_dense_features_and_masks_work_as_well(tmp_path: Path) -> None:
    masks = {
        "train_mask": [True, False, False],
        "val_mask": [False, True, False],
        "test_mask": [False, False, False],
    }
    np.savez(tmp_path / "mine.npz", **dense(**masks, x=np.eye(3, dtype=np.int64)))
    data = read_graph(tmp_path / "mine.npz")
    assert data.roles.tolist() == [[1, 2, 0]]
    assert data.roles.dtype == torch.int8
    assert data.x.dtype == torch.float32
    assert data.name == "mine"
    save_graph(tmp_path / "again.npz", data)
    assert_same(read_graph(tmp_path / "again.npz"), data)


def test_the_class_count_is_the_files_or_the_highest_label_plus_one(tmp_path: Path) -> None:
    assert read_graph(write(tmp_path / "g.npz")).num_classes == 2
    assert read_graph(write(tmp_path / "g.npz", num_classes=5)).num_classes == 5


def test_an_interrupted_save_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "g.npz"
    save_graph(path, read_graph(write(path)))
    before = path.read_bytes()
    written = []

    def fail_on_third(*arguments: Any, **options: Any) -> None:
        written.append(arguments)
        if len(written) == 3:
            raise KeyboardInterrupt
        original(*arguments, **options)

    original = np.lib.format.write_array
    monkeypatch.setattr(np.lib.format, "write_array", fail_on_third)
    with pytest.raises(KeyboardInterrupt):
        save_graph(path, read_bundled_citeseer())
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["g.npz"]


def test_nothing_unreadable_is_ever_saved(tmp_path: Path) -> None:
    data = read_graph(write(tmp_path / "g.npz"))
    data.edge_index = torch.tensor([[0], [9]])
    with pytest.raises(BadInput, match="the graph to save: edge_index"):
        save_graph(tmp_path / "new.npz", data)
    assert not (tmp_path / "new.npz").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("edge_index", "edge_index is missing; it must be int64"),
        ("y", "y is missing; it must be int64"),
        ("x_data", r"no features: add x, or all of x_indptr, .* \(x_data missing; it has x_indptr"),
    ],
)
def test_a_missing_array_is_named(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_graph(write(tmp_path / "g.npz", without=name))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_index": [[0, 3], [1, 2]]}, r"edge_index\[0, 1\] is 3 .* the graph has 3 nodes"),
        ({"edge_index": [[0.0], [1.0]]}, r"edge_index is float64 \[2, 1\]; it must be int64 \[2,"),
        ({"y": ["a", "b", "c"]}, r"y is <U1 \[3\]; it must be numbers"),
        ({"y": [0.0, 1.0, 0.5], "num_classes": 3}, "y holds numbers, but num_classes is 3"),
        ({"num_classes": 0}, r"y\[0\] is 0 .*num_classes is 0: raise it"),
        ({"num_classes": [3, 3]}, r"num_classes is int64 \[2\]; it must be one integer"),
        ({"directed": [1, 0]}, r"directed is int64 \[2\]; it must be one boolean"),
        ({"x_data": [1.0, np.nan, 3.0]}, "x row 0, column 3 is nan"),
        ({"x_data": [1.0, 2.0, 1e300]}, "x row 2, column 1 is inf"),
        (
            {"x_data": [1.0, 2.0]},
            r"x_shape .* are not a CSR matrix \(.*col_indices.*\); write those of",
        ),
        ({"x_data": ["a", "b", "c"]}, r"x_data is <U1 \[3\]; it must be numbers"),
        ({"x_indptr": [0.0, 2.5, 2, 3]}, "row starts, columns and shape are integers"),
        ({"x_indices": [3, 0, 1]}, r"are not a CSR matrix \(.*sorted.*sum_duplicates"),
        ({"x_shape": [3]}, r"x_shape of shape \[3\] are not a CSR matrix"),
        ({"x_shape": [3, 2**62]}, r"x_shape of shape \[3, \d+\] are not a CSR matrix"),
        ({"edge_weight": [1, 2, 1e300]}, r"edge_weight\[2\] is inf .* divide all weights"),
        ({"y": [0, 10**9, 1]}, "1,000,000,001 classes but 3 nodes; number the classes 0, 1, 2"),
    ],
)
def test_each_fault_is_named_with_place_value_and_remedy(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        read_graph(write(tmp_path / "g.npz", **changes))
    assert str(caught.value).startswith(str(tmp_path / "g.npz"))


def test_a_wide_sparse_graph_is_not_densified(tmp_path: Path) -> None:
    columns = 2_000_000_000
    x = csr_tensor(
        torch.tensor([0, 1, 1]), torch.tensor([columns - 1]), torch.ones(1), (2, columns)
    )
    data = Data(x=x, edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0, 1]), num_nodes=2)
    save_graph(tmp_path / "wide.npz", data)
    assert read_graph(tmp_path / "wide.npz").x.col_indices().tolist() == [columns - 1]
