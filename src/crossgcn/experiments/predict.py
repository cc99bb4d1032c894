"""Predictions for the nodes of a trained graph, and for new rows of a user's tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.graph import ROLE_NAMES, canonical_graph
from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.graph import (
    NewNodes,
    as_features,
    as_matrix,
    load_new_tables,
    read_encoding,
)
from crossgcn.data.tables.kinds.base import Unseen
from crossgcn.data.tables.kinds.date import DateEncoder
from crossgcn.data.tables.kinds.numeric import NumberEncoder
from crossgcn.data.tables.plan import TablePlan
from crossgcn.errors import BadInput
from crossgcn.experiments.run_folder import FinishedRun, RunFolder
from crossgcn.graph import PreparedGraph, SparseMatrix
from crossgcn.graph.hops import HopColumns
from crossgcn.graph.neighbourhood import NeighbourLabels
from crossgcn.graph.sparse_matrix import select_rows
from crossgcn.graph.standardise import HopRows
from crossgcn.models.cross_hops import CrossHops
from crossgcn.models.node_classifier import NodeClassifier

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
) -> Tensor:
    """Return class scores before the softmax, ``[nodes, classes]``, computed in float64.

    Those of a model of a number are numbers, ``[nodes, 1]``. Processors round float32 sums
    differently. Scores in float64 differ by about 1e-14, far below any digit that is written.
    The model is not modified.

    Args:
        nodes: All by default.
        labels: What neighbours show of their labels, for a model that sees it.
    """
    exact = deepcopy(model).double().eval()
    if isinstance(exact, CrossHops):
        read = _columns_of(exact, data, labels)
    else:
        graph = PreparedGraph(data.x, data.edge_index, data.get("edge_weight"), dtype=torch.float64)
        read = partial(graph.view, propagations=model.propagations)
    nodes = torch.arange(data.x.size(0)) if nodes is None else nodes
    with torch.no_grad():
        return torch.cat([exact(*read(part)) for part in torch.split(nodes, _NODES_AT_ONCE)])


def _columns_of(
    model: CrossHops, data: Data, labels: NeighbourLabels | None
) -> Callable[[Tensor], tuple[Any, ...]]:
    """Return what reads the columns of some nodes, in 64 bits."""
    if model.plan.num_labels and labels is None:
        raise BadInput("this model sees the labels of neighbours: give labels")
    hops = _hop_columns(model, data)
    parts = [hops.without_labels, *([] if labels is None else [hops.label_columns(labels)])]
    rows = HopRows(parts, model.scale, data.y)

    def read(nodes: Tensor) -> tuple[Any, ...]:
        x = rows.rows(nodes)
        return (x.with_values(x.values.double()) if isinstance(x, SparseMatrix) else x.double(),)

    return read


def _hop_columns(model: CrossHops, data: Data) -> HopColumns:
    return HopColumns(
        data.x,
        data.edge_index,
        data.get("edge_weight"),
        hops=model.plan.hops,
        directed=model.plan.directed,
        smoothing=model.smoothing,
    )


def score_nodes(run: RunFolder, one: FinishedRun | None = None) -> Tensor:
    """Return the scores of all nodes by the chosen model, or by that of another run.

    Neighbours show the labels of the training nodes of that run's split.
    """
    one = one or run.chosen
    model = run.saved.model if one is run.chosen else one.model().model
    return class_scores(model, run.data, labels=run.labels(model, one))


@dataclass(frozen=True)
class Predictions:
    """What a model predicts for nodes.

    Attributes:
        frame: A row per node: its id, ``true`` and ``predicted``, of classes the probability of
            each, and what the node was ``used for``.
        unused: Columns of the table that the model was not trained with.
        unseen: Values that the model was not trained with, by column.
        notes: What the user should know about values and edges, a sentence each.
    """

    frame: pd.DataFrame
    unused: tuple[str, ...] = ()
    unseen: tuple[Unseen, ...] = ()
    notes: tuple[str, ...] = ()


def predict_nodes(run: RunFolder, nodes: Any = None, edges: Any = None) -> Predictions:
    """Predict the nodes that a model was trained on, or new ones; nothing is trained.

    New nodes are added to the training graph, so their edges may lead to known nodes as well as
    to each other.

    Args:
        nodes: File or data frame of new nodes; by default all nodes of the training graph.
        edges: Their edges, as :func:`~crossgcn.data.tables.graph.load_new_tables` takes them.
    """
    preprocess, model = run.saved.preprocess, run.saved.model
    if nodes is None:
        scores = score_nodes(run)
        encoded = preprocess.encoding is not None
        id_column = read_encoding(preprocess)[1].id_column if encoded else "node"
        frame = _to_frame(run, scores, run.data.y, run.roles)
        return Predictions(_with_ids(frame, id_column, run.ids))
    try:
        encoder, plan = read_encoding(preprocess)
    except BadInput as error:
        raise BadInput(f"{run.folder}: {error}") from None
    new = load_new_tables(nodes, edges, encoder, plan, run.ids)
    data = _with_new_nodes(run.data, new, str(nodes) if isinstance(nodes, str | Path) else "nodes")
    places = len(run.ids) + torch.arange(len(new.ids))
    scores = class_scores(model, data, places, run.labels(model, y=data.y))
    frame = _to_frame(run, scores, data.y[places], torch.zeros_like(places))
    notes = list(_edge_notes(run.data, data, len(run.ids), new.num_dropped))
    if isinstance(model, CrossHops):
        far = _count_far_values(model, data, new, encoder, plan)
        if far:
            listed = ", ".join(f"{name} in {rows:,} of {len(new.ids):,} rows" for name, rows in far)
            notes.append(
                "values beyond those of the training nodes count as the nearest of these: " + listed
            )
    if edges is None and run.data.edge_index.size(1):
        notes.append(
            "the model was trained with edges, and none are given: the new nodes are judged by "
            "their own columns alone; give a table of edges"
        )
    frame = _with_ids(frame, plan.id_column, new.ids)
    return Predictions(frame, new.unused, new.unseen, tuple(notes))


def _with_new_nodes(old: Data, new: NewNodes, where: str) -> Data:
    """Return a graph with further nodes, whose targets are unknown, and their edges."""
    unknown = torch.nan if old.y.is_floating_point() else -1
    weights, added = old.get("edge_weight"), new.edge_weight
    if weights is not None:
        added = np.ones(new.edges.shape[1], np.float32) if added is None else added
        weights = torch.cat([weights, torch.from_numpy(added)])
    return canonical_graph(
        Data(
            x=as_features(sp.csr_array(sp.vstack([as_matrix(old.x), new.x], format="csr"))),
            edge_index=torch.cat([old.edge_index, torch.from_numpy(new.edges)], dim=1),
            edge_weight=weights,
            y=torch.cat([old.y, torch.full((len(new.ids),), unknown).to(old.y)]),
            num_classes=old.num_classes,
            directed=old.get("directed"),
        ),
        where,
    )


def _edge_notes(old: Data, new: Data, num_known: int, num_dropped: int) -> Iterator[str]:
    """Say which edges were left out, and which are other ones than in training."""
    if num_dropped:
        yield f"{num_dropped:,} edges were left out, since an end is the id of no node"
    known = int((new.edge_index < num_known).all(dim=0).sum()) - old.edge_index.size(1)
    num_pairs = known if new.get("directed") else known // 2
    if num_pairs:
        yield (
            f"{num_pairs:,} edges join two nodes of the training table and were not there in "
            "training; they are used, so that neighbourhoods differ from those trained on"
        )


def _count_far_values(
    model: CrossHops, data: Data, new: NewNodes, encoder: TableEncoder, plan: TablePlan
) -> list[tuple[str, int]]:
    """Return the numbers that a model cuts, and in how many of the new nodes.

    Encoded numbers are cut far from their mean already, so those of the table are compared with
    those of the training table, too.

    Args:
        data: The graph, whose last nodes are the new ones.
    """
    numbers = [each for each in encoder.columns if isinstance(each, NumberEncoder)]
    numbers += [each.parts[-1] for each in encoder.columns if isinstance(each, DateEncoder)]
    names = {each.column for each in numbers}
    own = [name in names for name in encoder.space.names]
    titles = model.plan.name_columns(encoder.space.names, relation=plan.relation)
    is_number = np.array(own * (1 + model.plan.num_blocks) + [True] * len(model.plan.sides))
    places = np.flatnonzero(is_number & model.is_read[: len(is_number)].numpy())

    nodes = torch.arange(len(data.y) - len(new.ids), len(data.y))
    rows = select_rows(_hop_columns(model, data).without_labels, nodes)
    values = rows.numpy() if isinstance(rows, Tensor) else rows.to_scipy().toarray()
    limits = (model.low, model.high, _ROUNDING * model.deviation)
    low, high, slack = (each.numpy()[places] for each in limits)
    is_far = (values[:, places] < low - slack) | (values[:, places] > high + slack)
    found = {titles[place]: far for place, far in zip(places, is_far.T, strict=True)}
    for each in numbers:
        if each.column in found and each.column in new.table.columns:
            distinct = new.table.distinct(each.column)
            read = distinct.read_numbers(each.style)[distinct.codes]
            found[each.column] |= (read < each.known[0]) | (read > each.known[-1])
    counts = [(name, int(far.sum())) for name, far in found.items()]
    return [each for each in counts if each[1]]


def _to_frame(run: RunFolder, scores: Tensor, truth: Tensor, roles: Tensor) -> pd.DataFrame:
    """Return the truth of nodes, what is predicted, and what they were used for.

    Args:
        scores: Of each class, before softmax, ``[nodes, classes]``; or numbers, ``[nodes, 1]``.
        roles: Positions in ``ROLE_NAMES``.
    """
    classes = run.saved.preprocess.classes
    columns: dict[str, Any]
    if truth.is_floating_point():
        known = run.data.y[~run.data.y.isnan()].numpy()
        spread = float(known.std()) or 1.0
        decimals = DIGITS - math.floor(math.log10(spread)) if np.isfinite(spread) else DIGITS
        predicted = _round(scores[:, 0].numpy(), decimals)
        columns = {"true": truth.numpy(), "predicted": predicted}
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
    columns["used for"] = [ROLE_NAMES[role] for role in roles.tolist()]
    return pd.DataFrame(columns)


def _with_ids(frame: pd.DataFrame, id_column: str, ids: Sequence[str]) -> pd.DataFrame:
    while id_column in frame:
        id_column = f"{id_column} (id)"
    frame.insert(0, id_column, list(ids))
    return frame


def _round(numbers: NDArray[np.float64], decimals: int) -> NDArray[np.float64]:
    """Return numbers with so many decimals, which may be more than a power of ten can hold."""
    return np.array([float(f"{number:.{max(decimals, 0)}f}") for number in numbers.tolist()])
