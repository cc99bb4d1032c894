from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
import torch

from crossgcn.data import load_dataset, read_graphsage
from crossgcn.errors import BadInput

Command = Callable[..., CompletedProcess[str]]


class Files:
    """GraphSAGE's four files of thirty nodes, kept as Python values until they are written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        random = np.random.default_rng(0)
        self.nodes: list[Any] = [
            {"id": f"t{node}", "val": node % 5 == 3, "test": node % 5 == 4, "label": 0}
            for node in range(30)
        ]
        ends = random.integers(30, size=(80, 2)).tolist()
        self.links: list[Any] = [
            {"source": source, "target": target, "test_removed": False, "train_removed": True}
            for source, target in ends
        ]
        self.rows: Any = {
            f"t{node}": row for node, row in enumerate(random.permutation(30).tolist())
        }
        self.classes: Any = {f"t{node}": node % 3 for node in range(30)}
        self.features: Any = random.normal(3.0, 5.0, (30, 4))

    def write(self) -> Path:
        graph = {
            "directed": False,
            "graph": {"name": "disjoint_union( ,  )"},
            "nodes": self.nodes,
            "links": self.links,
            "multigraph": False,
        }
        parts = {"G": graph, "id_map": self.rows, "class_map": self.classes}
        for name, content in parts.items():
            (self.folder / f"reddit-{name}.json").write_text(json.dumps(content), encoding="utf-8")
        np.save(self.folder / "reddit-feats.npy", self.features)
        return self.folder / "reddit-G.json"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_every_node_gets_its_own_features_class_role_and_neighbours(files: Files) -> None:
    data = load_dataset(files.write())
    training = [files.rows[f"t{node}"] for node in range(30) if node % 5 < 3]
    mean, deviation = files.features[training].mean(0), files.features[training].std(0)
    for node in range(30):
        raw = files.features[files.rows[f"t{node}"]]
        np.testing.assert_allclose(data.x[node].numpy(), (raw - mean) / deviation, rtol=1e-5)
        assert data.y[node] == node % 3
        assert data.roles[0, node] == [1, 1, 1, 2, 3][node % 5]
    wanted = {(link["source"], link["target"]) for link in files.links}
    wanted |= {(target, source) for source, target in wanted}
    assert set(map(tuple, data.edge_index.t().tolist())) == wanted
    assert (data.name, data.num_classes, data.x.dtype) == ("reddit", 3, torch.float32)


def test_links_by_id_and_the_newer_name_edges_are_read_alike(files: Files) -> None:
    by_position = read_graphsage(files.write().parent)
    for link in files.links:
        link["source"], link["target"] = f"t{link['source']}", f"t{link['target']}"
    path = files.write()
    path.write_text(path.read_text().replace('"links"', '"edges"'))
    assert torch.equal(load_dataset(path).edge_index, by_position.edge_index)


def test_numbers_for_ids_and_text_for_rows_and_classes_are_read_alike(files: Files) -> None:
    texts = load_dataset(files.write())
    for node in range(30):
        files.nodes[node]["id"] = node
    files.rows = {name[1:]: str(row) for name, row in files.rows.items()}
    files.classes = {name[1:]: str(label) for name, label in files.classes.items()}
    numbers = load_dataset(files.write())
    for name in ("x", "edge_index", "y", "roles"):
        assert torch.equal(numbers[name], texts[name])


def test_a_node_without_flags_is_left_out_with_its_links(files: Files) -> None:
    whole = load_dataset(files.write())
    del files.nodes[10]["val"]
    data = load_dataset(files.write())
    kept = torch.tensor([node for node in range(30) if node != 10])
    touched = (whole.edge_index == 10).any(dim=0)
    assert touched.any()
    renumbered = whole.edge_index[:, ~touched]
    assert torch.equal(data.edge_index, renumbered - (renumbered > 10).long())
    assert torch.equal(data.y, whole.y[kept])
    assert data.x.shape == (29, 4)


def test_a_column_that_is_constant_in_training_is_only_centred(files: Files) -> None:
    files.features[:, 1] = 0.1
    files.features[files.rows["t4"], 1] = 2.1
    data = load_dataset(files.write())
    assert float(data.x[4, 1]) == pytest.approx(2.0)
    assert float(data.x[0, 1]) == pytest.approx(0.0, abs=1e-6)


def test_chunks_add_up_to_the_whole(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load_dataset(files.write())
    monkeypatch.setattr("crossgcn.data.datasets.graphsage._CHUNK", 7)
    torch.testing.assert_close(load_dataset(files.write()).x, whole.x)


def test_a_graph_without_links_is_read(files: Files) -> None:
    files.links = []
    assert load_dataset(files.write()).edge_index.shape == (2, 0)


@pytest.mark.parametrize("missing", ["G.json", "id_map.json", "class_map.json", "feats.npy"])
def test_a_missing_file_is_named_with_the_four_that_are_needed(files: Files, missing: str) -> None:
    path = files.write()
    (files.folder / f"reddit-{missing}").unlink()
    with pytest.raises(BadInput, match=f"reddit-{missing}: no such file; .* reddit-class_map"):
        load_dataset(path)


def _set(container: str, key: Any, value: Any) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        getattr(files, container)[key] = value

    return change


def _all_validate(files: Files) -> None:
    for node in files.nodes:
        node.update(val=True, test=False)


def _shuffled_numbers(files: Files) -> None:
    for node in range(30):
        files.nodes[node]["id"] = 29 - node


def _no_flags(files: Files) -> None:
    for node in files.nodes:
        del node["test"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.rows.pop("t7"), r"reddit-feats\.npy: has 30 rows, but .* has 29 ids"),
        (lambda f: f.rows.update(x=f.rows.pop("t7")), r"id_map\.json: node 't7' .* not in it"),
        (lambda f: f.classes.pop("t7"), r"class_map\.json: node 't7' of the graph is not in it"),
        (_set("rows", "t7", 30), r"id_map\.json: node 't7' has the row 30; .* 0 to 29"),
        (_set("rows", "t7", 1.5), r"id_map\.json: node 't7' has the row 1\.5"),
        (lambda f: f.rows.update(t7=f.rows["t8"]), r"id_map\.json: row \d+ belongs to two nodes"),
        (_set("classes", "t7", [0, 1]), r"'t7' has a list for a class; .* one class per node"),
        (_set("classes", "t7", -1), r"class_map\.json: node 't7' has the class -1"),
        (_set("classes", "t7", "cats"), r"node 't7' has the class 'cats'"),
        (lambda f: setattr(f, "features", f.features[:-1]), r"feats\.npy: has 29 rows"),
        (lambda f: setattr(f, "features", f.features[0]), r"feats\.npy: holds float64 \[4\]"),
        (lambda f: setattr(f, "features", f.features.astype(str)), r"feats\.npy: holds <U"),
        (
            lambda f: setattr(f, "features", f.features * 1e200),
            r"squares of column 0 are too large",
        ),
        (_set("features", (8, 2), np.nan), r"feats\.npy: row 8, column 2 is nan"),
        (_set("features", (8, 2), -np.inf), r"feats\.npy: row 8, column 2 is -inf"),
        (_set("links", 5, {"source": 1}), r"G\.json: link 5 lacks source or target"),
        (_set("links", 5, {"source": 1, "target": 30}), r"G\.json: a link ends in 30, .* 0 to 29"),
        (_set("links", 5, {"source": "t1", "target": 2}), r"a link ends in 't1', which is neither"),
        (_set("links", 5, {"source": 1, "target": [2]}), r"link 5 has an end \[2\]"),
        (_set("nodes", 5, "t5"), r"G\.json: node 5 is 't5'"),
        (_set("nodes", 5, {"source": 1, "target": 2}), r"81 objects with source and target for 80"),
        (_set("nodes", 5, {"id": "t4", "val": False, "test": False}), r"nodes 4 and 5 both have"),
        (_set("nodes", 5, {"id": "t5", "val": True, "test": True}), r"node 5 has val True and"),
        (_set("nodes", 5, {"id": "t5", "val": "no", "test": False}), r"node 5 has val 'no'"),
        (_set("nodes", 5, {"val": False, "test": False}), r"node 5 has the id None"),
        (_shuffled_numbers, r"read as positions of nodes and as their ids"),
        (_all_validate, r"G\.json: no node trains"),
        (_no_flags, r"G\.json: no node has both flags"),
        (lambda f: setattr(f, "nodes", {}), r"G\.json: has no list 'nodes'"),
        (lambda f: setattr(f, "links", None), r"G\.json: has no list 'links' or 'edges'"),
        (lambda f: setattr(f, "rows", [1, 2]), r"id_map\.json: holds list, not a JSON object"),
    ],
)
def test_what_is_wrong_is_refused_by_name(
    files: Files, change: Callable[[Files], object], message: str
) -> None:
    change(files)
    path = files.write()
    with pytest.raises(BadInput, match=message):
        load_dataset(path)


def test_files_that_are_cut_short_or_pickled_are_refused(files: Files) -> None:
    path = files.write()
    path.write_text(path.read_text()[:-5])
    with pytest.raises(BadInput, match=r"reddit-G\.json: not JSON, or cut short"):
        load_dataset(path)
    files.write()
    feats = files.folder / "reddit-feats.npy"
    feats.write_bytes(feats.read_bytes()[:-8])
    with pytest.raises(BadInput, match=r"reddit-feats\.npy: not a \.npy file .* cut short"):
        load_dataset(path)
    np.save(feats, np.array([{}, 1], dtype=object), allow_pickle=True)
    with pytest.raises(BadInput, match=r"reddit-feats\.npy: not a \.npy file of plain numbers"):
        load_dataset(path)


def test_the_command_line_trains_on_it(files: Files, crossgcn: Command) -> None:
    path = files.write()
    done = crossgcn(
        *("train", path, "--splits", "public", "--epochs", 2, "--workers", 1),
        *("--json", "--out", "out"),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["dataset"] == str(path)
    refused = crossgcn("train", files.folder / "other-G.json", "--splits", "public")
    assert refused.returncode == 2
    assert "other-G.json: no such file" in refused.stderr and "Traceback" not in refused.stderr
