"""Collect the contents of a page from what ``train`` wrote."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from crossgcn.data.features import FeatureSpace
from crossgcn.data.files import read_hashed_json
from crossgcn.data.graph import is_labelled
from crossgcn.data.tables.graph import read_encoding
from crossgcn.experiments.predict import score_nodes
from crossgcn.experiments.run_folder import FinishedRun, RunFolder
from crossgcn.explanation.api import explain
from crossgcn.explanation.polynomial import NotASum
from crossgcn.explanation.products import Products
from crossgcn.explanation.terms import Explanation
from crossgcn.models.cross_hops import CrossHops
from crossgcn.reports.format import count, round4, shorten
from crossgcn.reports.page.answers import answer_in_words, describe_metrics, five_terms
from crossgcn.reports.page.nodes import adjacency, pack_nodes
from crossgcn.reports.page.performance import measure_classes, measure_numbers
from crossgcn.reports.page.terms import pack_products, pack_terms
from crossgcn.reports.summaries import no_better_than_guessing
from crossgcn.training.metrics import METRICS
from crossgcn.training.records import RESULT

_MOST_POINTS, _MOST_COLUMNS, _MOST_WARNINGS = 120, 500, 40
_SHORT = re.compile(r"[-+.\d]+|true|false|yes|no", re.IGNORECASE)
"""Names of classes that say nothing without that of their column."""
Content = dict[str, Any]
Tick = Callable[[int, int], None]


def collect_run(
    run: RunFolder,
    *,
    comparison: Content | None = None,
    num_terms: int = 20,
    num_nodes: int = 400,
    on_step: Tick = lambda *_: None,
) -> Content:
    """Collect the contents of the page of a run.

    Args:
        comparison: From :func:`~crossgcn.reports.page.answers.read_comparison`.
        num_terms: How many crosses of two columns, and of three, are listed for each score.
        num_nodes: How many nodes are explained one by one.
        on_step: Called with the nodes explained and their number.
    """
    saved, y = run.saved, run.data.y.numpy()
    classes = [shorten(name) for name in saved.preprocess.classes]
    is_number = run.data.y.is_floating_point()
    plan = None if saved.preprocess.encoding is None else read_encoding(saved.preprocess)[1]
    space = saved.preprocess.space or FeatureSpace.unnamed(run.data.x.size(1))
    target = shorten((None if plan is None else plan.target) or "class")
    whole, unexplained = _explain(run)
    terms = whole if isinstance(whole, Explanation) else None
    if terms is not None and not is_number and all(map(_SHORT.fullmatch, terms.outputs)):
        terms = replace(terms, outputs=tuple(f"{target}={name}" for name in terms.outputs))
    result, known = _read_result(run.folder), y[is_labelled(run.data.y).numpy()]
    warnings = [shorten(str(each), 600) for each in result.get("warnings", ())]
    columns = plan.columns if plan else ()
    content: Content = {
        "title": shorten(run.config.dataset),
        "target": target,
        "task": "number" if is_number else "classes",
        "classes": [] if is_number else classes,
        "range": round4([known.min(), known.max()]) if is_number else None,
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
            for c in columns[:_MOST_COLUMNS]
        ],
        "more_columns": len(columns[_MOST_COLUMNS:]),
        "warnings": warnings[:_MOST_WARNINGS],
        "unexplained": unexplained,
        "terms": None if terms is None else pack_terms(terms, num_terms),
        "five": [] if terms is None else five_terms(terms),
        "answers": answer_in_words(run, terms, comparison),
    }
    if isinstance(whole, Products):
        content["terms"] = pack_products(whole, num_terms)
    scores = [score_nodes(run, one).numpy() for one in run.runs]
    tests = [run.split_of(one).test.numpy() for one in run.runs]
    graph = adjacency(run.data.edge_index, len(y))
    degree = np.diff(graph.indptr)
    chances = None
    if is_number:
        predicted = [each[:, 0] for each in scores]
        content["performance"] = measure_numbers(y, predicted, tests, degree)
    else:
        chances = [softmax(each, axis=1) for each in scores]
        predicted = [each.argmax(axis=1) for each in scores]
        content["performance"] = measure_classes(y, chances, tests, classes, degree, predicted)
    shown = run.runs.index(run.chosen)
    probabilities = None if chances is None else chances[shown]
    content["nodes"] = pack_nodes(
        run, terms, predicted[shown], probabilities, graph, num_nodes, on_step
    )
    return content


def _explain(run: RunFolder) -> tuple[Any, str]:
    """Return what explains a run, or a sentence that says why nothing does."""
    try:
        whole = explain(run)
    except NotASum:
        return None, (
            f"The scores of {run.config.model} are not sums of products of features, so this page "
            "cannot list crosses or explain single nodes."
        )
    return whole, ""


def _curve(run: FinishedRun) -> Content:
    """Read a learning curve; a metric that should shrink is recorded negated."""
    metrics, metric = run.curve(), run.record["metric"]
    if not METRICS[metric].greater_is_better:
        metrics["validation_score"] = [-value for value in metrics["validation_score"]]
    epochs = metrics["epoch"]
    places = np.unique(np.linspace(0, len(epochs) - 1, _MOST_POINTS).round().astype(int))
    chosen = [place for place, epoch in enumerate(epochs) if epoch == run.record["best_epoch"]]
    kept = sorted({*places.tolist(), *chosen}) if epochs else []
    return {
        "split": run.record["split"]["index"] + 1,
        "chosen": run.record["best_epoch"],
        **{
            name: [round4(values[place]) for place in kept if place < len(values)]
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
    return read_hashed_json(path, again, again)


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
    order = f"order{'s' * (len(orders) > 1)} {' and '.join(map(str, orders))}"
    parts = [config.model, order, *size, count(record["parameters"], "parameter")]
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
            "values": round4(np.abs(weights)),
            "learned": learned,
        }
        for place, layer in enumerate(layers, 1)
        if len(layer[0]) > 1
        for order, weights in enumerate(zip(*layer, strict=True), 1)
    ]
