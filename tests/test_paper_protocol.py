"""The paper's protocol in full: authors' splits, 500 epochs, three graphs.

``make test-slow`` trains everything (about ten minutes on two cores, resumable)
and keeps the result as ``results/paper_protocol.json``. The quick tests hold that
record, which the README's table is made of, to the same bounds.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from crossgcn import Experiment, RunConfig
from crossgcn.data.files import write_json
from crossgcn.reports.summaries import summarise_comparison
from crossgcn.reproduction.items import paper_result

PROJECT = Path(__file__).parents[1]
RECORD = PROJECT / "results" / "paper_protocol.json"

# Means over the authors' 20 splits that an independent implementation measured.
REFERENCE = {
    ("gcn", 1): {"citeseer": 69.8, "cora": 71.0, "pubmed": 72.5},
    ("gin", 1): {"citeseer": 69.3, "cora": 74.4, "pubmed": 75.3},
    ("cross-gcn-release-fix", 1): {"citeseer": 69.8, "cora": 72.6, "pubmed": 74.2},
    ("cross-gcn-release", 1): {"citeseer": 68.9, "cora": 72.9, "pubmed": 74.7},
    ("gcn", 2): {"citeseer": 70.9, "cora": 79.4, "pubmed": 78.3},
    ("cross-gcn-release-fix", 2): {"citeseer": 70.0, "cora": 79.1, "pubmed": 78.7},
    ("cross-gcn-release", 2): {"citeseer": 69.9, "cora": 79.1, "pubmed": 78.6},
}
GRAPHS = ("citeseer", "cora", "pubmed")
MODELS = [*REFERENCE, ("cross-gcn", 1), ("cross-gcn", 2)]
TOLERANCE = 0.7


def configurations(dataset: str) -> list[RunConfig]:
    if dataset == "citeseer-cross":
        models = [("gcn", 2), ("cross-gcn", 2)]
        widths = dict.fromkeys(models, 16)
    else:
        models = MODELS
        widths = {model: 16 if model == ("gin", 1) else 32 for model in models}
    return [
        RunConfig(
            dataset=dataset,
            model=model,
            num_layers=layers,
            hidden_channels=widths[model, layers],
            splits="authors",
        )
        for model, layers in models
    ]


def check_bounds(summary: dict[str, Any]) -> None:
    """Hold one dataset's results to their bounds."""
    means = {(m["model"], m["num_layers"]): 100 * m["mean"] for m in summary["models"]}
    dataset = summary["dataset"]
    assert summary["splits"] == "authors"
    assert (summary["num_splits"], summary["epochs"], summary["train"]) == (20, 500, 20)
    if dataset == "citeseer-cross":
        assert means["cross-gcn", 2] >= 68
        return
    for row, expected in REFERENCE.items():
        assert means[row] == pytest.approx(expected[dataset], abs=TOLERANCE), (dataset, row)


@pytest.mark.slow
@pytest.mark.parametrize("dataset", [*GRAPHS, "citeseer-cross"])
def test_the_full_protocol_comes_out_as_measured_before(dataset: str) -> None:
    if "CROSSGCN_DATA" not in os.environ:
        pytest.skip("set CROSSGCN_DATA to a folder with the Planetoid files and authors' splits")
    shown = -1

    def show(done: int, total: int) -> None:
        nonlocal shown
        if (percent := 100 * done // total) // 10 > shown:
            shown = percent // 10
            print(f"{dataset}: {percent} %", flush=True)

    out = PROJECT / "runs" / "paper-protocol" / dataset
    out.mkdir(parents=True, exist_ok=True)
    experiment = Experiment(configurations(dataset))
    results = experiment.run(out=out, workers=os.cpu_count() or 1, on_epochs=show)
    summary = summarise_comparison(results, "gcn", paper_result)
    for model in summary["models"]:
        print(f"{model['model']:24} {model['num_layers']} {100 * model['mean']:.2f}")
    check_bounds(summary)
    kept = json.loads(RECORD.read_bytes()) if RECORD.exists() else {}
    write_json(RECORD, kept | {dataset: summary})


def test_the_papers_numbers_come_back_but_for_one() -> None:
    record = json.loads(RECORD.read_bytes())
    outside = {
        (dataset, model["model"], model["num_layers"])
        for dataset in GRAPHS
        for model in record[dataset]["models"]
        if abs(100 * model["mean"] - model["paper"]["mean"]) > model["paper"]["sd"]
    }
    assert outside == {("citeseer", "gin", 1)}


@pytest.mark.parametrize("dataset", [*GRAPHS, "citeseer-cross"])
def test_the_kept_record_is_within_its_bounds(dataset: str) -> None:
    check_bounds(json.loads(RECORD.read_bytes())[dataset])
