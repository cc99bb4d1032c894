"""Results as the JSON objects that commands print, write to ``result.json`` and draw on pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from math import fsum
from statistics import fmean
from typing import Any

import numpy as np

from crossgcn.experiments.answers import CandidateResult, TableComparison
from crossgcn.experiments.candidates import CONSTANT
from crossgcn.experiments.experiment import RepeatedRuns
from crossgcn.experiments.run_folder import RunFolder
from crossgcn.experiments.statistics import PairedDifference, paired_difference, summarise
from crossgcn.explanation.products import Products
from crossgcn.explanation.terms import Explanation, Term
from crossgcn.models.catalogue import get_preset
from crossgcn.reports.format import Summary, count, difference_text
from crossgcn.training.metrics import METRICS

_INTERVALS = (
    "The 95 % interval is of the mean gain over random splits of this table. corrected_interval "
    "is wider: it is for a new table of the same kind."
)
_VERDICTS = {
    "crosses": ("Crosses help", "Crosses do not help"),
    "graph": ("The graph helps", "The graph does not help"),
    "black_box": ("A black box is better", "A glass box is as good as a black box"),
}
_CHOSEN = {
    "settings": "chosen_settings",
    "columns": "columns",
    "path": "path",
    "crosses": "crosses",
}
_EARLY = 10
"""A model chosen within this many epochs is still close to its random initialisation."""
_GUESSING = {"r2": 0.0, "roc_auc": 0.5}
"""Scores of guessing; for other metrics, the score of a constant prediction is used."""
_HOW_TO_GET = {
    "boosting": "use scikit-learn's HistGradientBoosting models on the columns of crossgcn hops",
    "ebm": "use InterpretML's ExplainableBoosting models on the columns of crossgcn hops",
    "lightgbm": "use LightGBM's models on the columns of crossgcn hops",
    "gnn": "train layers of PyTorch Geometric",
}


def summarise_training(runs: RepeatedRuns) -> Summary:
    """Summarise one model over its splits, and the choices made in each split."""
    summary = _protocol(runs) | _model(runs) | {"doubts": describe_doubts(runs.records)}
    for name, shown in _CHOSEN.items():
        if name in runs.records[0]:
            summary[shown] = [record[name] for record in runs.records]
    chosen = [record.get("calibration", {}) for record in runs.records]
    if all("before" in each for each in chosen):
        names = chosen[0]["before"]
        summary["calibration"] = {
            **{name: [each[name] for each in chosen] for name in ("scale", "shift")},
            "before": {name: [each["before"][name] for each in chosen] for name in names},
            "after": {name: runs.test[name] for name in names},
        }
    return summary


def summarise_comparison(all_runs: Sequence[RepeatedRuns], baseline: str) -> Summary:
    """Summarise several models, each paired with the baseline of the same depth."""
    baselines = {runs.config.num_layers: runs for runs in all_runs if runs.config.model == baseline}
    models = []
    for runs in all_runs:
        against, difference = baselines[runs.config.num_layers], None
        if runs is not against:
            ours, theirs = runs.test[runs.metric], against.test[against.metric]
            difference = paired_difference(ours, theirs, test_to_train=runs.test_to_train)
        models.append(_model(runs) | _paired(difference))
    return {
        **_protocol(all_runs[0]),
        "baseline": baseline,
        "models": models,
        "seconds": fsum(runs.seconds for runs in all_runs),
        "answer": [_relation(each, baseline) for each in models if each["paired_interval"]],
    }


def summarise_candidates(comparison: TableComparison, baseline: str | None = None) -> Summary:
    """Summarise models on a user's tables, and whether crosses, graph and black boxes help.

    Args:
        baseline: The model that the others are paired with; by default the twin without crosses.
    """
    crosses = comparison.crosses
    relations = {name: asdict(answer) for name, answer in comparison.relations.items()}
    plain = baseline or (comparison.results[0].name if crosses is None else crosses.against)
    summary: Summary = {
        **comparison.protocol,
        "task": comparison.task,
        "metric": comparison.metric,
        "baseline": plain,
        "models": [_candidate(comparison, result, plain) for result in comparison.results],
        "answers": {
            "crosses": crosses and asdict(crosses),
            "graph": comparison.graph and asdict(comparison.graph),
            "black_box": comparison.black_box and asdict(comparison.black_box),
            **({"relations": relations} if relations else {}),
        },
        "intervals": _INTERVALS,
        "recommended": comparison.recommended,
        "better": comparison.better,
    }
    return summary | {"answer": [*_sentences(summary), *_overconfident(comparison)]}


def summarise_terms(
    run: RunFolder, whole: Explanation | Products, top: int, output: int | None
) -> Summary:
    """Return the terms of each class, the most important first."""
    summary: Summary = {
        "num_nodes": len(run.ids),
        "warning": " ".join(describe_doubts([one.record for one in run.runs])),
        "terms": whole.to_json(top, output),
    }
    if isinstance(whole, Products):
        return summary | {"reason": whole.reason}
    listed = range(len(whole.outputs)) if output is None else [output]
    names, rest = {whole.outputs[place]: place for place in listed}, whole.rest
    if len(listed) > 1:
        largest = [
            term.describe() | {"class": whole.outputs[at]} for term, at in whole.overall(top)
        ]
        summary["overall"] = largest
    return summary | {
        "num_nodes": len(whole.nodes),
        "columns": [column.name for column in whole.columns],
        "dropped": list(whole.dropped),
        "num_crosses": sum(len(term.columns) > 1 for term in whole.terms),
        **summarise_shares(run, whole),
        "average": {name: float(whole.average[place]) for name, place in names.items()},
        "by_number_of_columns": {name: whole.by_size(place) for name, place in names.items()},
        "unlisted": {str(size): number for size, number in whole.num_unlisted.items()},
        "unlisted_importance": {
            name: float(rest.importance[place]) for name, place in names.items() if rest
        },
        "limits": whole.explainer.limits,
    }


def summarise_shares(run: RunFolder, whole: Explanation) -> Summary:
    """Return the share of the score that the largest terms carry for the median test node.

    ``terms_for_80_percent`` is ``None`` if the listed terms carry less than 80 %.
    """
    tested = np.intersect1d(run.split.test.numpy(), whole.nodes)
    if not len(tested):
        return {"share_of_ten_largest": None, "terms_for_80_percent": None}
    shares = whole.shares_of_largest(tested)
    needed = int((shares < 0.8).sum()) + 1
    return {
        "share_of_ten_largest": float(shares[:10][-1]),
        "terms_for_80_percent": needed if needed <= len(shares) else None,
    }


def describe_shares(shares: Summary) -> str:
    """Return a sentence about the shares; empty if they are unknown."""
    ten, needed = shares["share_of_ten_largest"], shares["terms_for_80_percent"]
    if ten is None:
        return ""
    needs = "more than the listed terms" if needed is None else count(needed, "term")
    return (
        f"For the median test node, its ten largest terms carry {100 * ten:.0f}\u00a0% of the sum "
        f"of all its terms, taken without signs; 80\u00a0% takes {needs}."
    )


def summarise_term(whole: Explanation, term: Term, output: int) -> Summary:
    """Return one term, with its mean contribution for every combination of values."""
    cells, grid = [], whole.grid(term)
    if grid is not None:
        for at, names in enumerate(product(*(axis.labels for axis in grid.axes))):
            cell = {
                "names": list(names),
                "contribution": float(grid.means[at, output]),
                "error": None if grid.errors is None else float(grid.errors[at, output]),
                "nodes": int(grid.counts[at]),
            }
            cells.append(cell)
    record = {"class": whole.outputs[output], **term.describe(output), **whole.inside(term, output)}
    return {"terms": [{**record, "cells": [cell for cell in cells if cell["nodes"]]}]}


def describe_doubts(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each reason not to trust a model.

    The reasons are test scores no better than guessing, and a best epoch close to the random
    initialisation in most splits.
    """
    if any("constant_test" not in record for record in records):
        return []
    doubts, measured = [], records[0]["test"]
    judging = next(name for name in ("r2", "roc_auc", "accuracy") if name in measured)
    for name, start, end in (
        (judging, "The model is", ": do not draw conclusions from it."),
        ("log_loss", "The probabilities of the model are", "."),
    ):
        if name in measured:
            ours = fmean(record["test"][name] for record in records)
            guess = fmean(record["constant_test"][name] for record in records)
            sign, title = METRICS[name].sign, METRICS[name].title
            if sign * ours <= sign * _GUESSING.get(name, guess):
                shown = f"{title} {ours:.3f}, guessing {guess:.3f}"
                doubts.append(f"{start} no better than guessing ({shown}){end}")
    early = [each for each in records if each.get("epochs_from_start", _EARLY + 1) <= _EARLY]
    if 2 * len(early) > len(records):
        doubts.append(
            f"In {len(early)} of {count(len(records), 'split')} the best epoch is among the first "
            f"{_EARLY}, close to the random start: lower the learning rate "
            "(--set learning_rate=0.0003)."
        )
    return doubts


def _protocol(runs: RepeatedRuns) -> Summary:
    config, environment = runs.config, runs.records[0]["environment"]
    return {
        "dataset": config.dataset,
        "splits": config.splits,
        "num_splits": runs.num_splits,
        "num_runs": len(runs.records),
        "train": config.train,
        "seed": config.seed,
        "epochs": config.epochs,
        "task": runs.task,
        "metric": runs.metric,
        "versions": environment["versions"],
        "threads": environment["threads"],
        "device": environment.get("gpu", "cpu"),
        "commit": environment["commit"],
    }


def _model(runs: RepeatedRuns) -> Summary:
    config, test, first = runs.config, runs.test, runs.records[0]
    shown = {*config.model_settings(), "epochs", "learning_rate", "weight_decay"}
    summary = {
        "model": config.model,
        **dict.fromkeys(config.model_settings()),
        **dict(get_preset(config.model).settings),
        **config.model_dump(mode="json", include=shown, exclude_none=True),
        "parameters": first["parameters"],
        "task": runs.task,
        "metric": runs.metric,
        "test": test,
        **_mean_and_sd(test[runs.metric]),
        "validation_score": runs.validation_score,
        "best_epoch": [record["best_epoch"] for record in runs.records],
        "trained_order_weights": [record["order_weights"] for record in runs.records],
        "seconds": runs.seconds,
    }
    if "positive_class" in first:
        summary["positive_class"] = first["positive_class"]
    if "accuracy" in test:
        summary["test_accuracy"] = test["accuracy"]
    return summary


def _relation(model: Summary, baseline: str) -> str:
    """Say whether a model beats the baseline: whether the interval of the gain excludes 0."""
    name, (low, high) = model["metric"], model["paired_interval"]
    relation = "cannot be told apart from"
    if low > 0 or high < 0:
        relation = "beats" if (low > 0) == METRICS[name].greater_is_better else "falls behind"
    measured = difference_text(name, model["paired_difference"], (low, high))
    ours = f"{model['model']} ({count(model['num_layers'], 'layer')})"
    return f"{ours} {relation} {baseline}: {measured}."


def _candidate(comparison: TableComparison, result: CandidateResult, baseline: str) -> Summary:
    difference = None
    if result.name != baseline:
        difference = comparison.difference(result.name, baseline)
    summary = {
        "model": result.name,
        "description": result.candidate.description,
        "glass_box": result.candidate.glass_box,
        "parameters": result.parameters,
        "test": {name: list(values) for name, values in result.test.items()},
        **_mean_and_sd(result.scores),
        "validation_score": list(result.validation),
        "chosen_trials": list(result.trials),
        **_paired(difference),
        "seconds": result.seconds,
        "train_options": result.train_options and list(result.train_options),
    }
    if "accuracy" in result.test:
        summary["test_accuracy"] = list(result.test["accuracy"])
    return summary


def _mean_and_sd(values: Sequence[float]) -> Summary:
    summary = summarise(values)
    return {"mean": summary.mean, "sd": summary.sd}


def _paired(difference: PairedDifference | None) -> Summary:
    """Return a paired difference as three entries, all ``None`` for the baseline itself."""
    if difference is None:
        return dict.fromkeys(("paired_difference", "paired_se", "paired_interval"))
    return {
        "paired_difference": difference.mean,
        "paired_se": difference.standard_error,
        "paired_interval": difference.interval(),
    }


def _overconfident(comparison: TableComparison) -> list[str]:
    """Name the models whose log loss is above the constant's."""
    results = {result.name: result for result in comparison.results}
    constant = results.get(CONSTANT, comparison.constant)
    if constant is None or "log_loss" not in constant.test:
        return []
    limit = fmean(constant.test["log_loss"])
    above = [each.name for each in comparison.results if fmean(each.test["log_loss"]) > limit]
    names = ", ".join(above)
    return [f"Probabilities no better than the constant's, by log loss: {names}."] if above else []


def _sentences(summary: Summary) -> list[str]:
    """Return a sentence for each question of a comparison, and the recommended model."""
    sentences = []
    runs, of_what = len(summary["models"][0]["validation_score"]), "split"
    where = f"{count(runs, of_what)} of this table"
    if summary.get("splits") == "time":
        of_what = "training"
        where = f"{count(runs, of_what)} on the one split by time"
    answers, verdicts = dict(summary["answers"]), dict(_VERDICTS)
    for name, answer in answers.pop("relations", {}).items():
        answers[f"without {name}"] = answer
        verdicts[f"without {name}"] = (f"{name} helps", f"{name} does not help")
    for question, answer in answers.items():
        if answer is None:
            continue
        helps, does_not = verdicts[question]
        words = {
            "helps": helps,
            "does not help": does_not,
            "cannot tell": f"{helps}? Cannot tell: more {of_what}s needed (--num-splits)",
        }[answer["verdict"]]
        if not answer["beats_constant"]:
            words += f" ({answer['model']} is not shown to beat a constant)"
        measured = difference_text(summary["metric"], answer["difference"], answer["interval"])
        sentences.append(
            f"{words}. {answer['model']} against {answer['against']}: {measured}, {where}."
        )
    models = {model["model"]: model for model in summary["models"]}
    if summary["recommended"] == CONSTANT:
        return [*sentences, "Nothing beats the constant: no model is recommended."]
    chosen = models[summary["recommended"]]
    kind = "an exact sum of named terms" if chosen["glass_box"] else "a black box"
    sentences.append(f"Recommended: {chosen['model']} ({chosen['description']}), {kind}.")
    if summary["better"] is not None:
        better = models[summary["better"]]
        gain = difference_text(summary["metric"], better["mean"] - chosen["mean"], None)
        sentences.append(
            f"{better['model']} ({better['description']}) validates better, on test nodes {gain}; "
            f"crossgcn train does not have it: {_HOW_TO_GET[better['model'].partition('-')[0]]}."
        )
    return sentences
