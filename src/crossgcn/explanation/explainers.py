"""From a model, its graph and names to an explanation.

The scores of :class:`~crossgcn.CrossHops` are a polynomial of the columns of one node, which
:mod:`~crossgcn.explanation.purify` splits into terms. Of a model that sums over neighbours, the
first layer is such a polynomial. What follows is linear, given which hidden units are active, so
each term is followed to the scores: from the node itself, and from its neighbours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph

from crossgcn.explanation.columns import (
    MOST_COLUMNS,
    Column,
    Names,
    Outputs,
    hop_columns,
    layer_columns,
)
from crossgcn.explanation.polynomial import (
    Floats,
    Ints,
    Polynomial,
    as_array,
    read_hops,
    read_model,
    target_scale,
)
from crossgcn.explanation.purify import Key, Terms, most_nodes
from crossgcn.explanation.terms import Explanation, make_term
from crossgcn.graph import SparseMatrix
from crossgcn.graph.neighbourhood import NeighbourLabels
from crossgcn.graph.sparse_matrix import select_rows
from crossgcn.models.cross_hops import CrossHops

_LEAST_NODES = 200
_MOST_NEIGHBOURS = 200
"""How many neighbours of a node are left out one by one."""


class Explainer(ABC):
    """Explains a model on a graph.

    Attributes:
        columns: The columns that terms have. The first ``num_inputs`` are the groups of inputs.
        dropped: Names of the columns that the model does not read.
        polynomial: What the model computes of the inputs of a node: scores, or hidden units.
        near: For models that sum over neighbours: the weight of each node in the sum of each
            other. Columns of the neighbourhood are then those of the neighbours themselves.
        meaning: What a contribution of :meth:`neighbours` is.
        limits: What the model does with values that it was not trained on.
    """

    columns: tuple[Column, ...]
    dropped: tuple[str, ...] = ()
    num_inputs: int
    polynomial: Polynomial
    near: Any = None
    meaning: ClassVar[str]
    limits: ClassVar[str] = ""

    def __init__(self, names: Names, num_nodes: int, outputs: Outputs) -> None:
        self.names, self.num_nodes, self.outputs = names, num_nodes, outputs

    @abstractmethod
    def inputs(self, nodes: Ints) -> Floats:
        """Return the inputs of some nodes, ``[nodes, inputs]``."""

    @abstractmethod
    def predict(self, node: int, projected: Floats) -> Ints:
        """Return the class that is predicted for each of other projections of a node's inputs."""

    @abstractmethod
    def neighbours(self, node: int) -> tuple[Ints, Floats]:
        """Return the neighbours of a node, and what each contributes, ``[nodes, outputs]``."""

    def _sample(self) -> Ints:
        """Return the nodes that terms are fitted on: all, or as many as fit into memory."""
        nodes = np.arange(self.num_nodes)
        most = max(most_nodes(self.polynomial, self.num_inputs), _LEAST_NODES)
        if len(nodes) <= most:
            return nodes
        return np.unique(np.random.default_rng(0).choice(nodes, most, replace=False))

    def _follow(self, terms: Terms) -> Iterator[tuple[Key, Floats]]:
        """Yield what the terms of the polynomial contribute to the scores, by columns."""
        return terms.purify()

    def _scores(self, evaluated: Floats) -> Floats:
        """Return the explained scores, ``[nodes, outputs]``, from what the polynomial gives."""
        return self.polynomial.mean(evaluated)

    def explain(self, node: int | None = None) -> Explanation:
        """Return the terms of all nodes, or of a sample of a large graph and of ``node``."""
        nodes = self._sample()
        num_fitted = len(nodes)
        if node is not None and node not in nodes:
            nodes = np.append(nodes, node)
        inputs = self.inputs(nodes)
        groups = [column.places for column in self.columns[: self.num_inputs]]
        terms = Terms(self.polynomial, inputs, groups, num_fitted)
        found = {
            key: make_term(key, self.columns, part, self.polynomial.bags, num_fitted)
            for key, part in self._follow(terms)
        }
        rest = found.pop((), None)
        scores = self._scores(terms.scores)
        return Explanation(
            outputs=self.outputs.names,
            unit=self.outputs.unit,
            nodes=nodes,
            scores=scores,
            average=scores[:num_fitted].mean(axis=0),
            terms=tuple(found[key] for key in sorted(found)),
            rest=rest,
            inputs=inputs,
            explainer=self,
            num_unlisted=terms.num_unlisted,
        )

    def project(self, node: int) -> Floats:
        """Return the projections of the inputs of a node, ``[1 + order, 1, units]``."""
        return self.polynomial.project(self.inputs(np.array([node])))


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
    limits = "Values beyond those of the training nodes count as the nearest of these."

    def __init__(
        self,
        model: CrossHops,
        data: Data,
        names: Names,
        contrast: tuple[Any, Any] | None = None,
        labels: NeighbourLabels | None = None,
    ) -> None:
        self.model, self.data, self.labels = model, data, labels
        super().__init__(names, data.x.size(0), names.outputs(contrast))
        self.polynomial = read_hops(model, self.outputs.margin)
        self._of_classes = read_hops(model, np.eye(len(names.classes)))
        numbers = dict(names.numbers)
        if model.target_scale is not None:
            numbers[names.classes[0]] = target_scale(model)
        columns = hop_columns(model.plan, replace(names, numbers=numbers), model.scale)
        is_read = model.is_read.numpy()
        self.columns = tuple(each for each in columns if is_read[each.places].any())
        self.dropped = tuple(each.name for each in columns if not is_read[each.places].any())
        self.num_inputs = len(self.columns)
        self._inputs = self._compute(data.x, data.edge_index, data.get("edge_weight"), labels)

    def inputs(self, nodes: Ints) -> Floats:
        """Return the standardised columns of some nodes."""
        return self._rows(self._inputs, nodes)

    def predict(self, node: int, projected: Floats) -> Ints:
        """Return the class that is predicted for each of other projections of a node's columns."""
        return np.asarray(
            self._of_classes.mean(self._of_classes.evaluate(projected)).argmax(axis=1)
        )

    def neighbours(self, node: int) -> tuple[Ints, Floats]:
        """Return the neighbours of a node, and how much its scores change without each.

        Removing one neighbour changes the means of the others, their number and their labels.
        Of many neighbours only those with the largest edge weights are removed.
        """
        (sources, targets), weight = self.data.edge_index, self.data.get("edge_weight")
        plan = self.model.plan
        into = (targets == node) & (sources != node)
        out = (sources == node) & (targets != node) & plan.directed
        near = torch.cat([sources[into], targets[out]])
        if weight is not None:
            near = near[torch.cat([weight[into], weight[out]]).argsort(descending=True)]
        near = torch.tensor(list(dict.fromkeys(near.tolist()))[:_MOST_NEIGHBOURS], dtype=torch.long)
        without = self._without_each(node, near)
        if plan.directed:  # After the own columns, those of in- and out-neighbours take turns.
            sizes = [plan.num_features] * plan.num_blocks + [1, 1]
            sizes += [plan.num_labels + 1] * (2 * plan.label_hops)
            is_out = np.repeat(np.arange(len(sizes)) % 2 == 1, sizes)
            is_out = np.append(np.zeros(plan.num_features, bool), is_out)
            without = np.where(is_out, self._without_each(node, near, outgoing=True), without)
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

    def _compute(self, *graph: Any) -> Any:
        with torch.no_grad():
            return self.model.columns(*graph)

    def _rows(self, inputs: Any, nodes: Ints) -> Floats:
        rows = select_rows(inputs, torch.from_numpy(nodes))
        if isinstance(rows, SparseMatrix):  # not centered
            shift = as_array(self.model.center) / as_array(self.model.deviation)
            return np.asarray(rows.to_scipy().toarray().astype(np.float64) - shift)
        return as_array(rows)


class LayeredExplainer(Explainer):
    """Explains a model of one or two layers that sum over neighbours, or of none.

    One layer is treated as two, of which the second adds nothing: it sums over the node alone,
    and all units are active.
    """

    meaning = "A neighbour's contribution is what it adds beyond an average node in its place."

    def __init__(
        self,
        model: nn.Module,
        data: Data,
        names: Names,
        contrast: tuple[Any, Any] | None = None,
    ) -> None:
        self.reading = reading = read_model(model, data)
        super().__init__(names, data.x.size(0), names.outputs(contrast))
        self.polynomial = reading.layers[0]
        self.columns = layer_columns(names, has_edges=reading.has_edges)
        self.num_inputs = len(set(names.features.fields))
        self._shift, deviation = target_scale(model)
        self._margin = deviation * self.outputs.margin
        self._last = reading.layers[1] if len(reading.layers) == 2 else None
        identity = sp.eye_array(self.num_nodes, format="csr")
        first, second = (*reading.adjacencies, None)[:2]
        self._first = identity if first is None else first
        self._second = identity if second is None else second
        self._active = np.ones_like(reading.outputs[0])
        self._readout = self._margin.T
        if self._last is not None:
            self._active = (reading.outputs[0] > 0).astype(np.float64)
            self._readout = (self._margin @ self._last.weights[0]).T
        if reading.has_edges:
            self.near = sp.csr_array(self._first - sp.diags_array(self._first.diagonal()))
        self._units = self.polynomial.evaluate(self.polynomial.project(reading.inputs))

    def refusal(self) -> str:
        """Return why the model has no terms by column; empty if it has."""
        layers, inputs = self.reading.layers, self.num_inputs
        if inputs > MOST_COLUMNS:
            return f"it has {inputs:,} columns, and terms are for at most {MOST_COLUMNS} columns"
        if len(layers) > 2:
            return f"it has {len(layers)} layers, and terms are for one or two"
        if self.reading.has_edges and any(layer.aggregate_first for layer in layers):
            return "it multiplies sums over neighbours (aggregate_first), not columns of nodes"
        if self.num_nodes > 8 * most_nodes(self.polynomial, inputs):
            return f"{self.num_nodes:,} nodes with {inputs} columns are too many for terms"
        return ""

    def inputs(self, nodes: Ints) -> Floats:
        """Return the features of some nodes."""
        return np.asarray(self.reading.inputs[nodes].toarray())

    def predict(self, node: int, projected: Floats) -> Ints:
        """Return the class that is predicted for each of other projections of its own features."""
        change = self.polynomial.evaluate(projected) - self._units[node]
        outputs, last = self.reading.outputs[0], self._last
        if last is None:
            return np.asarray((outputs[node] + self._first[node, node] * change).argmax(axis=1))
        row = self._second[[node]]
        back = self._first[row.indices][:, [node]].toarray()[:, 0]
        total = np.zeros((projected.shape[1], len(last.bias)))
        for weight, near, share in zip(row.data, row.indices, back, strict=True):
            hidden = np.maximum(outputs[near] + share * change, 0.0)
            total += weight * last.evaluate(last.project(hidden))
        return np.asarray((total + last.bias).argmax(axis=1))

    def neighbours(self, node: int) -> tuple[Ints, Floats]:
        """Return the neighbours of a node, and what each contributes beyond an average node."""
        row = self._second[[node]]
        rows = self._first[row.indices]
        nodes = np.unique(rows.indices)
        nodes = nodes[nodes != node]
        weights = rows[:, nodes].T @ (row.data[:, np.newaxis] * self._active[row.indices])
        beyond_average = self._units[nodes] - self._units.mean(axis=0)
        return nodes.astype(np.int64), (weights * beyond_average) @ self._readout

    def _sample(self) -> Ints:
        return np.arange(self.num_nodes)

    def _follow(self, terms: Terms) -> Iterator[tuple[Key, Floats]]:
        """Yield what each term of the units contributes: from the node itself and neighbours.

        Last come the terms of the place in the graph, and of crosses of hidden units.
        """
        # The weight of each unit of a node in its own score.
        returns = self._second.multiply(self._first.T).tocsr() @ self._active
        for key, part in terms.purify():
            whole = self._to_scores(part)
            if self.near is None or not key:
                yield key, whole
                continue
            itself = np.asarray((returns * part) @ self._readout)
            yield key, itself
            yield tuple(self.num_inputs + place for place in key), whole - itself
        position, hidden_crosses = len(self.columns) - 2, len(self.columns) - 1
        biases = self._second @ (self.polynomial.bias * self._active) @ self._readout
        constants = np.tile(terms.constant, (self.num_nodes, 1))
        yield (position,), self._to_scores(constants) + biases
        if self._last is not None and self._last.order > 1:
            yield (hidden_crosses,), self.reading.crosses @ self._margin.T

    def _scores(self, evaluated: Floats) -> Floats:
        return np.asarray(self.reading.outputs[-1] @ self._margin.T + self._shift)

    def _to_scores(self, part: Floats) -> Floats:
        return np.asarray(self._second @ (self._first @ part * self._active) @ self._readout)
