"""Explain a whole graph, or one of its nodes, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from crossgcn.errors import BadInput
from crossgcn.explanation.arguments import (
    Names,
    check_class,
    check_classes,
    check_features,
    check_integer,
    check_nodes,
)
from crossgcn.explanation.column_details import (
    node_sum,
    predicted_output,
    term_records,
    terms_frame,
)
from crossgcn.explanation.columns import ColumnTerms
from crossgcn.explanation.explainers import Explainer, HopExplainer, LayeredExplainer
from crossgcn.explanation.node import NodeExplainer
from crossgcn.explanation.reading import Graph, Ints, read_layers
from crossgcn.explanation.strongest import strongest_crosses
from crossgcn.graph import PreparedGraph
from crossgcn.graph.neighbourhood import neighbour_labels
from crossgcn.models.cross_hops import CrossHops


def explain_terms(
    model: nn.Module | Any,
    data: Graph | Any = None,
    edge_index: Any = None,
    *,
    feature_names: Names = None,
    classes: Sequence[Any] | None = None,
    contrast: tuple[Any, Any] | None = None,
    train_nodes: Tensor | None = None,
    raw: bool = False,
) -> ColumnTerms:
    """Return the scores of all nodes as sums of purified terms of columns.

    The result has the terms as a table (``to_frame()``), as arrays for SHAP's plots (``values``,
    ``base_values``, ``feature_names``), and as a figure (``plot()``).

    Args:
        model: A trained model, or a fitted estimator.
        data: The graph. For an estimator also the features of rows, or nothing, like
            ``edge_index`` as in :func:`explain`; ``values`` and ``base_values`` are then of these
            rows, the other attributes of all nodes of the graph.
        feature_names: One name per feature, or a feature space, which also knows their columns.
        classes: Names of the classes.
        contrast: Two of the classes: why the first and not the second.
        train_nodes: The training nodes of a :class:`~crossgcn.CrossHops` that sees the labels
            of neighbours; ``data.train_mask`` by default.
        raw: Terms of a :class:`~crossgcn.CrossHops` as trained, not purified.

    Raises:
        NotByColumn: If a model that is not a :class:`~crossgcn.CrossHops` has too many columns
            or more than two layers.
    """
    data, places = _graph_of(model, data, edge_index)
    model, feature_names, classes = _unwrap(model, feature_names, classes)
    explainer = _explainer(model, data, feature_names, classes, train_nodes, contrast)
    terms = explainer.terms(raw=raw)
    if places is None:
        return terms
    at = {int(node): position for position, node in enumerate(terms.nodes)}
    if not all(int(place) in at for place in places):
        raise BadInput(
            f"only a sample of {len(terms.nodes)} of the {data.num_nodes} nodes is explained at "
            "once, and not all rows are in it; explain single rows: explain(estimator, X, node=0)"
        )
    return replace(terms, rows=np.array([at[int(place)] for place in places]))


def explain(
    model: nn.Module | Any,
    data: Graph | Any = None,
    edge_index: Any = None,
    *,
    node: int | None = None,
    feature_names: Names = None,
    classes: Sequence[Any] | None = None,
    top: int = 20,
    order: int | None = None,
    train_nodes: Tensor | None = None,
    raw: bool = False,
) -> pd.DataFrame:
    """Return the crosses behind a model's predictions, exactly, as a table.

    :func:`explain_terms` returns purified terms by column instead, for all models.

    Args:
        model: A trained model, or a fitted :class:`~crossgcn.CrossGCNClassifier` or
            :class:`~crossgcn.CrossGCNRegressor`, which knows its classes and, if it was fitted to
            a data frame, the names of its features.
        data: The graph, as ``Data`` or prepared. For an estimator also the features of rows, as
            ``predict`` takes them; or nothing, for the graph of the fit.
        edge_index: The edges between rows, for an estimator; without them, rows are found in
            the graph of its fit. (A single number here is taken for ``node``.)
        node: A node to explain, or a row of ``data``. The rows add up to the score of its
            predicted class; see
            :meth:`~crossgcn.explanation.NodeExplainer.top_crosses`. By default, the table lists
            the strongest crosses of each class; see
            :func:`~crossgcn.explanation.strongest_crosses`.
        feature_names: One name per feature, or a feature space, which also knows their fields.
        classes: Names of the classes.
        top: How many crosses, per class or of the node; for :class:`~crossgcn.CrossHops` how
            many terms of one column, and how many of each larger number of columns.
        order: Number of features of a cross, for the whole graph only: at most the order of the
            first layer; all orders from 2 by default. For :class:`~crossgcn.CrossHops`: number
            of columns of a term; all by default.
        train_nodes: The training nodes of a :class:`~crossgcn.CrossHops` that sees the labels
            of neighbours; ``data.train_mask`` by default.
        raw: Return the terms of a :class:`~crossgcn.CrossHops` as trained, not purified.

    For a :class:`~crossgcn.CrossHops` the rows are its terms by column, with their importance in
    the unit of the score (see :mod:`~crossgcn.explanation.purify`). For a node
    they are its contributions, and ``frame.attrs["average"]`` is the constant: together they add
    up to the score.
    """
    if node is None and isinstance(edge_index, int | np.integer):
        edge_index, node = None, int(edge_index)
    data, places = _graph_of(model, data, edge_index)
    if node is not None and places is not None:
        node = int(places[check_integer("node", node)])
    model, feature_names, classes = _unwrap(model, feature_names, classes)
    top = check_integer("top", top, at_least=1)
    if isinstance(model, CrossHops):
        if node is not None:
            node = check_integer("node", node)
        hops = _explainer(model, data, feature_names, classes, train_nodes, None)
        return _column_frame(hops.terms(node=node, raw=raw), node, top, order)
    if raw or train_nodes is not None:
        raise BadInput("raw and train_nodes are for cross-hops; leave them out for this model")
    if node is None:
        if order is not None:
            check_order("order is", model, order)
        return strongest_crosses(
            model, data, space=feature_names, classes=classes, order=order, top=top
        )
    if order is not None:
        raise BadInput("order chooses crosses of a whole graph; leave it out to explain a node")
    explainer = NodeExplainer(model, data, feature_names)
    names = check_classes(classes, explainer.reading.logits.shape[1])
    frame = explainer.top_crosses([node], top)
    scale: Any = getattr(model, "target_scale", None)
    if scale is not None:  # from standardised numbers to the unit of the target
        frame["contribution"] *= float(scale[1])
        frame.loc[frame["kind"] == "bias", "contribution"] += float(scale[0])
    if classes is not None:
        frame["target"] = [names[label] for label in frame["target"]]
    return frame


def check_order(name: str, model: nn.Module, order: int) -> None:
    """Refuse an order above that of the first layer, the only one whose crosses have names."""
    highest = len(read_layers(model)[0].order_weights)
    if check_integer("order", order, at_least=2) > highest:
        raise BadInput(
            f"{name} {order}, but the first layer of this model multiplies at most {highest} "
            "features, and crosses of later layers have no names; ask for no more, or train a "
            "model of higher order"
        )


def _graph_of(model: Any, data: Any, edge_index: Any) -> tuple[Any, Ints | None]:
    """Return the graph to explain, and the node that each row of an estimator is."""
    if hasattr(model, "explained_graph") and not isinstance(data, Data | PreparedGraph):
        graph: tuple[Any, Ints | None] = model.explained_graph(data, edge_index)
        return graph
    if edge_index is not None:
        raise BadInput(
            "edge_index goes with features of an estimator's rows; the graph has its own"
        )
    return data, None


def _unwrap(
    model: Any, feature_names: Names, classes: Sequence[Any] | None
) -> tuple[nn.Module, Names, Sequence[Any] | None]:
    """Return the model of an estimator, and the names that it knows."""
    if isinstance(model, nn.Module):
        return model, feature_names, classes
    if not hasattr(model, "model_"):
        raise BadInput(
            f"a {type(model).__name__} was given, which holds no trained model; give a model, "
            "or a classifier after its fit"
        )
    if classes is None and hasattr(model, "classes_"):
        classes = list(model.classes_)
    if feature_names is None and hasattr(model, "feature_names_in_"):
        feature_names = [str(name) for name in model.feature_names_in_]
    return model.model_, feature_names, classes


def _explainer(
    model: nn.Module,
    data: Graph,
    feature_names: Names,
    classes: Sequence[Any] | None,
    train_nodes: Tensor | None,
    contrast: tuple[Any, Any] | None,
) -> Explainer:
    num_scores = model.readout.out_channels if isinstance(model, CrossHops) else None
    if num_scores is None:
        num_scores = len(read_layers(model)[-1].bias)
    if classes is None and num_scores == 1:
        classes = ["target"]
    names = [str(name) for name in check_classes(classes, num_scores)]
    pair = None
    if contrast is not None:
        first, second = (check_class(str(name), names) for name in contrast)
        pair = (first, second)
    if not isinstance(model, CrossHops):
        space = check_features(feature_names, data.x.shape[1])
        return LayeredExplainer(model, data, space, names, contrast=pair)
    if not isinstance(data, Data) or data.x is None or data.edge_index is None:
        raise BadInput("cross-hops is explained on a torch_geometric.data.Data with x, edge_index")
    labels = None
    if model.plan.num_labels:
        train_nodes = data.get("train_mask") if train_nodes is None else train_nodes
        if train_nodes is None:
            raise BadInput(
                "this model sees the labels of neighbours in the training set: give train_nodes"
            )
        chosen = torch.from_numpy(check_nodes("train_nodes", train_nodes, data.x.size(0)))
        labels = neighbour_labels(data.y, chosen, len(names))
    space = check_features(feature_names, data.x.size(1))
    return HopExplainer(model, data, space, names, labels=labels, contrast=pair)


def _column_frame(
    terms: ColumnTerms, node: int | None, top: int, order: int | None
) -> pd.DataFrame:
    if node is None:
        outputs = range(len(terms.outputs))
        rows = [row for output in outputs for row in term_records(terms, output, top, order)]
        return terms_frame(rows)
    if order is not None:
        raise BadInput("order chooses terms of a whole graph; leave it out to explain a node")
    explained = node_sum(terms, node, predicted_output(terms, node))
    frame = explained.frame
    if len(frame) > top:
        rest = ("all other terms", (), "both", frame["contribution"].iloc[top:].sum())
        frame = pd.concat(
            [frame.head(top), pd.DataFrame([rest], columns=frame.columns)], ignore_index=True
        )
    frame.attrs |= {"class": explained.output, "average": explained.average}
    return frame
