"""Explain a whole graph, or one of its nodes, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from torch import nn

from crossgcn.errors import BadInput
from crossgcn.explanation.arguments import Names, check_classes, check_integer
from crossgcn.explanation.node import NodeExplainer
from crossgcn.explanation.reading import Graph, read_layers
from crossgcn.explanation.strongest import strongest_crosses


def explain(
    model: nn.Module | Any,
    data: Graph,
    node: int | None = None,
    *,
    feature_names: Names = None,
    classes: Sequence[Any] | None = None,
    top: int = 20,
    order: int | None = None,
) -> pd.DataFrame:
    """Return the crosses behind a model's predictions, exactly, as a table.

    Args:
        model: A trained model, or a fitted :class:`~crossgcn.CrossGCNClassifier`, which knows
            its classes and, if it was fitted to a data frame, the names of its features.
        data: The graph, as ``Data`` or prepared.
        node: A node to explain. The rows add up to the score of its predicted class; see
            :meth:`~crossgcn.explanation.NodeExplainer.top_crosses`. By default, the table lists
            the strongest crosses of each class; see
            :func:`~crossgcn.explanation.strongest_crosses`.
        feature_names: One name per feature, or a feature space, which also knows their fields.
        classes: Names of the classes.
        top: How many crosses, per class or of the node.
        order: Number of features of a cross, for the whole graph only: at most the order of the
            first layer; all orders from 2 by default.
    """
    if not isinstance(model, nn.Module):
        if not hasattr(model, "model_"):
            raise BadInput(
                f"a {type(model).__name__} was given, which holds no trained model; give a model, "
                "or a classifier after its fit"
            )
        if classes is None:
            classes = list(model.classes_)
        if feature_names is None and hasattr(model, "feature_names_in_"):
            feature_names = [str(name) for name in model.feature_names_in_]
        model = model.model_
    top = check_integer("top", top, at_least=1)
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
