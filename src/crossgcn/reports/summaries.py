"""Results as the JSON objects that commands print, write to ``result.json`` and draw on pages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import fsum
from statistics import fmean

from crossgcn.experiments.answers import CandidateResult, QuestionAnswer, TableComparison
from crossgcn.experiments.experiment import RepeatedRuns
from crossgcn.experiments.run_folder import RunFolder
from crossgcn.experiments.statistics import PairedDifference, paired_difference, summarise
from crossgcn.explanation.products import Products
from crossgcn.explanation.terms import Explanation, Term
from crossgcn.models.catalogue import get_preset
from crossgcn.reports.format import Summary, change_text, count, interval_text
from crossgcn.training.metrics import METRICS

INTERVALS = (
    "The 95 % interval is of the mean gain over random splits of this table. corrected_interval "
    "is wider: it is for a new table of the same kind."
)
"""What ``--json`` says of intervals."""


def summarise_training(runs: RepeatedRuns) -> Summary:
    """Summarise one model over its splits."""
    return _protocol(runs) | _model(runs)


def summarise_comparison(all_runs: Sequence[RepeatedRuns], baseline: str) -> Summary:
    """Summarise several models, each paired split by split with the baseline of its depth."""
    baselines = {runs.config.num_layers: runs for runs in all_runs if runs.config.model == baseline}

    def difference(runs: RepeatedRuns) -> PairedDifference | None:
        against = baselines[runs.config.num_layers]
        if runs is against:
            return None
        ours, theirs = runs.test_accuracy, against.test_accuracy
        return paired_difference(ours, theirs, test_to_train=runs.test_to_train)

    models = [_model(runs) | _paired(difference(runs)) for runs in all_runs]
    seconds = fsum(runs.seconds for runs in all_runs)
    answer = [_relation(model, baseline) for model in models if model["paired_interval"]]
    summary = {"baseline": baseline, "models": models, "seconds": seconds, "answer": answer}
    return _protocol(all_runs[0]) | summary


def summarise_candidates(comparison: TableComparison, baseline: str | None = None) -> Summary:
    """Summarise models on a user's tables: each of them, and what helps.

    Args:
        baseline: The model that the others are paired with; by default the twin without crosses.
    """
    crosses, chosen = comparison.crosses, comparison.recommended
    plain = baseline or (comparison.results[0].name if crosses is None else crosses.against)
    black_box = comparison.best(lambda result: not result.candidate.glass_box)
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
        "intervals": INTERVALS,
        "recommended": chosen,
        "given_up": None,
    }
    if black_box not in (None, chosen):
        difference = comparison.difference(chosen, black_box)
        summary["given_up"] = {
            "model": chosen,
            "against": black_box,
            "difference": difference.mean,
            "interval": difference.interval(),
        }
    return summary | {"answer": _sentences(summary)}


def summarise_terms(
    run: RunFolder, whole: Explanation | Products, top: int, output: int | None
) -> Summary:
    """Return the terms of each class, the most important first."""
    listed = range(len(whole.outputs)) if output is None else [output]
    summary: Summary = {
        "num_nodes": len(run.ids),
        "warning": no_better_than_guessing(run),
        "terms": whole.to_json(top, output),
    }
    if isinstance(whole, Products):
        return summary | {"reason": whole.reason}
    names, rest = whole.outputs, whole.rest
    return summary | {
        "num_nodes": len(whole.nodes),
        "average": {names[each]: float(whole.average[each]) for each in listed},
        "by_number_of_columns": {names[each]: whole.by_size(each) for each in listed},
        "unlisted": {str(size): number for size, number in whole.num_unlisted.items()},
        "unlisted_importance": {
            names[each]: float(rest.importance[each]) for each in listed if rest is not None
        },
        "of_neighbours": whole.neighbours is not None,
    }


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
    inside = whole.inside(term, output)
    record = {
        "class": whole.outputs[output],
        **term.describe(output),
        **({"slope": inside["slope"]} if "slope" in inside else {}),
        "cells": cells,
    }
    return {"terms": [record]}


def guess_score(run: RunFolder) -> float:
    """Return the test score of guessing, over the splits of a run.

    That is the accuracy of the commonest class of the training nodes, or the RMSE of the mean.
    """
    y, scores = run.data.y, []
    for one in run.runs:
        split = run.split_of(one)
        train, test = y[split.train], y[split.test]
        if y.is_floating_point():
            scores.append(float((test - train.mean()).square().mean().sqrt()))
        else:
            scores.append(float((test == train.mode().values).float().mean()))
    return fmean(scores)


def no_better_than_guessing(run: RunFolder) -> str:
    """Say so in a sentence if the model learned nothing; empty if it did.

    A model of numbers must have a positive R², one of two classes a ROC-AUC above 0.5, and one
    of more classes an accuracy above the share of the commonest class, on the test nodes.
    """
    tests = [one.record["test"] for one in run.runs]
    means = {name: fmean(test[name] for test in tests) for name in tests[0]}
    if "r2" in means:
        learned, guess = means["r2"] > 0, f"the mean of all nodes (R² {means['r2']:.2f})"
    elif "roc_auc" in means and len(run.saved.preprocess.classes) == 2:
        learned, guess = means["roc_auc"] > 0.5, f"a coin (ROC-AUC {means['roc_auc']:.2f})"
    else:
        commonest = guess_score(run)
        learned = means["accuracy"] > commonest
        guess = (
            "always answering the commonest class (accuracy "
            f"{means['accuracy']:.1%} against {commonest:.1%})"
        )
    return "" if learned else f"The model is no better than {guess}."


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
    if runs.metric == "accuracy":
        summary["validation_accuracy"] = runs.validation_score
    return summary


def _relation(model: Summary, baseline: str) -> str:
    """Say whether a model beats the baseline: whether the interval of the difference holds 0."""
    name, interval = model["metric"], model["paired_interval"]
    metric, relation = METRICS[name], "cannot be told apart from"
    if interval[0] > 0 or interval[1] < 0:
        relation = "beats" if (interval[0] > 0) == metric.greater_is_better else "falls behind"
    unit = "points" if metric.shown == "percent" else metric.title
    return (
        f"{model['model']} ({count(model['num_layers'], 'layer')}) {relation} {baseline}: "
        f"{change_text(name, model['paired_difference'])} {unit}, {interval_text(name, interval)}."
    )


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


_VERDICTS = {
    "crosses": ("Crosses help", "Crosses do not help"),
    "graph": ("The graph helps", "The graph does not help"),
    "black_box": ("A black box is better", "A glass box is as good as a black box"),
}


def _sentences(summary: Summary) -> list[str]:
    """Return one sentence for each question of a comparison, and which model to use."""
    sentences = []
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
            is_sure = asked["verdict"] == "does not help"
            shown = "does not beat" if is_sure else "is not shown to beat"
            words += f" ({asked['model']} {shown} a constant)"
        against = f"{asked['model']} against {asked['against']}"
        sentences.append(f"{words}. {against}: {_measured(summary, asked)}.")
    return [*sentences, _recommendation(summary)]


def _recommendation(summary: Summary) -> str:
    (chosen,) = (m for m in summary["models"] if m["model"] == summary["recommended"])
    words = f"Recommended: {chosen['model']} ({chosen['description']})"
    if not chosen["glass_box"]:
        return f"{words}, a black box."
    words += ", an exact sum of named terms."
    lost = summary["given_up"]
    if lost is None:
        return f"{words} No black box was compared."
    is_loss = (lost["difference"] < 0) == METRICS[summary["metric"]].greater_is_better
    given = "Given up" if is_loss else "Nothing is given up"
    return (
        f"{words} {given} against {lost['against']}, the black box with the best validation "
        f"score: {_measured(summary, lost)}."
    )


def _measured(summary: Summary, asked: Summary) -> str:
    name, metric = summary["metric"], METRICS[summary["metric"]]
    unit = f"points of {metric.title}" if metric.shown == "percent" else metric.title
    text = f"{change_text(name, asked['difference'])} {unit}"
    if asked["interval"] is None:
        return text
    splits = len(summary["models"][0]["validation_score"])
    return f"{text} ({interval_text(name, asked['interval'])}, {splits} splits of this table)"
