from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path

import pytest
import torch
from planetoid_files import write_toy
from torch_geometric.utils import is_undirected

from crossgcn.data import CATALOGUE, read_planetoid
from crossgcn.data.datasets.catalogue import REGISTRY
from crossgcn.data.datasets.load import read_bundled_citeseer
from crossgcn.errors import BadInput

needs_raw_files = pytest.mark.skipif(
    "CROSSGCN_DATA" not in os.environ, reason="CROSSGCN_DATA is not set: no raw Planetoid files"
)


@needs_raw_files
@pytest.mark.parametrize("name", ["citeseer", "cora", "pubmed"])
def test_edges_are_sorted_and_the_public_split_is_planetoids(name: str) -> None:
    data = read_planetoid(name)
    entry = CATALOGUE[name]
    source, target = data.edge_index
    assert is_undirected(data.edge_index)
    keys = source * entry.nodes + target
    assert bool((keys.diff() > 0).all()), "sorted, and no edge twice"
    assert data.y[data.y >= 0].unique().tolist() == list(range(entry.classes))
    assert int((data.y < 0).sum()) == (15 if name == "citeseer" else 0)
    train, validation, test = ((data.roles[0] == role).sum().item() for role in (1, 2, 3))
    assert (train, validation, test) == (20 * entry.classes, 500, 1000)
    assert torch.bincount(data.y[data.roles[0] == 1]).tolist() == [20] * entry.classes


@needs_raw_files
def test_citeseer_keeps_its_fifteen_unlabelled_nodes_with_edges_but_without_features() -> None:
    data = read_planetoid("citeseer")
    unlabelled = torch.nonzero(data.y < 0).flatten()
    assert len(unlabelled) == 15
    assert int(unlabelled.min()) >= 2312
    neighbours = torch.isin(data.edge_index[0], unlabelled).sum()
    assert int(neighbours) == 16, "the raw graph links them: one twice, the others once"
    assert data.x.to_dense()[unlabelled].sum() == 0
    assert not data.roles[0, unlabelled].any()


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small graph in the place of Cora, whose hashes are expected."""
    monkeypatch.setenv("CROSSGCN_DATA", str(tmp_path))
    folder = tmp_path / "planetoid"
    folder.mkdir()
    write_toy(folder)
    for file in folder.iterdir():
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        monkeypatch.setitem(REGISTRY, f"planetoid/{file.name}", digest)
    return folder


@pytest.mark.usefixtures("toy")
def test_test_rows_go_where_the_index_says_and_gaps_stay_empty() -> None:
    data = read_planetoid("cora")
    expected = [[1, 0], [0, 1], [1, 1], [0, 2], [4, 0], [0, 0], [6, 6]]
    assert data.x.to_dense().tolist() == expected
    assert data.y.tolist() == [0, 1, -1, 0, 0, -1, 1]
    assert data.edge_index.tolist() == [[0, 0, 1, 2, 3, 4, 6], [0, 1, 0, 6, 4, 3, 2]]
    assert data.roles[0, [4, 5, 6]].tolist() == [3, 0, 3]


@pytest.mark.parametrize(
    "name", ["posix.system", "builtins.eval", "numpy.load", "numpy.ndarray.tofile", "pickle.loads"]
)
def test_a_changed_pickle_is_not_opened_and_none_calls_other_functions(
    toy: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    module, _, function = name.rpartition(".")
    content = f"c{module}\n{function}\n(S'touch {toy / 'executed'}'\ntR.".encode()
    (toy / "ind.cora.graph").write_bytes(content)
    with pytest.raises(BadInput, match=r"ind\.cora\.graph: not the expected file"):
        read_planetoid("cora")
    expected = hashlib.sha256(content).hexdigest()
    monkeypatch.setitem(REGISTRY, "planetoid/ind.cora.graph", expected)
    with pytest.raises(pickle.UnpicklingError, match=f"{name} is not allowed in a Planetoid file"):
        read_planetoid("cora")
    assert not (toy / "executed").exists()


def test_the_bundled_citeseer_has_binary_features_and_the_public_split() -> None:
    data = read_bundled_citeseer()
    assert data.num_nodes == CATALOGUE["citeseer"].nodes
    assert set(data.x.values().tolist()) == {1.0}
    assert torch.bincount(data.roles[0].long()).tolist()[1:] == [120, 500, 1000]
