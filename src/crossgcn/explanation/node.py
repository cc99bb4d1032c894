"""Exact explanations of single nodes, one or hundreds of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import nn

from crossgcn.data.features import FeatureSpace
from crossgcn.errors import BadInput
from crossgcn.explanation.arguments import check_integer
from crossgcn.explanation.layer_reading import Floats
from crossgcn.explanation.names import fitting_space, name_cross, object_column
from crossgcn.explanation.reading import Graph, Reading, read_model
from crossgcn.explanation.rows import MAX_ROWS, Expansion, RowTerms, expand_rows
from crossgcn.explanation.terms import TermCodes

if TYPE_CHECKING:
    from torch_geometric.explain import Explanation

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """What one layer receives.

    Attributes:
        targets: The nodes at which the layer is evaluated.
        slopes: What each of its inputs counts there, summed over neighbours and not yet
            gated, ``[targets, inputs]``; of the first layer, what each unit counts.
        nodes: The nodes it looks at.
    """

    targets: Ints
    slopes: Floats
    nodes: Ints


@dataclass(frozen=True)
class Paths:
    """How a class score hangs on the first layer, the active units given.

    Attributes:
        nodes: Where the first layer's products of features are formed.
        hops: How far each is from the node explained.
        coefficients: What a unit's products there count, ``[nodes, units]``.
        bias: What the layers' biases add.
        left_out: What crosses of hidden units add, which have no names.
        steps: Layer by layer, the last first.
    """

    nodes: Ints
    hops: Ints
    coefficients: Floats
    bias: float
    left_out: float
    steps: tuple[Step, ...]


def trace_paths(reading: Reading, node: int, target: int) -> Paths:
    """Follow one score back.

    Args:
        reading: The model on its graph.
        node: Whose score.
        target: Which class.
    """
    nodes = np.array([node])
    slopes = np.zeros((1, reading.logits.shape[1]))
    slopes[0, target] = 1.0
    bias = left_out = 0.0
    distance = {node: 0}
    steps = []
    for position in reversed(range(len(reading.layers))):
        layer, adjacency = reading.layers[position], reading.adjacencies[position]
        bias += float((slopes @ layer.bias).sum())
        if position:
            left_out += float((slopes * reading.crosses[position][nodes]).sum())
            slopes = slopes @ layer.first_order
        targets, at_targets = nodes, slopes
        if adjacency is not None and (position or not layer.aggregate_first):
            nodes, slopes = _spread(adjacency, nodes, slopes)
            hops = len(reading.layers) - position
            distance = dict.fromkeys(nodes.tolist(), hops) | distance
        steps.append(Step(targets, at_targets, nodes))
        if position:
            slopes = slopes * reading.gates[position - 1][nodes]
    hops_of = np.array([distance[each] for each in nodes.tolist()], np.int64)
    return Paths(nodes, hops_of, slopes, bias, left_out, tuple(steps))


def _spread(adjacency: Any, nodes: Ints, slopes: Floats) -> tuple[Ints, Floats]:
    """From what sums over neighbours count to what the neighbours do."""
    rows = adjacency[nodes]
    reached, rows.indices = np.unique(rows.indices, return_inverse=True)
    rows.resize((len(nodes), len(reached)))
    return reached.astype(np.int64), np.asarray(rows.T @ slopes)


LEFT_OUT: Final = "crosses of hidden units"


@dataclass(frozen=True)
class NodeExplanation:
    """A class score as a sum: bias, features, named crosses, and what has no name.

    ``bias + frame.contribution.sum() + left_out`` is ``logits[target]``.

    Attributes:
        node: The node explained.
        target: The class whose score it is.
        logits: The scores of all classes.
        reading: The model on its graph.
        paths: How the score hangs on the first layer.
        expansion: The first layer, which is multiplied out as far as it is asked for.
        space: Names of the features.
    """

    node: int
    target: int
    logits: Floats
    reading: Reading
    paths: Paths
    expansion: Expansion
    space: FeatureSpace

    @property
    def bias(self) -> float:
        """What the layers' biases add to the score."""
        return self.paths.bias

    @property
    def left_out(self) -> float:
        """What crosses of hidden units add; 0 where only the first layer crosses."""
        return self.paths.left_out

    @property
    def completeness(self) -> float:
        """How much of the score has a name; see :func:`completeness`."""
        return completeness(float(self.logits[self.target]), self.left_out)

    @cached_property
    def terms(self) -> RowTerms:
        """Every node's every term, by number; a product that folds may come more than once."""
        return self.expansion.list_terms()

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Every term, the largest first.

        Columns: ``source``, the node whose features are multiplied (with
        ``aggregate_first``, whose neighbourhood's); ``hops`` from the node explained;
        ``order``, ``features`` and ``cross``, its name; ``value`` of the product; ``weight``
        with which it counts; ``contribution``, the product of both. It is made when first asked
        for; ``by_cross`` and ``by_node`` need much less where there are many nodes.
        """
        return self._tabulate(self.paths, self.terms, self.expansion.codes)

    def frame_of(self, sources: Sequence[int]) -> pd.DataFrame:
        """The rows of ``frame`` that come from some nodes, without making the others.

        Args:
            sources: Which nodes.
        """
        chosen = np.flatnonzero(np.isin(self.paths.nodes, np.asarray(sources, np.int64)))
        paths = replace(
            self.paths,
            nodes=self.paths.nodes[chosen],
            hops=self.paths.hops[chosen],
            coefficients=self.paths.coefficients[chosen],
        )
        expansion = expand_rows(self.reading, paths.nodes, paths.coefficients)
        return self._tabulate(paths, expansion.list_terms(), expansion.codes)

    def _tabulate(self, paths: Paths, terms: RowTerms, numbering: TermCodes) -> pd.DataFrame:
        codes, inverse = np.unique(terms.code, return_inverse=True)
        features, names = self._names(numbering, codes)
        frame = pd.DataFrame(
            {
                "source": paths.nodes[terms.row],
                "hops": paths.hops[terms.row],
                "order": np.array([len(each) for each in features], np.int64)[inverse],
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
        frame["features"] = object_column(features)[position]
        frame["cross"] = object_column(names)[position]
        columns = ["source", "hops", "order", "features", "cross", "value", "weight"]
        return _largest_first(frame[[*columns, "contribution"]])

    @cached_property
    def by_cross(self) -> pd.DataFrame:
        """Each feature and cross once, its contributions added up over the nodes they come from."""
        codes, sums = self.expansion.sum_by_code()
        if codes.size > MAX_ROWS:
            raise BadInput(
                f"the score is made of {codes.size:,} different terms, too many for one table (at "
                f"most {MAX_ROWS:,}); ask for the largest with NodeExplainer.top_crosses"
            )
        features, names = self._names(self.expansion.codes, codes)
        return _largest_first(
            pd.DataFrame(
                {
                    "order": np.array([len(each) for each in features], np.int64),
                    "features": object_column(features),
                    "cross": object_column(names),
                    "contribution": sums,
                }
            )
        )

    @cached_property
    def by_feature(self) -> pd.DataFrame:
        """Each feature once; a cross counts in equal parts for the features it multiplies."""
        rows = [
            (feature, contribution / len(members))
            for features, contribution in zip(
                self.by_cross["features"], self.by_cross["contribution"], strict=True
            )
            for members in (set(features),)
            for feature in members
        ]
        frame = pd.DataFrame(rows, columns=["feature", "contribution"])
        frame = frame.groupby("feature", as_index=False).agg(contribution=("contribution", "sum"))
        frame.insert(
            1, "name", object_column([self.space.names[each] for each in frame["feature"]])
        )
        return _largest_first(frame)

    @cached_property
    def by_node(self) -> pd.DataFrame:
        """Each node that contributes once, with all its terms added up."""
        sums = self.expansion.sum_by_row()
        return _largest_first(
            pd.DataFrame(
                {"source": self.paths.nodes, "hops": self.paths.hops, "contribution": sums}
            )
        )

    def to_pyg(self) -> Explanation:
        """As PyG's ``Explanation``: a mask of features of nodes, and one of edges.

        See :func:`crossgcn.explanation.pyg.explanation_of`.
        """
        from crossgcn.explanation.pyg import explanation_of

        return explanation_of(self)

    def _names(
        self, numbering: TermCodes, codes: NDArray[np.int64]
    ) -> tuple[list[tuple[int, ...]], list[str]]:
        features = numbering.decode(codes)
        return features, [name_cross(self.space, each) for each in features]


def completeness(logit: float, left_out: float) -> float:
    """The share of a score that has a name: 1 where nothing is left out.

    Both parts are taken as wholes, ``|named| / (|named| + |left out|)``. Adding up the
    sizes of single terms instead would flatter: thousands of them cancel each other.

    Args:
        logit: The score.
        left_out: The part of it that crosses of hidden units make up.
    """
    named = abs(logit - left_out)
    return 1.0 if left_out == 0 else named / (named + abs(left_out))


def _largest_first(frame: pd.DataFrame) -> pd.DataFrame:
    order = np.argsort(-frame["contribution"].abs().to_numpy(), kind="stable")
    return frame.iloc[order].reset_index(drop=True)


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
