"""Scores of models that sum over neighbours as sums of terms of columns, own and neighbours'.

The first layer multiplies the columns of single nodes: it is a polynomial, which
:mod:`~crossgcn.explanation.purify` splits into terms. What follows is linear, given which hidden
units are active, so each term is followed to the scores: from the node itself, and from its
neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from crossgcn.data.features import FeatureSpace
from crossgcn.explanation.hops import Numbers, number_limits
from crossgcn.explanation.polynomial import Polynomial, as_array, margins
from crossgcn.explanation.purify import Key, Terms, cells_per_node
from crossgcn.explanation.reading import Floats, Ints, Reading, binary_columns
from crossgcn.explanation.terms import (
    CELLS,
    MOST_COLUMNS,
    Column,
    Explanation,
    NotByColumn,
    Term,
    make_term,
    name_outputs,
)

POSITION = "position in the graph"
"""The term of what a node with average neighbours would get at the same place."""
HIDDEN = "crosses of hidden units"
"""The term of the crosses of later layers, which have no names."""


@dataclass(frozen=True)
class Flow:
    """How a model of one or two layers goes on from the units of its first layer.

    Attributes:
        margin: How class scores are compared, ``[outputs, classes]``.
    """

    reading: Reading
    margin: Floats

    @cached_property
    def sums(self) -> tuple[Any, ...]:
        """The matrices of the sums over neighbours after the first layer, then the second's."""
        first, *others = self.reading.adjacencies
        identity = sp.eye_array(self.reading.num_nodes, format="csr")
        done = first is None or self.reading.layers[0].aggregate_first
        return tuple(
            identity if each is None else sp.csr_array(each)
            for each in (None if done else first, *others)
        )

    @cached_property
    def _active(self) -> Floats:
        """Which hidden units are active, ``[nodes, units]``."""
        return (self.reading.outputs[0] > 0).astype(np.float64)

    @property
    def _readout(self) -> Floats:
        """The weights of the units of the first layer, ``[units, outputs]``."""
        if len(self.reading.layers) == 1:
            return self.margin.T
        return np.asarray((self.margin @ self.reading.layers[1].first_order).T)

    @cached_property
    def _returns(self) -> Floats:
        """The weight of each unit of a node in its own score."""
        if len(self.sums) == 1:
            return np.asarray(self.sums[0].diagonal()[:, np.newaxis])
        first, second = self.sums
        return np.asarray(second.multiply(first.T).tocsr() @ self._active)

    def all_nodes(self, units: Floats) -> Floats:
        """Return what the units of all nodes contribute to the scores, ``[nodes, outputs]``."""
        out = self.sums[0] @ units
        if len(self.sums) == 2:
            out = self.sums[1] @ (out * self._active)
        return np.asarray(out @ self._readout)

    def itself(self, units: Floats) -> Floats:
        """Return what the units of each node contribute to its own scores."""
        return np.asarray((self._returns * units) @ self._readout)

    def biases(self) -> Floats:
        """Return what the biases of all layers contribute."""
        layers, out = self.reading.layers, np.zeros((self.reading.num_nodes, len(self.margin)))
        if len(layers) == 2:
            hidden = layers[0].bias * self._active
            out = np.asarray(self.sums[1] @ hidden) @ self._readout
        return np.asarray(out + self.margin @ layers[-1].bias)

    def sources(self, node: int, units: Floats) -> tuple[Ints, Floats]:
        """Return the nodes that contribute to a node's scores, and what, ``[nodes, outputs]``."""
        row = self.sums[-1][[node]]
        if len(self.sums) == 1:
            nodes, weights = row.indices, row.data[:, np.newaxis]
        else:
            rows = self.sums[0][row.indices]
            nodes = np.unique(rows.indices)
            weights = rows[:, nodes].T @ (row.data[:, np.newaxis] * self._active[row.indices])
        return nodes.astype(np.int64), np.asarray((weights * units[nodes]) @ self._readout)

    def after_change(self, node: int, change: Floats) -> Floats:
        """Return the scores of a node after changes of its own units, ``[changes, outputs]``."""
        first, last = self.reading.outputs[0], self.reading.layers[-1]
        if len(self.sums) == 1:
            logits = first[node] + self.sums[0][[node]].toarray()[0, node] * change
            return np.asarray(logits @ self.margin.T)
        row = self.sums[1][[node]]
        back = self.sums[0][row.indices][:, [node]].toarray()[:, 0]
        total: Floats | None = None
        for weight, near, share in zip(row.data, row.indices, back, strict=True):
            hidden = np.maximum(first[near] + share * change, 0.0)
            part = hidden if last.aggregate_first else sum(last.apply(hidden, None))
            total = weight * part if total is None else total + weight * part
        assert total is not None  # A node is among its own neighbours.
        if last.aggregate_first:
            total = np.asarray(sum(last.apply(total, None)))
        return np.asarray((total + last.bias) @ self.margin.T)


class LayeredExplainer:
    """Explains a model of one or two layers that sum over neighbours, or of none.

    The arguments are those of :class:`~crossgcn.explanation.hops.HopExplainer`.
    """

    meaning = "A neighbour's contribution is what it adds beyond an average node in its place."

    def __init__(
        self,
        reading: Reading,
        space: FeatureSpace,
        classes: Sequence[str],
        *,
        target_scale: Any = None,
        relation: str = "neighbours",
        numbers: Numbers | None = None,
        contrast: tuple[int, int] | None = None,
    ) -> None:
        self.reading, self.classes, self.contrast = reading, classes, contrast
        self._shift, self._deviation = 0.0, 1.0
        if target_scale is not None:
            self._shift, self._deviation = as_array(target_scale).tolist()
        self.columns = layered_columns(reading, space, relation, numbers)
        self.polynomial = Polynomial.of_layer(reading.layers[0])
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

    def explain(self, node: int | None = None) -> Explanation:
        """Return the terms of all nodes."""
        reading, flow, columns = self.reading, self._flow(self.contrast), self.columns
        num_own = next(place for place, each in enumerate(columns) if each.name == POSITION)
        refusal = self._refusal(num_own)
        if refusal:
            raise NotByColumn(refusal)
        inputs: Floats = reading.inputs.toarray()
        terms = Terms(self.polynomial, inputs, [each.places for each in columns[:num_own]])
        two_sides = len(columns) > num_own + 1
        outputs, unit = name_outputs(self.classes, self.contrast)
        average = np.full(len(outputs), self._shift)
        found: list[Term] = []

        def add(key: Key, contributions: Floats) -> None:
            nonlocal average
            mean = contributions.mean(axis=0)
            average = average + mean
            found.append(make_term(key, columns, contributions - mean, 1))

        for key, units in terms.purify():
            whole = flow.all_nodes(units)
            if two_sides:
                itself = flow.itself(units)
                add(key, itself)
                add(tuple(num_own + 1 + place for place in key), whole - itself)
            else:
                add(key, whole)
        rest = None
        if terms.rest is not None:
            add((), flow.all_nodes(terms.rest))
            rest = found.pop()
        constant = np.tile(terms.constant, (len(inputs), 1))
        add((num_own,), flow.all_nodes(constant) + flow.biases())
        if len(reading.layers) == 2 and reading.layers[1].order > 1:
            add((), reading.crosses[1] @ flow.margin.T)
            found.append(replace(found.pop(), columns=(HIDDEN,)))
        near = flow.sums[0] - sp.diags_array(flow.sums[0].diagonal())
        return Explanation(
            outputs,
            unit,
            np.arange(len(inputs)),
            reading.logits @ flow.margin.T + self._shift,
            average,
            tuple(term for term in found if term.importance.max() > 1e-12),
            rest,
            columns,
            inputs,
            sp.csr_array(near) if two_sides else None,
            self,
            terms.num_unlisted,
        )

    def own_row(self, node: int) -> Floats:
        """Return the features of a node, ``[1, features]``."""
        return np.asarray(self.reading.inputs[[node]].toarray())

    def scores_after(self, node: int, projected: Floats) -> Floats:
        """Return the scores of a node for other projections of its features."""
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

    def _refusal(self, num_columns: int) -> str:
        """Return why a model has no terms by column; empty if it has."""
        reading = self.reading
        if num_columns > MOST_COLUMNS:
            return (
                f"it has {num_columns:,} columns, and terms are for at most {MOST_COLUMNS} columns"
            )
        if len(reading.layers) > 2:
            return f"it has {len(reading.layers)} layers, and terms are for one or two"
        if reading.num_nodes * cells_per_node(self.polynomial, num_columns) > 8 * CELLS:
            return f"{reading.num_nodes:,} nodes with {num_columns} columns are too many for terms"
        return ""


def layered_columns(
    reading: Reading, space: FeatureSpace, relation: str, numbers: Numbers | None
) -> tuple[Column, ...]:
    """Return the columns of the nodes and, if neighbours are summed, those of their neighbours."""
    members: dict[str, list[int]] = {}
    for position, name in enumerate(space.fields):
        members.setdefault(name, []).append(position)
    flags = binary_columns(reading.inputs)
    whole = reading.of_neighbourhoods
    own = []
    for name, places in members.items():
        number = [c for c in places if space.names[c] == name and not flags[c]][:1]
        ordered = number + [c for c in places if c not in number]
        own.append(
            Column(
                f"with {relation}: {name}" if whole else name,
                np.array(ordered),
                tuple(space.names[c] for c in ordered),
                not whole,
                bool(number),
                (0.0, 1.0) if whole else (numbers or {}).get(name, (0.0, 1.0)),
                number_limits(name, None if whole else numbers),
            )
        )
    place = Column(POSITION, np.zeros(0, np.int64), (), False, False)
    if whole or reading.adjacencies == (None,) * len(reading.adjacencies):
        return (*own, place)
    near = [replace(column, name=f"{relation}: {column.name}", own=False) for column in own]
    return (*own, place, *near)
