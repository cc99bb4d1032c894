"""One interface to the terms of both kinds of models: of hop columns, and of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph

from crossgcn.data.features import FeatureSpace
from crossgcn.explanation.columns import (
    ColumnTerms,
    column_terms,
    dense_rows,
    group_columns,
    name_outputs,
)
from crossgcn.explanation.layered import Flow, layered_groups, layered_terms
from crossgcn.explanation.polynomial import Polynomial, as_array, margins
from crossgcn.explanation.reading import Floats, Graph, Ints, read_model
from crossgcn.graph.neighbourhood import NeighbourLabels
from crossgcn.graph.sampling.source import Features
from crossgcn.models.cross_hops import CrossHops

Numbers = Mapping[str, tuple[float, float]]
"""Mean and deviation by which the numbers of a table were standardised."""

_MOST_NEIGHBOURS, _MOST_DIRECTED = 200, 20
"""How many neighbours of a node are left out one by one."""


class HopExplainer:
    """Explains a :class:`~crossgcn.CrossHops` on a graph.

    Args:
        classes: Names of the classes, or the name of the number.
        labels: What neighbours show of their labels.
        target: The column that is predicted, if it holds classes.
        relation: What neighbours are called.
        contrast: Explain the score of one class minus that of another.
        cut: Log-odds above which the second of two classes is predicted.
    """

    meaning = (
        "A neighbour's contribution is the score minus what it would be without the edge; at most "
        f"{_MOST_NEIGHBOURS} neighbours are tried ({_MOST_DIRECTED} along directed edges). "
        "Means over neighbours are smoothed: where neighbours are few, they are drawn towards the "
        "mean of all nodes."
    )

    def __init__(
        self,
        model: CrossHops,
        data: Data,
        space: FeatureSpace,
        classes: Sequence[str],
        *,
        labels: NeighbourLabels | None = None,
        target: str = "label",
        relation: str = "neighbours",
        numbers: Numbers | None = None,
        contrast: tuple[int, int] | None = None,
        cut: float = 0.0,
    ) -> None:
        self.model, self.data, self.classes, self.labels = model, data, classes, labels
        self.contrast, self.cut = contrast, cut
        if model.target_scale is not None:
            mean, deviation = as_array(model.target_scale).tolist()
            numbers = {**(numbers or {}), classes[0]: (mean, deviation)}
        self.groups = group_columns(
            model.plan, space, classes, target, relation, scale=model.scale, numbers=numbers
        )
        self.polynomial = Polynomial.of_model(model)
        self._columns = self._compute(data.x, data.edge_index, data.get("edge_weight"), labels)

    def terms(self, *, node: int | None = None, raw: bool = False) -> ColumnTerms:
        """Return the terms of all nodes, or of a sample with ``node`` in it."""
        return column_terms(
            self.model,
            self._columns,
            self.groups,
            self.classes,
            node=node,
            raw=raw,
            contrast=self.contrast,
        )

    def own_row(self, node: int) -> Floats:
        """Return the columns of a node, ``[1, columns]``."""
        return dense_rows(self._columns, np.array([node]), self.model)

    def scores_after(self, node: int, projected: Floats) -> Floats:
        """Return the scores of a node for other projections of its columns, ``[rows, outputs]``."""
        scores = self.polynomial.mean_of_bags(self.polynomial.evaluate(projected))
        return np.asarray(scores + self.polynomial.bias)

    def work(self, node: int) -> int:
        """Return how much one evaluation of a node's scores costs: the same for all nodes."""
        return 1

    def neighbours(self, node: int) -> tuple[Ints, Floats]:
        """Return the neighbours of a node, and how much its scores change without each.

        Removing one neighbour changes the means of the others, their number and their labels.
        Of many neighbours only those with the largest edge weights are removed.
        """
        sources, targets = self.data.edge_index
        weight = self.data.get("edge_weight")
        into = (targets == node) & (sources != node)
        out = (sources == node) & (targets != node) & self.model.plan.directed
        near = torch.cat([sources[into], targets[out]])
        if weight is not None:
            near = near[torch.cat([weight[into], weight[out]]).argsort(descending=True)]
        near = torch.from_numpy(np.array(list(dict.fromkeys(near.tolist())), np.int64))
        if self.model.plan.directed:
            near = near[:_MOST_DIRECTED]
            rows = [self._without(node, int(each)) for each in near]
            without = np.concatenate(rows) if rows else np.zeros((0, self.model.plan.num_columns))
        else:
            without = self._without_each(node, near[:_MOST_NEIGHBOURS])
        polynomial = Polynomial.of_model(self.model, self.contrast)
        everything = np.arange(without.shape[1])
        scores = polynomial.mean_of_bags(
            polynomial.evaluate(
                polynomial.project(np.concatenate([self.own_row(node), without]), everything)
            )
        )
        return near[: len(without)].numpy(), scores[0] - scores[1:]

    def _without(self, node: int, neighbour: int) -> Floats:
        """Return the columns of a node without its edges from and to a neighbour."""
        (sources, targets), weight = self.data.edge_index, self.data.get("edge_weight")
        ends = torch.tensor([[node, neighbour], [neighbour, node]])
        kept = ~((torch.stack([sources, targets], 1)[:, None] == ends).all(2).any(1))
        weight = None if weight is None else weight[kept]
        columns = self._compute(self.data.x, self.data.edge_index[:, kept], weight, self.labels)
        return dense_rows(columns, np.array([node]), self.model)

    def _without_each(self, node: int, near: Tensor) -> Floats:
        """Return the columns of copies of a node, each without one of its neighbours.

        Only the nodes that the columns depend on are looked at.
        """
        data, count = self.data, len(near)
        if not count:
            return np.zeros((0, self.model.plan.num_columns))
        nodes, (sources, targets), place, inside = k_hop_subgraph(
            node, self.model.plan.hops, data.edge_index, True, data.num_nodes
        )
        into = (targets == place) & (sources != place)
        kept = nodes[sources[into]] != near[:, None]
        copy, edge = kept.nonzero(as_tuple=True)
        copies = torch.stack([sources[into][edge], len(nodes) + copy])
        weight = data.get("edge_weight")
        if weight is not None:
            weight = torch.cat([weight[inside], weight[inside][into][edge]])
        labels = self.labels
        if labels is not None:  # The copies must not see the node's own label.
            shown = labels.values[labels.known]
            known = torch.cat([labels.known[nodes], labels.known.new_zeros(count)])
            known[place] = False
            labels = NeighbourLabels(
                labels.values[torch.cat([nodes, nodes[place].repeat(count)])],
                known,
                shown.mean(0) if labels.prior is None else labels.prior,
            )
        x = data.x[nodes] if data.x.layout == torch.strided else data.x.to_dense()[nodes]
        x = torch.cat([x, x[place].repeat(count, 1)])
        edges = torch.cat([torch.stack([sources, targets]), copies], 1)
        columns = self._compute(x, edges, weight, labels)
        return dense_rows(columns, len(nodes) + np.arange(count), self.model)

    def _compute(
        self, x: Tensor, edges: Tensor, weight: Tensor | None, labels: NeighbourLabels | None
    ) -> Features:
        with torch.no_grad():
            return self.model.columns(x, edges, weight, labels)


class LayeredExplainer:
    """Explains a model of one or two layers that sum over neighbours, or of none.

    The arguments are those of :class:`HopExplainer`.
    """

    meaning = "A neighbour's contribution is what it adds beyond an average node in its place."

    def __init__(
        self,
        model: nn.Module,
        graph: Graph,
        space: FeatureSpace,
        classes: Sequence[str],
        *,
        relation: str = "neighbours",
        numbers: Numbers | None = None,
        contrast: tuple[int, int] | None = None,
        cut: float = 0.0,
    ) -> None:
        self.reading = read_model(model, graph)
        self.classes, self.contrast, self.cut = classes, contrast, cut
        self._shift, self._deviation = 0.0, 1.0
        scale: Any = getattr(model, "target_scale", None)
        if scale is not None:
            self._shift, self._deviation = as_array(scale).tolist()
        self.groups = layered_groups(self.reading, space, relation, numbers)
        self.polynomial = Polynomial.of_layer(self.reading.layers[0])

        self._flows: dict[tuple[int, int] | None, Flow] = {}

    def _flow(self, contrast: tuple[int, int] | None) -> Flow:
        if contrast not in self._flows:
            margin = self._deviation * margins(len(self.classes), contrast)
            self._flows[contrast] = Flow(self.reading, margin)
        return self._flows[contrast]

    @cached_property
    def _beyond_average(self) -> Floats:
        """The units of the first layer of all nodes, without their mean."""
        units = self._units(self.reading.inputs.toarray())
        return np.asarray(units - units.mean(axis=0))

    def terms(self, *, node: int | None = None, raw: bool = False) -> ColumnTerms:
        """Return the purified terms of all nodes."""
        names, unit = name_outputs(self.classes, self.contrast)
        return layered_terms(self._flow(self.contrast), self.groups, names, unit, shift=self._shift)

    def own_row(self, node: int) -> Floats:
        """Return the features of a node, ``[1, features]``."""
        return np.asarray(self.reading.inputs[[node]].toarray())

    def scores_after(self, node: int, projected: Floats) -> Floats:
        """Return the scores of a node for other projections of its columns, ``[rows, outputs]``."""
        change = self.polynomial.evaluate(projected) - self._units(self.own_row(node))
        return self._flow(None).after_change(node, change) + self._shift

    def work(self, node: int) -> int:
        """Return how much one evaluation of a node's scores costs: its number of neighbours."""
        last = self._flow(None).sums[-1]
        return int(last.indptr[node + 1] - last.indptr[node])

    def neighbours(self, node: int) -> tuple[Ints, Floats]:
        """Return the neighbours of a node, and what each contributes beyond an average node."""
        nodes, sums = self._flow(self.contrast).sources(node, self._beyond_average)
        others = nodes != node
        return nodes[others], sums[others]

    def _units(self, rows: Floats) -> Floats:
        everything = np.arange(rows.shape[1])
        return self.polynomial.evaluate(self.polynomial.project(rows, everything))


Explainer = HopExplainer | LayeredExplainer
