"""Items run from end to end, kept, and reported."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from crossgcn import RunConfig, load_dataset, make_splits
from paper import plan as planning
from paper.__main__ import main
from paper.cells import Place, read_result
from paper.items import ITEMS
from paper.plan import plan_item
from paper.run import Runner
from paper.training import train_semi_emb

RECORDS = Path(__file__).parents[2] / "results" / "paper"
SHORT = ["--quick", "--epochs", "2", "--num-splits", "2", "--splits", "random", "--workers", "1"]


def test_items_run_from_end_to_end_and_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("cross-inputs", "datasets", "alpha")
    given = [*names, *SHORT, "--datasets", "citeseer,citeseer-cross", "--out", str(tmp_path)]
    assert main(given) == 0
    for name in names:
        result = read_result(tmp_path / f"{name}.json", ITEMS[name])
        assert result.measured
        assert name == "datasets" or result.splits == {"citeseer-cross": "random"}
    curve = read_result(tmp_path / "cross-inputs.json", ITEMS["cross-inputs"])
    measured = curve.measured[Place("cross features", "20 per class")]
    assert measured.curve is not None and measured.curve["epoch"] == [1, 2]
    assert len(measured.test_accuracy) == 2
    markdown, page = (tmp_path / f"report.{end}" for end in ("md", "html"))
    first = markdown.read_text(encoding="utf-8")
    assert "Shortened, so that their numbers are not final" in first
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", page.read_text(encoding="utf-8"))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").rglob("run.json")}
    assert len(before) == 2 * (4 + 4 + 20)

    monkeypatch.setattr("paper.run.Runner._time", None)
    assert main(given) == 0
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "records").rglob("run.json")}
    assert (after, markdown.read_text(encoding="utf-8")) == (before, first)
    markdown.unlink()
    assert main(["--from-records", "--out", str(tmp_path)]) == 0
    assert markdown.read_text(encoding="utf-8") == first
    assert "Numbers of the paper" in capsys.readouterr().out


def test_mistakes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dropuot"]) == 2
    assert "no item 'dropuot'; choose from datasets" in capsys.readouterr().err
    assert main(["--from-records", "--out", str(tmp_path)]) == 2
    assert main(["alpha", "--datasets", "cora", "--out", str(tmp_path)]) == 2
    assert "citeseer-cross: not among --datasets" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_classes_of_citeseer_cross_are_signs_of_six_pairs() -> None:
    pairs, data = planning.load("citeseer-cross", "pairs"), load_dataset("citeseer-cross")
    columns = list(combinations(range(12), 2))
    planted = [columns.index((2 * label, 2 * label + 1)) for label in range(6)]
    assert torch.equal(pairs.x[:, planted] > 0, pairs.y.unsqueeze(1) == torch.arange(6))
    assert torch.equal(pairs.x[:, 0], data.x[:, 0] * data.x[:, 1])


def test_settings_are_chosen_by_validation_alone() -> None:
    plan = plan_item(ITEMS["citation"], quick=True, datasets=["citeseer"], splits="random")
    place = Place("SemiEmb", "", "Citeseer")
    chosen = [chosen for chosen, _ in plan.jobs[place]]
    assert chosen == [
        {"hidden_channels": size, "laplacian_weight": weight}
        for size in (32, 128)
        for weight in (0.1, 1.0)
    ]
    names = {job.name for choices in plan.jobs.values() for _, job in choices}
    assert len(names) == sum(map(len, plan.jobs.values()))
    assert {job.model for _, job in plan.jobs[place]} == {"semi-emb"}
    (_, gcn), *_ = plan.jobs[Place("GCN1", "", "Citeseer")]
    assert (gcn.config.epochs, gcn.config.num_splits, gcn.config.num_layers) == (100, 3, 1)


def small_graph() -> Data:
    """Three classes in two features that tell them, and links within classes."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(120) % 3
    x = torch.nn.functional.one_hot(y).float() + 0.3 * torch.rand(120, 3, generator=generator)
    ring = torch.stack([torch.arange(120), (torch.arange(120) + 3) % 120])
    roles = torch.full((1, 120), 3)
    roles[0, :60], roles[0, 60:90] = 1, 2
    edges = torch.cat([ring, ring.flip(0)], dim=1)
    return Data(x=x, edge_index=edges, y=y, roles=roles, num_classes=3, name="small")


def test_semi_emb_learns_and_the_test_nodes_have_no_part_in_it() -> None:
    data = small_graph()
    data.x = data.x.to_sparse_csr()
    (split,) = make_splits(data, "public")
    config = RunConfig.create(model="mlp", epochs=60, dropout=0.2, hidden_channels=8)
    cpu = torch.device("cpu")
    found = train_semi_emb(data, split, config, 0.3, 0, cpu)
    assert found.validation_accuracy > 0.8 and found.test_accuracy > 0.8
    blind = data.clone()
    blind.y = blind.y.clone()
    blind.y[split.test] = (blind.y[split.test] + 1) % 3
    other = train_semi_emb(blind, split, config, 0.3, 0, cpu)
    assert other.validation_accuracy == found.validation_accuracy
    assert other.best_epoch == found.best_epoch
    assert other.test_accuracy < 0.5


def test_seconds_of_an_epoch_are_measured_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "load_dataset", lambda name: small_graph())
    monkeypatch.setattr("paper.run.load", lambda name: small_graph())
    plan = plan_item(ITEMS["training-time"], quick=True)
    assert "3 of 50 epochs" in plan.shortened
    result = Runner(tmp_path).run(plan)
    assert len(result.measured) == 6
    for measured in result.measured.values():
        assert measured.timing is not None and measured.timing["mean"] > 0
    assert len(list((tmp_path / "records").rglob("*.json"))) == 6
    again = Runner(tmp_path).run(plan)
    assert json.dumps(again.measured[Place("GCN", "", "32")].timing) == json.dumps(
        result.measured[Place("GCN", "", "32")].timing
    )


def test_the_report_is_that_of_the_records(tmp_path: Path) -> None:
    for path in RECORDS.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert main(["--from-records", "--out", str(tmp_path)]) == 0
    committed = (RECORDS / "report.md").read_text(encoding="utf-8")
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == committed
