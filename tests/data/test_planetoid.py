from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from planetoid_files import python2_pickle, write_toy
from torch_geometric.utils import is_undirected

from crossgcn.data import CATALOGUE, read_planetoid
from crossgcn.data.datasets.planetoid import read_bundled_citeseer
from crossgcn.errors import BadInput

needs_raw_files = pytest.mark.skipif(
    "CROSSGCN_DATA" not in os.environ, reason="CROSSGCN_DATA is not set: no raw Planetoid files"
)


@needs_raw_files
@pytest.mark.parametrize("name", ["citeseer", "cora", "pubmed"])
def test_real_graphs_have_the_statistics_of_the_catalogue(name: str) -> None:
    data = read_planetoid(Path(os.environ["CROSSGCN_DATA"]) / "planetoid", name)
    entry = CATALOGUE[name]
    source, target = data.edge_index
    assert data.num_nodes == entry.nodes == len(data.y)
    assert data.num_features == entry.features
    assert int((source < target).sum()) == entry.edges
    assert int((source == target).sum()) == entry.self_loops
    assert is_undirected(data.edge_index)
    keys = source * entry.nodes + target
    assert bool((keys.diff() > 0).all()), "sorted, and no edge twice"
    assert data.y[data.y >= 0].unique().tolist() == list(range(entry.classes))
    assert int((data.y < 0).sum()) == (15 if name == "citeseer" else 0)
    assert data.num_classes == entry.classes
    train, validation, test = ((data.roles[0] == role).sum().item() for role in (1, 2, 3))
    assert (train, validation, test) == (20 * entry.classes, 500, 1000)
    assert torch.bincount(data.y[data.roles[0] == 1]).tolist() == [20] * entry.classes


@needs_raw_files
def test_citeseer_keeps_its_fifteen_unlabelled_nodes_with_edges_but_without_features() -> None:
    data = read_planetoid(Path(os.environ["CROSSGCN_DATA"]) / "planetoid", "citeseer")
    unlabelled = torch.nonzero(data.y < 0).flatten()
    assert len(unlabelled) == 15
    assert int(unlabelled.min()) >= 2312
    neighbours = torch.isin(data.edge_index[0], unlabelled).sum()
    assert int(neighbours) == 16, "the raw graph links them: one twice, the others once"
    assert data.x.to_dense()[unlabelled].sum() == 0
    assert not data.roles[0, unlabelled].any()


def test_test_rows_go_where_the_index_says_and_gaps_stay_empty(tmp_path: Path) -> None:
    write_toy(tmp_path)
    data = read_planetoid(tmp_path, "toy")
    expected = [[1, 0], [0, 1], [1, 1], [0, 2], [4, 0], [0, 0], [6, 6]]
    assert data.x.to_dense().tolist() == expected
    assert data.y.tolist() == [0, 1, -1, 0, 0, -1, 1]
    assert data.edge_index.tolist() == [[0, 0, 1, 2, 3, 4, 6], [0, 1, 0, 6, 4, 3, 2]]
    assert data.roles[0, [4, 5, 6]].tolist() == [3, 0, 3]


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("tx", [1], "no CSR matrix"),
        ("ty", np.zeros((2, 2)), "not of numbers"),
        ("ty", np.zeros((3, 2), np.int32), "3 rows, tx 2"),
        ("ty", np.zeros(2, np.int32), "no matrix of one-hot labels"),
        ("ty", np.zeros((2, 0), np.int32), "no matrix of one-hot labels"),
        ("ally", np.zeros((3, 2), np.int32), "3 rows, allx 4"),
        ("graph", [1], "no mapping"),
        ("graph", {0: ["a"]}, "no number"),
        ("graph", {0: [7]}, r"outside 0\.\.6"),
    ],
)
def test_parts_that_do_not_fit_are_named(
    tmp_path: Path, part: str, value: Any, message: str
) -> None:
    write_toy(tmp_path)
    (tmp_path / f"ind.toy.{part}").write_bytes(python2_pickle(value))
    with pytest.raises(BadInput, match=message) as caught:
        read_planetoid(tmp_path, "toy")
    assert f"ind.toy.{part}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("6\nx\n", "'x'"), ("", "empty"), ("6\n6\n", "twice"), ("6\n5\n", "least is 5")],
)
def test_a_bad_test_index_is_explained(tmp_path: Path, text: str, message: str) -> None:
    write_toy(tmp_path)
    (tmp_path / "ind.toy.test.index").write_text(text)
    with pytest.raises(BadInput, match=message):
        read_planetoid(tmp_path, "toy")


def test_one_test_node_and_one_feature_are_enough(tmp_path: Path) -> None:
    parts = write_toy(tmp_path)
    parts |= {"tx": parts["tx"][:1], "ty": parts["ty"][:1]}
    parts |= {part: parts[part][:, :1] for part in ("x", "tx", "allx")}
    parts["graph"] = {0: [4]}
    for part, value in parts.items():
        (tmp_path / f"ind.toy.{part}").write_bytes(python2_pickle(value))
    (tmp_path / "ind.toy.test.index").write_text("4\n")
    data = read_planetoid(tmp_path, "toy")
    assert data.x.to_dense().tolist() == [[1], [0], [1], [0], [6]]
    assert data.y.tolist() == [0, 1, -1, 0, 1]
    assert data.edge_index.tolist() == [[0, 4], [4, 0]]


def test_gaps_are_allowed_up_to_ten_times_the_test_nodes(tmp_path: Path) -> None:
    write_toy(tmp_path)
    index = tmp_path / "ind.toy.test.index"
    index.write_text("4\n23\n")
    data = read_planetoid(tmp_path, "toy")
    assert data.num_nodes == 24 and data.x.to_dense()[5:23].sum() == 0
    index.write_text("4\n24\n")
    with pytest.raises(BadInput, match=r"ind\.toy\.test\.index: .*its most is 24"):
        read_planetoid(tmp_path, "toy")


def test_the_bundled_citeseer_has_binary_features_and_the_public_split() -> None:
    data = read_bundled_citeseer()
    assert data.num_nodes == CATALOGUE["citeseer"].nodes
    assert set(data.x.values().tolist()) == {1.0}
    assert torch.bincount(data.roles[0].long()).tolist()[1:] == [120, 500, 1000]


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    write_toy(tmp_path)
    (tmp_path / "ind.toy.tx").unlink()
    with pytest.raises(BadInput, match=r"ind\.toy\.tx: cannot be read"):
        read_planetoid(tmp_path, "toy")
