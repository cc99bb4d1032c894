"""Explains :class:`~crossgcn.CrossHops`: a score is a polynomial of the columns of one node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph

from crossgcn.explanation.columns import Names, hop_columns
from crossgcn.explanation.explainer import Explainer
from crossgcn.explanation.polynomial import Floats, Ints, Polynomial, as_array, margins
from crossgcn.explanation.purify import most_nodes
from crossgcn.graph import SparseMatrix
from crossgcn.graph.neighbourhood import NeighbourLabels
from crossgcn.models.cross_hops import CrossHops

_LEAST_NODES = 200
_MOST_NEIGHBOURS = 200
"""How many neighbours of a node are left out one by one."""


class HopExplainer(Explainer):
    """Explains a :class:`~crossgcn.CrossHops`.

    Args:
        labels: What neighbours show of their labels.
    """

    meaning = (
        "A neighbour's contribution is the score minus what it would be without the edge; at most "
        f"{_MOST_NEIGHBOURS} neighbours are tried. Means over neighbours are smoothed: where "
        "neighbours are few, they are drawn towards the mean of all nodes."
    )

    def __init__(
        self,
        model: CrossHops,
        data: Data,
        names: Names,
        contrast: tuple[Any, Any] | None = None,
        labels: NeighbourLabels | None = None,
    ) -> None:
        self.model, self.data, self.labels = model, data, labels
        if model.target_scale is not None:
            mean, deviation = as_array(model.target_scale).tolist()
            names = replace(names, numbers={**names.numbers, names.classes[0]: (mean, deviation)})
        columns = hop_columns(model.plan, names, model.scale)
        num_classes = len(names.classes)
        polynomial = Polynomial.of_model(model, margins(num_classes, names.pair(contrast)))
        super().__init__(names, columns, len(columns), polynomial, contrast)
        self._of_classes = Polynomial.of_model(model, np.eye(num_classes))
        weight = data.get("edge_weight")
        self._inputs = self._compute(data.x, data.edge_index, weight, labels)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph."""
        return int(self._inputs.shape[0])

    def inputs(self, nodes: Ints) -> Floats:
        """Return the standardised columns of some nodes."""
        return self._rows(self._inputs, nodes)

    def class_scores(self, node: int, projected: Floats) -> Floats:
        """Return the scores of classes for other projections of a node's columns."""
        return self._of_classes.mean(self._of_classes.evaluate(projected))

    def _sample(self) -> Ints:
        """Return all nodes, or as many as fit into memory."""
        nodes = np.arange(self.num_nodes)
        most = max(most_nodes(self.polynomial, len(self.columns)), _LEAST_NODES)
        if len(nodes) <= most:
            return nodes
        return np.unique(np.random.default_rng(0).choice(nodes, most, replace=False))

    def _scores(self, evaluated: Floats) -> Floats:
        return self.polynomial.mean(evaluated)

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
        near = torch.tensor(list(dict.fromkeys(near.tolist()))[:_MOST_NEIGHBOURS], dtype=torch.long)
        without = self._without_each(node, near)
        if self.model.plan.directed:
            outgoing = self._without_each(node, near, outgoing=True)
            without = np.where(self._describes_outgoing(), outgoing, without)
        rows = np.concatenate([self.inputs(np.array([node])), without])
        scores = self._scores(self.polynomial.evaluate(self.polynomial.project(rows)))
        return near.numpy(), scores[0] - scores[1:]

    def _without_each(self, node: int, near: Tensor, *, outgoing: bool = False) -> Floats:
        """Return the inputs of copies of a node, each without one of its neighbours.

        Only the nodes that the inputs depend on are looked at. The copies have the edges into
        the node, or those out of it; only the columns of this direction are right.
        """
        data, count = self.data, len(near)
        if not count:
            return np.zeros((0, self.model.plan.num_columns))
        edges = data.edge_index.flip(0) if outgoing else data.edge_index
        nodes, (sources, targets), place, inside = k_hop_subgraph(
            node, self.model.plan.hops, edges, True, data.num_nodes
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
        inputs = self._compute(x, edges.flip(0) if outgoing else edges, weight, labels)
        return self._rows(inputs, len(nodes) + np.arange(count))

    def _describes_outgoing(self) -> NDArray[np.bool_]:
        """Return which columns are of out-neighbours; those of in-neighbours stand before them."""
        plan = self.model.plan
        sizes = [plan.num_features] * plan.num_blocks + [1, 1]
        sizes += [plan.num_labels + 1] * (2 * plan.label_hops)
        return np.repeat([False, *(block % 2 == 1 for block in range(len(sizes)))],
                         [plan.num_features, *sizes])  # fmt: skip

    def _compute(
        self, x: Tensor, edges: Tensor, weight: Tensor | None, labels: NeighbourLabels | None
    ) -> Any:
        with torch.no_grad():
            return self.model.columns(x, edges, weight, labels)

    def _rows(self, inputs: Any, nodes: Ints) -> Floats:
        if isinstance(inputs, SparseMatrix):  # not centered
            shift = as_array(self.model.center) / as_array(self.model.deviation)
            rows: Floats = inputs.to_scipy()[nodes].toarray().astype(np.float64) - shift
            return rows
        return as_array(inputs[nodes])
