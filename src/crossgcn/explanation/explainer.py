"""From a model, its graph and names to an explanation: what all kinds of models share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from crossgcn.explanation.columns import Column, Names
from crossgcn.explanation.polynomial import Floats, Ints, Polynomial
from crossgcn.explanation.purify import Key, Terms
from crossgcn.explanation.terms import Explanation, make_term, name_outputs


class Explainer(ABC):
    """Explains a model on a graph.

    Args:
        columns: The columns that terms have. The first ``num_inputs`` are the groups of inputs.
        polynomial: What the model computes of the inputs of a node: scores, or hidden units.
        contrast: Two of the classes: why the first and not the second.
    """

    meaning: ClassVar[str]
    """What a contribution of :meth:`neighbours` is."""
    near: Any = None
    """For models that sum over neighbours: the weight of each node in the sum of each other."""

    def __init__(
        self,
        names: Names,
        columns: tuple[Column, ...],
        num_inputs: int,
        polynomial: Polynomial,
        contrast: tuple[Any, Any] | None,
    ) -> None:
        self.names, self.columns, self.polynomial = names, columns, polynomial
        self._pair, self._num_inputs = names.pair(contrast), num_inputs

    @property
    @abstractmethod
    def num_nodes(self) -> int:
        """Number of nodes of the graph."""

    @abstractmethod
    def inputs(self, nodes: Ints) -> Floats:
        """Return the inputs of some nodes, ``[nodes, inputs]``."""

    @abstractmethod
    def class_scores(self, node: int, projected: Floats) -> Floats:
        """Return the scores of a node for other projections of its inputs, ``[rows, classes]``."""

    @abstractmethod
    def neighbours(self, node: int) -> tuple[Ints, Floats]:
        """Return the neighbours of a node, and what each contributes, ``[nodes, outputs]``."""

    @abstractmethod
    def _scores(self, evaluated: Floats) -> Floats:
        """Return the explained scores, ``[nodes, outputs]``, from what the polynomial gives."""

    def _sample(self) -> Ints:
        """Return the nodes that terms are fitted on."""
        return np.arange(self.num_nodes)

    def _follow(self, key: Key, part: Floats) -> Iterator[tuple[Key, Floats]]:
        """Yield what a part of the polynomial contributes to the scores, by columns."""
        yield key, part

    def _others(self, constant: Floats) -> Iterator[tuple[Key, Floats]]:
        """Yield what else contributes to the scores.

        Args:
            constant: What the polynomial has beyond its terms.
        """
        yield from ()

    def refusal(self) -> str:
        """Return why the model has no terms by column; empty if it has."""
        return ""

    def explain(self, node: int | None = None) -> Explanation:
        """Return the terms of all nodes, or of a sample of a large graph and of ``node``."""
        groups = [column.places for column in self.columns[: self._num_inputs]]
        nodes = self._sample()
        num_fitted = len(nodes)
        if node is not None and node not in nodes:
            nodes = np.append(nodes, node)
        inputs = self.inputs(nodes)
        terms = Terms(self.polynomial, inputs, groups, num_fitted)
        parts = [part for key, each in terms.purify() for part in self._follow(key, each)]
        parts += self._others(terms.constant)
        found = {
            key: make_term(key, self.columns, each, self.polynomial.bags, num_fitted)
            for key, each in parts
        }
        rest = None
        if terms.rest is not None:
            ((_, unlisted),) = self._follow((), terms.rest)
            rest = make_term((), self.columns, unlisted, self.polynomial.bags, num_fitted)
        scores = self._scores(terms.scores)
        return Explanation(
            *name_outputs(self.names.classes, self._pair),
            nodes,
            scores,
            scores[:num_fitted].mean(axis=0),
            tuple(found[key] for key in sorted(found)),
            rest,
            inputs,
            self,
            terms.num_unlisted,
        )

    def predict(self, node: int, projected: Floats | None = None) -> Ints:
        """Return the class that is predicted for other projections of a node's inputs.

        Args:
            projected: From the polynomial; by default that of the node itself.
        """
        if projected is None:
            projected = self.polynomial.project(self.inputs(np.array([node])))
        return np.asarray(self.class_scores(node, projected).argmax(axis=1))
