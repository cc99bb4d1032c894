"""Explains models that sum over neighbours: terms of columns, own and neighbours' apart.

The first layer multiplies the columns of single nodes: it is a polynomial, which
:mod:`~crossgcn.explanation.purify` splits into terms. What follows is linear, given which hidden
units are active, so each term is followed to the scores: from the node itself, and from its
neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from torch import nn
from torch_geometric.data import Data

from crossgcn.explanation.columns import MOST_COLUMNS, Names, layer_columns
from crossgcn.explanation.explainer import Explainer
from crossgcn.explanation.polynomial import Floats, Ints, margins
from crossgcn.explanation.purify import Key, most_nodes
from crossgcn.explanation.reading import read_model


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
        scale = getattr(model, "target_scale", None)
        self._shift: float
        self._shift, deviation = (0.0, 1.0) if scale is None else scale.tolist()
        self._margin = deviation * margins(len(names.classes), names.pair(contrast))
        columns = layer_columns(names, of_sums=reading.of_sums, has_edges=reading.has_edges)
        super().__init__(
            names, columns, len(set(names.features.fields)), reading.layers[0], contrast
        )
        self._last = reading.layers[1] if len(reading.layers) == 2 else None
        identity = sp.eye_array(self.num_nodes, format="csr")
        first, second = (*reading.adjacencies, None)[:2]
        self._first = identity if first is None or reading.of_sums else first
        self._second = identity if second is None else second
        self._active = np.ones_like(reading.outputs[0])
        self._readout = self._margin.T
        if self._last is not None:
            self._active = (reading.outputs[0] > 0).astype(np.float64)
            self._readout = (self._margin @ self._last.weights[0]).T
        if reading.has_edges and not reading.of_sums:
            self.near = sp.csr_array(self._first - sp.diags_array(self._first.diagonal()))

    def refusal(self) -> str:
        """Return why the model has no terms by column; empty if it has."""
        layers, inputs = len(self.reading.layers), self._num_inputs
        if inputs > MOST_COLUMNS:
            return f"it has {inputs:,} columns, and terms are for at most {MOST_COLUMNS} columns"
        if layers > 2:
            return f"it has {layers} layers, and terms are for one or two"
        if self.num_nodes > 8 * most_nodes(self.polynomial, inputs):
            return f"{self.num_nodes:,} nodes with {inputs} columns are too many for terms"
        return ""

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph."""
        return int(self.reading.inputs.shape[0])

    def inputs(self, nodes: Ints) -> Floats:
        """Return the features of some nodes, or their sums over neighbours."""
        return np.asarray(self.reading.inputs[nodes].toarray())

    def class_scores(self, node: int, projected: Floats) -> Floats:
        """Return the scores of classes for other projections of a node's own features."""
        own = self.polynomial.project(self.inputs(np.array([node])))
        change = self.polynomial.evaluate(projected) - self.polynomial.evaluate(own)
        outputs, last = self.reading.outputs[0], self._last
        if last is None:
            return np.asarray(outputs[node] + self._first[node, node] * change)
        row = self._second[[node]]
        back = self._first[row.indices][:, [node]].toarray()[:, 0]
        total: Any = 0.0
        for weight, near, share in zip(row.data, row.indices, back, strict=True):
            hidden = np.maximum(outputs[near] + share * change, 0.0)
            part = hidden if last.aggregate_first else last.evaluate(last.project(hidden))
            total = total + weight * part
        if last.aggregate_first:
            total = last.evaluate(last.project(total))
        return np.asarray(total + last.bias)

    def neighbours(self, node: int) -> tuple[Ints, Floats]:
        """Return the neighbours of a node, and what each contributes beyond an average node."""
        row = self._second[[node]]
        rows = self._first[row.indices]
        nodes = np.unique(rows.indices)
        nodes = nodes[nodes != node]
        weights = rows[:, nodes].T @ (row.data[:, np.newaxis] * self._active[row.indices])
        return nodes.astype(np.int64), (weights * self._beyond_average[nodes]) @ self._readout

    def _scores(self, evaluated: Floats) -> Floats:
        return np.asarray(self.reading.logits @ self._margin.T + self._shift)

    def _follow(self, key: Key, part: Floats) -> Iterator[tuple[Key, Floats]]:
        """Yield what a term of the units contributes: from the node itself and from neighbours."""
        whole = self._to_scores(part)
        if self.near is None or not key:
            yield key, whole
            return
        # The weight of each unit of a node in its own score.
        returns = self._second.multiply(self._first.T).tocsr() @ self._active
        itself = np.asarray((returns * part) @ self._readout)
        yield key, itself
        yield tuple(self._num_inputs + place for place in key), whole - itself

    def _others(self, constant: Floats) -> Iterator[tuple[Key, Floats]]:
        """Yield what the place in the graph contributes, and crosses of hidden units."""
        position, hidden_crosses = len(self.columns) - 2, len(self.columns) - 1
        first_bias = self.reading.layers[0].bias
        biases = self._second @ (first_bias * self._active) @ self._readout
        constants = np.tile(constant, (self.num_nodes, 1))
        yield (position,), self._to_scores(constants) + biases
        if self._last is not None and self._last.order > 1:
            yield (hidden_crosses,), self.reading.crosses @ self._margin.T

    @cached_property
    def _beyond_average(self) -> Floats:
        """The units of the first layer of all nodes, without their mean."""
        units = self.polynomial.evaluate(self.polynomial.project(self.reading.inputs))
        return np.asarray(units - units.mean(axis=0))

    def _to_scores(self, units: Floats) -> Floats:
        """Return what the units of all nodes contribute to the scores, ``[nodes, outputs]``."""
        return np.asarray(self._second @ (self._first @ units * self._active) @ self._readout)
