"""Summarise runs as the JSON object that a command prints and writes to ``result.json``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import fsum
from typing import Any

from crossgcn.experiments.experiment import RepeatedRuns
from crossgcn.experiments.statistics import paired_difference
from crossgcn.models.catalogue import get_preset
from crossgcn.training.config import RunConfig

Summary = dict[str, Any]

FindPaper = Callable[[RunConfig], Any]
"""Returns the paper's number for a configuration, a dataclass, or ``None``."""


def no_paper(config: RunConfig) -> None:
    """Return that the paper has no number."""


def summarise_training(runs: RepeatedRuns, find_paper: FindPaper = no_paper) -> Summary:
    """Summarise one model over its splits."""
    return _shared(runs) | _model(runs, find_paper)


def summarise_comparison(
    all_runs: Sequence[RepeatedRuns], baseline: str, find_paper: FindPaper = no_paper
) -> Summary:
    """Summarise several models, each paired split by split with the baseline of its depth."""
    baselines = {runs.config.num_layers: runs for runs in all_runs if runs.config.model == baseline}
    models = []
    for runs in all_runs:
        against = baselines[runs.config.num_layers]
        difference = paired_difference(
            runs.test_accuracy, against.test_accuracy, test_to_train=runs.test_to_train
        )
        models.append(
            _model(runs, find_paper)
            | {
                "paired_difference": None if runs is against else difference.mean,
                "paired_se": None if runs is against else difference.standard_error,
                "paired_interval": None if runs is against else difference.interval(),
            }
        )
    seconds = fsum(runs.seconds for runs in all_runs)
    return _shared(all_runs[0]) | {"baseline": baseline, "models": models, "seconds": seconds}


def _shared(runs: RepeatedRuns) -> Summary:
    config, environment = runs.config, runs.records[0]["environment"]
    return {
        "dataset": config.dataset,
        "splits": config.splits,
        "num_splits": runs.num_splits,
        "num_runs": len(runs.records),
        "train": config.train,
        "repeats": config.repeats,
        "seed": config.seed,
        "epochs": config.epochs,
        "versions": environment["versions"],
        "threads": environment["threads"],
        "device": environment.get("gpu", "cpu"),
        "commit": environment["commit"],
    }


_TREATMENT = ("epochs", "learning_rate", "weight_decay")


def _model(runs: RepeatedRuns, find_paper: FindPaper) -> Summary:
    config, summary = runs.config, runs.summary
    paper = find_paper(config)
    return {
        "model": config.model,
        **dict.fromkeys(config.model_settings()),
        **dict(get_preset(config.model).settings),
        **config.model_dump(
            mode="json", include={*config.model_settings(), *_TREATMENT}, exclude_none=True
        ),
        "parameters": runs.records[0]["parameters"],
        "test_accuracy": runs.test_accuracy,
        "mean": summary.mean,
        "sd": summary.sd,
        "validation_accuracy": runs.validation_accuracy,
        "best_epoch": [record["best_epoch"] for record in runs.records],
        "trained_order_weights": [record["order_weights"] for record in runs.records],
        "seconds": runs.seconds,
        "paper": None if paper is None else asdict(paper),
    }
