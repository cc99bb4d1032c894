"""Explain a model, an estimator or a run: its scores as exact sums of named terms.

A run or an estimator is a way to come by a model, its graph and the names of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from torch import nn
from torch_geometric.data import Data

from crossgcn.data.features import FeatureSpace
from crossgcn.data.relations import relations_of
from crossgcn.data.tables.graph import read_edge_encoders, read_encoding
from crossgcn.data.tables.kinds.date import DateEncoder
from crossgcn.data.tables.kinds.numeric import NumberEncoder
from crossgcn.errors import BadInput
from crossgcn.experiments.predict import join_new_nodes
from crossgcn.experiments.run_folder import RunFolder, open_run
from crossgcn.explanation.columns import Names
from crossgcn.explanation.difference import Difference, compare_runs, refuse_others
from crossgcn.explanation.hop_explainer import Contrast, HopExplainer
from crossgcn.explanation.node import NodeExplanation
from crossgcn.explanation.polynomial import NotASum, read_layers
from crossgcn.explanation.products import NO_COLUMNS, Products, products
from crossgcn.graph.neighbourhood import NeighbourLabels, neighbour_labels
from crossgcn.models.cross_hops import CrossHops

FeatureNames = FeatureSpace | Sequence[str] | None


def explain(
    model: Any,
    data: Any = None,
    edge_index: Any = None,
    *,
    node: Any = None,
    node_index: Any = None,
    feature_names: FeatureNames = None,
    classes: Sequence[Any] | None = None,
    contrast: Contrast = None,
    since: Any = None,
) -> Any:
    """Return the scores of a model as exact sums of purified terms of columns.

    Args:
        model: A trained model, a fitted estimator, or a run: the folder that ``crossgcn train``
            wrote, which knows everything below.
        data: The graph, for a model; with ``train_mask``, if the model sees the labels of
            neighbours in the training set. For an estimator the rows to explain, and for a run a
            table of new nodes, as ``predict`` takes them; by default the graph of the training.
            Terms are fitted on that graph, whatever the rows; of an estimator that was fitted
            without edges, on the rows.
        edge_index: The edges between the rows of an estimator, or the table of edges of new nodes.
        node: Explain this node only: its number, its row in ``data``, or its id in a run.
        node_index: The node of ``edge_index`` that each row of an estimator is.
        feature_names: One name per feature, or a feature space, which also knows their columns.
        classes: Names of the classes.
        contrast: Two of the classes: why the first and not the second. ``None`` for one of them is
            the class that ``node`` is predicted as.
        since: For a run an older one: why the scores of their nodes, or of ``node``, changed.

    Returns:
        For cross-hops an :class:`~crossgcn.explanation.terms.Explanation`; with ``node`` a
        :class:`~crossgcn.explanation.node.NodeExplanation`. For Cross-GCN, GCN and MLP the
        strongest :class:`~crossgcn.explanation.products.Products` of features. With ``since`` a
        :class:`~crossgcn.explanation.difference.Difference`.

    Raises:
        BadInput: If the model is not a sum of named terms; the message says which models are.
    """
    model = _open(model)
    if since is not None:
        if not isinstance(model, RunFolder) or data is not None or edge_index is not None:
            raise BadInput("since compares two runs: give the folder of a run, and no tables")
        return _explain_change(model, _open(since), node, contrast)
    if isinstance(model, RunFolder):
        if any(each is not None for each in (feature_names, classes, node_index)):
            raise BadInput("a run knows its names: give tables, node and contrast only")
        case = _read_run(model, data, edge_index)
    else:
        case = _read_model(model, data, edge_index, node_index, feature_names, classes)
    network, graph, names = case[:3]
    reads_edges = isinstance(network, CrossHops) or bool(getattr(network, "propagations", ()))
    if reads_edges and graph.edge_index is None:
        raise BadInput("this model reads edges: give data with an edge_index")
    if isinstance(network, CrossHops):
        explainer = HopExplainer(*case)
        place = None if node is None else names.node(node)
        explainer.compare(contrast, place)
        if place is not None:
            return explainer.explain([place]).node(node)
        return explainer.explain(() if case.fitted is None or names.rows is None else names.rows)
    if node is not None or contrast is not None:
        raise BadInput(NO_COLUMNS)
    return products(network, graph, names)


def list_largest_terms(
    run: RunFolder, nodes: Any = None, edges: Any = None, *, top: int = 5
) -> pd.DataFrame:
    """Return the largest terms of each node in words, in columns ``term 1``, ``term 2``, ...

    They are those of the predicted class, or of the second of two classes.

    Args:
        nodes: Table of new nodes; by default all nodes of the training graph.
        edges: Table of their edges.
    """
    whole = explain(run, nodes, edges)
    if isinstance(whole, Products):
        raise BadInput(NO_COLUMNS)
    explainer, texts = whole.explainer, list[list[str]]()
    rows = np.arange(len(run.ids)) if nodes is None else np.array(explainer.names.rows)
    for part in np.array_split(rows, -(-len(rows) // explainer.most_nodes)):
        if not all(node in whole.place_of for node in part.tolist()):
            whole = explainer.explain(part)
        texts += [NodeExplanation(whole, node).in_words(top) for node in part.tolist()]
    columns = list(zip_longest(*texts, fillvalue=""))
    return pd.DataFrame({f"term {number}": column for number, column in enumerate(columns, 1)})


class _Case(NamedTuple):
    """A model and its graph, with labels that it sees, and the graph that terms are fitted on."""

    network: Any
    graph: Data
    names: Names
    labels: NeighbourLabels | None
    fitted: tuple[Data, NeighbourLabels | None] | None = None


def _open(given: Any) -> Any:
    """Return the run in a folder or of a table model; what else is given as it is."""
    run = open_run(Path(given)) if isinstance(given, str | PathLike) else given
    return getattr(run, "run", run)


def _read_run(run: RunFolder, nodes: Any = None, edges: Any = None) -> _Case:
    """Read a run; new nodes are numbered after the training graph and its copy with new nodes."""
    network, names = run.saved.model, names_of_run(run)
    known = run.data, run.labels(network)
    if nodes is None:
        if edges is not None:
            raise BadInput("edges go with new nodes: give a table of these, too")
        return _Case(network, known[0], names, known[1])
    new, graph = join_new_nodes(run, nodes, edges)
    names = _with_new_nodes(names, run.ids, new.ids, nodes)
    return _Case(network, graph, names, run.labels(network, data=graph), known)


def _read_model(
    model: Any,
    data: Any,
    edge_index: Any,
    node_index: Any,
    feature_names: FeatureNames,
    classes: Sequence[Any] | None,
) -> _Case:
    """Read a model or an estimator, whose rows are numbered after the graph of the fit."""
    network, rows, labels, fitted = getattr(model, "model_", model), None, None, None
    if not isinstance(getattr(model, "model_", model), nn.Module):
        raise BadInput(
            f"a {type(model).__name__} was given, which holds no trained model; give a model, an "
            "estimator after its fit, or the folder of a run"
        )
    if hasattr(model, "explained_graph") and not isinstance(data, Data):
        data, rows, labels, fitted = model.explained_graph(data, edge_index, node_index)
    elif edge_index is not None or node_index is not None:
        raise BadInput("edge_index goes with rows of an estimator; the graph has its own")
    elif not isinstance(data, Data):
        raise BadInput("give the graph of the model as a torch_geometric.data.Data, with its x")
    if not isinstance(network, CrossHops):
        read_layers(network)  # refuses what is no sum of products
    names = Names(
        _check_features(
            getattr(model, "feature_names_in_", None) if feature_names is None else feature_names,
            data.x.shape[1],
            network.in_channels,
        ),
        _check_classes(getattr(model, "classes_", None) if classes is None else classes, network),
        () if data.edge_index is None else relations_of(data),
        num_rows=data.x.shape[0] if rows is None else len(rows),
        rows=rows,
    )
    if fitted is not None:
        known = fitted[0].num_nodes
        shown = [str(number) for most in (known, data.num_nodes) for number in range(most)]
        names = replace(names, rows=known + rows, shown=shown)
    if labels is None and isinstance(network, CrossHops) and network.plan.num_labels:
        mask = data.get("train_mask")
        if mask is None or mask.shape != (data.num_nodes,):
            raise BadInput(
                "this model sees the labels of neighbours in the training set: give the graph a "
                "train_mask with one entry per node"
            )
        nodes, times = mask.nonzero().flatten(), data.get("node_time")
        labels = neighbour_labels(data.y, nodes, len(names.classes), times)
    return _Case(network, data, names, labels, fitted)


def _explain_change(new: RunFolder, old: RunFolder, node: Any, contrast: Contrast) -> Difference:
    """Return why the scores of a run are not those of an older one."""
    refuse_others(new, old)
    cases = [_read_run(run) for run in (new, old)]
    if not all(isinstance(case.network, CrossHops) for case in cases):
        raise BadInput(NO_COLUMNS)
    explainers = [HopExplainer(*case) for case in cases]
    place = None if node is None else new.find(node)
    explainers[1].compare(explainers[0].compare(contrast, place))
    return compare_runs(new, old, explainers[0], explainers[1], place)


def can_be_explained(model: nn.Module) -> bool:
    """Return whether the scores of a model are sums of products of features."""
    if isinstance(model, CrossHops):
        return type(model) is CrossHops
    with suppress(NotASum):
        read_layers(model)
        return True
    return False


def names_of_run(run: RunFolder) -> Names:
    """Return what a run calls its inputs, scores and nodes."""
    preprocess = run.saved.preprocess
    space = preprocess.space or FeatureSpace.unnamed(run.data.x.size(1))
    classes, relations = tuple(preprocess.classes), relations_of(run.data)
    names = Names(space, classes, relations, find=run.find, shown=run.shown)
    if preprocess.encoding is None:
        return names
    encoder, plan = read_encoding(preprocess)
    numbers = {each.column: each for each in encoder.columns if isinstance(each, NumberEncoder)}
    dates = {each.column: each for each in encoder.columns if isinstance(each, DateEncoder)}
    numbers |= {column: date.parts[-1] for column, date in dates.items()}
    of_edges = read_edge_encoders(preprocess)
    for each in plan.relations:
        for number in of_edges[each.name].columns if each.name in of_edges else ():
            if isinstance(number, NumberEncoder):
                for side in ("", "in-", "out-"):
                    numbers[f"{side}{each.title}: {number.column} (mean)"] = number
    scales = {name: (each.mean, each.deviation) for name, each in numbers.items()}
    earliest = {column: date.earliest for column, date in dates.items()}
    return replace(names, target=plan.target, numbers=scales, dates=earliest)


def _with_new_nodes(names: Names, known: Sequence[str], new: Sequence[str], table: Any) -> Names:
    """Return the names of the training graph, and of the same graph with new nodes."""
    first = 2 * len(known)
    where = table if isinstance(table, str | Path) else "nodes"

    def find(node: Any) -> int:
        if str(node) in new:
            return first + new.index(str(node))
        if str(node) in known:
            raise BadInput(
                f"{where}: node {node!r} is not in it, but was trained on: leave out the tables"
            )
        raise BadInput(
            f"{where}: there is no node {node!r} among its {len(new):,}; the first are "
            f"{', '.join(map(repr, new[:3]))}"
        )

    old = names.shown or known
    shown = (*old, *old, *new)
    rows = first + np.arange(len(new))
    return replace(names, find=find, shown=shown, rows=rows, num_rows=len(new))


def _check_classes(classes: Sequence[Any] | None, model: Any) -> tuple[str, ...]:
    num_scores = model.out_channels
    if classes is None:
        return ("target",) if num_scores == 1 else tuple(map(str, range(num_scores)))
    if len(classes) != num_scores:
        raise BadInput(
            f"{len(classes)} class names were given, but the model has {num_scores} classes; "
            "give one name per class, in the order of their numbers"
        )
    return tuple(map(str, classes))


def _check_features(names: FeatureNames, num_features: int, in_channels: int) -> FeatureSpace:
    if num_features != in_channels:
        raise BadInput(
            f"the graph has {num_features} features per node, but the model takes {in_channels}; "
            "give the graph it was trained on, or one encoded in the same way"
        )
    if names is None:
        return FeatureSpace.unnamed(num_features)
    space = names if isinstance(names, FeatureSpace) else FeatureSpace.named(list(map(str, names)))
    if len(space) != num_features:
        raise BadInput(
            f"{len(space)} feature names were given, but the graph has {num_features} features; "
            "give one name per feature"
        )
    return space
