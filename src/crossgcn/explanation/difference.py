r"""Why the scores of two runs differ: the same nodes, a year later or by another model.

One ingredient after another is exchanged, always in the order of :data:`PARTS`: the old model on
the old data; then each node's own values are the new ones; then those of all other nodes; then
the edges, with the nodes that came or went; and last the model. Each part is the change of the
score at its step, so the parts add up to the whole change. The terms of the old model have their
changes at the first three steps. At the last one, the terms of the new model take their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from crossgcn.data.features import FeatureSpace
from crossgcn.data.relations import Relation, relations_of
from crossgcn.data.tables.encode import TableEncoder, recode
from crossgcn.data.tables.graph import as_matrix, read_edge_encoders, read_encoding
from crossgcn.errors import BadInput
from crossgcn.experiments.run_folder import RunFolder
from crossgcn.explanation.columns import score_name, show_frame
from crossgcn.explanation.hop_explainer import HopExplainer
from crossgcn.explanation.node import NodeExplanation
from crossgcn.explanation.polynomial import Floats, Ints
from crossgcn.explanation.terms import CROSS, OTHERS, SHOWN, Explanation
from crossgcn.graph.neighbourhood import NeighbourLabels

if TYPE_CHECKING:
    import pandas as pd

PARTS = ("own values", "neighbours' values", "edges", "model")
"""The parts of a change, in the order in which they are exchanged."""
MEANING = (
    "Parts, exchanged one after the other: the node's own values; the values of the other nodes; "
    "the edges, with nodes that came or went; the model."
)
_MOST_NODES = 10_000
_MOST_NAMED = 10


@dataclass(frozen=True, eq=False, repr=False)
class Difference:
    """The change of scores from one run to another, ``new - old``, by part and term.

    Attributes:
        outputs: What each score is for, in ``unit``, and what it is ``against``; see
            :class:`~crossgcn.explanation.terms.Explanation`.
        nodes: How the nodes are shown.
        only_new: The nodes that the old run does not have.
        only_old: The nodes that the new run does not have.
        old: Their scores by the old run, ``[nodes, outputs]``.
        new: Their scores by the new run.
        columns: Columns of each term; ``("average",)`` for the average of the model.
        changes: Change of each term at each step, ``[terms, parts, nodes, outputs]``.
        held: Of a single node, what it had and has in each column.
    """

    outputs: tuple[str, ...]
    unit: str
    against: str
    nodes: tuple[str, ...]
    only_new: tuple[str, ...]
    only_old: tuple[str, ...]
    old: Floats
    new: Floats
    columns: tuple[tuple[str, ...], ...]
    changes: Floats
    held: dict[str, tuple[str, str]] | None = None

    def only(self, output: int) -> Difference:
        """Return the change of one score."""
        at = slice(output, output + 1)
        old, new, changes = (each[..., at] for each in (self.old, self.new, self.changes))
        return replace(self, outputs=self.outputs[at], old=old, new=new, changes=changes)

    @property
    def parts(self) -> Floats:
        """The change of the scores at each step, ``[parts, nodes, outputs]``."""
        return np.asarray(self.changes.sum(axis=0))

    def sizes(self, changes: Floats) -> dict[str, float]:
        """Return the size of each part and of the whole ``change``, ``[parts, nodes, outputs]``.

        That of a single node is exact; that of several the root of the mean square.
        """
        every = np.concatenate([changes, changes.sum(axis=0, keepdims=True)])
        root = np.sqrt(np.square(every).mean(axis=(1, 2)))
        exact = every[:, 0, 0] if self.held is not None else root
        return dict(zip((*PARTS, "change"), exact.tolist(), strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return what ``explain --since --json`` prints, the terms that changed most first."""
        held, change = self.held or {}, self.new - self.old
        terms = [
            {"columns": list(columns), **self.sizes(changes)}
            | ({"shown": [held[name] for name in columns if name in held]} if held else {})
            for columns, changes in zip(self.columns, self.changes, strict=True)
        ]
        largest = np.argsort(-np.abs(change).max(axis=1), kind="stable")[:_MOST_NAMED]
        moved = [
            {
                "node": self.nodes[node],
                "change": dict(zip(self.outputs, change[node].tolist(), strict=True)),
            }
            for node in largest.tolist()
        ]
        one = {"old_score": float(self.old[0, 0]), "score": float(self.new[0, 0])}
        return {
            "class": self.outputs[0] if len(self.outputs) == 1 else None,
            **(one if held else {"moved_most": moved}),
            "nodes": len(self.nodes),
            "only_new": list(self.only_new),
            "only_old": list(self.only_old),
            **self.sizes(self.parts),
            "terms": sorted(terms, key=lambda term: -abs(term["change"])),
            "meaning": MEANING,
        }

    def to_frame(self) -> pd.DataFrame:
        """Return a row per term, with the parts of its change."""
        import pandas as pd

        frame = pd.DataFrame(self.to_json()["terms"])
        frame.insert(0, "term", [CROSS.join(columns) or OTHERS for columns in frame["columns"]])
        return frame[["term", *PARTS, "change"]]

    def __repr__(self) -> str:
        about = self.nodes[0] if self.held is not None else f"{len(self.nodes):,} nodes"
        name = self.outputs[0] if len(self.outputs) == 1 else "a class"
        named = score_name(name, self.unit, self.against)
        sizes = ", ".join(f"{part} {size:+.3g}" for part, size in self.sizes(self.parts).items())
        return f"{about}, {named}\n{sizes}\n{show_frame(self.to_frame().head(SHOWN))}"


def compare_runs(
    new: RunFolder,
    old: RunFolder,
    new_explainer: HopExplainer,
    old_explainer: HopExplainer,
    node: int | None = None,
) -> Difference:
    """Return why scores changed from one run to another.

    Args:
        node: Position of a node in the new run, of whose scores that of the predicted class is
            explained; by default the nodes of both, or a sample of many.
    """
    place_of = {name: place for place, name in enumerate(old.ids)}
    pairs = [(at, place_of[name]) for at, name in enumerate(new.ids) if name in place_of]
    of_new, of_old = np.array(pairs, np.int64).reshape(-1, 2).T
    chosen = np.arange(len(pairs))
    if node is not None:
        chosen = np.flatnonzero(of_new == node)
        if not len(chosen):
            raise BadInput(
                f"{old.folder}: has no node {new.ids[node]!r}: it came since; give a node of both"
            )
    if not len(chosen):
        raise BadInput(f"{old.folder}: has no node of {new.folder}: give runs of the same nodes")
    if len(chosen) > _MOST_NODES:
        chosen = np.sort(np.random.default_rng(0).choice(chosen, _MOST_NODES, replace=False))
    rows = _exchange(new, old, old_explainer, of_new, of_old, chosen)
    steps, count = old_explainer.with_rows(torch.cat(rows)), len(chosen)
    changes, old_scores, new_scores = [], [], []
    most = max(1, min(steps.most_nodes, new_explainer.most_nodes) // (1 + len(rows)))
    for part in np.array_split(np.arange(count), -(-count // most)):
        added = steps.num_fitted + part + count * np.arange(len(rows))[:, np.newaxis]
        nodes = np.vstack([of_old[chosen[part]], added])
        before = steps.explain(nodes.ravel())
        after = new_explainer.explain(of_new[chosen[part]])
        here = [after.place_of[each] for each in of_new[chosen[part]].tolist()]
        there = np.array([before.place_of[each] for each in nodes.ravel().tolist()])
        by_term = _subtract(after, before, here, there.reshape(nodes.shape))
        changes.append(np.stack([*by_term.values()]))
        old_scores.append(before.scores[there[: len(part)]])
        new_scores.append(after.scores[here])
    shown = [np.array(run.shown, object) for run in (new, old)]
    found = Difference(
        outputs=after.outputs,
        unit=after.unit,
        against=after.against,
        nodes=tuple(shown[0][of_new[chosen]].tolist()),
        only_new=tuple(np.delete(shown[0], of_new).tolist()),
        only_old=tuple(np.delete(shown[1], of_old).tolist()),
        old=np.concatenate(old_scores),
        new=np.concatenate(new_scores),
        columns=tuple(by_term),
        changes=np.concatenate(changes, axis=2),
    )
    if node is None:
        return found
    one, was = NodeExplanation(after, node), NodeExplanation(before, int(nodes[0, 0]))
    held = {
        name: (was.held.get(name, "–"), one.held.get(name, "–")) for name in one.held | was.held
    }
    return replace(found.only(one.place), held=held)


def _subtract(
    after: Explanation, before: Explanation, here: Sequence[int], there: Ints
) -> dict[tuple[str, ...], Floats]:
    """Return the change of each term at each step, ``[parts, nodes, outputs]``, by its columns.

    Args:
        here: Rows of the nodes with the new model.
        there: Rows of the nodes with the old model, at the start and after each step.
    """
    shape = len(PARTS), len(here), len(after.outputs)
    steps = {term.columns: term.contributions[there] for term in before.all_terms}
    last = {term.columns: term.contributions[here] for term in after.all_terms}
    average = np.zeros(shape)
    average[-1] = after.average - before.average
    changes: dict[tuple[str, ...], Floats] = {("average",): average}
    for columns in dict.fromkeys([*steps, *last]):
        levels = steps.get(columns, np.zeros(shape))
        end = last.get(columns, np.zeros(shape[1:]))
        changes[columns] = np.diff(np.concatenate([levels, end[np.newaxis]]), axis=0)
    return changes


def _exchange(
    new: RunFolder,
    old: RunFolder,
    explainer: HopExplainer,
    of_new: Ints,
    of_old: Ints,
    chosen: Ints,
) -> list[Tensor]:
    """Return the columns of the old model after each step but the last, for the chosen nodes.

    Args:
        of_new: Positions of the nodes of both runs in the new one.
        of_old: Their positions in the old one.
    """
    model, x = explainer.model, as_matrix(new.data.x).toarray()
    if new.saved.preprocess.encoding is not None:
        given, wanted = (read_encoding(run.saved.preprocess)[0] for run in (new, old))
        x = recode(x, given, wanted)
    values, rows = old.data.x.to_dense().clone(), torch.from_numpy(of_old)
    values[rows] = torch.from_numpy(x[of_new])
    labels, mixed = new.labels(model), explainer.labels
    if labels is not None and mixed is not None:
        if new.data.num_classes == 1:  # standardised as those of the old training nodes
            known = old.data.y[old.split.train]
            deviation = known.std(correction=0).clamp(min=1e-12)
            numbers = (new.data.y - known.mean()) / deviation
            labels = labels._replace(values=numbers.unsqueeze(1).float())
        times = mixed.times
        if times is not None and labels.times is not None:
            times = times.clone()
            times[rows] = labels.times[of_new]
        mixed = NeighbourLabels(mixed.values.clone(), mixed.known.clone(), times=times)
        mixed.values[rows], mixed.known[rows] = labels.values[of_new], labels.known[of_new]
    between, end = copy(old.data), copy(new.data)
    between.x, end.x = values, torch.from_numpy(x)
    if end.get("relations") is not None:
        end.relations = _recode_edges(new, old)
    with_values = explainer.compute(model, between, mixed)[of_old[chosen]]
    with_edges = explainer.compute(model, end, labels)[of_new[chosen]]
    own = explainer.compute(model, old.data, explainer.labels)[of_old[chosen]]
    own[:, : model.in_channels] = with_edges[:, : model.in_channels]
    return [own, with_values, with_edges]


def _recode_edges(new: RunFolder, old: RunFolder) -> tuple[Relation, ...]:
    """Return the relations of the new run in the order and the encoding of the old one."""
    given, wanted = (read_edge_encoders(run.saved.preprocess) for run in (new, old))
    found, relations = {each.name: each for each in new.data.relations}, []
    for name in (each.name for each in old.data.relations):
        relation = found[name]
        if name in wanted:
            columns = recode(relation.edge_attr.toarray(), given[name], wanted[name])
            relation = relation._replace(edge_attr=sp.csr_array(columns), space=wanted[name].space)
        relations.append(relation)
    return tuple(relations)


def refuse_others(new: RunFolder, old: RunFolder) -> None:
    """Refuse two runs whose scores have no difference: of other targets, columns or edges."""
    here, there = _describe(new), _describe(old)
    for what in here | there:
        if here.get(what) != there.get(what):
            raise BadInput(
                f"the runs cannot be compared: {what} is {there.get(what, 'absent')} in "
                f"{old.folder} and {here.get(what, 'absent')} in {new.folder}; train both with the "
                "same target, columns (--ignore) and relations"
            )


def _describe(run: RunFolder) -> dict[str, str]:
    """Return what the target, the relations and each column of a run are."""
    preprocess, name, encoders = run.saved.preprocess, "a label", dict[str, TableEncoder]()
    if preprocess.encoding is None:
        space = preprocess.space or FeatureSpace.unnamed(run.data.x.size(1))
        kinds = {each: f"feature {place}" for place, each in enumerate(space.names)}
    else:
        encoder, plan = read_encoding(preprocess)
        kinds, name = {each.column: each.kind for each in encoder.columns}, repr(plan.target)
        encoders = read_edge_encoders(preprocess)
    for relation, of_edges in encoders.items():
        kinds |= {f"{relation}: {each.column}": each.kind for each in of_edges.columns}
    what = "a number" if run.data.y.is_floating_point() else ", ".join(preprocess.classes)
    columns = {f"column {name!r}": kind for name, kind in kinds.items()}
    relations = {
        f"relation {each.name!r}": ("directed" if each.directed else "not directed")
        + (" and of things" if each.things is not None else "")
        for each in relations_of(run.data)
    }
    return {"the target": f"{name} ({what})", **relations, **columns}
