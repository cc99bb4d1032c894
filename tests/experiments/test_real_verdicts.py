"""Crosses help on real tables, and do not once the target is shuffled."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest_fixtures import Command
from torch_geometric.data import Data

from crossgcn import TableChoices, load_real
from crossgcn.data import read_real
from crossgcn.data.graph import is_labelled
from crossgcn.experiments.candidates import CANDIDATES
from crossgcn.experiments.compare import TableExperiment

DATA = os.environ.get("CROSSGCN_DATA", "")
MODELS = ["cross-hops-1", "cross-hops-2"]
QUICK = {
    "num_splits": 5,
    "bags": 2,
    "epochs": 12,
    "patience": 4,
    "batch_size": 128,
    "learning_rate": 0.01,
}


def table(
    name: str, monkeypatch: pytest.MonkeyPatch, *, shuffled: bool, ignored: tuple[str, ...] = ()
) -> Data:
    if not (Path(DATA or "nowhere") / "real" / name.split("/")[0]).exists():
        pytest.skip(f"set CROSSGCN_DATA to a folder with the files of {name}")
    monkeypatch.setenv("CROSSGCN_DATA", DATA)
    data = load_real(name, choices=TableChoices(ignored=ignored)).data
    if shuffled:
        known = is_labelled(data.y).nonzero().flatten()
        order = torch.from_numpy(np.random.default_rng(0).permutation(len(known)))
        data.y = data.y.clone()
        data.y[known] = data.y[known[order]]
    return data


def verdict(data: Data, **settings: Any) -> tuple[str, str]:
    """Return the verdict on crosses and the recommended model."""
    settings = {"splits": "stratified", "dataset": data.name, **settings}
    trials = 1 if "epochs" in settings else 2
    names = MODELS if "epochs" in settings else [*MODELS, "cross-hops-3"]
    comparison = TableExperiment(data, names, num_trials=trials, settings=settings).run()
    assert comparison.crosses is not None
    return comparison.crosses.verdict, comparison.recommended


def test_friends_of_students_with_a_shuffled_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the column of a thousand schools, which takes most of the time."""
    data = table("facebook100/Amherst41", monkeypatch, shuffled=True, ignored=("high_school",))
    assert verdict(data, **QUICK) == ("does not help", "majority-or-mean")


def test_a_model_of_one_college_predicts_another(
    crossgcn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids must be new. No neighbour there has a known label, and codes of dorms mean other ones."""
    for college in ("Reed98", "Caltech36"):
        if not (Path(DATA or "nowhere") / "real" / "facebook100" / f"{college}.mat").exists():
            pytest.skip("set CROSSGCN_DATA to a folder with the files of facebook100")
    monkeypatch.setenv("CROSSGCN_DATA", DATA)
    run, paths = tmp_path / "run", [tmp_path / f"{name}.csv" for name in ("nodes", "edges")]
    quick = ("--num-splits", "1", "--columns", "all", "--bags", "4", "--epochs", "30", "--json")
    trained = crossgcn("train", "facebook100/Reed98", *quick, "--out", run)
    assert trained.returncode == 0, trained.stderr
    tables = read_real("facebook100/Caltech36")
    predict = ("predict", run, *paths, "--json", "--out", tmp_path / "predicted.csv")
    tables.nodes.to_csv(paths[0], index=False)
    tables.edges.to_csv(paths[1], index=False)
    refused = crossgcn(*predict)
    assert refused.returncode == 2 and "the model was trained on '0'" in refused.stderr
    tables.nodes.assign(student="c" + tables.nodes["student"].astype(str)).to_csv(
        paths[0], index=False
    )
    ("c" + tables.edges.astype(str)).to_csv(paths[1], index=False)
    scored = json.loads(crossgcn(*predict).stdout)["scored"]
    assert scored["nodes"] == (tables.nodes["gender"] > 0).sum()
    assert 0.4 < scored["metrics"]["roc_auc"] < 0.9


def test_what_two_graphs_share_is_transferred(crossgcn: Command, tmp_path: Path) -> None:
    """A class by own and neighbours' numbers; two graphs are drawn alike."""
    for name in "ab":
        draw = np.random.default_rng(ord(name))
        size, ends = draw.normal(size=400), draw.integers(0, 400, (2, 1200))
        means = [size[ends[1][ends[0] == node]].sum() for node in range(400)]
        nodes = pd.DataFrame({"id": [f"{name}{node}" for node in range(400)], "size": size})
        nodes["class"] = np.where(size + np.array(means) > 0, "large", "small")
        nodes.to_csv(tmp_path / f"{name}.csv", index=False)
        edges = pd.DataFrame({"source": ends[0], "target": ends[1]}).astype(str)
        (name + edges).to_csv(tmp_path / f"{name}_edges.csv", index=False)
    quick = ("--num-splits", "1", "--columns", "all", "--bags", "2", "--epochs", "40", "--json")
    files = {name: (tmp_path / f"{name}.csv", tmp_path / f"{name}_edges.csv") for name in "ab"}
    trained = crossgcn("train", *files["a"], "--target", "class", *quick, "--out", tmp_path / "run")
    assert trained.returncode == 0, trained.stderr
    out = ("--json", "--out", tmp_path / "predicted.csv")
    scored = json.loads(crossgcn("predict", tmp_path / "run", *files["b"], *out).stdout)["scored"]
    assert scored["nodes"] == 400 and scored["metrics"]["roc_auc"] > 0.75


EVERY = [name for name in CANDIDATES if name != "majority-or-mean" and name != "ebm-hops"]


def beyond_chance(data: Data, names: list[str], **settings: Any) -> dict[str, float]:
    """Return how many corrected standard errors each model scores above a constant."""
    settings = {"splits": "stratified", "dataset": data.name, **settings}
    comparison = TableExperiment(data, names, num_trials=1, settings=settings).run()
    gaps = {name: comparison.difference(name, "majority-or-mean", corrected=True) for name in names}
    return {name: gap.mean / (gap.standard_error or 1) for name, gap in gaps.items()}


@pytest.mark.slow
@pytest.mark.parametrize("train", ["all", "10%"])
@pytest.mark.parametrize("name", ["facebook100/Haverford76", "tolokers"])
def test_every_model_with_default_settings_ends_at_chance(
    name: str, train: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = beyond_chance(table(name, monkeypatch, shuffled=True), EVERY, num_splits=5, train=train)
    assert max(found.values()) < 4, found


@pytest.mark.slow
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(
    ("name", "num_splits"),
    [("facebook100/Amherst41", 10), ("facebook100/Haverford76", 20), ("tolokers", 10)],
)
def test_with_default_settings(
    name: str, num_splits: int, shuffled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Haverford76, ten splits are too few to tell."""
    found, _ = verdict(table(name, monkeypatch, shuffled=shuffled), num_splits=num_splits)
    assert found == ("does not help" if shuffled else "helps")
