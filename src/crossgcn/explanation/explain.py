"""One call for both views: a whole graph, or one of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from torch import nn

from crossgcn.data.feature_space import FeatureSpace
from crossgcn.errors import BadInput
from crossgcn.explanation.node import NodeExplainer
from crossgcn.explanation.reading import Graph
from crossgcn.explanation.strongest import strongest_crosses

__all__ = ["explain"]


def explain(
    model: nn.Module,
    data: Graph,
    node: int | None = None,
    *,
    feature_names: FeatureSpace | Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    top: int = 20,
    order: int | None = None,
) -> pd.DataFrame:
    """The crosses behind a model's predictions, exactly, as a table.

    Args:
        model: A trained model.
        data: Its graph, as ``Data`` or prepared.
        node: A node to explain; its rows add up to the score of its predicted class, see
            :meth:`~crossgcn.explanation.NodeExplainer.top_crosses`. When left out, the
            strongest crosses of each class, see
            :func:`~crossgcn.explanation.strongest_crosses`.
        feature_names: One per feature, or a feature space, which also knows their fields.
        classes: Names of the classes.
        top: How many crosses, per class or of the node.
        order: Features of a cross, for the whole graph; all orders from 2 when left out.
    """
    if top < 1:
        raise BadInput(f"top is {top}; ask for at least 1")
    if node is None:
        return strongest_crosses(
            model, data, space=feature_names, classes=classes, order=order, top=top
        )
    if order is not None:
        raise BadInput("order chooses crosses of a whole graph; leave it out to explain a node")
    frame = NodeExplainer(model, data, feature_names).top_crosses([node], top)
    if classes is not None:
        frame["target"] = [classes[label] for label in frame["target"]]
    return frame
