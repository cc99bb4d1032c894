"""All products of features that some nodes have, each with what it contributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from crossgcn.errors import BadInput
from crossgcn.explanation.layer_reading import Floats
from crossgcn.explanation.reading import Reading

__all__ = ["RowTerms", "expand_rows"]

MAX_CELLS = 30_000_000
"""Products of one node's features, before symmetrisation: 240 MB."""

_CHUNK_CELLS = 1_000_000
_DENSE_CODES = 10_000_000

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RowTerms:
    """Terms of some nodes.

    A term's code is a number in base ``len(features) + 1``, whose digits are its features,
    counted from 1 in ``features``.

    Attributes:
        row: Position of the node each term comes from.
        code: Which product it is.
        contribution: What it adds to the score.
        value: The product of the feature values.
        features: The features that occur.
        length: Most digits a code may have.
    """

    row: Ints
    code: Ints
    contribution: Floats
    value: Floats
    features: Ints
    length: int

    def decode(self, codes: Ints) -> list[tuple[int, ...]]:
        """The features of each code, ascending."""
        base = len(self.features) + 1
        digits = np.stack(
            [codes // base**place % base for place in reversed(range(self.length))], axis=1
        )
        names = np.concatenate([[-1], self.features])[digits]
        return [tuple(name for name in row if name >= 0) for row in names.tolist()]

    def sum_by_code(self) -> tuple[Ints, Floats]:
        """Each code once, with its contributions added up; not those that add up to 0."""
        space = (len(self.features) + 1) ** self.length
        if space <= 4 * self.code.size + _DENSE_CODES:
            codes, sums = np.arange(space), self._sums(self.code, space)
        else:
            codes, inverse = np.unique(self.code, return_inverse=True)
            sums = self._sums(inverse, codes.size)
        present = np.flatnonzero(sums)
        return codes[present], sums[present]

    def _sums(self, places: Ints, size: int) -> Floats:
        sums = np.bincount(places, self.contribution, minlength=size)
        return sums.astype(np.float64, copy=False)


def expand_rows(
    reading: Reading, nodes: Ints, coefficients: Floats, *, with_values: bool = True
) -> RowTerms:
    """Multiply out the first layer at some nodes.

    Args:
        reading: The model on its graph.
        nodes: Where.
        coefficients: With what each unit counts at each node, ``[nodes, channels]``.
        with_values: Fill in the products of the feature values too.

    Raises:
        BadInput: If a node has so many features that their products do not fit.
    """
    order = reading.layers[0].order
    starts, lengths = reading.inputs.indptr[nodes], np.diff(reading.inputs.indptr)[nodes]
    _check_size(lengths, nodes, order)
    places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    features, local = np.unique(reading.inputs.indices[places], return_inverse=True)
    features = features.astype(np.int64)
    if (len(features) + 1) ** order > np.iinfo(np.int64).max:
        raise BadInput(
            f"products of order {order} of {len(features)} features are too many to tell apart; "
            "explain a model of lower order, or with fewer features"
        )
    active = np.flatnonzero(np.any(coefficients != 0, axis=0))
    weights = _LocalWeights.of(reading, features, active)
    row_starts = np.cumsum(lengths) - lengths
    parts: list[tuple[Ints, Ints, Floats, Floats]] = []
    for length in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == length)
        step = max(1, _CHUNK_CELLS // length ** max(order, 2))
        for chunk in (rows[start : start + step] for start in range(0, rows.size, step)):
            entries = row_starts[chunk][:, None] + np.arange(length)
            block = _Block(
                weights,
                local[entries],
                reading.inputs.data[places[entries]],
                coefficients[np.ix_(chunk, active)],
            )
            for codes, contributions, values in block.terms(with_values):
                row = np.repeat(chunk, codes.shape[1])
                parts.append((row, codes.ravel(), contributions.ravel(), values.ravel()))
    if not parts:
        empty, none = np.zeros(0, np.int64), np.zeros(0)
        return RowTerms(empty, empty, none, none, features, order)
    row, code, contribution, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    return RowTerms(row, code, contribution, value, features, order)


@dataclass(frozen=True)
class _LocalWeights:
    """The weights of the features that occur, in the units that count.

    Attributes:
        first_order: ``[features, units]``.
        projections: ``[features, units]`` for each order.
        order_weights: One for each order.
        binary: Which of the features are 0 or 1.
    """

    first_order: Floats
    projections: tuple[Floats, ...]
    order_weights: Floats
    binary: NDArray[np.bool_]

    @classmethod
    def of(cls, reading: Reading, features: Ints, units: Ints) -> _LocalWeights:
        """Pick them from a model's first layer."""
        layer, place = reading.layers[0], np.ix_(units, features)
        return cls(
            np.ascontiguousarray(layer.first_order[place].T),
            tuple(
                np.ascontiguousarray(projection[place].T)
                for projection in layer.projections[: layer.order if layer.order > 1 else 0]
            ),
            layer.order_weights,
            reading.binary[features],
        )


@dataclass(frozen=True)
class _Block:
    """Nodes with equally many features, which are multiplied out together.

    Attributes:
        weights: Of the features that occur.
        local: Which of them each node has, ``[nodes, places]``.
        values: Their values there.
        coefficients: With what each unit counts at each node, ``[nodes, units]``.
    """

    weights: _LocalWeights
    local: Ints
    values: Floats
    coefficients: Floats

    def terms(self, with_values: bool) -> Iterator[tuple[Ints, Floats, Floats]]:
        """Codes, contributions and values of each order, ``[nodes, terms]`` each."""
        weights, num_nodes = self.weights, len(self.local)
        linear = np.matmul(weights.first_order[self.local], self.coefficients[:, :, np.newaxis])
        values = self.values if with_values else self.values[:, :0]
        yield self.local + 1, linear[..., 0] * self.values, values
        projected = [
            each[self.local] * self.values[..., np.newaxis] for each in weights.projections
        ]
        if not projected:
            return
        product = projected[0] * self.coefficients[:, np.newaxis]
        for order, projection in enumerate(projected[1:], 2):
            cells = np.matmul(product, projection.transpose(0, 2, 1)).reshape(num_nodes, -1)
            pattern = _pattern(self.local.shape[1], order)
            summed = np.add.reduceat(
                np.take(cells, pattern.sorting, axis=1), pattern.starts, axis=1
            )
            summed *= weights.order_weights[order - 1]
            values = self.values[:, pattern.members].prod(axis=2) if with_values else summed[:, :0]
            yield self._codes(pattern), summed, values
            if order < len(projected):
                product = product[:, :, np.newaxis] * projection[:, np.newaxis]
                product = product.reshape(num_nodes, -1, product.shape[-1])

    def _codes(self, pattern: _Pattern) -> Ints:
        """The numbers of the products, powers of binary features folded."""
        digits = self.local[:, pattern.members] + 1
        some = digits[:, pattern.repeated]
        folds = (some[..., 1:] == some[..., :-1]) & self.weights.binary[some[..., 1:] - 1]
        some[..., :-1][folds] = 0
        digits[:, pattern.repeated] = np.sort(some, axis=2)
        base = len(self.weights.binary) + 1
        code = digits[..., 0]
        for place in range(1, digits.shape[2]):
            code = code * base + digits[..., place]
        return code


@dataclass(frozen=True)
class _Pattern:
    """Which cells of a power of a row are the same product.

    Attributes:
        members: Places in the row that each product multiplies, ascending.
        repeated: The products that hold a place twice.
        sorting: The cells, product by product.
        starts: Where each product's cells start.
    """

    members: Ints
    repeated: Ints
    sorting: Ints
    starts: Ints


@lru_cache(maxsize=16)
def _pattern(length: int, order: int) -> _Pattern:
    cells = np.stack(np.unravel_index(np.arange(length**order), (length,) * order), axis=1)
    cells.sort(axis=1)
    code = np.ravel_multi_index(tuple(cells.T), (length,) * order)
    sorting = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[sorting], prepend=-1))
    members = cells[sorting[starts]].astype(np.int64)
    repeated = np.flatnonzero((members[:, 1:] == members[:, :-1]).any(axis=1))
    return _Pattern(members, repeated, sorting, starts)


def _check_size(lengths: Ints, nodes: Ints, order: int) -> None:
    if lengths.size and int(lengths.max()) ** order > MAX_CELLS:
        node = int(nodes[lengths.argmax()])
        raise BadInput(
            f"node {node} has {lengths.max()} features that are not 0, whose products of order "
            f"{order} are too many to list; explain a model of lower order, or with fewer features"
        )
