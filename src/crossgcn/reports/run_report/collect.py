"""Collect the contents of a page from what ``train`` wrote, of one run or of several."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crossgcn.data.features import FeatureSpace
from crossgcn.data.graph import is_labelled
from crossgcn.data.seals import read_sealed_json
from crossgcn.data.tables.graph import read_encoding
from crossgcn.experiments.predict import score_nodes
from crossgcn.experiments.run_folder import FinishedRun, RunFolder
from crossgcn.explanation.columns import ColumnTerms
from crossgcn.explanation.one_node import Changes
from crossgcn.explanation.run import ExplainedRun, no_better_than_guessing, run_explainer
from crossgcn.models.cross_hops import CrossHops
from crossgcn.reports.format import count, shorten
from crossgcn.reports.run_report import nodes, performance
from crossgcn.reports.run_report.answers import (
    Content,
    answer_in_words,
    describe_metrics,
    five_terms,
)
from crossgcn.reports.run_report.terms import brief, briefs, pack_terms
from crossgcn.training.metrics import METRICS, positive_class, predict_classes, softmax
from crossgcn.training.records import RESULT

_MOST_POINTS, _MOST_TERMS = 120, 20
_SHORT = re.compile(r"[-+.\d]+|true|false|yes|no", re.IGNORECASE)
"""Names of classes that say nothing without that of their column."""
_ROLES = ("other", "train", "validation", "test", "unlabelled")
Tick = Callable[[int, int], None]


def collect_run(
    run: RunFolder,
    *,
    terms: ColumnTerms | None = None,
    explained: ExplainedRun | None = None,
    unexplained: str = "",
    comparison: Content | None = None,
    num_terms: int = 20,
    num_nodes: int = 400,
    on_node: Tick = lambda *_: None,
) -> Content:
    """Collect the contents of the page of a run.

    Args:
        terms: The terms of a model that is a sum of terms of columns.
        explained: The crosses of another model, as trained.
        unexplained: Why a model is not explained, as a sentence.
        comparison: From :func:`~crossgcn.reports.run_report.answers.read_comparison`.
        num_terms: How many crosses of two columns, and of three, are listed for each score.
        on_node: Called with the number of nodes done and of all.
    """
    saved, y = run.saved, run.data.y.numpy()
    classes = [shorten(name) for name in saved.preprocess.classes]
    is_number = run.data.y.is_floating_point()
    plan = None if saved.preprocess.encoding is None else read_encoding(saved.preprocess)[1]
    space = saved.preprocess.space or FeatureSpace.unnamed(run.data.x.size(1))
    scores = [score_nodes(run, one).numpy() for one in run.runs]
    graph = nodes.adjacency(run.data.edge_index, len(y))
    degree = np.diff(graph.indptr)
    result = _read_result(run.folder)
    known = y[is_labelled(run.data.y).numpy()]
    target = shorten((None if plan is None else plan.target) or "class")
    if terms is not None and not is_number and all(map(_SHORT.fullmatch, terms.outputs)):
        terms = replace(terms, outputs=tuple(f"{target}={name}" for name in terms.outputs))
    content: Content = {
        "title": shorten(run.config.dataset),
        "target": target,
        "task": "number" if is_number else "classes",
        "classes": [] if is_number else classes,
        "range": briefs([known.min(), known.max()]) if is_number else None,
        "sizes": {
            "nodes": len(run.ids),
            "edges": _num_edges(run),
            "columns": len(set(space.fields)),
        },
        "model": run.config.model,
        "shown_split": run.chosen.record["split"]["index"] + 1,
        "metrics": describe_metrics(run),
        "no_better": no_better_than_guessing(run),
        "comparison": comparison,
        "training": [_curve(one) for one in run.runs],
        "order_weights": _order_weights(run),
        "facts": _facts(run, space, result),
        "columns": [
            [shorten(c.name), shorten(c.kind), shorten(c.reason, 300)]
            for c in (plan.columns if plan else ())
        ],
        "warnings": [shorten(str(each), 600) for each in result.get("warnings", ())],
        "unexplained": unexplained,
        "terms": None if terms is None else pack_terms(terms, num_terms),
        "five": [] if terms is None else five_terms(terms),
        "answers": answer_in_words(run, terms, comparison),
        "crosses": [] if explained is None else _crosses(explained, saved.preprocess.classes),
        "completeness": None if explained is None else explained.completeness,
    }
    tests = [run.split_of(one).test.numpy() for one in run.runs]
    if is_number:
        numbers = [each[:, 0] for each in scores]
        content["performance"] = performance.measure_numbers(y, numbers, tests, degree)
    else:
        chances = [softmax(each) for each in scores]
        answers = [_answers_of(run, one, each) for one, each in zip(run.runs, scores, strict=True)]
        content["performance"] = performance.measure_classes(
            y, chances, tests, classes, degree, answers
        )
    shown = scores[run.runs.index(run.chosen)]
    content["nodes"] = _nodes(run, shown, graph, terms, explained, space, num_nodes, on_node)
    return content


def _answers_of(run: RunFolder, one: FinishedRun, scores: Any) -> Any:
    positive = positive_class(run.data.y.numpy()) if scores.shape[1] == 2 else None
    return predict_classes(scores, positive, one.record.get("threshold"))


def _crosses(explained: ExplainedRun, classes: Sequence[str]) -> list[Content]:
    """Return crosses and single features of each class, as trained."""

    def rows(frame: pd.DataFrame, name: str) -> list[Content]:
        return [
            {
                "name": shorten(row["cross"]),
                "strength": brief(row["strength"]),
                "weight": brief(row["weight"]),
                "support": int(row["support"]),
                "stability": row.get("stability"),
                "drop": row.get("accuracy_drop"),
            }
            for row in frame[frame["class"] == name].to_dict("records")
        ]

    return [
        {"name": shorten(name), "crosses": rows(explained.crosses, name),
         "features": rows(explained.terms, name)}
        for name in classes
    ]  # fmt: skip


def _nodes(
    run: RunFolder,
    scores: Any,
    graph: Any,
    terms: ColumnTerms | None,
    explained: ExplainedRun | None,
    space: FeatureSpace,
    most: int,
    on_node: Tick,
) -> Content:
    """Explain nodes one by one."""
    y, is_number = run.data.y.numpy(), run.data.y.is_floating_point()
    known = is_labelled(run.data.y).numpy()
    roles = np.where(known, run.roles.numpy(), _ROLES.index("unlabelled"))
    labels, packed = nodes.Labels(), []
    predicted = scores[:, 0] if is_number else _answers_of(run, run.chosen, scores)
    chances = None if is_number else softmax(scores)
    wrong = np.abs(np.where(known, y - predicted, 0.0) if is_number else known & (predicted != y))
    order = nodes.order_nodes(
        wrong.astype(np.float64), roles == _ROLES.index("test"), np.diff(graph.indptr), most
    )
    steps: dict[int, nodes.Steps] = {}
    one_score = is_number or (terms is not None and len(terms.outputs) == 1)
    outputs = {node: 0 if one_score else int(predicted[node]) for node in order}
    if terms is not None:
        steps = dict(nodes.steps_of_terms(terms, outputs))
    elif explained is not None:
        steps = dict(nodes.steps_as_trained(run, space, outputs))
    explainer = None if terms is None else run_explainer(run)
    changes = None
    if explainer is not None and terms is not None and not is_number:
        changes = Changes(explainer, terms)

    def describe(node: int) -> list[Any]:
        if not known[node]:
            return [shorten(run.shown[node]), None]
        return [shorten(run.shown[node]), brief(float(y[node])) if is_number else int(y[node])]

    for done, node in enumerate(order, 1):
        name, truth = describe(node)
        row = {
            "id": name,
            "true": truth,
            "predicted": brief(float(predicted[node])) if is_number else int(predicted[node]),
            "probability": None if chances is None else brief(chances[node, int(predicted[node])]),
            "role": int(roles[node]),
            "degree": int(graph.indptr[node + 1] - graph.indptr[node]),
        }
        if node in steps:
            row |= nodes.pack_steps(steps[node], labels)
            if explainer is not None:
                row |= nodes.neighbourhood(explainer, graph, node, steps[node].output, describe)
            if changes is not None:
                row |= nodes.pack_changes(changes, node, labels, run.saved.preprocess.classes)
        packed.append(row)
        on_node(done, len(order))
    return {
        "rows": packed,
        "labels": list(labels.texts),
        "roles": _ROLES,
        "all": len(y),
        "meaning": "" if explainer is None else explainer.meaning,
    }


def _curve(run: FinishedRun) -> Content:
    """Read a learning curve; a metric that should shrink is recorded negated."""
    metrics, metric = run.curve(), run.record["metric"]
    if not METRICS[metric].grows:
        metrics["validation_score"] = [-value for value in metrics["validation_score"]]
    epochs = metrics["epoch"]
    places = np.unique(np.linspace(0, len(epochs) - 1, _MOST_POINTS).round().astype(int))
    chosen = [place for place, epoch in enumerate(epochs) if epoch == run.record["best_epoch"]]
    kept = sorted({*places.tolist(), *chosen}) if epochs else []
    return {
        "split": run.record["split"]["index"] + 1,
        "chosen": run.record["best_epoch"],
        **{
            name: [brief(values[place]) for place in kept if place < len(values)]
            for name, values in metrics.items()
            if name in ("epoch", "train_loss", "validation_loss", "validation_score")
        },
    }


def _read_result(folder: Path) -> Content:
    """Return what ``train`` printed; empty if the run was stopped before its end."""
    path = folder / RESULT
    if not path.exists():
        return {}
    again = "remove it, or write it again with the same crossgcn train command and --resume"
    return read_sealed_json(path, again, again)


def _num_edges(run: RunFolder) -> int:
    """Count the edges; an undirected edge, which is stored in both directions, counts once."""
    edges = int(run.data.edge_index.size(1))
    if run.data.get("directed"):
        return edges
    loops = int((run.data.edge_index[0] == run.data.edge_index[1]).sum())
    return (edges - loops) // 2 + loops


def _facts(run: RunFolder, space: FeatureSpace, result: Content) -> dict[str, str]:
    config, record, labelled = run.config, run.chosen.record, is_labelled(run.data.y)
    environment, model = record["environment"], run.saved.model
    orders = [int(getattr(layer, "order", 1)) for layer in model.layers]
    hidden = f"{config.hidden_channels} hidden channels"
    if isinstance(model, CrossHops):
        orders = [model.order]
        size = [
            count(model.plan.hops, "hop"),
            "labels of neighbours" if model.plan.num_labels else "",
            f"mean of {model.bags} models with {hidden} each" if model.bags > 1 else hidden,
        ]
    else:
        size = [count(config.num_layers, "layer"), hidden if config.num_layers > 1 else ""]
    parts = [
        config.model,
        f"order{'s' * (len(orders) > 1)} {' and '.join(map(str, orders))}",
        *size,
        count(record["parameters"], "parameter"),
    ]
    facts = {
        "model": ", ".join(filter(None, parts)),
        "training": f"{count(len(run.runs), 'split')}, at most {config.epochs:,} epochs each",
        "dropout": f"{config.dropout:g}",
        "learning rate": f"{config.learning_rate:g}",
        "weight decay": f"{config.weight_decay:g}",
        "splits": config.splits,
        "seed": config.seed,
        "data": f"{count(len(labelled), 'node')}, {int(labelled.sum()):,} of them labelled; "
        f"{count(_num_edges(run), 'edge')}; {count(run.data.x.size(1), 'feature')} of "
        f"{count(len(set(space.fields)), 'column')}",
        "finished": result.get("finished", "at an unknown time"),
        **environment["versions"],
        "threads": environment["threads"],
        "platform": environment["platform"],
        "device": environment.get("gpu", "cpu"),
        "commit": environment["commit"] or "unknown",
    }
    return {shorten(name): shorten(str(value), 600) for name, value in facts.items()}


def _order_weights(run: RunFolder) -> list[Content]:
    """Return absolute order weights: the projections can flip any sign."""
    layers = zip(*(one.record["order_weights"] for one in run.runs), strict=True)
    learned = any(name.endswith("order_weights") for name, _ in run.saved.model.named_parameters())
    return [
        {
            "name": f"layer {place}, order {order}",
            "values": briefs(np.abs(weights)),
            "learned": learned,
        }
        for place, layer in enumerate(layers, 1)
        if len(layer[0]) > 1
        for order, weights in enumerate(zip(*layer, strict=True), 1)
    ]


def collect_runs(runs: Sequence[RunFolder], terms: Sequence[ColumnTerms | None]) -> dict[str, Any]:
    """Collect metrics, settings that differ, and the importance of terms of several runs.

    Args:
        terms: Of each run; ``None`` if its scores are not sums of terms of columns.
    """
    names = _names(runs)
    settings = [_settings(run) for run in runs]
    keys = list(dict.fromkeys(key for each in settings for key in each))
    units = {shorten(each.unit) for each in terms if each is not None}
    same_data = len({run.chosen.record["dataset"]["sha256"] for run in runs}) == 1
    splits = [[one.record["split"] for one in run.runs] for run in runs]
    return {
        "runs": names,
        "metrics": [describe_metrics(run) for run in runs],
        "same_data": same_data,
        "same_splits": same_data and all(each == splits[0] for each in splits),
        "settings": [
            [shorten(key), [shorten(str(each.get(key, "—")), 200) for each in settings]]
            for key in keys
            if len({str(each.get(key)) for each in settings}) > 1
        ],
        "terms": _terms(terms, relative=len(units) > 1),
        "unit": "relative to the strongest term of the run" if len(units) > 1 else "".join(units),
    }


def _names(runs: Sequence[RunFolder]) -> list[str]:
    """Return the name of each folder, or its path where two are called the same."""
    names = [run.folder.resolve().name for run in runs]
    return [
        shorten(str(run.folder) if names.count(name) > 1 else name)
        for run, name in zip(runs, names, strict=True)
    ]


def _settings(run: RunFolder) -> dict[str, Any]:
    config = dict(run.chosen.record["config"])
    order = getattr(run.saved.model, "order", None)
    return {
        "model": config.pop("model"),
        "predicts": ", ".join(run.saved.preprocess.classes[:6]),
        **({} if order is None else {"order": order}),
        "parameters": f"{run.chosen.record['parameters']:,}",
        "splits in all": len(run.runs),
        **{key.replace("_", " "): value for key, value in config.items() if key != "order"},
    }


def _terms(explained: Sequence[ColumnTerms | None], relative: bool) -> list[dict[str, Any]]:
    """Return the terms that matter most in any run, with their importance in each."""
    found: dict[str, list[float | None]] = {}
    for place, terms in enumerate(explained):
        own = {} if terms is None else {t.name: float(t.importance.mean()) for t in terms.terms}
        strongest = max(own.values(), default=0.0) if relative else 1.0
        for name, importance in own.items():
            values = found.setdefault(name, [None] * len(explained))
            values[place] = importance / (strongest or 1.0)
    ranked = sorted(found, key=lambda name: -max(value or 0.0 for value in found[name]))
    return [
        {
            "name": shorten(name),
            "values": [None if value is None else brief(value) for value in found[name]],
        }
        for name in ranked[:_MOST_TERMS]
    ]
