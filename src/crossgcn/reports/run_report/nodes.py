"""Single nodes as content of a page: prediction, waterfall, and the neighbours that count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from crossgcn.data.features import FeatureSpace
from crossgcn.experiments.run_folder import RunFolder
from crossgcn.explanation.columns import ColumnTerms
from crossgcn.explanation.explainers import Explainer
from crossgcn.explanation.node import NodeExplainer
from crossgcn.explanation.one_node import Changes
from crossgcn.explanation.reading import Floats, Ints
from crossgcn.reports.format import shorten
from crossgcn.reports.run_report.terms import brief

STEPS = 8
"""Bars of a waterfall, besides the start and the rest."""
NEIGHBOURS = 24
"""Neighbours in the picture of a node."""
_HUBS = 10
_EVALUATIONS = 5_000
"""How many changes of two columns are tried for a node."""

Row = dict[str, Any]


class Steps(NamedTuple):
    """A score as a sum: where it starts, its largest terms with whose they are, the score."""

    output: int
    start: float
    largest: list[tuple[str, str, float]]
    score: float


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


def steps_of_terms(
    terms: ColumnTerms, outputs: Mapping[int, int], *, top: int = STEPS, least_columns: int = 0
) -> Iterable[tuple[int, Steps]]:
    """Yield the waterfall of each node, of the score given by its number.

    Nodes that the terms do not contain are left out: large graphs are explained by a sample.

    Args:
        least_columns: Leave out terms of fewer columns.
    """
    rows = {int(node): row for row, node in enumerate(terms.nodes)}
    chosen = [node for node in outputs if node in rows]
    place = [rows[node] for node in chosen]
    listed = [term for term in terms.all_terms if len(term.columns) >= least_columns]
    amounts = np.array([term.contributions[place] for term in listed])
    amounts = amounts.reshape(len(listed), len(chosen), len(terms.outputs))
    for at, node in enumerate(chosen):
        output = outputs[node]
        values = amounts[:, at, output]
        largest = np.argsort(-np.abs(values), kind="stable")[:top]
        yield (
            node,
            Steps(
                output,
                float(terms.average[output]),
                [(listed[t].name, terms.whose(listed[t]), float(values[t])) for t in largest],
                float(terms.scores[rows[node], output]),
            ),
        )


def steps_as_trained(
    run: RunFolder, space: FeatureSpace, outputs: Mapping[int, int]
) -> Iterable[tuple[int, Steps]]:
    """Yield the waterfall of each node, by features and products of features."""
    explainer = NodeExplainer(run.saved.model, run.data, space)
    for node, output in outputs.items():
        found = explainer.explain(node, output)
        parts = [part for part in found.waterfall(STEPS) if part[0] == "term"]
        largest = [(name, "", amount) for *_, name, amount in parts]
        yield node, Steps(output, found.bias, largest, float(found.logits[output]))


def adjacency(edge_index: Any, num_nodes: int) -> sp.csr_array:
    """Return which nodes are neighbours, in either direction, without the nodes themselves."""
    sources, targets = np.asarray(edge_index)
    others = sources != targets
    ends = (sources[others], targets[others])
    matrix = sp.coo_array((np.ones(len(ends[0]), np.int8), ends), (num_nodes, num_nodes)).tocsr()
    return sp.csr_array((matrix + matrix.T) > 0)


def neighbourhood(
    explainer: Explainer,
    graph: sp.csr_array,
    node: int,
    output: int,
    describe: Callable[[int], Sequence[Any]],
) -> Row:
    """Return the neighbours that count most for a score, and which of them are linked.

    Args:
        graph: From :func:`adjacency`.
        describe: Returns id and label of a node.
    """
    near, effects = explainer.neighbours(node)
    direct = set(graph[[node]].indices.tolist())
    largest = np.argsort(-np.abs(effects[:, output]), kind="stable")[:NEIGHBOURS]
    shown = [int(near[place]) for place in largest]
    links = sp.triu(graph[shown][:, shown]).tocoo() if shown else None
    return {
        "near": [
            [*describe(int(near[place])), brief(float(effects[place, output])),
             1 if int(near[place]) in direct else 2]
            for place in largest
        ],
        "links": [] if links is None else np.stack([links.row, links.col], axis=1).tolist(),
        "others": max(len(direct), len(near)) - len(shown),
    }  # fmt: skip


def pack_changes(changes: Changes, node: int, labels: Labels, classes: Sequence[str]) -> Row:
    """Return the smallest changes of own columns after which another class is predicted."""
    return {
        "changes": [
            [
                classes.index(change.outcome),
                [
                    [labels[name], labels[before], labels[after]]
                    for name, before, after in zip(
                        change.columns, change.before, change.after, strict=True
                    )
                ],
            ]
            for change in changes.nearest(node, evaluations=_EVALUATIONS)
        ]
    }


class Labels:
    """Texts that occur often, written once and referred to by number."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        return self.texts.setdefault(shorten(text), len(self.texts))


def pack_steps(steps: Steps, labels: Labels) -> Row:
    """Return a waterfall for the page."""
    return {
        "output": steps.output,
        "start": brief(steps.start),
        "score": brief(steps.score),
        "steps": [[labels[name], whose, brief(value)] for name, whose, value in steps.largest],
    }
