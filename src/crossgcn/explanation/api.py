"""Explain a model, an estimator or a run: its scores as exact sums of named terms.

A run or an estimator is a way to come by a model, its graph and the names of both. What follows
is the same for all: (model, graph, names) to an explainer, and an explainer to an explanation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from torch import nn
from torch_geometric.data import Data

from crossgcn.data.features import FeatureSpace
from crossgcn.data.tables.graph import read_encoding
from crossgcn.data.tables.kinds.numeric import NumberEncoder
from crossgcn.errors import BadInput
from crossgcn.experiments.run_folder import RunFolder, open_run
from crossgcn.explanation.columns import Names
from crossgcn.explanation.explainers import Explainer, HopExplainer, LayeredExplainer
from crossgcn.explanation.polynomial import read_layers
from crossgcn.explanation.products import products, refuse_columns
from crossgcn.graph.neighbourhood import NeighbourLabels, neighbour_labels
from crossgcn.models.cross_hops import CrossHops

FeatureNames = FeatureSpace | Sequence[str] | None
Contrast = tuple[Any, Any] | None


def explain(
    model: Any,
    data: Any = None,
    edge_index: Any = None,
    *,
    node: Any = None,
    feature_names: FeatureNames = None,
    classes: Sequence[Any] | None = None,
    contrast: Contrast = None,
    relation: str = "neighbours",
) -> Any:
    """Return the scores of a model as exact sums of purified terms of columns.

    Args:
        model: A trained model, a fitted estimator, or a run: the folder that ``crossgcn train``
            wrote, which knows everything below.
        data: The graph, for a model; with ``train_mask``, if the model sees the labels of
            neighbours in the training set. For an estimator the rows to explain, as ``predict``
            takes them; by default the graph of its fit.
        edge_index: The edges between the rows of an estimator.
        node: Explain this node only: its number, its row in ``data``, or its id in a run.
        feature_names: One name per feature, or a feature space, which also knows their columns.
        classes: Names of the classes.
        contrast: Two of the classes: why the first and not the second.
        relation: What neighbours are called.

    Returns:
        An :class:`~crossgcn.explanation.terms.Explanation`; with ``node`` a
        :class:`~crossgcn.explanation.node.NodeExplanation`. For bags of words (more than 200
        columns), for more than two layers and with ``aggregate_first``, the strongest
        :class:`~crossgcn.explanation.products.Products` of features.

    Raises:
        BadInput: If the model is not a sum of named terms; the message says which models are.
    """
    if isinstance(model, str | PathLike):
        model = open_run(Path(model))
    if isinstance(model, RunFolder):
        given = (data, edge_index, feature_names, classes)
        if any(each is not None for each in given):
            raise BadInput("a run knows its graph and its names: give node and contrast only")
        names, labels = _names_of_run(model), model.labels(model.saved.model)
        explainer = make_explainer(model.saved.model, model.data, names, labels, contrast)
    else:
        graph, rows, labels = _graph_of(model, data, edge_index)
        classes = getattr(model, "classes_", None) if classes is None else classes
        if feature_names is None:
            feature_names = getattr(model, "feature_names_in_", None)
        model = getattr(model, "model_", model)
        names = Names(
            _check_features(feature_names, graph.x.shape[1]),
            _check_classes(classes, model),
            relation,
            num_rows=graph.x.shape[0] if rows is None else len(rows),
            rows=rows,
        )
        if labels is None:
            labels = _labels(model, graph, len(names.classes))
        explainer = make_explainer(model, graph, names, labels, contrast)
    if isinstance(explainer, LayeredExplainer) and (reason := explainer.refusal()):
        if node is not None or contrast is not None:
            raise BadInput(refuse_columns(reason))
        return products(explainer.reading, names, reason)
    if node is None:
        return explainer.explain()
    return explainer.explain(names.node(node)).node(node)


def make_explainer(
    model: nn.Module,
    data: Data,
    names: Names,
    labels: NeighbourLabels | None = None,
    contrast: Contrast = None,
) -> Explainer:
    """Return what explains a model on a graph.

    Args:
        labels: What neighbours show of their labels to a :class:`~crossgcn.CrossHops`.
        contrast: Names of two classes.
    """
    if not isinstance(model, CrossHops):
        return LayeredExplainer(model, data, names, contrast)
    if data.edge_index is None:
        raise BadInput("cross-hops reads edges: give data with an edge_index")
    return HopExplainer(model, data, names, contrast, labels)


def can_be_explained(model: nn.Module) -> bool:
    """Return whether the scores of a model are sums of products of features."""
    if isinstance(model, CrossHops):
        return type(model) is CrossHops
    try:
        read_layers(model)
    except BadInput:
        return False
    return True


def _names_of_run(run: RunFolder) -> Names:
    """Return what a run calls its inputs, scores and nodes."""
    preprocess = run.saved.preprocess
    space = preprocess.space or FeatureSpace.unnamed(run.data.x.size(1))
    names = Names(space, tuple(preprocess.classes), find=run.find, shown=run.shown)
    if preprocess.encoding is None:
        return names
    encoder, plan = read_encoding(preprocess)
    numbers = {
        each.column: (each.mean, each.deviation)
        for each in encoder.columns
        if isinstance(each, NumberEncoder)
    }
    return replace(names, relation=plan.relation, target=plan.target or "label", numbers=numbers)


def _graph_of(model: Any, data: Any, edge_index: Any) -> tuple[Data, Any, NeighbourLabels | None]:
    """Return the graph to explain, and of an estimator the node of each row, and labels."""
    if not isinstance(getattr(model, "model_", model), nn.Module):
        raise BadInput(
            f"a {type(model).__name__} was given, which holds no trained model; give a model, an "
            "estimator after its fit, or the folder of a run"
        )
    if hasattr(model, "explained_graph") and not isinstance(data, Data):
        graph: tuple[Data, Any, NeighbourLabels | None] = model.explained_graph(data, edge_index)
        return graph
    if edge_index is not None:
        raise BadInput("edge_index goes with rows of an estimator; the graph has its own")
    if not isinstance(data, Data):
        raise BadInput("give the graph of the model as a torch_geometric.data.Data, with its x")
    return data, None, None


def _labels(model: nn.Module, data: Data, num_classes: int) -> NeighbourLabels | None:
    """Return what neighbours show of the labels of training nodes."""
    if not isinstance(model, CrossHops) or not model.plan.num_labels:
        return None
    mask = data.get("train_mask")
    if mask is None or mask.shape != (data.num_nodes,):
        raise BadInput(
            "this model sees the labels of neighbours in the training set: give the graph a "
            "train_mask with one entry per node"
        )
    return neighbour_labels(data.y, mask.nonzero().flatten(), num_classes)


def _check_classes(classes: Sequence[Any] | None, model: nn.Module) -> tuple[str, ...]:
    if isinstance(model, CrossHops):
        num_scores = model.readout.out_channels
    else:
        num_scores = len(read_layers(model)[-1].bias)
    if classes is None:
        return ("target",) if num_scores == 1 else tuple(map(str, range(num_scores)))
    if len(classes) != num_scores:
        raise BadInput(
            f"{len(classes)} class names were given, but the model has {num_scores} classes; "
            "give one name per class, in the order of their numbers"
        )
    return tuple(map(str, classes))


def _check_features(names: FeatureNames, num_features: int) -> FeatureSpace:
    if names is None:
        return FeatureSpace.unnamed(num_features)
    space = names if isinstance(names, FeatureSpace) else FeatureSpace.named(list(map(str, names)))
    if len(space) != num_features:
        raise BadInput(
            f"{len(space)} feature names were given, but the graph has {num_features} features; "
            "give one name per feature"
        )
    return space
