"""Predictions for the nodes of a trained graph, and for new rows of a user's tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.graph import ROLE_NAMES, canonical_graph, is_labelled
from crossgcn.data.relations import Relation, has_edges, relations_of
from crossgcn.data.tables.cells import plain_id
from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.graph import (
    NewNodes,
    as_features,
    as_matrix,
    load_new_tables,
    read_edge_encoders,
    read_encoding,
)
from crossgcn.data.tables.kinds.base import Unseen
from crossgcn.errors import BadInput
from crossgcn.experiments.experiment import RepeatedRuns
from crossgcn.experiments.run_folder import FinishedRun, RunFolder
from crossgcn.graph import PreparedGraph
from crossgcn.graph.hops import HopColumns, named
from crossgcn.graph.neighbourhood import NeighbourLabels
from crossgcn.graph.standardise import HopRows
from crossgcn.models.cross_hops import CrossHops
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.calibration import Answers, Misses
from crossgcn.training.metrics import evaluate, positive_class

DIGITS = 6
"""Decimal places of a written probability: few enough to be equal on every machine.

Of a number, digits relative to the spread of those to predict.
"""

_NODES_AT_ONCE = 65_536
_ROUNDING = 1e-5
"""Differences of so many standard deviations come from sums in another order."""


def class_scores(
    model: NodeClassifier,
    data: Data,
    nodes: Tensor | None = None,
    labels: NeighbourLabels | None = None,
) -> tuple[Tensor, Tensor]:
    """Return class scores before the softmax, ``[nodes, classes]``, computed in float64.

    Those of a model of a number are numbers, ``[nodes, 1]``. The second tensor, ``[nodes]``, is the
    standard deviation of the first score over the bags, 0 for a model without bags. Processors
    round float32 sums differently. Scores in float64 differ by about 1e-14, far below any digit
    that is written. The model is not modified.

    Args:
        nodes: All by default.
        labels: What neighbours show of their labels, for a model that sees it.
    """
    exact = deepcopy(model).double().eval()
    if isinstance(exact, CrossHops):
        if exact.plan.num_labels and labels is None:
            raise BadInput("this model sees the labels of neighbours: give labels")
        hops = _hop_columns(exact, data)
        parts = [hops.without_labels, *([] if labels is None else [hops.label_columns(labels)])]
        rows = HopRows(parts, exact.scale, data.y)
    else:
        graph = PreparedGraph(data.x, data.edge_index, data.get("edge_weight"), dtype=torch.float64)

    def score(nodes: Tensor) -> tuple[Tensor, Tensor]:
        if not isinstance(exact, CrossHops):
            return exact(*graph.view(nodes, exact.propagations)), torch.zeros(len(nodes))
        bags = exact.score_bags(rows.rows(nodes).double())
        return exact.in_unit(bags.mean(0)), exact.in_unit(bags).std(0, correction=0)[:, 0]

    nodes = torch.arange(data.x.size(0)) if nodes is None else nodes
    with torch.no_grad():
        scored = [score(part) for part in torch.split(nodes, _NODES_AT_ONCE)]
    return torch.cat([scores for scores, _ in scored]), torch.cat([spread for _, spread in scored])


def _hop_columns(model: CrossHops, data: Data) -> HopColumns:
    relations, hops = relations_of(data), model.plan.hops
    return HopColumns(data.x.double(), relations, hops=hops, smoothing=model.smoothing)


def score_nodes(
    run: RunFolder, one: FinishedRun | None = None, nodes: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return what :func:`class_scores` does for the chosen model, or for that of another run.

    Neighbours show the labels of the training nodes of that run's split.
    """
    one = one or run.chosen
    model = run.saved.model if one is run.chosen else one.model().model
    return class_scores(model, run.data, nodes, run.labels(model, one))


@dataclass(frozen=True)
class Predictions:
    """What a model predicts for nodes.

    Attributes:
        frame: A row per node: its id, ``true`` and ``predicted``, of classes the probability of
            each, and what the node was ``used for``.
        unused: Columns of the table that the model was not trained with.
        unseen: Values that the model was not trained with, by column.
        notes: What the user should know about values and edges, a sentence each.
        scored: Of new nodes with a known target: how many, each metric of their predictions, and
            in ``test`` what it is on the test nodes of each split.
    """

    frame: pd.DataFrame
    unused: tuple[str, ...] = ()
    unseen: tuple[Unseen, ...] = ()
    notes: tuple[str, ...] = ()
    scored: dict[str, Any] | None = None


def predict_nodes(
    run: RunFolder, nodes: Any = None, edges: Any = None, *, interval: float | None = None
) -> Predictions:
    """Predict the nodes that a model was trained on, or new ones; nothing is trained.

    New nodes are added to the training graph, so their edges may lead to known nodes as well as
    to each other.

    Args:
        nodes: File or data frame of new nodes; by default all nodes of the training graph.
        edges: Their edges, as :func:`~crossgcn.data.tables.graph.load_new_tables` takes them.
        interval: Percentage of the truths that lie between the columns ``lower`` and ``upper``, or
            of classes in the column ``set``.
    """
    preprocess, model = run.saved.preprocess, run.saved.model
    if nodes is None:
        id_column = "node"
        if preprocess.encoding is not None:
            id_column = read_encoding(preprocess)[1].id_column
        scores, spread = score_nodes(run)
        answers = _answers(run, scores, spread, interval)
        frame = _frame(run, scores, answers, run.data.y, run.roles, id_column, run.ids)
        return Predictions(frame)
    new, data = join_new_nodes(run, nodes, edges)
    encoder, plan = read_encoding(preprocess)
    places = len(run.ids) + torch.arange(len(new.ids))
    scores, spread = class_scores(model, data, places, run.labels(model, data=data))
    answers = _answers(run, scores, spread, interval)
    truth, notes = data.y[places], []
    if plan.target in new.table.columns:
        cells = new.table.distinct(plan.target)
        code_of = {name: code for code, name in enumerate(preprocess.classes)}
        codes = [code_of.get(text, code_of.get(plain_id(text), -1)) for text in cells.texts]
        values = cells.numbers if truth.is_floating_point() else np.array(codes, np.int64)
        truth = torch.from_numpy(values[cells.codes])
        unread = ~is_labelled(truth).numpy() & ~cells.missing[cells.codes]
        if unread.any():
            notes.append(
                f"rows not scored: {unread.sum():,}, since their {plan.target}, such as "
                f"{cells.values[cells.codes[unread.argmax()]]!r}, is not what the model predicts"
            )
    if new.num_dropped:
        notes.append(f"{new.num_dropped:,} edges were left out, since an end is the id of no node")
    known = _count_known(run.data, data)
    if known:
        notes.append(
            f"{known:,} edges join two nodes of the training table and were not there in training; "
            "they are used, so that neighbourhoods differ from those trained on"
        )
    far = _count_far_values(model, data, places, encoder)
    if far:
        listed = ", ".join(f"{name} in {rows:,} of {len(places):,} rows" for name, rows in far)
        notes.append(
            "values beyond those of the training nodes count as the nearest of these: " + listed
        )
    if edges is None and has_edges(run.data):
        notes.append(
            "the model was trained with edges, and none are given: the new nodes are judged by "
            "their own columns alone; give a table of edges"
        )
    elif new.missing:
        notes.append(
            f"the model was trained with {', '.join(new.missing)}, and no such edges of the new "
            f"nodes are given: give {' '.join(f'{name}=FILE' for name in new.missing)}"
        )
    roles, scored = torch.zeros_like(places), _score_against(run, scores, truth)
    frame = _frame(run, scores, answers, truth, roles, plan.id_column, new.ids)
    return Predictions(frame, new.unused, new.unseen, tuple(notes), scored)


def _answers(
    run: RunFolder, scores: Tensor, spread: Tensor, interval: float | None
) -> Answers | None:
    """Return intervals or sets, by how far the model misses its validation nodes."""
    if interval is None:
        return None
    nodes = run.split.validation
    held_out = (each.numpy() for each in score_nodes(run, nodes=nodes))
    misses = Misses.measure(run.data.y[nodes].numpy(), *held_out)
    return misses.predict(scores.numpy(), spread.numpy(), interval / 100)


def _score_against(run: RunFolder, scores: Tensor, truth: Tensor) -> dict[str, Any] | None:
    """Return every metric of the nodes with a known target, and those of the test nodes."""
    known = is_labelled(truth)
    if not known.any():
        return None
    positive = positive_class(run.data.y.numpy())
    metrics = evaluate(truth[known].numpy(), scores[known].numpy(), positive)
    return {
        "nodes": int(known.sum()),
        "metrics": {name: None if math.isnan(x) else x for name, x in metrics.items()},
        "test": RepeatedRuns(run.config, tuple(one.record for one in run.runs)).test,
    }


def join_new_nodes(run: RunFolder, nodes: Any, edges: Any = None) -> tuple[NewNodes, Data]:
    """Return new nodes, and the training graph with them at its end and their edges."""
    try:
        encoder, plan = read_encoding(run.saved.preprocess)
    except BadInput as error:
        raise BadInput(f"{run.folder}: {error}") from None
    of_edges = read_edge_encoders(run.saved.preprocess)
    known = relations_of(run.data)
    new = load_new_tables(nodes, edges, encoder, plan, run.ids, known, of_edges)
    where = str(nodes) if isinstance(nodes, str | Path) else "nodes"
    return new, _with_new_nodes(run.data, new, where)


def _with_new_nodes(old: Data, new: NewNodes, where: str) -> Data:
    """Return a graph with further nodes, whose targets are unknown, and their edges."""
    unknown = torch.nan if old.y.is_floating_point() else -1
    known, num_nodes = relations_of(old), old.x.size(0) + len(new.ids)
    relations = [_extend(*pair) for pair in zip(known, new.relations, strict=False)]
    times = old.get("node_time")
    return canonical_graph(
        Data(
            x=as_features(sp.csr_array(sp.vstack([as_matrix(old.x), new.x], format="csr"))),
            relations=tuple(relations) or known,
            y=torch.cat([old.y, torch.full((len(new.ids),), unknown).to(old.y)]),
            num_nodes=num_nodes,
            num_classes=old.num_classes,
            node_time=None if times is None else torch.cat([times, torch.from_numpy(new.times)]),
        ),
        where,
    )


def _extend(known: Relation, new: Relation) -> Relation:
    """Return a relation with further edges."""
    weight, attr = known.edge_weight, known.edge_attr
    count = new.edge_index.size(1)
    if weight is not None:
        added = torch.ones(count) if new.edge_weight is None else new.edge_weight
        weight = torch.cat([weight, added])
    if attr is not None:
        added_attr = new.edge_attr
        if added_attr is None:
            added_attr = sp.csr_array((count, attr.shape[1]), dtype=np.float32)
        attr = sp.csr_array(sp.vstack([attr, added_attr], format="csr"))
    return known._replace(
        edge_index=torch.cat([known.edge_index, new.edge_index], dim=1),
        edge_weight=weight,
        edge_attr=attr,
        things=known.things if new.things is None else new.things,
    )


def _count_known(old: Data, new: Data) -> int:
    """Return how many edges between known nodes were added, each pair once."""
    count = 0
    for before, after in zip(relations_of(old), relations_of(new), strict=True):
        if before.things is None:
            added = int((after.edge_index < old.num_nodes).all(dim=0).sum())
            added -= before.edge_index.size(1)
            count += added if before.directed else added // 2
    return count


def _count_far_values(
    model: NodeClassifier, data: Data, nodes: Tensor, encoder: TableEncoder
) -> list[tuple[str, int]]:
    """Return the columns of numbers that a model cuts, and in how many of the new nodes."""
    if not isinstance(model, CrossHops):
        return []
    names = {name for each in encoder.columns for name in each.number_columns}
    plan, features = model.plan, encoder.space.names
    relations = [named(each, features=True) for each in relations_of(data)]
    titles = plan.name_columns(features, relations=relations)[: plan.first_label]
    is_number = [name in names for name in features] * (1 + plan.num_blocks)
    is_number += [True] * len(plan.sides)
    is_number += [title.endswith(" (mean)") for title in titles[len(is_number) :]]
    places = np.flatnonzero(np.array(is_number) & model.is_read[: len(is_number)].numpy())
    values = _hop_columns(model, data).without_labels[nodes].numpy()
    limits = (model.low, model.high, _ROUNDING * model.deviation)
    low, high, slack = (each.numpy()[places] for each in limits)
    is_far = (values[:, places] < low - slack) | (values[:, places] > high + slack)
    counts = zip(places, is_far.sum(axis=0).tolist(), strict=True)
    return [(titles[place], count) for place, count in counts if count]


def _frame(
    run: RunFolder,
    scores: Tensor,
    answers: Answers | None,
    truth: Tensor,
    roles: Tensor,
    id_column: str,
    ids: Sequence[str],
) -> pd.DataFrame:
    """Return the ids and the truth of nodes, what is predicted, and what they were used for.

    Args:
        scores: Of each class, before softmax, ``[nodes, classes]``; or numbers, ``[nodes, 1]``.
        answers: Intervals or sets, if there are any.
        roles: Positions in ``ROLE_NAMES``.
    """
    classes = run.saved.preprocess.classes
    columns: dict[str, Any]
    if truth.is_floating_point():
        known = run.data.y[~run.data.y.isnan()].numpy()
        spread = float(known.std()) or 1.0
        decimals = DIGITS - math.floor(math.log10(spread)) if np.isfinite(spread) else DIGITS
        numbers = scores.numpy() if answers is None else np.hstack([scores.numpy(), answers])
        columns = {"true": truth.numpy()}
        for name, values in zip(("predicted", "lower", "upper"), numbers.T.tolist(), strict=False):
            columns[name] = [round(number, max(decimals, 0)) for number in values]
    else:
        names = [classes[label] if label >= 0 else None for label in truth.tolist()]
        probabilities = np.round(scores.softmax(dim=1).numpy(), DIGITS)
        columns = {
            "true": pd.Series(names, dtype=object),
            "predicted": [classes[label] for label in scores.argmax(dim=1).tolist()],
            **{
                f"probability: {name}": probabilities[:, label]
                for label, name in enumerate(classes)
            },
        }
        if answers is not None:
            columns["set"] = ["; ".join(compress(classes, row)) for row in answers]
    columns["used for"] = [ROLE_NAMES[role] for role in roles.tolist()]
    while id_column in columns:
        id_column = f"{id_column} (id)"
    return pd.DataFrame({id_column: list(ids), **columns})
