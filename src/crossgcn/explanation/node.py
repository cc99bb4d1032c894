"""Explain single nodes exactly: a class score as a sum of products of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from torch import nn

from crossgcn.data.features import FeatureSpace
from crossgcn.errors import BadInput
from crossgcn.explanation.arguments import Names, check_features, check_integer, name_cross
from crossgcn.explanation.expansion import MAX_ROWS, Expansion, TermCodes
from crossgcn.explanation.reading import Bools, Floats, Graph, Ints, Reading, read_model

if TYPE_CHECKING:
    from torch_geometric.explain import Explanation


NEIGHBOURS = "neighbours: "
"""Before the names of crosses in neighbours, summed over them."""


@dataclass(frozen=True)
class Step:
    """How a score depends on one layer.

    Attributes:
        targets: The nodes at which the layer is evaluated.
        slopes: Weight of each of its inputs (of the first layer: its units) in the score, summed
            over neighbours, before the gates, ``[targets, inputs]``.
        nodes: The nodes whose values the layer reads.
    """

    targets: Ints
    slopes: Floats
    nodes: Ints


class NodeExplanation:
    """A class score as a sum: bias, features, named crosses, and crosses without names.

    ``bias + frame.contribution.sum() + left_out`` equals ``logits[target]``, given which hidden
    units are active.

    Attributes:
        node: The explained node.
        target: The explained class.
        bias: What the biases of all layers add to the score.
        left_out: What crosses of hidden units add; 0 if only the first layer has crosses.
        nodes: Where the first layer multiplies features.
        hops: Distance of each from the explained node.
        coefficients: Weight of each unit's products in the score, ``[nodes, units]``.
        steps: One per layer, the last layer first.
        expansion: The first layer, multiplied out when a table is requested.
    """

    def __init__(self, reading: Reading, space: FeatureSpace, node: int, target: int) -> None:
        self.reading, self.space, self.node, self.target = reading, space, node, target
        self.bias = self.left_out = 0.0
        self.steps: list[Step] = []
        nodes, slopes = np.array([node]), np.zeros((1, reading.logits.shape[1]))
        slopes[0, target] = 1.0
        distance = {node: 0}
        for position in reversed(range(len(reading.layers))):
            layer, adjacency = reading.layers[position], reading.adjacencies[position]
            self.bias += float((slopes @ layer.bias).sum())
            if position:
                self.left_out += float((slopes * reading.crosses[position][nodes]).sum())
                slopes = slopes @ layer.first_order
            targets, at_targets = nodes, slopes
            if adjacency is not None and (position or not layer.aggregate_first):
                rows = adjacency[nodes]
                reached, rows.indices = np.unique(rows.indices, return_inverse=True)
                rows.resize((len(nodes), len(reached)))
                nodes, slopes = reached.astype(np.int64), np.asarray(rows.T @ slopes)
                distance = dict.fromkeys(nodes.tolist(), len(reading.layers) - position) | distance
            self.steps.append(Step(targets, at_targets, nodes))
            if position:
                slopes = slopes * (reading.outputs[position - 1][nodes] > 0)
        self.nodes, self.coefficients = nodes, slopes
        self.hops = np.array([distance[each] for each in nodes.tolist()], np.int64)
        self.expansion = Expansion(reading, nodes, slopes)

    @property
    def logits(self) -> Floats:
        """The scores of all classes."""
        return np.asarray(self.reading.logits[self.node])

    @property
    def completeness(self) -> float:
        """The share of the score that has names, ``|named| / (|named| + |left out|)``.

        Summing the sizes of single terms instead would be too optimistic: thousands of terms
        cancel each other.
        """
        named = abs(float(self.logits[self.target]) - self.left_out)
        return 1.0 if self.left_out == 0 else named / (named + abs(self.left_out))

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Every term, the largest contribution first.

        Columns: ``source``, the node whose features are multiplied (with ``aggregate_first``,
        whose neighbourhood's features); ``hops`` from the explained node; ``order``, ``features``
        and ``cross``, its name; ``value`` of the product; its ``weight``; ``contribution``, weight
        times value. ``by_cross`` and ``by_node`` need much less memory for large neighbourhoods.
        """
        return self._tabulate(self.expansion)

    def frame_of(self, sources: Sequence[int]) -> pd.DataFrame:
        """Return the rows of ``frame`` for some source nodes, without computing the others."""
        chosen = np.isin(self.nodes, np.asarray(sources, np.int64))
        coefficients = self.coefficients * chosen[:, np.newaxis]
        return self._tabulate(Expansion(self.reading, self.nodes, coefficients))

    def _tabulate(self, expansion: Expansion) -> pd.DataFrame:
        terms = expansion.list_terms()
        distinct, inverse = np.unique(terms.code, return_inverse=True)
        named = self._named(expansion.codes, distinct)
        frame = pd.DataFrame(
            {
                "source": self.nodes[terms.row],
                "hops": self.hops[terms.row],
                "order": named["order"].to_numpy()[inverse],
                "term": inverse,
                "value": terms.value,
                "contribution": terms.contribution,
            }
        )
        keys = ["source", "hops", "order", "term"]
        frame = frame.groupby(keys, sort=True, as_index=False).agg(
            value=("value", "first"), contribution=("contribution", "sum")
        )
        frame["weight"] = frame["contribution"] / frame["value"]
        position = frame.pop("term").to_numpy()
        for column in ("features", "cross"):
            frame[column] = named[column].to_numpy()[position]
        columns = ["source", "hops", "order", "features", "cross", "value", "weight"]
        return _largest_first(frame[[*columns, "contribution"]])

    @cached_property
    def _sums(self) -> list[tuple[str, Expansion, Ints, Floats]]:
        """The sum of each product over the node itself, and over its neighbours."""
        if self.reading.of_neighbourhoods:
            return [("neighbourhood", self.expansion, *self.expansion.sum_by_code())]
        sums = []
        for whose, chosen in (("own", self.nodes == self.node), *self._neighbourhood()):
            coefficients = self.coefficients * chosen[:, np.newaxis]
            expansion = Expansion(self.reading, self.nodes, coefficients)
            sums.append((whose, expansion, *expansion.sum_by_code()))
        return sums

    def _neighbourhood(self) -> list[tuple[str, Bools]]:
        others = self.nodes != self.node
        return [("neighbourhood", others)] if others.any() else []

    @cached_property
    def by_cross(self) -> pd.DataFrame:
        """Each feature and cross of the node itself, and each summed over its neighbours."""
        count = sum(codes.size for _, _, codes, _ in self._sums)
        if count > MAX_ROWS:
            raise BadInput(
                f"the score is a sum of {count:,} different terms, too many for one table (at "
                f"most {MAX_ROWS:,}); ask for the largest with NodeExplainer.top_crosses"
            )
        parts = []
        for whose, expansion, codes, sums in self._sums:
            frame = self._named(expansion.codes, codes)
            if whose != "own" and not self.reading.of_neighbourhoods:
                frame["cross"] = NEIGHBOURS + frame["cross"]
            parts.append(frame.assign(whose=whose, contribution=sums))
        return _largest_first(pd.concat(parts, ignore_index=True))

    @cached_property
    def by_feature(self) -> pd.DataFrame:
        """Each feature once; a cross counts in equal parts for the features it multiplies."""
        rows = [
            (feature, contribution / len(set(features)))
            for features, contribution in zip(
                self.by_cross["features"], self.by_cross["contribution"], strict=True
            )
            for feature in set(features)
        ]
        frame = pd.DataFrame(rows, columns=["feature", "contribution"])
        frame = frame.groupby("feature", as_index=False).agg(contribution=("contribution", "sum"))
        names = [self.space.names[each] for each in frame["feature"]]
        frame.insert(1, "name", pd.Series(names, dtype=object))
        return _largest_first(frame)

    @cached_property
    def by_node(self) -> pd.DataFrame:
        """Each source node once, with all its terms summed."""
        columns = {"source": self.nodes, "hops": self.hops}
        return _largest_first(pd.DataFrame(columns | {"contribution": self.expansion.sum_by_row()}))

    def waterfall(self, num: int, min_order: int = 1) -> list[tuple[Any, ...]]:
        """Return the largest terms and the rest; see :meth:`NodeExplainer.top_crosses`.

        Each row holds kind, order, features, name and contribution.
        """
        found: list[tuple[float, str, tuple[int, ...]]] = []
        for whose, expansion, codes, sums in self._sums:
            listed = np.flatnonzero(codes >= expansion.codes.base ** (min_order - 1))
            if listed.size > num:
                sizes = np.abs(sums[listed])
                listed = listed[sizes >= np.partition(sizes, -num)[-num]] if num else listed[:0]
            features = expansion.codes.decode(codes[listed])
            found += [
                (amount, whose, each)
                for each, amount in zip(features, sums[listed].tolist(), strict=True)
            ]
        found = sorted(found, key=lambda term: -abs(term[0]))[:num]
        parts: list[tuple[Any, ...]] = []
        if any(layer.bias.any() for layer in self.reading.layers):
            parts.append(("bias", 0, (), "bias", self.bias))
        for amount, whose, each in found:
            name = name_cross(self.space, each)
            if whose != "own" and not self.reading.of_neighbourhoods:
                name = NEIGHBOURS + name
            parts.append(("term", len(each), each, name, amount))
        others = sum(codes.size for _, _, codes, _ in self._sums) - len(found)
        if others:
            named = sum(amount for amount, _, _ in found)
            rest = float(self.logits[self.target]) - self.bias - self.left_out - named
            parts.append(("rest", 0, (), f"{others:,} other terms", rest))
        if any(layer.order > 1 for layer in self.reading.layers[1:]):
            parts.append(("left out", 0, (), "crosses of hidden units", self.left_out))
        return parts

    def to_pyg(self) -> Explanation:
        """Return PyG's ``Explanation``; see :func:`crossgcn.explanation.pyg.explanation_of`."""
        from crossgcn.explanation.pyg import explanation_of

        return explanation_of(self)

    def _named(self, numbering: TermCodes, codes: Ints) -> pd.DataFrame:
        """Return order, features and name of each product."""
        features = numbering.decode(codes)
        return pd.DataFrame(
            {
                "order": np.array([len(each) for each in features], np.int64),
                "features": pd.Series(features, dtype=object),
                "cross": pd.Series([name_cross(self.space, f) for f in features], dtype=object),
            }
        )


def _largest_first(frame: pd.DataFrame) -> pd.DataFrame:
    order = np.argsort(-frame["contribution"].abs().to_numpy(), kind="stable")
    return frame.iloc[order].reset_index(drop=True)


def explain_node(
    model: nn.Module, graph: Graph, node: int, *, target: int | None = None, space: Names = None
) -> NodeExplanation:
    """Explain the score of one class, by default the predicted one, at one node.

    The model is explained as in evaluation mode, without dropout. ``space`` names the features.
    """
    return NodeExplainer(model, graph, space).explain(node, target)


class NodeExplainer:
    """Explains any number of nodes of one graph; the model is read once."""

    def __init__(self, model: nn.Module, graph: Graph, space: Names = None) -> None:
        self.reading: Reading = read_model(model, graph)
        self.space = check_features(space, self.reading.num_features)

    def explain(self, node: int, target: int | None = None) -> NodeExplanation:
        """Explain one class score of one node; see :func:`explain_node`."""
        num_nodes, num_classes = self.reading.logits.shape
        node = check_integer("node", node)
        if not 0 <= node < num_nodes:
            raise BadInput(f"node {node} does not exist; the graph has nodes 0 to {num_nodes - 1}")
        if target is None:
            target = int(self.reading.logits[node].argmax())
        target = check_integer("target", target)
        if not 0 <= target < num_classes:
            raise BadInput(f"class {target} does not exist; there are 0 to {num_classes - 1}")
        return NodeExplanation(self.reading, self.space, node, target)

    def top_crosses(
        self,
        nodes: Sequence[int],
        num: int = 8,
        *,
        targets: Sequence[int] | None = None,
        min_order: int = 1,
    ) -> pd.DataFrame:
        """Return the largest terms of a score, and the rest of it, for many nodes.

        The rows of a node add up to its score exactly. ``kind`` is ``bias``, ``term`` for each of
        the largest features and crosses (of the node itself, or summed over its neighbours and
        named ``neighbours: ...``), ``rest`` for all other terms together, and ``left out`` for
        crosses of hidden units.

        Args:
            num: How many terms for each node.
            targets: A class per node; the predicted classes by default.
            min_order: 2 lists crosses only; single features then count to the rest.

        Returns:
            Columns ``node``, ``target``, ``kind``, ``order``, ``features``, ``cross``,
            ``contribution``, and ``logit`` and ``completeness`` of the node.
        """
        num = check_integer("num", num, at_least=0)
        wanted = [None] * len(nodes) if targets is None else list(targets)
        rows: list[tuple[Any, ...]] = []
        for node, target in zip(nodes, wanted, strict=True):
            found = self.explain(node, target)
            logit = float(found.logits[found.target])
            for part in found.waterfall(num, min_order):
                rows.append((found.node, found.target, *part, logit, found.completeness))
        columns = ["node", "target", "kind", "order", "features", "cross", "contribution"]
        return pd.DataFrame(rows, columns=[*columns, "logit", "completeness"])
