"""Collect what a page shows of a run, as one JSON object."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
from scipy.special import softmax
from torch_geometric.utils import remove_self_loops, to_undirected

from crossgcn.data.files import read_hashed_json
from crossgcn.data.graph import is_labelled
from crossgcn.data.tables.graph import read_encoding
from crossgcn.errors import BadInput
from crossgcn.experiments.experiment import RepeatedRuns
from crossgcn.experiments.predict import score_nodes
from crossgcn.experiments.run_folder import FinishedRun, RunFolder
from crossgcn.experiments.statistics import summarise
from crossgcn.explanation.terms import Explanation
from crossgcn.reports.format import Summary, metric_text, shorten, spread_text, to_small_json
from crossgcn.reports.page.explain import (
    collect_nodes,
    collect_terms,
    explain_for_page,
    importance_in_words,
    strongest_terms,
)
from crossgcn.reports.page.performance import measure_classes, measure_numbers
from crossgcn.reports.summaries import guess_score, summarise_training
from crossgcn.training.metrics import METRICS
from crossgcn.training.records import RECORD, RESULT

_MOST_POINTS = 120
_SIMPLER = ("linear", "boosting", "boosting-hops")


def collect_run(run: RunFolder, *, comparison: Path | None = None, num_nodes: int = 400) -> Summary:
    """Collect the contents of the page of a run.

    Args:
        comparison: A folder written by ``compare``.
        num_nodes: How many nodes are explained one by one.
    """
    compared = None if comparison is None else _read_comparison(comparison, run)
    summary = summarise_training(RepeatedRuns(run.config, tuple(one.record for one in run.runs)))
    preprocess, y = run.saved.preprocess, run.data.y.numpy()
    plan = None if preprocess.encoding is None else read_encoding(preprocess)[1]
    target = shorten((None if plan is None else plan.target) or "class")
    is_number = run.data.y.is_floating_point()
    classes = [] if is_number else [shorten(name) for name in preprocess.classes]
    known = y[is_labelled(run.data.y).numpy()]
    whole, unexplained = explain_for_page(run, target)
    terms = whole if isinstance(whole, Explanation) else None
    result = _read_result(run.folder)
    metrics = [
        {"name": name, **_over_splits(name, values)} for name, values in summary["test"].items()
    ]
    for metric in metrics:
        metric["text"] += "\u00a0%" if metric["percent"] else ""
    edges = to_undirected(remove_self_loops(run.data.edge_index)[0], num_nodes=len(y))
    degree = np.bincount(edges[0].numpy(), minlength=len(y))
    scores = [score_nodes(run, one).numpy() for one in run.runs]
    tests = [run.split_of(one).test.numpy() for one in run.runs]
    if is_number:
        scores = [each[:, 0] for each in scores]
        performance = measure_numbers(y, scores, tests, degree)
    else:
        scores = [softmax(each, axis=1) for each in scores]
        performance = measure_classes(y, scores, tests, classes, degree)
    shown = scores[run.runs.index(run.chosen)]
    content = {
        "title": shorten(run.config.dataset),
        "target": target,
        "task": "number" if is_number else "classes",
        "classes": classes,
        "range": [known.min(), known.max()] if is_number else None,
        "sizes": {
            "nodes": len(run.ids),
            "edges": _num_edges(run),
            "columns": len(set(preprocess.space.fields))
            if preprocess.space
            else run.data.x.size(1),
        },
        "model": run.config.model,
        "shown_split": run.chosen.record["split"]["index"] + 1,
        "metrics": metrics,
        "doubts": " ".join(summary["doubts"]),
        "comparison": compared,
        "training": [_curve(one) for one in run.runs],
        "path": _path(summary),
        "facts": _facts(summary, result),
        "columns": [
            [shorten(column.name), shorten(column.kind), shorten(column.reason, 300)]
            for column in (plan.columns if plan else ())
        ],
        "warnings": [shorten(str(warning), 600) for warning in result.get("warnings", ())],
        "unexplained": unexplained,
        "five": [] if terms is None else strongest_terms(terms),
        "answers": _answers(run, metrics, terms, compared),
        "terms": None if whole is None else collect_terms(run, whole),
        "performance": performance,
        "nodes": collect_nodes(run, terms, shown, degree, num_nodes),
    }
    return cast(Summary, to_small_json(content))


def _read_comparison(folder: Path, run: RunFolder) -> Summary:
    """Read the result of ``compare`` from its folder; it must be about the graph of a run."""
    path = folder / RESULT
    result = read_hashed_json(path, "give the folder that crossgcn compare made", "compare again")
    if "answers" not in result:
        raise BadInput(
            f"{path}: is not a comparison on tables; make one with crossgcn compare NODES EDGES "
            "--target COLUMN --out"
        )
    for record in [*folder.rglob(RECORD)][:1]:
        compared = read_hashed_json(record, "give the whole folder", "compare again")["dataset"]
        if compared["sha256"] != run.chosen.record["dataset"]["sha256"]:
            raise BadInput(
                f"{path}: compares models on another graph, column to predict or choice of columns "
                f"than those of {run.folder} ({result['dataset']}, {result['target']}): give the "
                "comparison of the same tables with the same options"
            )
    metric = result["metric"]
    return {
        "metric": METRICS[metric].title,
        "percent": METRICS[metric].shown == "percent",
        "models": [
            {
                "name": model["model"],
                "words": model["description"],
                "glass_box": model["glass_box"],
                "parameters": model["parameters"],
                **_over_splits(metric, model["test"][metric]),
            }
            for model in result["models"]
        ],
        "recommended": result["recommended"],
        "sentences": result["answer"],
    }


def _over_splits(name: str, values: list[float]) -> Summary:
    """Return values of a metric by split, and their mean and standard deviation as text."""
    metric, measured = METRICS[name], summarise(values)
    return {
        "label": metric.title,
        "percent": metric.shown == "percent",
        "values": values,
        "text": spread_text(name, measured.mean, measured.sd),
    }


def _answers(
    run: RunFolder, metrics: list[Summary], terms: Explanation | None, comparison: Summary | None
) -> list[tuple[str, str]]:
    """Answer in words how good the model is, and whether the graph and crosses matter."""
    first, splits = metrics[0], len(run.runs)
    over = "one split" if splits == 1 else f"mean ± standard deviation over {splits} splits"
    how_well = f"Test {first['label']} {first['text']} ({over}). {_guess(metrics, run)}"
    simpler = (
        "Not compared with boosting and a linear model. `crossgcn compare` does that, and "
        "`crossgcn report --comparison` shows its answer here."
    )
    of_graph, of_crosses = [], []
    if comparison is not None:
        texts = {model["name"]: model["text"] for model in comparison["models"]}
        chosen = comparison["recommended"]
        names = [name for name in (chosen, *_SIMPLER) if name in texts]
        names = list(dict.fromkeys(names))
        listed = "; ".join(f"{name} {texts[name]}" for name in names)
        unit = " in %" if comparison["percent"] else ""
        simpler = f"Test {comparison['metric']}{unit}: {listed}."
        of_graph = [each for each in comparison["sentences"] if each.startswith("The graph")]
        of_crosses = [each for each in comparison["sentences"] if each.startswith("Crosses")]
    answers = [("How well?", how_well), ("Against simpler models?", simpler)]
    answers += [("Does the graph matter?", sentence) for sentence in of_graph]
    answers += [("Do crosses matter?", sentence) for sentence in of_crosses]
    if terms is not None:
        answers.append(("What is it made of?", importance_in_words(terms)))
    return answers


def _guess(metrics: list[Summary], run: RunFolder) -> str:
    """Compare with the commonest class, or the mean number, of the training nodes."""
    name, words = "accuracy", "the most frequent class"
    if run.data.y.is_floating_point():
        name, words = "rmse", "the mean"
    ours = next(metric["text"] for metric in metrics if metric["name"] == name)
    start = f"Its {METRICS[name].title} is {ours}; always"
    start = "Always" if metrics[0]["name"] == name else start
    return f"{start} predicting {words} has {metric_text(name, guess_score(run))}."


def _curve(run: FinishedRun) -> Summary:
    """Read a learning curve, thinned out; a metric that should shrink is recorded negated."""
    curve, chosen = run.curve(), run.record["best_epoch"]
    sign = METRICS[run.record["metric"]].sign
    curve["validation_score"] = [sign * value for value in curve["validation_score"]]
    epochs = curve["epoch"]
    places = {*np.linspace(0, len(epochs) - 1, _MOST_POINTS).round().astype(int).tolist()}
    places |= {place for place, epoch in enumerate(epochs) if epoch == chosen}
    names = ("epoch", "train_loss", "validation_loss", "validation_score")
    curves = {name: [curve[name][place] for place in sorted(places)] for name in names}
    return {"split": run.record["split"]["index"] + 1, "chosen": chosen, **curves}


def _path(summary: Summary) -> list[Summary]:
    """Return the numbers of columns that were tried in each split; empty if none were dropped."""
    paths, sign = summary.get("path", []), METRICS[summary["metric"]].sign
    if all(len(tried) < 2 for tried in paths):
        return []
    return [
        {"chosen": len(columns), "tried": [[size, sign * score] for size, score in tried]}
        for columns, tried in zip(summary["columns"], paths, strict=True)
    ]


def _read_result(folder: Path) -> Summary:
    """Return what ``train`` printed; empty if the run was stopped before its end."""
    path = folder / RESULT
    if not path.exists():
        return {}
    again = "remove it, or write it again with the same crossgcn train command and --resume"
    return read_hashed_json(path, again, again)


def _num_edges(run: RunFolder) -> int:
    """Count the edges; an undirected edge, which is stored in both directions, counts once."""
    sources, targets = run.data.edge_index
    loops = int((sources == targets).sum())
    return len(sources) if run.data.get("directed") else (len(sources) - loops) // 2 + loops


def _facts(summary: Summary, result: Summary) -> dict[str, str]:
    """Return how the model was made: what is one value in the summary of its training."""
    facts = {
        **{name: value for name, value in summary.items() if not isinstance(value, list | dict)},
        **summary["versions"],
        "finished": result.get("finished", "at an unknown time"),
    }
    return {
        name.replace("_", " "): shorten(str(value), 600)
        for name, value in facts.items()
        if value is not None and name not in ("mean", "sd", "seconds")
    }
