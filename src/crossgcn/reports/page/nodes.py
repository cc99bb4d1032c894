"""Single nodes as content of a page: prediction, waterfall, and the neighbours that count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from crossgcn.data.graph import is_labelled
from crossgcn.experiments.run_folder import RunFolder
from crossgcn.explanation.node import NodeExplanation
from crossgcn.explanation.polynomial import Floats, Ints
from crossgcn.explanation.terms import Explanation
from crossgcn.reports.format import round4, shorten

STEPS = 8
"""Bars of a waterfall, besides the start and the rest."""
NEIGHBOURS = 24
"""Neighbours in the picture of a node."""
_HUBS = 10
_ROLES = ("other", "train", "validation", "test", "unlabelled")

Row = dict[str, Any]


class Labels:
    """Texts that occur often, written once and referred to by number."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        return self.texts.setdefault(shorten(text), len(self.texts))


def pack_nodes(
    run: RunFolder,
    whole: Explanation | None,
    predicted: Any,
    probabilities: Floats | None,
    graph: sp.csr_array,
    most: int,
    on_node: Callable[[int, int], None],
) -> Row:
    """Explain nodes one by one, mistakes on test nodes first.

    Nodes that are not in the explanation have no waterfall: large graphs have a sample.

    Args:
        predicted: Class or number of each node.
        probabilities: Of each class, ``[nodes, classes]``.
        graph: From :func:`adjacency`.
    """
    y, is_number = run.data.y.numpy(), run.data.y.is_floating_point()
    known = is_labelled(run.data.y).numpy()
    roles = np.where(known, run.roles.numpy(), _ROLES.index("unlabelled"))
    wrong = np.abs(np.where(known, y - predicted, 0.0) if is_number else known & (predicted != y))
    degree = np.diff(graph.indptr)
    order = order_nodes(wrong.astype(float), roles == _ROLES.index("test"), degree, most)
    labels, rows = Labels(), []

    def describe(node: int) -> list[Any]:
        truth = round4(float(y[node])) if is_number else int(y[node])
        return [shorten(run.shown[node]), truth if known[node] else None]

    for done, node in enumerate(order, 1):
        name, truth = describe(node)
        label = 0 if is_number else int(predicted[node])
        row = {
            "id": name,
            "true": truth,
            "predicted": round4(float(predicted[node])) if is_number else label,
            "probability": None if probabilities is None else round4(probabilities[node, label]),
            "role": int(roles[node]),
            "degree": int(degree[node]),
        }
        if whole is not None and node in whole.place_of:
            one_score = len(whole.outputs) == 1
            explained = NodeExplanation(whole, node, 0 if one_score else label)
            row |= pack_steps(explained, labels)
            row |= neighbourhood(explained, graph, describe)
            if not is_number:
                row |= _pack_changes(explained, labels, run.saved.preprocess.classes)
        rows.append(row)
        on_node(done, len(order))
    meaning = "" if whole is None else whole.explainer.meaning
    texts = list(labels.texts)
    return {"rows": rows, "labels": texts, "roles": _ROLES, "all": len(y), "meaning": meaning}


def order_nodes(wrong: Floats, is_test: Any, degree: Ints, most: int) -> list[int]:
    """Return the nodes to list: the worst test nodes, other test nodes, then the others.

    The nodes with the most neighbours are always among them.

    Args:
        wrong: How wrong each prediction is; 0 where that is not known.
    """
    places = np.arange(len(wrong))
    order = np.lexsort((places, -wrong, ~is_test))[:most].tolist()
    hubs = np.argsort(-degree, kind="stable")[: min(_HUBS, most // 2)].tolist()
    missing = [node for node in hubs if node not in set(order)]
    return [*order[: len(order) - len(missing)], *missing]


def adjacency(edge_index: Any, num_nodes: int) -> sp.csr_array:
    """Return which nodes are neighbours, in either direction, without the nodes themselves."""
    sources, targets = np.asarray(edge_index)
    others = sources != targets
    ends = (sources[others], targets[others])
    matrix = sp.coo_array((np.ones(len(ends[0]), np.int8), ends), (num_nodes, num_nodes)).tocsr()
    return sp.csr_array((matrix + matrix.T) > 0)


def pack_steps(explained: NodeExplanation, labels: Labels) -> Row:
    """Return a waterfall."""
    steps = zip(explained.terms[:STEPS], explained.values[:STEPS].tolist(), strict=True)
    return {
        "output": explained.place,
        "start": round4(explained.average),
        "score": round4(explained.score),
        "steps": [[labels[term.name], term.scope, round4(value)] for term, value in steps],
    }


def neighbourhood(
    explained: NodeExplanation, graph: sp.csr_array, describe: Callable[[int], list[Any]]
) -> Row:
    """Return the neighbours that count most for a score, and which of them are linked.

    Args:
        describe: Returns id and label of a node.
    """
    direct = set(graph[[explained.node]].indices.tolist())
    near = explained.neighbours[:NEIGHBOURS]
    shown = [node for node, _ in near]
    links = sp.triu(graph[shown][:, shown]).tocoo() if shown else None
    return {
        "near": [
            [*describe(node), round4(amount), 1 if node in direct else 2] for node, amount in near
        ],
        "links": [] if links is None else np.stack([links.row, links.col], axis=1).tolist(),
        "others": max(len(direct), len(explained.neighbours)) - len(shown),
    }


def _pack_changes(explained: NodeExplanation, labels: Labels, classes: Any) -> Row:
    """Return the smallest changes of own columns after which another class is predicted."""
    packed = []
    for change in explained.changes:
        parts = zip(change.columns, change.before, change.after, strict=True)
        texts = [[labels[text] for text in part] for part in parts]
        packed.append([classes.index(change.outcome), texts])
    return {"changes": packed}
