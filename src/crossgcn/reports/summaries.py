"""Summarise runs as the JSON object that a command prints and writes to ``result.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from statistics import fmean
from typing import Any

from crossgcn.experiments.experiment import RepeatedRuns
from crossgcn.experiments.run_folder import RunFolder, metrics_of_test
from crossgcn.experiments.statistics import PairedDifference, paired_difference, summarise
from crossgcn.models.catalogue import get_preset
from crossgcn.reports.format import Summary


def mean_and_sd(values: Sequence[float]) -> Summary:
    """Return ``mean`` and ``sd`` of one value per split."""
    summary = summarise(values)
    return {"mean": summary.mean, "sd": summary.sd}


def measured(runs: RepeatedRuns) -> Summary:
    """Return every metric of the test nodes by split, and ``mean`` and ``sd`` of the selecting one.

    Accuracies have entries of their own where there are any.
    """
    test = runs.test
    summary: Summary = {"task": runs.task, "metric": runs.metric, "test": test}
    if "positive_class" in runs.records[0]:
        summary["positive_class"] = runs.records[0]["positive_class"]
    if "accuracy" in test:
        summary["test_accuracy"] = test["accuracy"]
    summary |= mean_and_sd(test[runs.metric])
    summary["validation_score"] = runs.validation_score
    if runs.metric == "accuracy":
        summary["validation_accuracy"] = runs.validation_score
    return summary


def paired(difference: PairedDifference | None) -> Summary:
    """Return a paired difference as three entries, all ``None`` for the baseline itself."""
    return {
        "paired_difference": None if difference is None else difference.mean,
        "paired_se": None if difference is None else difference.standard_error,
        "paired_interval": None if difference is None else difference.interval(),
    }


def where_run(environment: Mapping[str, Any]) -> Summary:
    """Return the versions, threads, device and commit of a record."""
    return {
        "versions": environment["versions"],
        "threads": environment["threads"],
        "device": environment.get("gpu", "cpu"),
        "commit": environment["commit"],
    }


def summarise_training(runs: RepeatedRuns) -> Summary:
    """Summarise one model over its splits."""
    return _protocol(runs) | _model(runs)


def summarise_comparison(all_runs: Sequence[RepeatedRuns], baseline: str) -> Summary:
    """Summarise several models, each paired split by split with the baseline of its depth."""
    baselines = {runs.config.num_layers: runs for runs in all_runs if runs.config.model == baseline}

    def difference(runs: RepeatedRuns) -> PairedDifference | None:
        against = baselines[runs.config.num_layers]
        ours, theirs = runs.test_accuracy, against.test_accuracy
        if runs is against:
            return None
        return paired_difference(ours, theirs, test_to_train=runs.test_to_train)

    models = [_model(runs) | paired(difference(runs)) for runs in all_runs]
    seconds = fsum(runs.seconds for runs in all_runs)
    return _protocol(all_runs[0]) | {"baseline": baseline, "models": models, "seconds": seconds}


def _protocol(runs: RepeatedRuns) -> Summary:
    config = runs.config
    return {
        "dataset": config.dataset,
        "splits": config.splits,
        "num_splits": runs.num_splits,
        "num_runs": len(runs.records),
        "train": config.train,
        "seed": config.seed,
        "epochs": config.epochs,
        **where_run(runs.records[0]["environment"]),
    }


def _model(runs: RepeatedRuns) -> Summary:
    config = runs.config
    shown = {*config.model_settings(), "epochs", "learning_rate", "weight_decay"}
    return {
        "model": config.model,
        **dict.fromkeys(config.model_settings()),
        **dict(get_preset(config.model).settings),
        **config.model_dump(mode="json", include=shown, exclude_none=True),
        "parameters": runs.records[0]["parameters"],
        **measured(runs),
        "best_epoch": [record["best_epoch"] for record in runs.records],
        "trained_order_weights": [record["order_weights"] for record in runs.records],
        "seconds": runs.seconds,
    }


def no_better_than_guessing(run: RunFolder) -> str:
    """Say so in a sentence if the model learned nothing; empty if it did.

    A model of numbers must have a positive R², one of two classes a ROC-AUC above 0.5, and one
    of more classes an accuracy above the share of the commonest class, on the test nodes.
    """
    tests = [metrics_of_test(one.record) for one in run.runs]
    means = {name: fmean(test[name] for test in tests) for name in tests[0]}
    if "r2" in means:
        if means["r2"] > 0:
            return ""
        return f"The model is no better than the mean of all nodes (R² {means['r2']:.2f})."
    if "roc_auc" in means and len(run.saved.preprocess.classes) == 2:
        if means["roc_auc"] > 0.5:
            return ""
        return f"The model is no better than a coin (ROC-AUC {means['roc_auc']:.2f})."
    guesses = []
    for one in run.runs:
        split = run.split_of(one)
        commonest = run.data.y[split.train].mode().values
        guesses.append(float((run.data.y[split.test] == commonest).float().mean()))
    guess = fmean(guesses)
    if means["accuracy"] > guess:
        return ""
    return (
        "The model is no better than always answering the commonest class (accuracy "
        f"{means['accuracy']:.1%} against {guess:.1%})."
    )
