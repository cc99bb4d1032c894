"""``crossgcn explain`` for cross-hops: terms by column, and one node from the average."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pandas as pd
import pytest
import torch
from rich.console import Console
from torch_geometric.data import Data

from crossgcn import Experiment, RunConfig
from crossgcn.data.graph_file import save_graph
from crossgcn.data.preprocess import Preprocess
from crossgcn.experiments.run_folder import FinishedRun, RunFolder, open_run
from crossgcn.explanation.column_details import term_records
from crossgcn.explanation.run import explain_columns, no_better_than_guessing
from crossgcn.graph.neighbourhood import neighbour_labels
from crossgcn.reports.terminal.explain import column_tables

Command = Callable[..., CompletedProcess[str]]


@pytest.fixture
def run(crossgcn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trained run on a small graph of two classes."""
    monkeypatch.chdir(tmp_path)
    generator = torch.Generator().manual_seed(0)
    x = (torch.rand(80, 3, generator=generator) < 0.5).float()
    edges = torch.randint(80, (2, 200), generator=generator)
    graph = Data(x=x, edge_index=edges, y=(x[:, 0] != x[:, 1]).long(), name="small", num_classes=2)
    save_graph(tmp_path / "small.npz", graph)
    done = crossgcn(
        "train", "small.npz", "--model", "cross-hops", "--bags", "2", "--epochs", "3",
        "--num-splits", "1", "--splits", "stratified", "--metric", "accuracy", "--workers", "1",
        "--out", "run", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return tmp_path / "run"


def test_terms_of_columns(run: Path, crossgcn: Command) -> None:
    done = crossgcn("explain", "run", "--top", "4", "--json", "--out", "tables")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["unit"] == "log-odds"
    assert answer["purified"]
    assert [len(term["columns"]) for term in answer["terms"]].count(1) == 4
    assert len(answer["terms"]) == 8
    for term in answer["terms"]:
        assert term["class"] == "1"
        assert 1 <= len(term["columns"]) <= 2
        assert term["importance"] > 0
        assert term["error"] >= 0
        assert ("cells" in term) != ("slope" in term)
    written = pd.read_csv(run.parent / "tables" / "terms.csv")
    assert list(written["term"]) == [" × ".join(term["columns"]) for term in answer["terms"]]
    shown = crossgcn("explain", "run", "--top", "4").stdout
    assert all(term["columns"][0] in shown for term in answer["terms"])
    raw = json.loads(crossgcn("explain", "run", "--raw", "--json").stdout)
    assert not raw["purified"]
    assert raw["terms"][0]["importance"] != answer["terms"][0]["importance"]


def test_one_node_adds_up_to_the_score(run: Path, crossgcn: Command) -> None:
    opened = open_run(run)
    data = opened.data
    labels = neighbour_labels(data.y, opened.split.train, 2)
    scores = opened.saved.model(data.x, data.edge_index, labels=labels)[7].detach()
    for name, sign in (("1", 1), ("0", -1)):
        done = crossgcn("explain", "run", "--node", "7", "--class", name, "--top", "3", "--json")
        answer = json.loads(done.stdout)
        assert answer["class"] == name
        assert answer["score"] == pytest.approx(sign * float(scores[1] - scores[0]), abs=1e-5)
        listed = sum(term["contribution"] for term in answer["terms"])
        assert answer["average"] + listed + answer["other_terms"] == pytest.approx(answer["score"])
        parts = answer["own"] + answer["neighbourhood"] + answer["both"]
        assert answer["average"] + parts == pytest.approx(answer["score"])
    assert "other terms" in crossgcn("explain", "run", "--node", "7").stdout


def test_a_model_that_learned_nothing_is_said_to(run: Path) -> None:
    opened = open_run(run)

    def judge(**test: float) -> str:
        record = opened.chosen.record | {"test": test}
        bad = FinishedRun(opened.chosen.folder, record)
        return no_better_than_guessing(replace(opened, chosen=bad, runs=(bad,)))

    assert judge(roc_auc=0.6, accuracy=0.1) == ""
    assert "no better than a coin (ROC-AUC 0.48)" in judge(roc_auc=0.48, accuracy=0.9)
    assert "no better than the mean of all nodes" in judge(r2=-0.2)
    assert "always answering the commonest class" in judge(accuracy=0.01)


def test_terms_that_are_nothing_have_no_bars(run: Path) -> None:
    terms = explain_columns(open_run(run))
    scaled = [
        replace(term, contributions=1e-6 * term.contributions, importance=1e-6 * term.importance)
        for term in terms.terms
    ]
    nothing = replace(terms, terms=tuple(scaled))
    for each, bars in ((terms, True), (nothing, False)):
        console = Console(width=80, record=True, file=io.StringIO())
        for part in column_tables(each, term_records(each, 0, 5), "It is no better than a coin."):
            console.print(part)
        shown = console.export_text()
        assert "no better than a coin. Its terms say nothing" in shown
        assert ("█" in shown) == bars
        assert ("All terms are nearly zero" in shown) != bars


def test_bad_questions_are_refused(run: Path, crossgcn: Command) -> None:
    for options, message in (
        (["--order", "3"], "--order 3, but this model crosses at most 2 columns"),
        (["--node", "x"], "there is no node 'x' among the 80"),
        (["--class", "2"], "class"),
    ):
        done = crossgcn("explain", "run", *options)
        assert done.returncode == 2
        assert message in done.stderr


def test_a_number_is_explained_in_its_unit_with_errors_over_runs(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 2, generator=generator)
    edges = torch.randint(200, (2, 500), generator=generator)
    graph = Data(x=x, edge_index=edges, y=1000 + 50 * x[:, 0] + x[:, 1], name="small")
    config = RunConfig.create(
        model="cross-hops", splits="stratified", num_splits=2, metric="r2", bags=1, epochs=90,
        dropout=0.0, weight_decay=0.0, learning_rate=0.05, label_features=True,
    )  # fmt: skip
    experiment = Experiment([config], graph, Preprocess(("income",)))
    (runs,) = experiment.run(out=tmp_path, save_models=True)
    folders = sorted(tmp_path.glob("*/split-*"))
    finished = tuple(map(FinishedRun, folders, runs.records))
    ids = tuple(map(str, range(200)))
    run = RunFolder(
        tmp_path, finished[1].model(), finished[1], finished, experiment.data, ids,
        tuple(experiment.splits),
    )  # fmt: skip
    terms = explain_columns(run)
    strongest = terms.strongest()[0]
    assert (terms.unit, terms.outputs) == ("income", ("income",))
    assert strongest.columns == ("x0",)
    assert ("neighbours: income",) in [term.columns for term in terms.terms]
    assert list(terms.by_size()) == [1, 2]
    assert terms.by_size()[1] > terms.by_size()[2]
    assert float(strongest.importance[0]) == pytest.approx(50, rel=0.2)
    assert strongest.error is not None and 0 < float(strongest.error[0]) < 10
    assert float(terms.average[0]) == pytest.approx(1000, abs=15)
