from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crossgcn.data.splits import Split, make_splits
from crossgcn.errors import BadInput, Note
from crossgcn.training.loop import EpochMetrics
from crossgcn.training.records import (
    clear_run,
    describe_dataset,
    describe_split,
    finished_run,
    write_epochs,
    write_record,
)

WANTED: dict[str, Any] = {"config": {"epochs": 3, "order": (2, 1)}, "seed": 4}


def test_epochs_read_back_to_the_last_bit(tmp_path: Path) -> None:
    history = [EpochMetrics(1, 0.1 + 0.2, 1 / 3, 1e-17, 0.5), EpochMetrics(2, 1e9, 0.0, 2.0, 1.0)]
    write_epochs(tmp_path, history)
    with (tmp_path / "epochs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [
        EpochMetrics(int(row.pop("epoch")), **{key: float(value) for key, value in row.items()})
        for row in rows
    ] == history


def test_a_finished_run_is_found_again(tmp_path: Path) -> None:
    record = WANTED | {"status": "done", "test_accuracy": 0.7}
    write_record(tmp_path, record)
    assert finished_run(tmp_path, WANTED) == json.loads(json.dumps(record))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 5}, r"another seed \(5, not 4\)"),
        ({"config": {"epochs": 4, "order": [2, 1]}}, r"another epochs \(4, not 3\)"),
        (
            {"config": WANTED["config"] | {"bias": True}},
            r"another bias \(True, not None\)",
        ),
    ],
)
def test_another_finished_run_is_told_apart_and_not_given_up(
    change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    write_record(tmp_path, WANTED | {"status": "done"} | change)
    with pytest.raises(BadInput, match=named):
        finished_run(tmp_path, WANTED)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff", b'{"status": "do', b'{"status": "done"}', b"[" * 100_000],
)
def test_a_damaged_record_counts_as_none_and_is_named(content: bytes, tmp_path: Path) -> None:
    assert finished_run(tmp_path, WANTED) is None
    (tmp_path / "run.json").write_bytes(content)
    with pytest.warns(Note, match=r"run\.json: is not (valid|what was).* trained again"):
        assert finished_run(tmp_path, WANTED) is None


def test_a_finished_run_with_a_changed_or_missing_file_is_trained_again(tmp_path: Path) -> None:
    names = ("epochs.csv", "model.safetensors", "preprocess.json", "config.json")
    for name in names:
        (tmp_path / name).write_text(name)
    write_record(tmp_path, WANTED | {"status": "done"})
    for name in names:
        for damage in (lambda path: path.write_text("other"), Path.unlink):
            damage(tmp_path / name)
            with pytest.warns(Note, match=rf"{name}: is not what was written there"):
                assert finished_run(tmp_path, WANTED, with_model=True) is None
        (tmp_path / name).write_text(name)
    assert finished_run(tmp_path, WANTED, with_model=True) is not None
    clear_run(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_datasets_hash_sees_every_part(small_graph: Data) -> None:
    original = describe_dataset(small_graph)
    assert describe_dataset(small_graph.clone()) == original
    changed = [small_graph.clone() for _ in range(3)]
    changed[0].x.values()[0] += 1e-6
    changed[1].edge_index[0, 0] = 89
    changed[2].y[0] = 1
    hashes = {describe_dataset(data)["sha256"] for data in changed}
    assert len(hashes | {original["sha256"]}) == 4


def test_the_splits_description_sees_every_node(small_graph: Data) -> None:
    split = make_splits(small_graph, "public")[0]
    moved = Split(split.train, split.validation[1:], torch.cat([split.validation[:1], split.test]))
    first, second = describe_split(split), describe_split(moved)
    assert first["train"] == split.train.tolist()
    assert first["train_sha256"] == second["train_sha256"]
    assert first["validation_sha256"] != second["validation_sha256"]
    assert first["test_sha256"] != second["test_sha256"]
