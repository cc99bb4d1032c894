"""Crosses help on real tables, and do not once the target is shuffled."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from crossgcn import TableChoices, load_real
from crossgcn.data.graph import is_labelled
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
