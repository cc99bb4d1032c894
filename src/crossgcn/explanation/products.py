r"""The strongest features and products of two features that the first layer of a model takes.

A layer multiplies :math:`\mathbf{f}_e\mathbf{x} + \sum_k \alpha_{ke} \prod_{m\le k}
\mathbf{w}^m_e\mathbf{x}`. Multiplied out, it is a sum of products of features with one weight per
unit, where ``x_i x_j`` and ``x_j x_i`` are one product. Later layers count with their first-order
weights, where each hidden unit counts with the share of nodes at which it is active. Single
features and products of two different ones are listed; all that occur are weighed, so the listed
ones are the strongest.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
import scipy.sparse as sp
import torch
from torch import nn
from torch_geometric.data import Data

from crossgcn.errors import BadInput
from crossgcn.explanation.columns import Names, show_frame
from crossgcn.explanation.polynomial import (
    Floats,
    Ints,
    Polynomial,
    layers_of,
    read_layers,
    target_scale,
)
from crossgcn.explanation.terms import SHOWN, keep_strongest, make_frame
from crossgcn.graph import SparseMatrix, edges_of_kind
from crossgcn.layers import CrossGCNConv

if TYPE_CHECKING:
    import pandas as pd

TOP = 100
"""How many single features, and how many products of two, are listed for each score."""
_AT_ONCE = 1 << 18
"""How many products are weighed together."""
NO_COLUMNS = (
    "single nodes, single terms and one class against another are explained by terms of columns, "
    "which this model does not have: train cross-hops on at most 200 columns"
)


@dataclass(frozen=True)
class Products:
    """The strongest features and products of two features for each class.

    Attributes:
        outputs: What each score is for, in ``unit``, and what it is ``against``; see
            :class:`~crossgcn.explanation.terms.Explanation`.
        records: One per class and product, the most important first: ``class``, ``columns`` (names
            of the features), ``weight``, ``nodes`` (at how many the product is not 0),
            ``importance`` (the standard deviation over nodes of weight times product) and
            ``slope`` (the same with the sign of the weight).
        reason: Why these are no terms of columns.
    """

    reason: ClassVar[str] = "only the scores of cross-hops are split into terms of columns"
    outputs: tuple[str, ...]
    unit: str
    against: str
    records: list[dict[str, Any]]

    def to_frame(self, top: int | None = None) -> pd.DataFrame:
        """Return the products as a table, see ``Explanation.to_frame``."""
        return make_frame(self.to_json(top))

    def to_json(self, top: int | None = None, output: int | None = None) -> list[dict[str, Any]]:
        """Return the products as ``explain --json`` lists them, see ``Explanation.to_json``."""
        return [
            record
            for name in (self.outputs if output is None else [self.outputs[output]])
            for record in keep_strongest(
                [record for record in self.records if record["class"] == name],
                top,
                lambda record: len(record["columns"]),
            )
        ]

    def node(self, *_: Any) -> NoReturn:
        """Refuse: single nodes and terms are explained by terms of columns."""
        raise BadInput(NO_COLUMNS)

    term = node

    def __repr__(self) -> str:
        shown = make_frame(self.records[:SHOWN])[["class", "term", "importance", "slope"]]
        return f"Products of features ({self.unit})\n{show_frame(shown)}"


def products(model: nn.Module, data: Data, names: Names) -> Products:
    """Return the strongest features, and products of two features, for each class.

    Two features of one column are not multiplied. Products of more features are not listed.

    Args:
        model: A :class:`~crossgcn.models.node_classifier.NodeClassifier`, or a single layer.

    Raises:
        NotASum: If a part of the model is not a sum of products of features.
    """
    layers, inputs = read_layers(model), _first_inputs(model, data)
    outputs, unit, against, margin = names.outputs()
    _, deviation = target_scale(model)
    readout = deviation * margin  # The weight of each unit of a layer for each score.
    for layer, active in zip(layers[:0:-1], reversed(_active(model, data)), strict=True):
        readout = (readout @ layer.weights[0]) * active
    columns, scope = inputs.tocsc(), "both" if getattr(model, "propagations", ()) else "own"
    _, fields = np.unique(np.array(names.features.fields), return_inverse=True)
    records = []
    for pairs in (False, True)[: layers[0].order]:
        strongest = _strongest(layers[0], readout, inputs, fields, pairs)
        for output, best in enumerate(strongest):
            for features, weight, size in zip(*map(np.ndarray.tolist, best), strict=True):
                record = {
                    "class": outputs[output],
                    "columns": [names.features.names[feature] for feature in features],
                    "scope": scope,
                    "importance": size,
                    "error": None,
                    "slope": float(np.sign(weight)) * size,
                    "weight": weight,
                    "nodes": int(np.count_nonzero(columns[:, features].toarray().all(axis=1))),
                }
                records.append(record)
    records.sort(key=lambda record: -record["importance"])
    return Products(outputs, unit, against, records)


def _first_inputs(model: nn.Module, data: Data) -> sp.csr_array:
    """Return what the first layer multiplies: features, or their sums over neighbours."""
    x, first = data.x.detach().cpu().double(), layers_of(model)[0]
    is_dense = x.layout == torch.strided
    inputs = sp.csr_array(x.numpy() if is_dense else SparseMatrix.from_torch(x).to_scipy())
    if isinstance(first, CrossGCNConv) and first.aggregate_first:
        edges, weight = data.edge_index.cpu(), data.get("edge_weight")
        weight = None if weight is None else weight.detach().cpu()
        (kind,) = first.propagations
        adjacency = edges_of_kind(kind, edges, len(x), weight, dtype=torch.float64)
        inputs = sp.csr_array(adjacency.to_scipy() @ inputs)
    inputs.eliminate_zeros()
    inputs.sort_indices()
    return inputs


@torch.no_grad()
def _active(model: nn.Module, data: Data) -> list[Floats]:
    """Return the share of nodes at which each hidden unit is active, for each hidden layer."""
    data = copy(data).to(next(model.parameters()).device)
    hidden, shares, edges = data.x, [], (data.edge_index, data.get("edge_weight"))
    for layer in layers_of(model)[:-1]:
        hidden = layer(hidden, *(edges if isinstance(layer, CrossGCNConv) else ())).relu()
        shares.append((hidden > 0).double().mean(0).cpu().numpy())
    return shares


def weigh(layer: Polynomial, tuples: Ints) -> Floats:
    """Return the weight of single features, or of products of two, in each unit.

    Args:
        tuples: Features of each product, ``[products, 1 or 2]``.
    """
    if tuples.shape[1] == 1:
        return np.asarray(layer.weights[0][:, tuples[:, 0]].T)
    (first, second), (_, one, two) = tuples.T, layer.weights[:3]
    both_ways = one[:, first] * two[:, second] + one[:, second] * two[:, first]
    return np.asarray(layer.order_weights[1][:, np.newaxis] * both_ways).T


def _strongest(
    layer: Polynomial, readout: Floats, inputs: sp.csr_array, fields: Ints, pairs: bool
) -> list[tuple[Ints, Floats, Floats]]:
    """Return the strongest products for each score: features, weights and importances.

    Args:
        readout: The weight of each unit for each score.
        fields: Number of the column of each feature.
        pairs: Products of two features, or else single features.
    """
    best = [(np.zeros((0, 1 + pairs), np.int64), np.zeros(0), np.zeros(0))] * len(readout)
    for tuples, means, squares in _occurring(inputs, fields, pairs):
        weights = weigh(layer, tuples) @ readout.T
        deviations = np.sqrt(np.maximum(squares - means**2, 0.0))
        sizes = np.abs(weights) * deviations[:, np.newaxis]
        for output, (kept, old, old_sizes) in enumerate(best):
            weakest = old_sizes[-1] if len(old_sizes) == TOP else 0.0
            new = np.flatnonzero(sizes[:, output] > weakest)
            found = np.append(old_sizes, sizes[new, output])
            top = np.argsort(-found, kind="stable")[:TOP]
            joined = np.concatenate([kept, tuples[new]]), np.append(old, weights[new, output])
            best[output] = joined[0][top], joined[1][top], found[top]
    return best


def _occurring(
    inputs: sp.csr_array, fields: Ints, pairs: bool
) -> Iterator[tuple[Ints, Floats, Floats]]:
    """Yield products that occur, with their mean and mean square over the nodes."""
    count, squares = inputs.shape[0], sp.csr_array(inputs.multiply(inputs))
    columns, square_columns = inputs.tocsc(), squares.tocsc()
    if not pairs:
        features = np.arange(inputs.shape[1])[:, np.newaxis]
        yield features, columns.mean(axis=0), square_columns.mean(axis=0)
        return
    step = max(1, _AT_ONCE // max(1, inputs.shape[1]))
    for start in range(0, inputs.shape[1], step):
        block = slice(start, start + step)
        found = sp.coo_array(square_columns[:, block].T @ squares)
        first, second = found.row + start, found.col
        kept = (second > first) & (fields[first] != fields[second])
        sums = sp.csr_array(columns[:, block].T @ inputs)[found.row[kept], second[kept]]
        tuples = np.stack([first, second], axis=1)[kept].astype(np.int64)
        yield tuples, np.asarray(sums).ravel() / count, found.data[kept] / count
