"""Results as the JSON objects that commands print, write to ``result.json`` and draw on pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import fsum
from statistics import fmean
from typing import Any

import numpy as np

from crossgcn.experiments.answers import CandidateResult, QuestionAnswer, TableComparison
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
_CHOSEN = {"settings": "chosen_settings", "columns": "columns", "path": "path"}
_EARLY = 10
"""A model chosen in one of the first epochs is still close to its random start."""
_HOW_TO_GET = {
    "boosting": "scikit-learn's HistGradientBoosting models do, on the columns of crossgcn hops",
    "ebm": "InterpretML's ExplainableBoosting models do, on the columns of crossgcn hops",
}


def summarise_training(runs: RepeatedRuns) -> Summary:
    """Summarise one model over its splits, and what the validation nodes chose in each."""
    summary = _protocol(runs) | _model(runs) | {"doubts": describe_doubts(runs.records)}
    for name in ("settings", "columns", "path"):
        if name in runs.records[0]:
            summary[_CHOSEN[name]] = [record[name] for record in runs.records]
    return summary


def summarise_comparison(all_runs: Sequence[RepeatedRuns], baseline: str) -> Summary:
    """Summarise several models, each paired split by split with the baseline of its depth."""
    baselines = {runs.config.num_layers: runs for runs in all_runs if runs.config.model == baseline}
    models, answer = [], []
    for runs in all_runs:
        against, difference = baselines[runs.config.num_layers], None
        if runs is not against:
            ours, theirs = runs.test[runs.metric], against.test[against.metric]
            difference = paired_difference(ours, theirs, test_to_train=runs.test_to_train)
        model = _model(runs) | _paired(difference)
        models.append(model)
        if model["paired_interval"] is not None:
            answer.append(_relation(model, baseline))
    return {
        **_protocol(all_runs[0]),
        "baseline": baseline,
        "models": models,
        "seconds": fsum(runs.seconds for runs in all_runs),
        "answer": answer,
    }


def summarise_candidates(comparison: TableComparison, baseline: str | None = None) -> Summary:
    """Summarise models on a user's tables: each of them, and what helps.

    Args:
        baseline: The model that the others are paired with; by default the twin without crosses.
    """
    crosses = comparison.crosses
    plain = baseline or (comparison.results[0].name if crosses is None else crosses.against)
    summary: Summary = {
        **comparison.protocol,
        "task": comparison.task,
        "metric": comparison.metric,
        "baseline": plain,
        "models": [_candidate(comparison, result, plain) for result in comparison.results],
        "answers": {
            "crosses": _question(crosses),
            "graph": _question(comparison.graph),
            "black_box": _question(comparison.black_box),
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
    scores = list(enumerate(whole.outputs))
    if output is not None:
        scores = scores[output : output + 1]
    rest = whole.rest
    return summary | {
        "num_nodes": len(whole.nodes),
        "columns": [column.name for column in whole.columns if len(column.places)],
        "dropped": list(whole.dropped),
        **summarise_shares(run, whole),
        "average": {name: float(whole.average[place]) for place, name in scores},
        "by_number_of_columns": {name: whole.by_size(place) for place, name in scores},
        "unlisted": {str(size): number for size, number in whole.num_unlisted.items()},
        "unlisted_importance": {
            name: float(rest.importance[place]) for place, name in scores if rest is not None
        },
        "of_neighbours": whole.explainer.near is not None,
        "limits": whole.explainer.limits,
    }


def summarise_shares(run: RunFolder, whole: Explanation) -> Summary:
    """Return how much of the predictions for test nodes few terms carry.

    ``share_of_ten_largest`` is for the median node, and so is ``terms_for_80_percent``, which is
    ``None`` if the terms that are listed do not make so much.
    """
    tested = np.intersect1d(run.split.test.numpy(), whole.nodes)
    if not len(tested):
        return {"share_of_ten_largest": None, "terms_for_80_percent": None}
    shares = whole.shares_of_largest(tested)
    enough = np.flatnonzero(shares >= 0.8)
    return {
        "share_of_ten_largest": float(shares[:10][-1]),
        "terms_for_80_percent": int(enough[0]) + 1 if len(enough) else None,
    }


def describe_shares(shares: Summary) -> str:
    """Say how much of a prediction few terms carry; empty if that is not known."""
    ten, needed = shares["share_of_ten_largest"], shares["terms_for_80_percent"]
    if ten is None:
        return ""
    needs = "more than the listed terms" if needed is None else count(needed, "term")
    return (
        f"For the median test node, its ten largest terms carry {100 * ten:.0f}\u00a0% of the sum "
        f"of all its terms, taken without signs; 80\u00a0% takes {needs}."
    )


def summarise_term(whole: Explanation, term: Term, output: int) -> Summary:
    """Return one term with the mean contribution for every combination of values."""
    cells, grid = [], whole.grid(term)
    if grid is not None:
        for at, names in enumerate(product(*(axis.labels for axis in grid.axes))):
            if grid.counts[at]:
                cell = {
                    "names": list(names),
                    "contribution": float(grid.means[at, output]),
                    "error": None if grid.errors is None else float(grid.errors[at, output]),
                    "nodes": int(grid.counts[at]),
                }
                cells.append(cell)
    record = {"class": whole.outputs[output], **term.describe(output), **whole.inside(term, output)}
    return {"terms": [{**record, "cells": cells}]}


def guess_score(run: RunFolder) -> float:
    """Return the test score of guessing, over the splits of a run.

    That is the accuracy of the commonest class of the training nodes, or the RMSE of the mean.
    """
    constant = [one.record["constant_test"] for one in run.runs]
    name = "rmse" if "rmse" in constant[0] else "accuracy"
    return fmean(test[name] for test in constant)


def describe_doubts(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each reason not to trust a model that was trained on some splits.

    On the test nodes, a model of numbers must have a positive R², and one of classes a ROC-AUC
    above 0.5, or the accuracy of guessing where no ROC-AUC was measured, and a log loss below that
    of the shares of the classes. No model may be chosen right after its random start.
    """
    if any("constant_test" not in record for record in records):
        return []
    doubts = []
    names = [name for name in ("r2", "roc_auc", "accuracy") if name in records[0]["test"]][:1]
    names += ["log_loss"] if "log_loss" in records[0]["test"] else []
    for name in names:
        ours, guess = (
            fmean(record[test][name] for record in records) for test in ("test", "constant_test")
        )
        sign = METRICS[name].sign
        if sign * ours <= sign * {"r2": 0.0, "roc_auc": 0.5}.get(name, guess):
            shown = f"{METRICS[name].title} {ours:.3f}, of guessing {guess:.3f}"
            doubts.append(
                f"The probabilities of the model are no better than guessing ({shown})."
                if name == "log_loss"
                else f"The model is no better than guessing ({shown}): "
                "what it does says nothing about the data."
            )
    early = [r for r in records if r.get("epochs_from_start", _EARLY + 1) <= _EARLY]
    if 2 * len(early) > len(records):
        doubts.append(
            f"In {len(early)} of {count(len(records), 'split')} the best epoch is among the first "
            f"{_EARLY}, close to the random start: lower the rate (--set learning_rate=0.0003)."
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
    """Say whether a model beats the baseline: whether the interval of the difference holds 0."""
    name, (low, high) = model["metric"], model["paired_interval"]
    relation = "cannot be told apart from"
    if low > 0 or high < 0:
        relation = "beats" if (low > 0) == METRICS[name].greater_is_better else "falls behind"
    measured = difference_text(name, model["paired_difference"], (low, high))
    ours = f"{model['model']} ({count(model['num_layers'], 'layer')})"
    return f"{ours} {relation} {baseline}: {measured}."


def _candidate(comparison: TableComparison, result: CandidateResult, baseline: str) -> Summary:
    itself = result.name == baseline
    accuracy = result.test.get("accuracy")
    return {
        "model": result.name,
        "description": result.candidate.description,
        "glass_box": result.candidate.glass_box,
        "parameters": result.parameters,
        "test": {name: list(values) for name, values in result.test.items()},
        **({} if accuracy is None else {"test_accuracy": list(accuracy)}),
        **_mean_and_sd(result.scores),
        "validation_score": list(result.validation),
        "chosen_trials": list(result.trials),
        **_paired(None if itself else comparison.difference(result.name, baseline)),
        "seconds": result.seconds,
        "train_options": None if result.train_options is None else list(result.train_options),
    }


def _mean_and_sd(values: Sequence[float]) -> Summary:
    summary = summarise(values)
    return {"mean": summary.mean, "sd": summary.sd}


def _paired(difference: PairedDifference | None) -> Summary:
    """Return a paired difference as three entries, all ``None`` for the baseline itself."""
    return {
        "paired_difference": None if difference is None else difference.mean,
        "paired_se": None if difference is None else difference.standard_error,
        "paired_interval": None if difference is None else difference.interval(),
    }


def _question(asked: QuestionAnswer | None) -> Summary | None:
    if asked is None:
        return None
    return {
        "model": asked.model,
        "against": asked.against,
        "difference": asked.difference.mean,
        "interval": asked.difference.interval(),
        "corrected_interval": asked.corrected.interval(),
        "verdict": asked.verdict,
        "beats_constant": not asked.is_constant,
    }


def _overconfident(comparison: TableComparison) -> list[str]:
    """Name the models whose log loss is above the constant's."""
    results = {result.name: result for result in comparison.results}
    constant = results.get(CONSTANT, comparison.constant)
    if constant is None or "log_loss" not in constant.test:
        return []
    limit = fmean(constant.test["log_loss"])
    above = [each.name for each in comparison.results if fmean(each.test["log_loss"]) > limit]
    if not above:
        return []
    return [f"Probabilities no better than the constant's, by log loss: {', '.join(above)}."]


def _sentences(summary: Summary) -> list[str]:
    """Return one sentence for each question of a comparison, and which model to use."""
    sentences = []
    splits = len(summary["models"][0]["validation_score"])
    for question, (helps, does_not) in _VERDICTS.items():
        asked = summary["answers"][question]
        if asked is None:
            continue
        words = {
            "helps": helps,
            "does not help": does_not,
            "cannot tell": f"{helps}? Cannot tell: more splits needed (--num-splits)",
        }[asked["verdict"]]
        if not asked["beats_constant"]:
            words += f" ({asked['model']} is not shown to beat a constant)"
        measured = difference_text(summary["metric"], asked["difference"], asked["interval"])
        sentences.append(
            f"{words}. {asked['model']} against {asked['against']}: {measured}, "
            f"{count(splits, 'split')} of this table."
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
            f"crossgcn train does not make it: {_HOW_TO_GET[better['model'].partition('-')[0]]}."
        )
    return sentences
