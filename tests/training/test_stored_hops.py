"""Cross-hops on graph folders, in several processes, and after a stop."""

from __future__ import annotations

import hashlib
import json
import pickle
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
import torch
from architectures import one_thread  # noqa: F401
from safetensors.torch import load_file
from scipy.sparse import csr_array
from torch import Tensor, nn
from torch_geometric.data import Data
from torchrun_commands import start, wait_until

from crossgcn import Experiment, RunConfig
from crossgcn.data.features import csr_tensor
from crossgcn.data.stored.import_graph import store_graph
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.graph.hops import HopColumns
from crossgcn.graph.kept_columns import verify_columns_beside
from crossgcn.graph.neighbourhood import NeighbourLabels, neighbour_labels
from crossgcn.graph.sampling.batches import ExactRows
from crossgcn.graph.sampling.source import MemoryGraph, source_of
from crossgcn.models.catalogue import build_model
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training import inputs
from crossgcn.training.batches.step import MiniBatchStep, batches_of
from crossgcn.training.checkpoints import CHECKPOINT
from crossgcn.training.distributed import Processes
from crossgcn.training.inputs import Inputs

SETTINGS: dict[str, Any] = {
    "model": "cross-hops",
    "splits": "stratified",
    "num_splits": 1,
    "bags": 3,
    "batch_size": 16,
    "metric": "roc_auc",
}
RUN = Path("cross-hops-1-layer", "split-00")


def make_graph(*, directed: bool = False, sparse: bool = False) -> Data:
    torch.manual_seed(0)
    x = (torch.rand(120, 5) < 0.5).float() * torch.rand(120, 5)
    edges = torch.randint(120, (2, 500))
    y = (x[:, 0] * x[:, 1] > 0.1).long()
    matrix = csr_array(x.numpy())
    data = Data(
        x=csr_tensor(matrix.indptr, matrix.indices, matrix.data, (120, 5)) if sparse else x,
        edge_index=edges,
        edge_weight=torch.rand(500),
        y=y,
        name="drawn",
    )
    if directed:
        data.directed = True
    return data


def run(data: Data | None, out: Path, **settings: Any) -> dict[str, Any]:
    config = RunConfig.create(**SETTINGS | {"epochs": 5} | settings)
    (runs,) = Experiment([config], data).run(out=out, save_models=True)
    return runs.records[0]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_graph_folder_has_the_columns_of_the_graph_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directed: bool, sparse: bool
) -> None:
    stored = store_graph(make_graph(directed=directed, sparse=sparse), tmp_path / "graph")
    data = stored.to_data()
    memory = MemoryGraph(data.x, data.edge_index, data.edge_weight, data.y)
    labels = neighbour_labels(data.y, torch.arange(60), 2)
    expected = HopColumns(memory, directed=directed).with_labels(labels)
    # Small chunks, so that there are several.
    monkeypatch.setattr("crossgcn.graph.sampling.batches._ENTRIES_PER_CHUNK", 50)
    monkeypatch.setattr("crossgcn.graph.hops._ROWS", 7)
    monkeypatch.setattr("crossgcn.graph.neighbourhood._WIDTH", 2)
    for folder in (None, tmp_path / "scratch"):
        found = HopColumns(source_of(stored), directed=directed, folder=folder)
        columns = found.with_labels(labels)
        assert isinstance(columns, Tensor)
        assert isinstance(expected, Tensor)
        torch.testing.assert_close(columns, expected, rtol=1e-5, atol=1e-6)
    assert list((tmp_path / "scratch").iterdir()) == []  # temporary files leave nothing


def test_features_of_a_graph_folder_are_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(store_graph(make_graph(), tmp_path / "graph"))
    most, read = 0, source.features

    def count(nodes: Tensor) -> Any:
        nonlocal most
        most = max(most, nodes.numel())
        return read(nodes)

    monkeypatch.setattr(source, "features", count)
    monkeypatch.setattr("crossgcn.graph.hops._ROWS", 10)
    HopColumns(source, folder=tmp_path)
    assert most == 10


def test_kept_columns_are_computed_once_and_anew_when_the_file_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(store_graph(make_graph(), tmp_path / "graph"))
    computed: list[ExactRows] = []
    chunks = ExactRows.chunks

    def count(self: ExactRows, nodes: Tensor | None = None) -> Any:
        computed.append(self)
        return chunks(self, nodes)

    monkeypatch.setattr(ExactRows, "chunks", count)

    def columns(graph: str, hops: int = 2) -> Tensor:
        identity = {"graph": graph, "hops": hops}
        made = HopColumns(source, hops, folder=tmp_path / "kept", identity=identity)
        again: Tensor = pickle.loads(pickle.dumps(made)).without_labels
        assert isinstance(made.without_labels, Tensor)
        assert torch.equal(again, made.without_labels)
        return again

    first = columns("a").clone()
    assert computed
    computed.clear()
    assert torch.equal(columns("a"), first)
    assert not computed
    (file,) = (tmp_path / "kept").glob("hop-columns-*.f32")
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    assert torch.equal(columns("a"), first)
    assert computed
    columns("b")
    columns("a", hops=1)
    assert len(list((tmp_path / "kept").glob("hop-columns-*.f32"))) == 3
    assert not list((tmp_path / "kept").glob(".*"))


def _cut_short(file: Path) -> str:
    file.write_bytes(file.read_bytes()[:-4])
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        lambda file: {"prior": None},
        lambda file: {"prior": [[]]},
        lambda file: {"strength": [10**400]},
        lambda file: {"strength": [1.0]},
        lambda file: {"sha256": _cut_short(file)},
    ],
)
def test_columns_whose_description_was_changed_are_computed_anew(
    tmp_path: Path, change: Callable[[Path], dict[str, Any]]
) -> None:
    graph = store_graph(make_graph(), tmp_path / "graph")
    identity = {"graph": graph.fingerprint, "hops": 2, "directed": False}

    def compute() -> Tensor:
        made = HopColumns(source_of(graph), folder=tmp_path / "graph", identity=identity)
        assert isinstance(made.without_labels, Tensor)
        return made.without_labels.clone()

    first = compute()
    verify_columns_beside(graph)
    (file,) = (tmp_path / "graph").glob("hop-columns-*.f32")
    page = file.with_suffix(".json")
    page.write_text(json.dumps(json.loads(page.read_text()) | change(file)))
    assert torch.equal(compute(), first)


def test_verifying_a_graph_folder_includes_the_columns_in_it(
    tmp_path: Path, crossgcn: Callable[..., CompletedProcess[str]]
) -> None:
    graph = store_graph(make_graph(), Path("graph"))
    identity = {"graph": graph.fingerprint, "hops": 2, "directed": False}
    HopColumns(source_of(graph), folder=Path("graph"), identity=identity)
    verify = ("data", "show", "graph", "--verify")
    assert crossgcn(*verify).returncode == 0
    (file,) = Path("graph").glob("hop-columns-*.f32")
    content = file.read_bytes()
    file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    page = file.with_suffix(".json").read_text()
    for damaged in (page, json.dumps(json.loads(page) | {"shape": ["a"]}), "[]", None):
        file.with_suffix(".json").unlink()
        if damaged is not None:
            file.with_suffix(".json").write_text(damaged)
        done = crossgcn(*verify)
        said = " ".join(done.stderr.split())
        assert done.returncode == 2 and f"{file}: is not what" in said and "remove both" in said


def test_a_full_disk_says_how_much_room_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    source = source_of(store_graph(make_graph(), tmp_path / "graph"))
    with pytest.raises(WorkFailed, match=r"0\.0 GiB of columns there \(No space left"):
        HopColumns(source, folder=tmp_path / "kept", identity={"graph": "a"})
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.parametrize("directed", [False, True])
def test_training_on_a_graph_folder_is_training_in_memory(tmp_path: Path, directed: bool) -> None:
    stored = store_graph(make_graph(directed=directed), tmp_path / "graph")
    on_disk = run(None, tmp_path / "disk", dataset=str(tmp_path / "graph"))
    in_memory = run(stored.to_data(), tmp_path / "memory")
    assert on_disk["test"] == pytest.approx(in_memory["test"], rel=1e-4)
    weights = [
        load_file(tmp_path / name / RUN / "model.safetensors") for name in ("disk", "memory")
    ]
    for name, value in weights[1].items():
        torch.testing.assert_close(weights[0][name], value, rtol=1e-3, atol=1e-4)
    assert len(list((tmp_path / "disk").glob("hop-columns-*.f32"))) == 1
    assert not list((tmp_path / "memory").glob("hop-columns-*"))


def test_columns_on_a_device_with_room_for_them_train_the_same_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_graph(make_graph(), tmp_path / "graph")
    usual = run(None, tmp_path / "usual", dataset=str(tmp_path / "graph"))
    monkeypatch.setattr(inputs, "_fits_on", lambda *_: True)
    other = run(None, tmp_path / "other", dataset=str(tmp_path / "graph"))
    assert other["test"] == pytest.approx(usual["test"], rel=1e-4)
    assert list((tmp_path / "usual").glob("hop-columns-*"))
    assert not list((tmp_path / "other").glob("hop-columns-*"))


@pytest.mark.parametrize(("free", "fits"), [(1 << 14, False), (1 << 26, True)])
def test_columns_are_computed_on_a_gpu_only_if_it_has_room(
    monkeypatch: pytest.MonkeyPatch, free: int, fits: bool
) -> None:
    source = source_of(make_graph())
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 1 << 30))
    assert inputs._fits_on(torch.device("cuda"), source, 2) == fits
    assert not inputs._fits_on(torch.device("cpu"), source, 2)
    assert not inputs._fits_on(None, source, 2)


def test_more_hops_than_a_graph_folder_has_are_refused(tmp_path: Path) -> None:
    data = make_graph()
    data.edge_index = torch.stack([torch.zeros(119, dtype=torch.long), torch.arange(1, 120)])
    data.edge_weight = None
    store_graph(data, tmp_path / "star")
    config = RunConfig.create(**SETTINGS, dataset=str(tmp_path / "star"), hops=3)
    with pytest.raises(BadInput, match=r"no node is farther than 2 hops .*--hops 2"):
        Experiment([config])


def test_a_pickled_source_of_a_graph_folder_is_small(tmp_path: Path) -> None:
    data = Data(x=torch.rand(5000, 8), edge_index=torch.randint(5000, (2, 9000)))
    data.y = torch.arange(5000) % 2
    source = source_of(store_graph(data, tmp_path / "graph"))
    text = pickle.dumps(source)
    assert len(text) < 1000
    assert torch.equal(pickle.loads(text).neighbours, source.neighbours)


class _Stop(Exception):
    pass


@pytest.mark.parametrize("stop_at", ["the middle", "the end"])
def test_a_stopped_training_goes_on_to_the_same_bits_and_keeps_its_patience(
    tmp_path: Path, stop_at: str
) -> None:
    data = make_graph()
    settings = {"patience": 4, "epochs": 60, "dropout": 0.3}
    whole = run(data, tmp_path / "whole", **settings)
    rows = (tmp_path / "whole" / RUN / "epochs.csv").read_text().splitlines()
    last = len(rows) - 1
    assert last == whole["best_epoch"] + 4 < 60
    experiment = Experiment([RunConfig.create(**SETTINGS | settings)], data)
    wanted = last if stop_at == "the end" else last - 2

    def stop(done: int, total: int) -> None:
        if done == wanted:
            raise _Stop

    with pytest.raises(_Stop):
        experiment.run(out=tmp_path / "cut", save_models=True, on_epochs=stop)
    counts: list[int] = []
    experiment.run(
        out=tmp_path / "cut", save_models=True, on_epochs=lambda done, total: counts.append(done)
    )
    assert counts[0] == wanted
    assert counts[-1] == 60  # an early stop leaves nothing to wait for
    for file in ("epochs.csv", "model.safetensors"):
        ours, theirs = (tmp_path / name / RUN / file for name in ("cut", "whole"))
        assert ours.read_bytes() == theirs.read_bytes()


@dataclass(frozen=True)
class _Alone(Processes):
    """One of several processes, whose parts are added up by the test."""

    def wrap(self, model: nn.Module) -> nn.Module:
        return model

    def add_up(self, tensor: Tensor) -> Tensor:
        return tensor


@pytest.mark.parametrize("target", ["classes", "number"])
@pytest.mark.parametrize("world_size", [2, 3])
def test_the_parts_of_several_processes_add_up_to_one(target: str, world_size: int) -> None:
    data = make_graph()
    if target == "number":
        data.y = 10 + data.x[:, 0] * data.x[:, 1]
    torch.manual_seed(0)
    outputs = 2 if target == "classes" else 1
    model = build_model(
        "cross-hops",
        5,
        outputs,
        num_layers=1,
        hidden_channels=4,
        dropout=0.0,
        bags=3,
        label_features=True,
    )
    if target == "number":
        model.predict_number(10.1, 0.2)
    data.num_classes = outputs
    split = Experiment([RunConfig.create(**SETTINGS | {"metric": None})], make_graph()).splits[0]
    assert isinstance(model, CrossHops)
    source = Inputs(data).hop_source(model, split)
    in_bag = torch.rand(3, 120) < 0.9
    config = RunConfig.create(**SETTINGS | {"metric": None})

    def train(rank: int, size: int) -> tuple[list[Tensor], Tensor]:
        batches = batches_of(
            model, source, split.train, fanouts=None, batch_size=16, rank=rank, world_size=size
        )
        group = _Alone(rank, size)
        step = MiniBatchStep(model, batches, config, seed=0, processes=group, in_bag=in_bag)
        step._settled = True
        batch = next(iter(batches.epoch(1)))
        step._backward(batch, (batch.x, batch.blocks), share=float(size))
        gradients = [weight.grad for weight in model.parameters()]
        return [gradient for gradient in gradients if gradient is not None], step.totals

    expected, totals = train(0, 1)
    parts = [train(rank, world_size) for rank in range(world_size)]
    torch.testing.assert_close(sum(part[1] for part in parts), totals, rtol=1e-5, atol=1e-6)
    for position, gradient in enumerate(expected):
        mean = torch.stack([part[0][position] for part in parts]).mean(0)
        torch.testing.assert_close(mean, gradient, rtol=1e-4, atol=1e-6)


def train_command(folder: Path, name: str, **settings: Any) -> list[object]:
    arguments: list[object] = ["train", folder / "graph", "--device", "cpu", "--out", folder / name]
    for setting, value in (SETTINGS | settings).items():
        arguments += [f"--{setting.replace('_', '-')}", value]
    return arguments


@pytest.mark.slow
def test_two_processes_that_were_stopped_end_in_the_same_bytes(tmp_path: Path) -> None:
    store_graph(make_graph(), tmp_path / "graph")
    settings = {"epochs": 40, "dropout": 0.3, "patience": 40}
    stopped = start(train_command(tmp_path, "stopped", **settings), processes=2)
    wait_until((tmp_path / "stopped" / RUN / CHECKPOINT).exists, stopped)
    stopped.send_signal(signal.SIGTERM)
    stopped.communicate(timeout=300)
    assert stopped.returncode != 0
    for arguments in (
        [*train_command(tmp_path, "stopped", **settings), "--resume"],
        train_command(tmp_path, "whole", **settings),
    ):
        process = start(arguments, processes=2)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    for file in ("epochs.csv", "model.safetensors"):
        ours, theirs = (tmp_path / name / RUN / file for name in ("stopped", "whole"))
        assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.slow
def test_two_processes_of_torchrun_give_what_one_gives(tmp_path: Path) -> None:
    store_graph(make_graph(), tmp_path / "graph")
    one = run(None, tmp_path / "one", dataset=str(tmp_path / "graph"), dropout=0.0)
    two = start(train_command(tmp_path, "two", epochs=5, dropout=0.0), processes=2)
    _, err = two.communicate(timeout=300)
    assert two.returncode == 0, err
    record = json.loads((tmp_path / "two" / RUN / "run.json").read_text())
    assert record["processes"] == 2
    assert record["test"] == pytest.approx(one["test"], rel=1e-4)
    weights = [load_file(tmp_path / name / RUN / "model.safetensors") for name in ("one", "two")]
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, rtol=1e-4, atol=1e-5)


def test_labels_of_one_training_node_are_finite() -> None:
    labels = neighbour_labels(torch.tensor([3.0, torch.nan]), torch.tensor([0]), 1)
    assert isinstance(labels, NeighbourLabels)
    assert float(labels.values[0]) == 0.0
    assert np.isfinite(labels.values[0].numpy()).all()
