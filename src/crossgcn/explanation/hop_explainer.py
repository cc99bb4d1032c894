"""From a :class:`~crossgcn.CrossHops`, its graph and names to an explanation.

Its scores are a polynomial of the columns of one node, which
:mod:`~crossgcn.explanation.purify` splits into terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph

from crossgcn.data.relations import Relation, relations_of, select_edges
from crossgcn.errors import BadInput
from crossgcn.explanation.columns import Names, hop_columns
from crossgcn.explanation.polynomial import Floats, Ints, as_array, read_hops
from crossgcn.explanation.purify import Terms, most_nodes
from crossgcn.explanation.terms import Explanation, make_term
from crossgcn.graph.neighbourhood import NeighbourLabels
from crossgcn.models.cross_hops import CrossHops

Contrast = tuple[Any, Any] | None
"""Two classes: why the first and not the second."""

_LEAST_NODES = 200
_ROUNDING = 1e-5
_MOST_NEIGHBOURS = 200
"""How many neighbours of a node are left out one by one."""


class HopExplainer:
    """Explains a :class:`~crossgcn.CrossHops` on a graph.

    Args:
        labels: What neighbours show of their labels.
        fitted: Another graph, with its labels, on whose nodes the terms are fitted. These nodes
            have the first numbers, and those of ``data`` the next.

    Attributes:
        outputs: The scores that are explained.
        polynomial: What the model computes of the columns of a node: these scores.
        columns: The columns that terms have.
        dropped: Names of the columns that the model does not read.
        most_nodes: How many nodes are explained at once, besides as many further ones.
        meaning: What a contribution of :meth:`neighbours` is.
        limits: What the model does with values that it was not trained on.
        num_fitted: The number of nodes on which the terms are fitted; they have the first numbers.
        is_share: Whether a number is predicted that is a share, from 0 to 1.
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
        labels: NeighbourLabels | None = None,
        fitted: tuple[Data, NeighbourLabels | None] | None = None,
    ) -> None:
        self.model, self.data, self.names, self.labels = model, data, names, labels
        self.relations = list(relations_of(data))
        if len(self.relations) == 1:  # the model knows how it was trained
            self.relations[0] = self.relations[0]._replace(directed=model.plan.directed is True)
        self._of_classes = read_hops(model, np.eye(len(names.classes)))
        columns, is_read = hop_columns(model, names), model.is_read.numpy()
        self.columns = tuple(each for each in columns if is_read[each.places].any())
        self.dropped = tuple(each.name for each in columns if not is_read[each.places].any())
        self.compare(None)
        self._inputs = self.compute(model, data, labels)
        self._first = 0 if fitted is None else fitted[0].x.size(0)
        self.num_fitted = self._first or data.x.size(0)
        if fitted is not None:
            self._inputs = torch.cat([self.compute(model, *fitted), self._inputs])
        y = (data if fitted is None else fitted[0]).get("y")
        known = y[~y.isnan()] if y is not None and len(names.classes) == 1 else torch.empty(0)
        self.is_share = known.numel() > 0 and bool(((known >= 0) & (known <= 1)).all())

    def compare(self, contrast: Contrast, node: int | None = None) -> Contrast:
        """Explain why the first class and not the second; by default, each against all others.

        ``None`` for a class is the one that ``node`` is predicted as. A class that is predicted is
        against all others: then there is no contrast. Returned are the classes that are compared.
        """
        if contrast is not None and None in contrast:
            if node is None:
                raise BadInput(
                    "one class of the contrast is None, which a node is predicted as: give node"
                )
            first, second = contrast
            label = self.predict(self._of_classes.project(self.inputs(np.array([node]))))[0]
            predicted = self.names.classes[int(label)]
            if first is None and str(second) == predicted:
                raise BadInput(
                    f"node {self.names.show(node)} is predicted as {predicted}: give the class, "
                    "too, that is to be explained against it (--class)"
                )
            is_predicted = str(first) == predicted
            contrast = None if is_predicted else (first or predicted, second or predicted)
        self.outputs = self.names.outputs(contrast)
        self.polynomial = read_hops(self.model, self.outputs.margin)
        self.most_nodes = max(most_nodes(self.polynomial, len(self.columns)), _LEAST_NODES)
        return contrast

    def with_rows(self, inputs: Tensor) -> HopExplainer:
        """Return the same, with rows of columns in place of nodes that terms are not fitted on."""
        other = copy(self)
        other._inputs = torch.cat([self._inputs[: self.num_fitted], inputs])
        return other

    def explain(self, further: Sequence[int] | Ints = ()) -> Explanation:
        """Return the terms of the nodes that they are fitted on, and of ``further`` nodes.

        The terms are fitted on all nodes, or on a sample of a large graph. More than
        ``most_nodes`` further nodes are left out: explain some of them.
        """
        nodes = self.fitted_nodes()
        fitted = len(nodes)
        if len(further) <= self.most_nodes:
            nodes = np.append(nodes, np.setdiff1d(np.array(further, np.int64), nodes))
        inputs = self.inputs(nodes)
        terms = Terms(self.polynomial, inputs, [each.places for each in self.columns], fitted)
        found = {
            key: make_term(key, self.columns, part, self.polynomial.bags, fitted)
            for key, part in terms.purify()
        }
        rest = found.pop((), None)
        scores = self.polynomial.mean(terms.scores)
        return Explanation(
            outputs=self.outputs.names,
            unit=self.outputs.unit,
            against=self.outputs.against,
            nodes=nodes,
            scores=scores,
            average=scores[:fitted].mean(axis=0),
            terms=tuple(found[key] for key in sorted(found)),
            rest=rest,
            inputs=inputs,
            explainer=self,
            num_unlisted=terms.num_unlisted,
            num_fitted=fitted,
        )

    def fitted_nodes(self) -> Ints:
        """Return the nodes that terms are fitted on."""
        nodes = np.arange(self.num_fitted)
        if len(nodes) <= self.most_nodes:
            return nodes
        sample = np.random.default_rng(0).choice(nodes, self.most_nodes, replace=False)
        return np.unique(sample)

    def inputs(self, nodes: Ints) -> Floats:
        """Return the standardised columns of some nodes."""
        return self._rows(self._inputs, nodes)

    def predict(self, projected: Floats) -> Ints:
        """Return the class that is predicted from projections of columns."""
        scores = self._of_classes.mean(self._of_classes.evaluate(projected))
        return np.asarray(scores.argmax(axis=1))

    def plain(self, node: int) -> Floats:
        """Return the standardised columns of a node, neither cut nor smoothed.

        They are what the table says. The mean label of neighbours is NaN if none is known.
        """
        model, plan = self.model, self.model.plan
        center, deviation = as_array(model.center), as_array(model.deviation)
        (row,) = self._rows(self._plain, np.array([node - self._first])) * deviation + center
        if self.labels is not None and plan.num_labels:
            blocks = row[plan.first_label :].reshape(-1, plan.num_labels + 1)  # a view of the row
            hops = 1 + np.arange(len(blocks))[:, np.newaxis] // len(plan.sides)
            means, count = blocks[:, :-1], np.expm1(blocks[:, -1:])
            count = np.where(count > _ROUNDING, count, np.nan)
            means += hops * (means - as_array(_prior(self.labels))) / count
        return np.asarray((row - center) / deviation)

    @cached_property
    def _plain(self) -> Tensor:
        model = deepcopy(self.model)
        model.strength.zero_()
        model.low.fill_(-torch.inf)
        model.high.fill_(torch.inf)
        columns: Tensor = self.compute(model, self.data, self.labels)
        return columns

    def near(self, node: int) -> list[int]:
        """Return the neighbours of a node in any relation."""
        found = [self._near(each, node - self._first) for each in self.relations]
        return [each + self._first for each in sorted({*torch.cat(found).tolist()})]

    def _near(self, relation: Relation, node: int) -> Tensor:
        """Return the neighbours of a node, those with the largest edge weights first."""
        (sources, targets), weight = relation.edge_index, relation.edge_weight
        if relation.things is not None:
            shared = torch.isin(targets, targets[sources == node])
            near = sources[shared & (sources != node)]
            return torch.tensor(sorted({*near.tolist()}), dtype=torch.long)
        into = (targets == node) & (sources != node)
        out = (sources == node) & (targets != node) & relation.directed
        near = torch.cat([sources[into], targets[out]])
        if weight is not None:
            near = near[torch.cat([weight[into], weight[out]]).argsort(descending=True)]
        return torch.tensor(list(dict.fromkeys(near.tolist())), dtype=torch.long)

    def neighbours(self, node: int) -> list[tuple[int, Floats, str]]:
        """Return each neighbour, how much the scores change without it, and the relation.

        Removing one neighbour changes the means of the others, their number and their labels.
        Of many neighbours only those with the largest edge weights are removed; of nodes that
        share things none.
        """
        inputs, plan = self.inputs(np.array([node])), self.model.plan
        node, side_of = node - self._first, np.array(plan.side_of)
        (score,), found = self._score(inputs), list[tuple[int, Floats, str]]()
        for number, relation in enumerate(self.relations):
            near = self._near(relation, node)[:_MOST_NEIGHBOURS]
            if relation.things is not None or not len(near):
                continue
            rows, name = inputs.repeat(len(near), axis=0), self.names.relations[number].name
            for place, (of_side, side) in enumerate(plan.sides):
                if of_side == number:
                    without = self._without_each(node, near, number, flipped=side == "out-")
                    rows = np.where(side_of == place, without, rows)
            effects = zip((near + self._first).tolist(), score - self._score(rows), strict=True)
            found += [(*each, name) for each in effects]
        return found

    def _score(self, rows: Floats) -> Floats:
        return self.polynomial.mean(self.polynomial.evaluate(self.polynomial.project(rows)))

    def _without_each(self, node: int, near: Tensor, number: int, *, flipped: bool) -> Floats:
        """Return the inputs of copies of a node, each without one of its neighbours.

        Only the nodes that the inputs depend on, and the relation of this ``number``, are looked
        at. The copies have the edges into the node; if these are ``flipped``, the columns of
        out-neighbours are right, else others.
        """
        data, count, relation = self.data, len(near), self.relations[number]
        edges = relation.edge_index.flip(0) if flipped else relation.edge_index
        nodes, (sources, targets), place, inside = k_hop_subgraph(
            node, self.model.plan.hops, edges, True, data.num_nodes
        )
        into = ((targets == place) & (sources != place)).nonzero().flatten()
        kept = nodes[sources[into]] != near[:, None]
        copy, edge = kept.nonzero(as_tuple=True)
        copies = torch.stack([sources[into][edge], len(nodes) + copy])
        edges = torch.cat([torch.stack([sources, targets]), copies], 1)
        # Which of the relation's edges each is, for its weight and columns.
        origin = inside.nonzero().flatten()
        origin = torch.cat([origin, origin[into][edge]])
        labels = self.labels
        if labels is not None:  # The copies must not see the node's own label.
            prior = _prior(labels)
            known = torch.cat([labels.known[nodes], labels.known.new_zeros(count)])
            known[place] = False
            values = labels.values[torch.cat([nodes, nodes[place].repeat(count)])]
            times = labels.times
            if times is not None:
                times = times[torch.cat([nodes, nodes[place].repeat(count)])]
            labels = NeighbourLabels(values, known, prior, times)
        x = data.x[nodes] if data.x.layout == torch.strided else data.x.to_dense()[nodes]
        x = torch.cat([x, x[place].repeat(count, 1)])
        alone = [select_edges(each, origin[:0]) for each in self.relations]
        picked = select_edges(relation, origin)
        alone[number] = picked._replace(edge_index=edges.flip(0) if flipped else edges)
        inputs = self.compute(self.model, Data(x, relations=tuple(alone)), labels)
        return self._rows(inputs, len(nodes) + np.arange(count))

    @staticmethod
    @torch.no_grad()
    def compute(model: CrossHops, data: Data, labels: NeighbourLabels | None) -> Any:
        """Return the standardised columns of a model for all nodes of a graph."""
        edges = data.get("relations") or data.edge_index
        return model.columns(data.x, edges, data.get("edge_weight"), labels)

    def _rows(self, inputs: Any, nodes: Ints) -> Floats:
        return as_array(inputs[torch.from_numpy(nodes)])


def _prior(labels: NeighbourLabels) -> Tensor:
    return labels.values[labels.known].mean(0) if labels.prior is None else labels.prior
