"""A graph folder with a changed byte is refused by everything that reads that byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from crossgcn.data import load_dataset, open_graph
from crossgcn.data.preprocess import Preprocess
from crossgcn.data.seals import BLOCK, BlockChecksums, add_checksum
from crossgcn.data.stored.format import PAGE
from crossgcn.data.stored.import_graph import store_graph
from crossgcn.data.stored.open import open_dataset
from crossgcn.data.stored.write import writing_graph
from crossgcn.errors import BadInput
from crossgcn.experiments.experiment import Experiment
from crossgcn.experiments.predict import score_known_nodes
from crossgcn.experiments.run_folder import choose_model, open_run
from crossgcn.graph.sampling.sampler import CSRSampler
from crossgcn.graph.sampling.source import source_of
from crossgcn.training.config import RunConfig


@pytest.fixture
def folder(small_graph: Data, tmp_path: Path) -> Path:
    small_graph.edge_weight = torch.linspace(1, 2, small_graph.edge_index.size(1))
    store_graph(small_graph, tmp_path / "graph", preprocess=Preprocess.numbered(3))
    return tmp_path / "graph"


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << (at % 8)
    path.write_bytes(content)


def read_batches(folder: Path) -> None:
    """Read what one epoch of mini-batches reads."""
    stored = open_graph(folder)
    source = source_of(stored)
    source.inverse_roots("add")
    for nodes in torch.split(torch.arange(source.num_nodes), 30):
        source.features(CSRSampler.from_source(source, [4, 4]).sample(nodes).node)
    assert stored.roles is not None and stored.preprocess is not None and stored.labels.numel()


@pytest.mark.parametrize("read", [lambda folder: open_graph(folder).to_data(), read_batches])
def test_one_flipped_bit_in_any_file_is_noticed(folder: Path, read: Callable[[Path], Any]) -> None:
    read(folder)
    random = np.random.default_rng(0)
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        for at in {0, len(content) - 1, *random.integers(0, len(content), 15).tolist()}:
            flip(path, at)
            with pytest.raises(BadInput):
                read(folder)
            path.write_bytes(content)
    read(folder)


def test_a_run_notices_another_bit_where_it_predicts(folder: Path, tmp_path: Path) -> None:
    config = RunConfig.create(dataset=str(folder), splits="public", epochs=2)
    experiment = Experiment([config])
    experiment.run(out=tmp_path / "run", save_models=True)
    choose_model(tmp_path / "run", "cross-gcn-2-layer", experiment.data, experiment.splits)
    score_known_nodes(open_run(tmp_path / "run"))
    flip(folder / "feature_values.npy", -5)
    with pytest.raises(BadInput, match=r"feature_values\.npy: was changed after it was written"):
        score_known_nodes(open_run(tmp_path / "run"))
    with pytest.raises(BadInput, match=r"feature_values\.npy: was changed after it was written"):
        score_known_nodes(open_run(tmp_path / "run", load=False))


def test_a_resealed_folder_is_not_the_graph_of_the_run(folder: Path, tmp_path: Path) -> None:
    before = open_graph(folder).fingerprint
    page = json.loads((folder / PAGE).read_bytes())
    del page["sha256"]
    blocks = page["files"]["labels.npy"]["blocks"]
    page["files"]["labels.npy"]["blocks"] = "0" * len(blocks)
    (folder / PAGE).write_text(json.dumps(add_checksum(page | {"fingerprint": before})))
    with pytest.raises(BadInput, match=r"graph\.json: fingerprint: Extra inputs"):
        open_graph(folder)
    (folder / PAGE).write_text(json.dumps(add_checksum(page)))
    assert open_graph(folder).fingerprint != before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_nodes": True}, "num_nodes"),
        ({"num_nodes": 2**63}, "num_nodes"),
        ({"num_entries": -1}, "num_entries"),
        ({"num_classes": 10**12}, "num_classes"),
        ({"num_features": 0}, "make no graph"),
        ({"directed": 1}, "directed"),
        ({"files": {}}, "make no graph"),
        ({"files": None}, "files"),
        ({"files": {"../../etc/passwd": {"bytes": 1, "blocks": ""}}}, "make no graph"),
        ({"num_nodes": 91}, r"is <i8 \[91\], not <i8 \[92\]"),
    ],
)
def test_a_resealed_page_is_checked_before_it_is_used(
    folder: Path, change: dict[str, Any], words: str
) -> None:
    page = json.loads((folder / PAGE).read_bytes()) | change
    del page["sha256"]
    (folder / PAGE).write_text(json.dumps(add_checksum(page)))
    with pytest.raises(BadInput, match=words):
        open_graph(folder)
    for key in list(page):
        rest = {name: value for name, value in page.items() if name != key}
        (folder / PAGE).write_text(json.dumps(add_checksum(rest)))
        with pytest.raises(BadInput):
            open_graph(folder)


@pytest.mark.parametrize("shape", [[True], [2**63], [-1], [1.5], "90", None, [90, 1]])
def test_a_resealed_shape_is_refused(folder: Path, shape: object) -> None:
    page = json.loads((folder / PAGE).read_bytes())
    del page["sha256"]
    page["files"]["labels.npy"]["shape"] = shape
    (folder / PAGE).write_text(json.dumps(add_checksum(page)))
    with pytest.raises(BadInput, match=r"graph\.json: .*labels\.npy"):
        open_graph(folder)


def test_blocks_are_verified_as_they_are_read(tmp_path: Path) -> None:
    rows = 3 * BLOCK // 32
    with writing_graph(tmp_path / "graph", num_nodes=rows) as writer:
        writer.add_edges(np.array([0]), np.array([1]))
        writer.add_features(np.ones((rows, 8), np.float32))
    flip(tmp_path / "graph" / "features.npy", 2 * BLOCK + 7)
    graph = open_graph(tmp_path / "graph")
    graph.features(np.array([0, rows // 2]))
    with pytest.raises(BadInput, match=r"features\.npy: was changed .* at byte 524,288"):
        graph.features(np.array([rows * 5 // 6]))
    with pytest.raises(BadInput, match=r"features\.npy"):
        graph.verify()


def reseal(folder: Path, name: str, value: int) -> None:
    """Put another number into the middle of an array, and write its hashes anew."""
    path = folder / name
    array = np.load(path)
    array.reshape(-1)[array.size // 2] = value
    np.save(path, array)
    checksums = BlockChecksums()
    checksums.update(path.read_bytes())
    page = json.loads((folder / PAGE).read_bytes())
    del page["sha256"]
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    page["files"][name] |= {"blocks": checksums.finish(), "sha256": sha256}
    (folder / PAGE).write_text(json.dumps(add_checksum(page)))


@pytest.mark.parametrize("read", [lambda folder: open_graph(folder).to_data(), read_batches])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("offsets", 2**40),
        ("offsets", -7),
        ("offsets", 1),
        ("neighbours", 90),
        ("neighbours", 2**30),
        ("neighbours", -1),
        ("feature_offsets", 2**40),
        ("feature_columns", 24),
        ("feature_columns", 0),
        ("feature_columns", -1),
    ],
)
def test_impossible_numbers_are_refused_in_a_resealed_folder_too(
    folder: Path, name: str, value: int, read: Callable[[Path], Any]
) -> None:
    reseal(folder, f"{name}.npy", value)
    with pytest.raises(BadInput, match=rf"{name}\.npy: .* was changed after it was written"):
        read(folder)


@pytest.mark.parametrize(
    ("name", "value"), [("labels", 10**9), ("labels", -2), ("roles", 4), ("roles", -1)]
)
def test_impossible_labels_are_refused_in_a_resealed_folder_too(
    folder: Path, name: str, value: int
) -> None:
    reseal(folder, f"{name}.npy", value)
    for read in (open_dataset, load_dataset):
        with pytest.raises(BadInput, match=rf"{name}\.npy: holds .* was changed"):
            read(folder)
