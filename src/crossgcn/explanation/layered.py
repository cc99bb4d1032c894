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

from crossgcn.explanation.columns import MOST_COLUMNS, Names, layer_columns
from crossgcn.explanation.explainer import Explainer
from crossgcn.explanation.polynomial import Floats, Ints, margins
from crossgcn.explanation.purify import Key, most_nodes
from crossgcn.explanation.reading import Reading


class LayeredExplainer(Explainer):
    """Explains a model of one or two layers that sum over neighbours, or of none.

    Args:
        reading: What the model computes on the graph.
        target_scale: Mean and deviation of the number that the model predicts.
        contrast: See :class:`Explainer`.
    """

    meaning = "A neighbour's contribution is what it adds beyond an average node in its place."

    def __init__(
        self,
        reading: Reading,
        names: Names,
        *,
        target_scale: tuple[float, float] = (0.0, 1.0),
        contrast: tuple[int, int] | None = None,
    ) -> None:
        self.reading = reading
        self._shift, deviation = target_scale
        self._margin = deviation * margins(len(names.classes), contrast)
        columns = layer_columns(names, of_sums=reading.of_sums, has_edges=reading.has_edges)
        num_inputs = len(set(names.features.fields))
        first = reading.layers[0].polynomial
        super().__init__(names, columns, num_inputs, first, contrast)
        self._two_sides = reading.has_edges and not reading.of_sums
        if self._two_sides:
            near = self._sums[0] - sp.diags_array(self._sums[0].diagonal())
            self.near = sp.csr_array(near)

    def refusal(self) -> str:
        """Return why the model has no terms by column; empty if it has."""
        layers = len(self.reading.layers)
        if self._num_inputs > MOST_COLUMNS:
            return (
                f"it has {self._num_inputs:,} columns, and terms are for at most {MOST_COLUMNS} "
                "columns"
            )
        if layers > 2:
            return f"it has {layers} layers, and terms are for one or two"
        if self.num_nodes > 8 * most_nodes(self.polynomial, self._num_inputs):
            return (
                f"{self.num_nodes:,} nodes with {self._num_inputs} columns are too many for terms"
            )
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
        first, last = self.reading.outputs[0], self.reading.layers[-1]
        if len(self._sums) == 1:
            return np.asarray(first[node] + self._sums[0][[node]].toarray()[0, node] * change)
        row = self._sums[1][[node]]
        back = self._sums[0][row.indices][:, [node]].toarray()[:, 0]
        total: Any = 0.0
        for weight, near, share in zip(row.data, row.indices, back, strict=True):
            hidden = np.maximum(first[near] + share * change, 0.0)
            part = hidden if last.aggregate_first else sum(last.apply(hidden, None))
            total = total + weight * part
        if last.aggregate_first:
            total = sum(last.apply(total, None))
        return np.asarray(total + last.polynomial.bias)

    def neighbours(self, node: int) -> tuple[Ints, Floats]:
        """Return the neighbours of a node, and what each contributes beyond an average node."""
        row = self._sums[-1][[node]]
        if len(self._sums) == 1:
            nodes, weights = row.indices, row.data[:, np.newaxis]
        else:
            rows = self._sums[0][row.indices]
            nodes = np.unique(rows.indices)
            weights = rows[:, nodes].T @ (row.data[:, np.newaxis] * self._active[row.indices])
        contributions = (weights * self._beyond_average[nodes]) @ self._readout
        others = nodes != node
        return nodes[others].astype(np.int64), np.asarray(contributions)[others]

    def _scores(self, evaluated: Floats) -> Floats:
        return np.asarray(self.reading.logits @ self._margin.T + self._shift)

    def _follow(self, key: Key, part: Floats) -> Iterator[tuple[Key, Floats]]:
        """Yield what a term of the units contributes: from the node itself and from neighbours."""
        whole = self._to_scores(part)
        if not self._two_sides or not key:
            yield key, whole
            return
        itself = np.asarray((self._returns * part) @ self._readout)
        yield key, itself
        yield tuple(self._num_inputs + place for place in key), whole - itself

    def _others(self, constant: Floats) -> Iterator[tuple[Key, Floats]]:
        """Yield what the place in the graph contributes, and crosses of hidden units."""
        layers = self.reading.layers
        units = np.tile(constant, (self.num_nodes, 1))
        out = self._to_scores(units)
        if len(layers) == 2:
            hidden = layers[0].polynomial.bias * self._active
            out = out + np.asarray(self._sums[1] @ hidden) @ self._readout
        position, hidden_crosses = len(self.columns) - 2, len(self.columns) - 1
        yield (position,), out
        if len(layers) == 2 and layers[1].polynomial.order > 1:
            yield (hidden_crosses,), self.reading.crosses @ self._margin.T

    @cached_property
    def _sums(self) -> tuple[Any, ...]:
        """The matrices of the sums over neighbours after the first layer, then the second's."""
        first, *others = self.reading.adjacencies
        identity = sp.eye_array(self.num_nodes, format="csr")
        inputs_are_summed = self.reading.of_sums
        return tuple(
            identity if each is None else sp.csr_array(each)
            for each in (None if inputs_are_summed else first, *others)
        )

    @cached_property
    def _active(self) -> Floats:
        """Which hidden units are active, ``[nodes, units]``."""
        return (self.reading.outputs[0] > 0).astype(np.float64)

    @property
    def _readout(self) -> Floats:
        """The weights of the units of the first layer, ``[units, outputs]``."""
        if len(self.reading.layers) == 1:
            return self._margin.T
        return np.asarray((self._margin @ self.reading.layers[1].polynomial.weights[0]).T)

    @cached_property
    def _returns(self) -> Floats:
        """The weight of each unit of a node in its own score."""
        if len(self._sums) == 1:
            return np.asarray(self._sums[0].diagonal()[:, np.newaxis])
        first, second = self._sums
        return np.asarray(second.multiply(first.T).tocsr() @ self._active)

    @cached_property
    def _beyond_average(self) -> Floats:
        """The units of the first layer of all nodes, without their mean."""
        units = self.polynomial.evaluate(self.polynomial.project(self.reading.inputs))
        return np.asarray(units - units.mean(axis=0))

    def _to_scores(self, units: Floats) -> Floats:
        """Return what the units of all nodes contribute to the scores, ``[nodes, outputs]``."""
        out = self._sums[0] @ units
        if len(self._sums) == 2:
            out = self._sums[1] @ (out * self._active)
        return np.asarray(out @ self._readout)
