"""Collect what a page shows of a run, as one JSON object."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.special import softmax
from torch_geometric.utils import remove_self_loops, to_undirected

from crossgcn.data.features import FeatureSpace
from crossgcn.data.files import read_hashed_json
from crossgcn.data.graph import is_labelled
from crossgcn.data.tables.graph import read_encoding
from crossgcn.errors import BadInput
from crossgcn.experiments.experiment import RepeatedRuns
from crossgcn.experiments.predict import score_nodes, score_without_edges
from crossgcn.experiments.run_folder import FinishedRun, RunFolder
from crossgcn.explanation.terms import Explanation
from crossgcn.reports.format import Summary, metric_text, round4, shorten, spread_text
from crossgcn.reports.page.explain import (
    collect_nodes,
    collect_terms,
    explain_for_page,
    importance_in_words,
    strongest_terms,
)
from crossgcn.reports.page.performance import measure_classes, measure_numbers
from crossgcn.reports.summaries import guess_score, no_better_than_guessing, summarise_training
from crossgcn.training.metrics import METRICS
from crossgcn.training.records import RECORD, RESULT

_MOST_POINTS, _MOST_COLUMNS, _MOST_WARNINGS = 120, 500, 40


def collect_run(run: RunFolder, *, comparison: Path | None = None, num_nodes: int = 400) -> Summary:
    """Collect the contents of the page of a run.

    Args:
        comparison: A folder written by ``compare``.
        num_nodes: How many nodes are explained one by one.
    """
    compared = None if comparison is None else _read_comparison(comparison, run)
    summary = summarise_training(RepeatedRuns(run.config, tuple(one.record for one in run.runs)))
    preprocess, y = run.saved.preprocess, run.data.y.numpy()
    is_number = run.data.y.is_floating_point()
    plan = None if preprocess.encoding is None else read_encoding(preprocess)[1]
    space = preprocess.space or FeatureSpace.unnamed(run.data.x.size(1))
    target = shorten((None if plan is None else plan.target) or "class")
    classes = [] if is_number else [shorten(name) for name in preprocess.classes]
    whole, unexplained = explain_for_page(run, target)
    terms = whole if isinstance(whole, Explanation) else None
    result, known = _read_result(run.folder), y[is_labelled(run.data.y).numpy()]
    columns = plan.columns if plan else ()
    metrics = [
        {
            "name": name,
            "label": METRICS[name].title,
            "percent": METRICS[name].shown == "percent",
            **_over_splits(name, values, with_unit=True),
        }
        for name, values in summary["test"].items()
    ]
    content: Summary = {
        "title": shorten(run.config.dataset),
        "target": target,
        "task": "number" if is_number else "classes",
        "classes": classes,
        "range": round4([known.min(), known.max()]) if is_number else None,
        "sizes": {
            "nodes": len(run.ids),
            "edges": _num_edges(run),
            "columns": len(set(space.fields)),
        },
        "model": run.config.model,
        "shown_split": run.chosen.record["split"]["index"] + 1,
        "metrics": metrics,
        "no_better": no_better_than_guessing(run),
        "comparison": compared,
        "training": [_curve(one) for one in run.runs],
        "facts": _facts(summary, result),
        "columns": [
            [shorten(c.name), shorten(c.kind), shorten(c.reason, 300)]
            for c in columns[:_MOST_COLUMNS]
        ],
        "more_columns": len(columns[_MOST_COLUMNS:]),
        "warnings": [shorten(str(w), 600) for w in result.get("warnings", ())[:_MOST_WARNINGS]],
        "unexplained": unexplained,
        "five": [] if terms is None else strongest_terms(terms),
        "answers": _answers(run, metrics, terms, compared),
        "terms": None if whole is None else collect_terms(whole),
    }
    scores = [score_nodes(run, one).numpy() for one in run.runs]
    tests = [run.split_of(one).test.numpy() for one in run.runs]
    edges = to_undirected(remove_self_loops(run.data.edge_index)[0], num_nodes=len(y))
    degree = np.bincount(edges[0].numpy(), minlength=len(y))
    shown, probabilities = run.runs.index(run.chosen), None
    if is_number:
        predicted = [each[:, 0] for each in scores]
        content["performance"] = measure_numbers(y, predicted, tests, degree)
    else:
        of_splits = [softmax(each, axis=1) for each in scores]
        predicted = [each.argmax(axis=1) for each in scores]
        content["performance"] = measure_classes(y, of_splits, tests, classes, degree)
        probabilities = of_splits[shown]
    content["nodes"] = collect_nodes(run, terms, predicted[shown], probabilities, degree, num_nodes)
    return content


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
    name = result["metric"]
    models = [
        {
            "name": model["model"],
            "words": model["description"],
            "glass_box": model["glass_box"],
            "parameters": model["parameters"],
            **_over_splits(name, model["test"][name]),
        }
        for model in result["models"]
    ]
    return {
        "metric": METRICS[name].title,
        "percent": METRICS[name].shown == "percent",
        "models": models,
        "recommended": result["recommended"],
        "sentences": result["answer"],
    }


def _over_splits(metric: str, values: list[float], *, with_unit: bool = False) -> Summary:
    """Return values of a metric by split, and their mean and standard deviation as text."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    text = spread_text(metric, float(np.mean(values)), spread)
    if with_unit and METRICS[metric].shown == "percent":
        text += "\u00a0%"
    return {"values": round4(values), "text": text}


def _answers(
    run: RunFolder, metrics: list[Summary], terms: Explanation | None, comparison: Summary | None
) -> list[tuple[str, str]]:
    """Answer in words how good the model is, and whether the graph and crosses matter."""
    first, splits = metrics[0], len(run.runs)
    over = "one split" if splits == 1 else f"mean ± standard deviation over {splits} splits"
    answers = [
        ("How well?", f"Test {first['label']} {first['text']} ({over}). {_guess(metrics, run)}")
    ]
    if comparison is None:
        words = (
            "Not compared with boosting and a linear model. `crossgcn compare` does that, and "
            "`crossgcn report --comparison` shows its answer here."
        )
    else:
        models = comparison["models"]
        shown = ("linear", "boosting", "boosting-hops")
        chosen = [model for model in models if model["name"] == comparison["recommended"]]
        chosen += [model for model in models if model["name"] in shown and model not in chosen]
        listed = "; ".join(f"{model['name']} {model['text']}" for model in chosen)
        words = f"Test {comparison['metric']}{' in %' if comparison['percent'] else ''}: {listed}."
    answers.append(("Against simpler models?", words))
    sentences = [] if comparison is None else comparison["sentences"]
    of_graph = [sentence for sentence in sentences if sentence.startswith("The graph")]
    if not of_graph and run.data.edge_index.size(1):
        name = run.chosen.record["metric"]
        with_edges, without = (metric_text(name, score) for score in score_without_edges(run))
        of_graph = [
            f"With its edges the model has a test {METRICS[name].title} of {with_edges}, without "
            f"them {without}. That is this model; one trained without edges may do better."
        ]
    answers += [("Does the graph matter?", sentence) for sentence in of_graph]
    answers += [("Do crosses matter?", each) for each in sentences if each.startswith("Crosses")]
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
    metrics, chosen = run.curve(), run.record["best_epoch"]
    sign = METRICS[run.record["metric"]].sign
    metrics["validation_score"] = [sign * value for value in metrics["validation_score"]]
    epochs = metrics["epoch"]
    places = np.linspace(0, len(epochs) - 1, _MOST_POINTS).round().astype(int).tolist()
    kept = sorted({*places, epochs.index(chosen)}) if chosen in epochs else sorted({*places})
    names = ("epoch", "train_loss", "validation_loss", "validation_score")
    curves = {name: round4([metrics[name][place] for place in kept]) for name in names}
    return {"split": run.record["split"]["index"] + 1, "chosen": chosen, **curves}


def _read_result(folder: Path) -> Summary:
    """Return what ``train`` printed; empty if the run was stopped before its end."""
    path = folder / RESULT
    if not path.exists():
        return {}
    again = "remove it, or write it again with the same crossgcn train command and --resume"
    return read_hashed_json(path, again, again)


def _num_edges(run: RunFolder) -> int:
    """Count the edges; an undirected edge, which is stored in both directions, counts once."""
    edges = int(run.data.edge_index.size(1))
    if run.data.get("directed"):
        return edges
    loops = int((run.data.edge_index[0] == run.data.edge_index[1]).sum())
    return (edges - loops) // 2 + loops


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
