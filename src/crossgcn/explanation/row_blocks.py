"""The first layer multiplied out at nodes that have equally many features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from crossgcn.explanation.layer_reading import Floats
from crossgcn.explanation.reading import Reading

__all__ = ["Block", "LocalWeights"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LocalWeights:
    """The weights of the features that occur, in the units that count.

    Attributes:
        first_order: ``[features, units]``.
        projections: ``[features, units]`` for each order.
        order_weights: One for each order and unit, ``[order, units]``.
        binary: Which of the features are 0 or 1.
    """

    first_order: Floats
    projections: tuple[Floats, ...]
    order_weights: Floats
    binary: NDArray[np.bool_]

    @classmethod
    def of(cls, reading: Reading, features: Ints, units: Ints) -> LocalWeights:
        """Pick them from a model's first layer."""
        layer, place = reading.layers[0], np.ix_(units, features)
        return cls(
            np.ascontiguousarray(layer.first_order[place].T),
            tuple(
                np.ascontiguousarray(projection[place].T)
                for projection in layer.projections[: layer.order if layer.order > 1 else 0]
            ),
            layer.order_weights[:, units],
            reading.binary[features],
        )


@dataclass(frozen=True)
class Block:
    """Nodes with equally many features, which are multiplied out together.

    Attributes:
        weights: Of the features that occur.
        local: Which of them each node has, ``[nodes, places]``.
        values: Their values there.
        coefficients: With what each unit counts at each node, ``[nodes, units]``.
    """

    weights: LocalWeights
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
            weighed = projection * weights.order_weights[order - 1]
            cells = np.matmul(product, weighed.transpose(0, 2, 1)).reshape(num_nodes, -1)
            pattern = _pattern(self.local.shape[1], order)
            summed = np.add.reduceat(
                np.take(cells, pattern.sorting, axis=1), pattern.starts, axis=1
            )
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
