"""The columns of :class:`~crossgcn.CrossHops`, and the explainer of its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph

from crossgcn.data.features import FeatureSpace
from crossgcn.data.tables.kinds.numeric import MAX_DEVIATIONS
from crossgcn.explanation.polynomial import Polynomial, as_array
from crossgcn.explanation.purify import Terms, cells_per_node
from crossgcn.explanation.reading import Floats, Ints
from crossgcn.explanation.terms import (
    CELLS,
    MOST_COLUMNS,
    Column,
    Explanation,
    make_term,
    name_outputs,
    sample_nodes,
)
from crossgcn.graph import SparseMatrix
from crossgcn.graph.hops import HopPlan
from crossgcn.graph.neighbourhood import NeighbourLabels
from crossgcn.graph.standardise import Scale
from crossgcn.models.cross_hops import CrossHops

Numbers = Mapping[str, tuple[float, float]]
"""Mean and deviation by which the numbers of a table were standardised."""

_LEAST_NODES = 200
_MOST_NEIGHBOURS, _MOST_DIRECTED = 200, 20
"""How many neighbours of a node are left out one by one."""


class HopExplainer:
    """Explains a :class:`~crossgcn.CrossHops` on a graph.

    Args:
        classes: Names of the classes, or the name of the number.
        labels: What neighbours show of their labels.
        target: The column that is predicted, if it holds classes.
        relation: What neighbours are called.
        numbers: Mean and deviation by which the table's numbers were standardised.
        contrast: Explain the score of one class minus that of another.
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
    ) -> None:
        self.model, self.data, self.classes, self.labels = model, data, classes, labels
        self.contrast = contrast
        if model.target_scale is not None:
            mean, deviation = as_array(model.target_scale).tolist()
            numbers = {**(numbers or {}), classes[0]: (mean, deviation)}
        self.columns = hop_columns(
            model.plan, space, classes, target, relation, scale=model.scale, numbers=numbers
        )
        self.polynomial = Polynomial.of_model(model)
        self._inputs = self._compute(data.x, data.edge_index, data.get("edge_weight"), labels)

    def explain(self, node: int | None = None) -> Explanation:
        """Return the terms of all nodes, or of a sample with ``node`` in it."""
        polynomial = Polynomial.of_model(self.model, self.contrast)
        limit = CELLS // cells_per_node(polynomial, len(self.columns))
        nodes = sample_nodes(self._inputs.shape[0], max(limit, _LEAST_NODES), node)
        inputs = self._rows(self._inputs, nodes)
        terms = Terms(polynomial, inputs, [column.places for column in self.columns])
        bags = polynomial.bags
        found = {key: make_term(key, self.columns, each, bags) for key, each in terms.purify()}
        outputs, unit = name_outputs(self.classes, self.contrast)
        return Explanation(
            outputs,
            unit,
            nodes,
            polynomial.mean_of_bags(terms.scores) + polynomial.bias,
            polynomial.mean_of_bags(terms.constant[np.newaxis])[0] + polynomial.bias,
            tuple(found[key] for key in sorted(found)),
            None if terms.rest is None else make_term((), self.columns, terms.rest, bags),
            self.columns,
            inputs,
            None,
            self,
            terms.num_unlisted,
            terms.rest_by_group.std(axis=0),
        )

    def own_row(self, node: int) -> Floats:
        """Return the inputs of a node, ``[1, inputs]``."""
        return self._rows(self._inputs, np.array([node]))

    def scores_after(self, node: int, projected: Floats) -> Floats:
        """Return the scores of a node for other projections of its inputs, ``[rows, outputs]``."""
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
            near = near[:_MOST_NEIGHBOURS]
            without = self._without_each(node, near)
        polynomial = Polynomial.of_model(self.model, self.contrast)
        rows_of_all = np.concatenate([self.own_row(node), without])
        projected = polynomial.project(rows_of_all, np.arange(without.shape[1]))
        scores = polynomial.mean_of_bags(polynomial.evaluate(projected))
        return near.numpy(), scores[0] - scores[1:]

    def _without(self, node: int, neighbour: int) -> Floats:
        """Return the inputs of a node without its edges from and to a neighbour."""
        (sources, targets), weight = self.data.edge_index, self.data.get("edge_weight")
        ends = torch.tensor([[node, neighbour], [neighbour, node]])
        kept = ~((torch.stack([sources, targets], 1)[:, None] == ends).all(2).any(1))
        weight = None if weight is None else weight[kept]
        inputs = self._compute(self.data.x, self.data.edge_index[:, kept], weight, self.labels)
        return self._rows(inputs, np.array([node]))

    def _without_each(self, node: int, near: Tensor) -> Floats:
        """Return the inputs of copies of a node, each without one of its neighbours.

        Only the nodes that the inputs depend on are looked at.
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
        inputs = self._compute(x, edges, weight, labels)
        return self._rows(inputs, len(nodes) + np.arange(count))

    def _compute(
        self, x: Tensor, edges: Tensor, weight: Tensor | None, labels: NeighbourLabels | None
    ) -> Any:
        with torch.no_grad():
            return self.model.columns(x, edges, weight, labels)

    def _rows(self, inputs: Any, nodes: Ints) -> Floats:
        """Return the standardised inputs of some nodes."""
        if isinstance(inputs, SparseMatrix):  # not centered
            shift = as_array(self.model.center) / as_array(self.model.deviation)
            rows: Floats = inputs.to_scipy()[nodes].toarray().astype(np.float64) - shift
            return rows
        return as_array(inputs[nodes])


def hop_columns(
    plan: HopPlan,
    space: FeatureSpace,
    classes: Sequence[str],
    target: str = "label",
    relation: str = "neighbours",
    *,
    scale: Scale | None = None,
    numbers: Numbers | None = None,
) -> tuple[Column, ...]:
    """Return the columns of the table, own and of the neighbourhood, with their inputs.

    Args:
        scale: How the model standardises its inputs.
        numbers: Mean and deviation by which the table's numbers, and a number as target, were
            standardised.
    """
    if len(classes) == 1:
        labels, target = [classes[0]], classes[0]
    else:
        shown = classes[1:] if plan.num_labels == 1 else classes
        labels = [f"{target}={name}" for name in shown]
    labels = labels[: plan.num_labels]
    features = plan.name_columns(space.names, labels, relation)
    fields = space.fields
    if len(set(fields)) > MOST_COLUMNS:
        fields = ("all columns",) * len(fields)
    names = plan.name_columns(fields, [target] * len(labels), relation)
    members: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        members.setdefault(name, []).append(position)
    are_numbers = {  # A feature that is named as its column is the number itself.
        own for own, (name, column) in enumerate(zip(space.names, space.fields, strict=True))
        if name == column and fields is space.fields
    }  # fmt: skip
    centers, deviations = (0.0, 1.0) if scale is None else map(as_array, scale)
    centers, deviations = (np.broadcast_to(a, plan.num_columns) for a in (centers, deviations))
    columns = []
    sides = 2 if plan.directed else 1
    within = plan.num_features * (1 + plan.hops * sides)
    for name, places in members.items():
        first = [c for c in places if c < within and c % plan.num_features in are_numbers][:1]
        ordered = first + [c for c in places if c not in first]
        is_single, place = len(places) == 1 and places[0] >= within, places[0] - within - sides
        is_log = is_single and (place < 0 or place % (plan.num_labels + 1) == plan.num_labels)
        zero, step, limits = 0.0, 1.0, (-inf, inf)
        if first or is_single:
            column = space.fields[first[0] % plan.num_features] if first else target
            known = {} if is_single and (is_log or len(classes) > 1) else numbers or {}
            mean, deviation = known.get(column, (0.0, 1.0))
            zero = mean + deviation * float(centers[ordered[0]])
            step = deviation * float(deviations[ordered[0]])
            limits = number_limits(column, numbers) if first else limits
        own, is_number = places[0] < plan.num_features, bool(first) or is_single
        named = tuple(features[c] for c in ordered)
        columns.append(
            Column(name, np.array(ordered), named, own, is_number, (zero, step), limits, is_log)
        )
    return tuple(columns)


def number_limits(column: str, numbers: Numbers | None) -> tuple[float, float]:
    """Return the numbers beyond which the encoding of a table is the same."""
    if numbers is None or column not in numbers:
        return -inf, inf
    mean, deviation = numbers[column]
    return mean - MAX_DEVIATIONS * deviation, mean + MAX_DEVIATIONS * deviation
