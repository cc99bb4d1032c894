from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from subprocess import CompletedProcess

import pytest
import torch
from forked_commands import started, wait_until
from torch_geometric.data import Data

from crossgcn.errors import WorkFailed
from crossgcn.reproduction import ITEM_NAMES, plan, run
from crossgcn.reproduction.plan import read_item_result

Command = Callable[..., CompletedProcess[str]]
SHORT = ("--quick", "--epochs", 2, "--num-splits", 2, "--workers", 1)


@pytest.mark.parametrize("name", ITEM_NAMES)
def test_every_item_runs_from_end_to_end(
    name: str, crossgcn: Command, small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every item on a small graph, with enough training nodes; the tests below take the real ones.
    small_graph.roles = torch.tensor([[1] * 66 + [2] * 12 + [3] * 12])
    generators = resolve_name("crossgcn.data.datasets.load._GENERATORS")
    for dataset in ("citeseer", "citeseer-cross", "citeseer-cross-pairs", "reddit400k-shaped"):
        monkeypatch.setitem(generators, dataset, lambda seed: small_graph.clone())
    # What is cached under the names of the real ones would outlive this test.
    monkeypatch.setattr(plan, "dataset_statistics", plan.dataset_statistics.__wrapped__)
    monkeypatch.setattr(run, "_load", run._load.__wrapped__)
    done = crossgcn("reproduce", name, *SHORT, "--out", "out", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    result = read_item_result(Path("out") / f"{name}.json")
    assert result.item == name
    assert result.cells
    page, text = Path("out/report.html").read_text(), Path("out/report.md").read_text()
    for cell in result.cells:
        assert cell.row in page
        assert cell.row.replace("_", "\\_") in text
    assert [item["item"] for item in summary["items"]] == [name]
    assert summary["report"] == "out/report.html"


def test_what_is_missing_and_what_is_shortened_is_said_first(crossgcn: Command) -> None:
    done = crossgcn("reproduce", "gin-width", *SHORT, "--out", "out")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "skipped: cora is not on this machine" in said
    assert "skipped: pubmed is not on this machine" in said
    assert "shortened: 2 of 20 training sets" in said
    assert "shortened: 2 of 500 epochs" in said
    assert "runs to do: about" in said


def test_what_failed_is_said_beside_one_json_object(
    crossgcn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> None:
        raise WorkFailed(f"{name} cannot be counted")

    monkeypatch.setattr("crossgcn.reproduction.plan.dataset_statistics", fail)
    done = crossgcn("reproduce", "datasets", "--datasets", "citeseer", "--json")
    assert done.returncode == 1
    (item,) = json.loads(done.stdout)["items"]
    assert item["cells"] == [] and "citeseer cannot be counted" in item["failed"][0]
    assert "crossgcn: datasets: " in done.stderr


def test_a_folder_with_results_is_not_written_over(crossgcn: Command) -> None:
    assert crossgcn("reproduce", "datasets", "--datasets", "citeseer").returncode == 0
    assert Path("results/reproduce/report.html").is_file()
    done = crossgcn("reproduce", "datasets", "--datasets", "citeseer")
    assert done.returncode == 2
    assert "--resume" in done.stderr
    assert crossgcn("reproduce", "datasets", "--datasets", "citeseer", "--resume").returncode == 0


def test_a_folder_is_not_continued_with_other_settings(crossgcn: Command) -> None:
    first = ("reproduce", "cross-inputs", "--quick", "--epochs", 2, "--num-splits", 2)
    assert crossgcn(*first, "--workers", 1, "--out", "out").returncode == 0
    kept = Path("out/cross-inputs.json").read_bytes()
    done = crossgcn(*first, "--seed", 1, "--out", "out", "--resume")
    assert done.returncode == 2
    assert "made with no --seed, not with --seed 1" in done.stderr
    assert Path("out/cross-inputs.json").read_bytes() == kept


def test_where_nothing_can_be_run_it_says_so(crossgcn: Command) -> None:
    done = crossgcn("reproduce", "dropout", "--datasets", "cora")
    assert done.returncode == 2
    assert "none of these can be run here" in done.stderr
    assert "crossgcn data get cora" in done.stderr
    assert not Path("results").exists()


def test_the_report_keeps_what_was_done_before_in_the_same_folder(crossgcn: Command) -> None:
    assert crossgcn("reproduce", "datasets", *SHORT, "--out", "out").returncode == 0
    Path("out/alpha.json").write_text('{"item": "alp')
    done = crossgcn("reproduce", "cross-inputs", *SHORT, "--out", "out", "--resume")
    assert done.returncode == 0, done.stderr
    page = Path("out/report.html").read_text()
    assert page.index('id="datasets"') < page.index('id="cross-inputs"')
    assert "left out: out/alpha.json: is not the result of an item" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["citatoin"], "citation"),
        (["citation", "--datasets", "citeser"], "citeseer"),
        (["citation", "--workers", "0"], "--workers must be at least 1"),
        (["citation", "--epochs", "0"], "epochs should be greater than or equal to 1"),
    ],
)
def test_bad_input_is_answered_before_the_work(
    arguments: list[str], message: str, crossgcn: Command
) -> None:
    done = crossgcn("reproduce", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path("results").exists()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_killed_and_resumed_gives_the_same_files(crossgcn: Command, tmp_path: Path) -> None:
    settings = ("--quick", "--epochs", "8", "--num-splits", "2", "--workers", "1")
    command = ("reproduce", "alpha", *settings, "--out")
    with started(*command, "killed") as process:
        wait_until(lambda: len(list(tmp_path.glob("killed/records/**/run.json"))) >= 3)
        os.kill(process, signal.SIGKILL)
    finished = list(tmp_path.glob("killed/records/**/run.json"))
    stamps = {path: path.stat().st_mtime_ns for path in finished}
    assert crossgcn(*command, "whole").returncode == 0
    assert len(finished) < len(list(tmp_path.glob("whole/records/**/run.json")))
    assert crossgcn(*command, "killed", "--resume").returncode == 0
    assert {path: path.stat().st_mtime_ns for path in finished} == stamps
    for name in ("alpha.json", "report.html", "report.md"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
