"""Contents of pages about runs that never were, made by the functions that make real ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from crossgcn.explanation.columns import ColumnGroup, ColumnTerms, make_term
from crossgcn.reports.format import shorten
from crossgcn.reports.run_report import nodes
from crossgcn.reports.run_report.performance import measure_classes, measure_numbers
from crossgcn.reports.run_report.terms import pack_terms

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{7*7}}{% raise %}",
    "$\\frac{1}{2$ & $x_",
    "</script><script>alert(2)</script><!--",
    "javascript:alert(1)//' onclick='alert(3)",
    "tab\tnew\nline \u0000\u202e\u2028 end",
    "a long name " + "without-any-place-to-break" * 40,
)


def make_terms(columns: Sequence[str], outputs: Sequence[str], num_nodes: int = 120) -> ColumnTerms:
    """Every column is a category or a number, own and of the neighbourhood; pairs, one triple."""
    draws = np.random.default_rng(0)
    groups, blocks, first = [], [], 0
    for place, column in enumerate(columns):
        for own in (True, False):
            name = column if own else f"neighbours: {column}"
            if place % 2:
                values = draws.normal(size=(num_nodes, 1))
                features: tuple[str, ...] = (name,)
            else:
                values = np.eye(3)[draws.integers(3, size=num_nodes)]
                values = values if own else values + draws.random(values.shape)
                features = tuple(f"{name}={level}" for level in "abc")
            at = np.arange(first, first + values.shape[1])
            groups.append(ColumnGroup(name, at, features, own, bool(place % 2), (40.0, 12.0)))
            blocks.append(values)
            first += values.shape[1]
    keys: list[tuple[int, ...]] = [(group,) for group in range(len(groups))]
    keys += [(one, one + 1) for one in range(len(groups) - 2)] + [(0, 1, 2)]
    size = len(outputs)
    found = [
        make_term(key, groups, draws.normal(size=(num_nodes, 3 * size)) / (1 + at), 3)
        for at, key in enumerate(keys)
    ]
    total = np.asarray(sum(term.contributions for term in found))
    unit = outputs[0] if size == 1 else "margin"
    average, inputs = np.full(size, 0.3), np.concatenate(blocks, axis=1)
    return ColumnTerms(
        *(tuple(outputs), unit, np.arange(num_nodes), total + 0.3, average),
        *(tuple(found), None, tuple(groups), inputs),
    )


class Neighbours:
    """Stands for an explainer: every neighbour of a node contributes something."""

    meaning = "A neighbour's contribution is a random number here."

    def __init__(self, graph: sp.csr_array, outputs: int) -> None:
        self.graph, self.outputs = graph, outputs

    def neighbours(self, node: int) -> tuple[Any, Any]:
        near = self.graph[[node]].indices
        return near, np.random.default_rng(node).normal(size=(len(near), self.outputs))


def make_content(
    classes: Sequence[str],
    columns: Sequence[str],
    *,
    ids: Sequence[str] | None = None,
    num_nodes: int = 120,
    hub: int = 0,
    num_listed: int = 40,
) -> dict[str, Any]:
    """Return the content of a page; one class is a number.

    Args:
        hub: How many neighbours the first node has.
    """
    draws, size = np.random.default_rng(1), max(num_nodes, hub + 1)
    terms = make_terms(columns, classes, num_nodes)
    ends = draws.integers(num_nodes, size=(2, 4 * num_nodes))
    spokes = np.stack([np.zeros(hub, int), np.arange(1, hub + 1)])
    graph = nodes.adjacency(np.concatenate([ends, spokes], axis=1), size)
    degree, is_number = np.diff(graph.indptr), len(classes) == 1
    tests = [np.arange(split, size, 3) for split in range(3)]
    names = [shorten(name) for name in classes]
    scores = [draws.normal(size=(size, len(classes))) for _ in tests]
    labels = nodes.Labels()
    y: Any
    if is_number:
        y = draws.normal(size=size)
        performance = measure_numbers(y, [s[:, 0] + y for s in scores], tests, degree)
    else:
        y = draws.integers(len(classes), size=size)
        powers = [np.exp(s + 2 * np.eye(len(classes))[y]) for s in scores]
        chances = [p / p.sum(axis=1, keepdims=True) for p in powers]
        predicted = [c.argmax(axis=1) for c in chances]
        performance = measure_classes(y, chances, tests, names, degree, predicted)

    def describe(node: int) -> list[Any]:
        name = f"node {node}" if ids is None else ids[node % len(ids)]
        return [shorten(name), float(y[node]) if is_number else int(y[node])]

    order = nodes.order_nodes(np.zeros(size), np.ones(size, bool), degree, num_listed)
    rows = []
    outputs = {node: 0 if is_number else int(y[node]) for node in order}
    for node, steps in nodes.steps_of_terms(terms, outputs):
        name, truth = describe(node)
        rows.append(
            {"id": name, "true": truth, "predicted": truth, "probability": 0.5, "role": 3}
            | {"degree": int(degree[node])}
            | nodes.pack_steps(steps, labels)
            | nodes.neighbourhood(
                Neighbours(graph, len(classes)),  # type: ignore[arg-type]
                *(graph, node, steps.output, describe),
            )
        )
        if not is_number:
            names_of = [labels[columns[0]], labels["low"], labels["high"]]
            rows[-1]["changes"] = [[(truth + 1) % len(classes), [names_of] * (1 + node % 2)]]
    metrics = [("r2", "R²", False), ("rmse", "RMSE", False)] if is_number else [
        ("accuracy", "accuracy", True), ("log_loss", "log loss", False)
    ]  # fmt: skip
    curve = {"epoch": [1, 2, 3], "train_loss": [3, 2, 1], "validation_score": [0.2, 0.4, 0.3]}
    return {
        "title": shorten(columns[0]),
        "target": shorten(columns[-1]),
        "task": "number" if is_number else "classes",
        "classes": [] if is_number else names,
        "range": [-3.0, 3.0] if is_number else None,
        "sizes": {"nodes": size, "edges": graph.nnz // 2, "columns": len(columns)},
        "model": "cross-hops",
        "shown_split": 2,
        "metrics": [
            {"name": name, "label": label, "percent": percent, "grows": True}
            | {"values": [0.5, 0.6, 0.7], "text": "0.6 ± 0.1"}
            for name, label, percent in metrics
        ],
        "no_better": "",
        "comparison": None,
        "training": [curve | {"split": split, "chosen": 2} for split in (1, 2, 3)],
        "order_weights": [{"name": "layer 1, order 1", "values": [1, 0.9], "learned": True}],
        "facts": {shorten(name): shorten(name) for name in columns[:3]},
        "columns": [[shorten(name), "categorical", shorten(name)] for name in columns],
        "warnings": [shorten(name) for name in columns[:3]],
        "unexplained": "",
        "terms": pack_terms(terms, 20),
        "five": [],
        "answers": [("How well?", shorten(columns[0]))],
        "crosses": [],
        "completeness": None,
        "performance": performance,
        "nodes": {
            "rows": rows,
            "labels": list(labels.texts),
            "roles": ("other", "train", "validation", "test", "unlabelled"),
            "all": size,
            "meaning": Neighbours.meaning,
        },
    }
