from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crossgcn.data.datasets.load import load_dataset
from crossgcn.data.features import Preprocess
from crossgcn.errors import BadInput
from crossgcn.experiments.experiment import Experiment
from crossgcn.experiments.run_folder import choose_model, open_run
from crossgcn.training.config import RunConfig
from crossgcn.training.saved_models import load_saved

IDS = [f"u_{node}" for node in range(90)]


@pytest.fixture
def run_folder(small_graph: Data, tmp_path: Path) -> Path:
    config = RunConfig.create(
        model="cross-gcn", splits="stratified", num_splits=3, epochs=6, hidden_channels=4
    )
    folder = tmp_path / "run"
    experiment = Experiment([config], small_graph, Preprocess(("a", "b", "c")))
    experiment.run(out=folder, save_models=True)
    choose_model(folder, experiment, IDS)
    return folder


def test_the_folder_is_the_model_that_validated_best(run_folder: Path) -> None:
    run = open_run(run_folder)
    assert len(run.runs) == len(run.splits) == 3
    best = max(one.record["validation_accuracy"] for one in run.runs)
    assert run.chosen.record["validation_accuracy"] == best
    assert run.saved.preprocess.classes == ("a", "b", "c")
    for mine, theirs in zip(
        run.saved.model.state_dict().values(),
        run.chosen.model().model.state_dict().values(),
        strict=True,
    ):
        assert torch.equal(mine, theirs)
    assert set(run.runs[0].curve()) >= {"epoch", "train_loss", "validation_score"}
    assert len(run.runs[0].curve()["epoch"]) == 6


def test_the_graph_and_the_names_of_its_nodes_come_back(
    run_folder: Path, small_graph: Data
) -> None:
    run = open_run(run_folder)
    assert torch.equal(run.data.y, small_graph.y)
    assert run.ids == tuple(IDS)
    assert run.find("u_17") == 17
    with pytest.raises(BadInput, match=r"there is no node 'u_99'.*'u_0', 'u_1', 'u_2'"):
        run.find("u_99")


def test_nodes_are_shown_and_found_by_their_names(run_folder: Path) -> None:
    data = json.loads((run_folder / "nodes.json").read_bytes())
    assert data["names"] is None
    names = ["Ada", "Bo", "Bo", "", *map(str, range(4, len(IDS)))]
    run = replace(open_run(run_folder), names=names)
    assert run.shown[:4] == ("Ada (u_0)", "Bo (u_1)", "Bo (u_2)", "u_3")
    assert run.find("Ada") == run.find("u_0") == run.find("Ada (u_0)") == 0
    with pytest.raises(BadInput, match=r"2 nodes are called 'Bo'; give an id: u_1, u_2"):
        run.find("Bo")
    with pytest.raises(BadInput, match=r"there is no node ''"):
        run.find("")


def test_a_folder_moved_elsewhere_still_opens(run_folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "run"
    shutil.copytree(run_folder, moved)
    shutil.rmtree(run_folder)
    assert open_run(moved).ids == tuple(IDS)
    assert load_saved(moved).preset == "cross-gcn"


def test_a_folder_without_a_model_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"chosen\.json: cannot be read \(No such file"):
        open_run(tmp_path)


def change_json(path: Path, **entries: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_bytes()) | entries))


RECORD = "cross-gcn-2-layer/split-01/run.json"
CHANGED = "is not what was written there"
DAMAGE: list[tuple[Callable[[Path], object], str]] = [
    (lambda run: (run / "graph.npz").unlink(), rf"graph\.npz: {CHANGED}"),
    (lambda run: (run / "graph.npz").write_bytes(b"PK\3\4"), rf"graph\.npz: {CHANGED}"),
    (lambda run: (run / "splits.npz").unlink(), rf"splits\.npz: {CHANGED}"),
    (lambda run: (run / "nodes.json").unlink(), rf"nodes\.json: {CHANGED}"),
    (lambda run: change_json(run / "nodes.json", ids=IDS[::-1]), rf"nodes\.json: {CHANGED}"),
    (lambda run: (run / "chosen.json").write_text("{"), r"chosen\.json: is not valid JSON"),
    (lambda run: (run / "chosen.json").write_text("[]"), rf"chosen\.json: {CHANGED}"),
    (lambda run: change_json(run / "chosen.json", run="another"), rf"chosen\.json: {CHANGED}"),
    (lambda run: change_json(run / RECORD, test_accuracy=0.999), rf"split-01/run\.json: {CHANGED}"),
    (lambda run: shutil.rmtree(run / "cross-gcn-2-layer"), f"split-0.*: {CHANGED}"),
]


@pytest.mark.parametrize(("damage", "complaint"), DAMAGE)
def test_a_damaged_folder_is_refused_with_a_reason(
    damage: Callable[[Path], object], complaint: str, run_folder: Path
) -> None:
    damage(run_folder)
    with pytest.raises(BadInput, match=complaint):
        open_run(run_folder)


def make_run(folder: Path, data: Data, **settings: Any) -> Data:
    config = RunConfig.create(
        splits="stratified", num_splits=1, epochs=2, hidden_channels=4, **settings
    )
    experiment = Experiment([config], data)
    experiment.run(out=folder, save_models=True)
    choose_model(folder, experiment)
    return experiment.data


def test_nothing_of_an_earlier_graph_survives_in_the_folder(
    small_graph: Data, tmp_path: Path
) -> None:
    (tmp_path / "chosen.json").write_text("{}")
    make_run(tmp_path, small_graph)
    assert open_run(tmp_path).data.num_nodes == 90
    make_run(tmp_path, load_dataset("citeseer"), model="gcn")
    run = open_run(tmp_path)
    assert (run.data.name, run.data.num_nodes) == ("citeseer", 3327)


def test_a_training_that_was_stopped_leaves_no_earlier_model_in_its_folder(
    small_graph: Data, tmp_path: Path
) -> None:
    class Killed(BaseException):
        """As sudden as an interrupt."""

    def stop(done: int, total: int) -> None:
        raise Killed

    make_run(tmp_path, small_graph)
    config = RunConfig.create(model="gcn", splits="stratified", num_splits=1, epochs=2)
    with pytest.raises(Killed):
        Experiment([config], small_graph).run(out=tmp_path, save_models=True, on_epochs=stop)
    with pytest.raises(BadInput, match=r"chosen\.json: cannot be read"):
        open_run(tmp_path)
