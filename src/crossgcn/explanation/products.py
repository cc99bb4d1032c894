r"""The strongest products of features of a first layer, for bags of words.

A layer multiplies :math:`\mathbf{f}_e\mathbf{x} + \sum_k \alpha_{ke} \prod_{m\le k}
\mathbf{w}^m_e\mathbf{x}`. Multiplied out, it is a sum of products of features with one weight per
unit: symmetrised (``x_i x_j`` and ``x_j x_i`` are one product), and with powers of 0/1 features
folded into the product of lower order that they equal. Later layers count with their first-order
weights, where each hidden unit counts with the share of nodes at which it is active.

The search is exact. It grows products feature by feature, only those that occur, and leaves out
what cannot reach the strongest that were found: a longer product weighs at most
:math:`\sum_e |a_e| \prod_i \sum_m |w^m_{ei}|`, and its mean square is at most that of its
beginning times the largest squares of the features to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from crossgcn.data.features import FeatureSpace
from crossgcn.errors import BadInput
from crossgcn.explanation.polynomial import margins
from crossgcn.explanation.reading import Floats, Ints, LayerReading, Reading

_AT_ONCE = 1 << 18
"""Products that are weighed together."""
_SLACK = 1.0 - 1e-9
"""Bounds are rounded sums; what is equal to the weakest kept product is looked at."""


@dataclass(frozen=True)
class Products:
    """The strongest products of features for each class.

    Attributes:
        outputs: What each score is for, in ``unit``; see
            :class:`~crossgcn.explanation.terms.Explanation`.
        frame: A row per class and product, the most important first: ``class``, ``columns`` (names
            of the features), ``features`` (their numbers), ``weight``, ``nodes`` (at how many the
            product is not 0), ``importance`` (the standard deviation over nodes of weight times
            product) and ``error`` (its standard error over several models, or NaN).
        whose: ``"own"``; ``"both"`` if the products of neighbours are summed.
        reason: Why there are no terms by column.
    """

    outputs: tuple[str, ...]
    unit: str
    frame: pd.DataFrame
    num_nodes: int
    order: int
    whose: str
    reason: str = ""

    def to_frame(self, top: int | None = None, order: int | None = None) -> pd.DataFrame:
        """Return the products as a table, see ``Explanation.to_frame``."""
        sizes = self.frame["columns"].map(len)
        chosen = self.frame
        if top is not None:
            chosen = chosen.groupby([chosen["class"], sizes], sort=False).head(top)
        return chosen[(order is None) | (sizes[chosen.index] == order)]

    def to_json(
        self, top: int | None = None, order: int | None = None, output: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the products as ``explain --json`` lists them, see ``Explanation.to_json``."""
        records = []
        for row in self.to_frame(top, order).to_dict("records"):
            if output is not None and row["class"] != self.outputs[output]:
                continue
            record = {
                "class": row["class"],
                "columns": list(row["columns"]),
                "whose": self.whose,
                "importance": row["importance"],
                "error": None if np.isnan(row["error"]) else row["error"],
            }
            if row["binary"]:
                cell = {"names": list(row["columns"]), "contribution": row["weight"]}
                record["cells"] = [cell | {"nodes": row["nodes"]}]
            else:
                record["slope"] = float(np.sign(row["weight"])) * row["importance"]
            records.append(record)
        return records

    def node(self, *_: Any) -> Any:
        """Refuse: single nodes are explained by column."""
        raise BadInput(
            f"single nodes are explained by column, and this model has no terms by column: "
            f"{self.reason or 'its products of features were asked for'}; train cross-hops, or "
            "one or two layers, on at most 200 columns"
        )

    term = node

    def __repr__(self) -> str:
        shown = self.frame.groupby("class", sort=False).head(3)
        lines = [
            f"  {row['class']}: {' & '.join(row['columns'])} {row['weight']:+.3g} at "
            f"{row['nodes']:,} nodes"
            for row in shown.head(20).to_dict("records")
        ]
        return "\n".join([f"Products of up to {self.order} features ({self.unit})", *lines])


def products(
    reading: Reading,
    space: FeatureSpace,
    classes: Sequence[str],
    *,
    top: int = 20,
    others: Sequence[Reading] = (),
    reason: str = "",
) -> Products:
    """Return the ``top`` strongest products of each number of features, for each class.

    Args:
        space: Names of the features. Two features of one column are not multiplied.
        others: Readings of other models on the same graph, for errors.
    """
    layer, num_classes = reading.layers[0], reading.logits.shape[1]
    margin = margins(num_classes)
    outputs = (classes[1],) if num_classes == 2 else tuple(classes)
    unit = "log-odds" if num_classes == 2 else "margin" if num_classes > 2 else classes[0]
    columns = np.unique(np.array(space.fields), return_inverse=True)[1]
    rows = []
    for length in range(1, layer.order + 1):
        search = _Search(layer, margin @ reading.readout(), reading.inputs, columns, length, top)
        for output, (features, weights, sizes) in enumerate(search.best):
            values = _values(reading.inputs, features)
            deviation = sizes / np.maximum(np.abs(weights), 1e-300)
            spread = _errors(features, deviation, output, margin, (reading, *others))
            for place in range(len(features)):
                rows.append(
                    {
                        "class": outputs[output],
                        "columns": tuple(space.names[each] for each in features[place]),
                        "features": tuple(features[place].tolist()),
                        "weight": float(weights[place]),
                        "nodes": int(np.count_nonzero(values[:, [place]].data)),
                        "importance": float(sizes[place]),
                        "error": float(spread[place]),
                        "binary": bool(reading.binary[features[place]].all()),
                    }
                )
    names = [*("class", "columns", "features", "weight", "nodes", "importance", "error", "binary")]
    frame = pd.DataFrame(rows, columns=names)
    rank = frame["class"].map({name: place for place, name in enumerate(outputs)})
    frame = frame.iloc[np.lexsort((-frame["importance"], rank))].reset_index(drop=True)
    whose = "own" if all(each is None for each in reading.adjacencies) else "both"
    return Products(outputs, unit, frame, reading.num_nodes, layer.order, whose, reason)


def product_weights(layer: LayerReading, tuples: Ints, folds: bool) -> Floats:
    """Return the weight of each product in each unit, ``[products, units]``.

    Args:
        tuples: Features of each product, ``[products, length]``, ascending.
        folds: Whether all features are 0/1. Products then have no feature twice, and higher
            orders of the same features are folded in.
    """
    count, length = tuples.shape
    weights = layer.first_order[:, tuples[:, 0]].T if length == 1 else 0.0
    weights = weights + np.zeros((count, len(layer.bias)))
    for order in range(max(2, length), (layer.order if folds else length) + 1):
        if folds:
            sequences = [s for s in product(range(length), repeat=order) if len(set(s)) == length]
        else:
            sequences = list(permutations(range(length)))
        total = np.zeros_like(weights)
        for sequence in sequences:
            part = np.ones_like(weights)
            for position, place in enumerate(sequence):
                part *= layer.projections[position][:, tuples[:, place]].T
            total += part
        weights += layer.order_weights[order - 1] * total / _repeats(tuples)[:, np.newaxis]
    return np.asarray(weights)


def _repeats(tuples: Ints) -> Floats:
    """Return how many permutations of each product are the same."""
    same, run = np.ones(len(tuples)), np.ones(len(tuples))
    for place in range(1, tuples.shape[1]):
        run = np.where(tuples[:, place] == tuples[:, place - 1], run + 1, 1)
        same *= run
    return same


def _errors(
    features: Ints, deviation: Floats, output: int, margin: Floats, readings: Sequence[Reading]
) -> Floats:
    """Return the standard error of importances over models; NaN for a single one."""
    if len(readings) < 2 or not len(features):
        return np.full(len(features), np.nan)
    sizes = [
        np.abs(
            product_weights(each.layers[0], features, bool(each.binary.all()))
            @ (margin @ each.readout())[output]
        )
        * deviation
        if features.shape[1] <= max(1, each.layers[0].order)
        else np.zeros(len(features))
        for each in readings
    ]
    return np.asarray(np.std(sizes, axis=0, ddof=1) / np.sqrt(len(sizes)))


def _values(inputs: Any, tuples: Ints) -> sp.csc_array:
    """Return the value of each product at each node, ``[nodes, products]``."""
    columns = inputs.tocsc()
    values = columns[:, tuples[:, 0]]
    for place in range(1, tuples.shape[1]):
        values = values.multiply(columns[:, tuples[:, place]]).tocsc()
    return sp.csc_array(values)


class _Search:
    """The products of ``length`` features with the largest importance, for each score.

    Attributes:
        best: Features, weights and importances of the strongest of each score.
    """

    def __init__(
        self,
        layer: LayerReading,
        readout: Floats,
        inputs: sp.csr_array,
        columns: Ints,
        length: int,
        top: int,
    ) -> None:
        self.layer, self.readout, self.length, self.top = layer, readout, length, top
        other = (inputs.data != 1.0) & (inputs.data != 0.0)
        self.folds = not other.any()
        sizes = np.abs(layer.projections[: layer.order])
        single = sizes.sum(axis=0)
        bound = (1.0 + sizes).prod(axis=0) - 1.0 if self.folds else single
        if length == 1:
            bound = np.maximum(bound, np.abs(layer.first_order))
        weights = np.abs(layer.order_weights[length - 1 :]).sum(axis=0)
        self.scale = np.abs(readout) * (weights + float(length == 1))
        squares = inputs.multiply(inputs)
        means = np.asarray(squares.mean(axis=0)).ravel()
        promise = (self.scale @ bound).max(axis=0) * np.sqrt(means)
        self.rank = np.argsort(-promise, kind="stable")[: np.count_nonzero(promise)]
        self.x = sp.csc_array(inputs[:, self.rank])
        self.squares = sp.csc_array(squares[:, self.rank])
        self.columns = columns[self.rank]
        self.bound = bound[:, self.rank].T
        largest = np.sqrt(np.asarray(self.squares.max(axis=0).todense()).ravel())
        ahead = self.bound * largest[:, np.newaxis]
        self.ahead = np.maximum.accumulate(ahead[::-1], axis=0)[::-1]
        self.row_length = self.x.nnz / max(1, self.x.shape[0])
        nothing = np.zeros((0, length), np.int64), np.zeros(0), np.zeros(0)
        self.best = [nothing] * len(readout)
        if len(self.rank):
            self._grow(np.arange(len(self.rank))[:, np.newaxis], means[self.rank])

    def _grow(self, tuples: Ints, means: Floats) -> None:
        """Search all products that start with some products, the most promising first.

        Args:
            tuples: Features as ranks, ascending.
            means: Mean squares of the products.
        """
        reach = self._reach(tuples, means)
        promise = (reach / self._thresholds()).max(axis=1)
        order = np.argsort(-promise, kind="stable")
        support = np.diff(self.x.indptr)[tuples].min(axis=1)[order]
        cost = np.cumsum(np.ones(len(order)) if self.length == tuples.shape[1] else 1 + support)
        room = _AT_ONCE if self.length == tuples.shape[1] else _AT_ONCE / (1 + self.row_length)
        for part in np.split(order, np.flatnonzero(np.diff(cost // room)) + 1):
            kept = part[(reach[part] >= self._thresholds() * _SLACK).any(axis=1)]
            if not len(kept):
                return
            if tuples.shape[1] == self.length:
                self._offer(tuples[kept], means[kept])
            else:
                self._grow(*self._extend(tuples[kept]))

    def _extend(self, tuples: Ints) -> tuple[Ints, Floats]:
        """Return the products that occur with one more feature, of the same rank or later."""
        values = _values(self.squares, tuples)
        found = sp.coo_array(values.T @ self.squares)
        means = found.data / self.x.shape[0]
        last = tuples[found.row, -1]
        allowed = (found.col > last) if self.folds else (found.col >= last)
        allowed &= means > 0
        for place in range(tuples.shape[1]):
            before = tuples[found.row, place]
            same_column = self.columns[found.col] == self.columns[before]
            allowed &= ~same_column | ((found.col == before) & (not self.folds))
        if tuples.shape[1] + 1 == self.length:  # at least two features differ
            allowed &= found.col != tuples[found.row, 0]
        longer = np.concatenate([tuples[found.row], found.col[:, np.newaxis]], axis=1)
        return longer[allowed].astype(np.int64), means[allowed]

    def _reach(self, tuples: Ints, means: Floats) -> Floats:
        """Return the importance that products with a beginning reach at most, per score."""
        units = self.bound[tuples].prod(axis=1)
        left = self.length - tuples.shape[1]
        if left:
            units = units * self.ahead[tuples[:, -1]] ** left
        return np.asarray(units @ self.scale.T) * np.sqrt(means)[:, np.newaxis]

    def _thresholds(self) -> Floats:
        """Return the importance of the weakest product that is kept, per score."""
        full = [len(sizes) == self.top for *_, sizes in self.best]
        weakest = [sizes.min(initial=np.inf) for *_, sizes in self.best]
        return np.where(full, weakest, 1e-300)

    def _offer(self, tuples: Ints, means: Floats) -> None:
        """Weigh products, and keep the strongest."""
        features = np.sort(self.rank[tuples], axis=1)
        weights = product_weights(self.layer, features, self.folds) @ self.readout.T
        upper = np.abs(weights) * np.sqrt(means)[:, np.newaxis]
        thresholds = self._thresholds()
        for output, (kept, old, sizes) in enumerate(self.best):
            chosen = np.flatnonzero(upper[:, output] >= thresholds[output] * _SLACK)
            mean = means[chosen]
            if not self.folds:
                mean = np.asarray(_values(self.x, tuples[chosen]).mean(axis=0)).ravel()
            deviation = np.sqrt(np.maximum(means[chosen] - mean**2, 0.0))
            found = np.abs(weights[chosen, output]) * deviation
            strongest = np.argsort(-np.append(sizes, found), kind="stable")[: self.top]
            self.best[output] = (
                np.concatenate([kept, features[chosen]])[strongest],
                np.append(old, weights[chosen, output])[strongest],
                np.append(sizes, found)[strongest],
            )
