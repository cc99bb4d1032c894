"""Exact explanations of single nodes, one or hundreds of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from torch import nn

from crossgcn.data.feature_space import FeatureSpace
from crossgcn.errors import BadInput
from crossgcn.explanation.names import fitting_space, name_cross
from crossgcn.explanation.node_explanation import LEFT_OUT, NodeExplanation, completeness
from crossgcn.explanation.paths import trace_paths
from crossgcn.explanation.reading import Graph, Reading, read_model
from crossgcn.explanation.requests import check_integer
from crossgcn.explanation.row_terms import expand_rows

__all__ = ["NodeExplainer", "explain_node"]


def explain_node(
    model: nn.Module,
    graph: Graph,
    node: int,
    *,
    target: int | None = None,
    space: FeatureSpace | Sequence[str] | None = None,
) -> NodeExplanation:
    """Take one class score of one node apart.

    Args:
        model: A trained model; it is explained as it predicts, with nothing dropped.
        graph: The graph, as ``Data`` or prepared.
        node: Which node.
        target: Which class; the predicted one when left out.
        space: Names of the features.
    """
    return NodeExplainer(model, graph, space).explain(node, target)


class NodeExplainer:
    """Explains any number of nodes of one graph, which is read once.

    Args:
        model: A trained model.
        graph: The graph.
        space: Names of the features.

    Attributes:
        reading: The model on its graph.
        space: Names of the features.
    """

    def __init__(
        self,
        model: nn.Module,
        graph: Graph,
        space: FeatureSpace | Sequence[str] | None = None,
    ) -> None:
        self.reading: Reading = read_model(model, graph)
        self.space = fitting_space(space, self.reading.num_features)

    def explain(self, node: int, target: int | None = None) -> NodeExplanation:
        """One class score of one node; see :func:`explain_node`."""
        node, target = self._place(node, target)
        paths = trace_paths(self.reading, node, target)
        expansion = expand_rows(self.reading, paths.nodes, paths.coefficients)
        logits = self.reading.logits[node].copy()
        return NodeExplanation(node, target, logits, self.reading, paths, expansion, self.space)

    def top_crosses(
        self,
        nodes: Sequence[int],
        num: int = 8,
        *,
        targets: Sequence[int] | None = None,
        min_order: int = 1,
    ) -> pd.DataFrame:
        """The largest parts of a score, and the rest of it, for many nodes.

        A node's rows add up to its score exactly: ``kind`` is ``bias``, ``term`` for each of
        the largest features and crosses (added up over the nodes they come from), ``rest``
        for all other terms together, and ``left out`` where hidden units cross.

        Args:
            nodes: Which nodes.
            num: How many terms each.
            targets: A class per node; the predicted ones when left out.
            min_order: 2 lists crosses only; features by themselves are then in the rest.

        Returns:
            Columns ``node``, ``target``, ``kind``, ``order``, ``features``, ``cross``,
            ``contribution``, and ``logit`` and ``completeness`` of the node.
        """
        num = check_integer("num", num, at_least=0)
        wanted = [None] * len(nodes) if targets is None else list(targets)
        rows: list[tuple[Any, ...]] = []
        for node, given in zip(nodes, wanted, strict=True):
            rows += self._waterfall(*self._place(node, given), num, min_order)
        columns = ["node", "target", "kind", "order", "features", "cross", "contribution"]
        return pd.DataFrame(rows, columns=[*columns, "logit", "completeness"])

    def _waterfall(self, node: int, target: int, num: int, min_order: int) -> list[tuple[Any, ...]]:
        paths = trace_paths(self.reading, node, target)
        expansion = expand_rows(self.reading, paths.nodes, paths.coefficients)
        codes, sums = expansion.sum_by_code()
        listed = np.flatnonzero(codes >= expansion.codes.base ** (min_order - 1))
        if listed.size > num:
            sizes = np.abs(sums[listed])
            listed = listed[sizes >= np.partition(sizes, -num)[-num]]
        listed = listed[np.argsort(-np.abs(sums[listed]), kind="stable")[:num]]
        logit = float(self.reading.logits[node, target])
        parts: list[tuple[str, int, tuple[int, ...], str, float]] = []
        if any(layer.bias.any() for layer in self.reading.layers):
            parts.append(("bias", 0, (), "bias", paths.bias))
        parts += [
            ("term", len(features), features, name_cross(self.space, features), float(amount))
            for features, amount in zip(
                expansion.codes.decode(codes[listed]), sums[listed], strict=True
            )
        ]
        rest = logit - paths.bias - paths.left_out - float(sums[listed].sum())
        if codes.size > listed.size:
            count = codes.size - listed.size
            parts.append(("rest", 0, (), f"{count:,} other terms", rest))
        if any(layer.order > 1 for layer in self.reading.layers[1:]):
            parts.append(("left out", 0, (), LEFT_OUT, paths.left_out))
        share = completeness(logit, paths.left_out)
        return [(node, target, *part, logit, share) for part in parts]

    def _place(self, node: int, target: int | None) -> tuple[int, int]:
        """The node and the class, the predicted one where none was given."""
        num_nodes, num_classes = self.reading.logits.shape
        node = check_integer("node", node)
        if not 0 <= node < num_nodes:
            raise BadInput(f"node {node} does not exist; the graph has nodes 0 to {num_nodes - 1}")
        if target is None:
            return node, int(self.reading.logits[node].argmax())
        target = check_integer("target", target)
        if not 0 <= target < num_classes:
            raise BadInput(f"class {target} does not exist; there are 0 to {num_classes - 1}")
        return node, target
