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
from crossgcn.explanation.terms import MAX_SUMS, TermCodes, count_terms, sum_codes, sum_products

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


MAX_CELLS = 30_000_000
"""Products of one node's features, before symmetrisation: 240 MB."""

MAX_WORK = 20_000_000_000
"""Products of all nodes' features, before symmetrisation: some minutes."""

MAX_ROWS = 5_000_000
"""Rows of one table: about 2 GB with the names."""

_CHUNK_CELLS = 1_000_000


@dataclass(frozen=True)
class RowTerms:
    """Terms of some nodes.

    Attributes:
        row: Position of the node each term comes from.
        code: Which product it is, see :class:`~crossgcn.explanation.terms.TermCodes`.
        contribution: What it adds to the score.
        value: The product of the feature values; empty where it was not asked for.
    """

    row: Ints
    code: Ints
    contribution: Floats
    value: Floats


@dataclass(frozen=True)
class Expansion:
    """The first layer multiplied out at some nodes, as far as it is asked for.

    Attributes:
        reading: The model on its graph.
        nodes: Where.
        coefficients: With what each unit counts at each node, ``[nodes, units]``.
        rows: The nodes at which some unit counts, by position.
        units: The units that count at some node.
        codes: Numbers of the products.
    """

    reading: Reading
    nodes: Ints
    coefficients: Floats
    rows: Ints
    units: Ints
    codes: TermCodes

    def list_terms(self) -> RowTerms:
        """Every node's every term.

        Raises:
            BadInput: If they are too many for one table.
        """
        total = count_terms(self._lengths(), self.codes.length).sum()
        if total > MAX_ROWS:
            raise BadInput(
                f"the score is made of about {total:,.0f} terms of {self.rows.size:,} nodes, too "
                f"many for one table (at most {MAX_ROWS:,}); ask for by_cross or top_crosses, "
                "which add them up over the nodes, for frame_of some of the nodes, or explain a "
                "model of lower order"
            )
        empty, none = np.zeros(0, np.int64), np.zeros(0)
        parts = [RowTerms(empty, empty, none, none), *self.chunks(with_values=True)]
        return RowTerms(
            np.concatenate([part.row for part in parts]),
            np.concatenate([part.code for part in parts]),
            np.concatenate([part.contribution for part in parts]),
            np.concatenate([part.value for part in parts]),
        )

    def sum_by_code(self) -> tuple[Ints, Floats]:
        """Each product once, its contributions added up over nodes; not those that come to 0.

        Raises:
            BadInput: If even these are too many.
        """
        lengths, order = self._lengths(), self.codes.length
        products = float(count_terms(np.array([len(self.codes.features)]), order)[0])
        work = (lengths.astype(np.float64) ** order).sum()
        by_product = products * (self.rows.size + 3**order)
        if products <= MAX_SUMS and by_product <= min(work, MAX_WORK):
            return sum_products(
                self.reading.layers[0].of_units(self.units),
                self.reading.inputs[self.nodes[self.rows]],
                self.coefficients[np.ix_(self.rows, self.units)],
                self.reading.binary,
                self.codes,
            )
        return sum_codes(self.codes, ((part.code, part.contribution) for part in self.chunks()))

    def sum_by_row(self) -> Floats:
        """What each node's terms come to, one number per node."""
        sums = np.zeros(len(self.nodes))
        inputs = self.reading.inputs[self.nodes[self.rows]]
        linear, crosses = self.reading.layers[0].apply(inputs, None)
        sums[self.rows] = ((linear + crosses) * self.coefficients[self.rows]).sum(axis=1)
        return sums

    def chunks(self, *, with_values: bool = False) -> Iterator[RowTerms]:
        """All terms, some nodes and one order at a time.

        Args:
            with_values: Fill in the products of the feature values too.

        Raises:
            BadInput: If the nodes have so many features that their products do not fit.
        """
        inputs, order = self.reading.inputs, self.codes.length
        lengths, nodes = self._lengths(), self.nodes[self.rows]
        _check_size(lengths, nodes, order)
        weights = LocalWeights.of(self.reading, self.codes.features, self.units)
        for length in np.unique(lengths[lengths > 0]).tolist():
            alike = np.flatnonzero(lengths == length)
            step = max(1, _CHUNK_CELLS // length ** max(order, 2))
            for chunk in (alike[start : start + step] for start in range(0, alike.size, step)):
                entries = inputs.indptr[nodes[chunk]][:, np.newaxis] + np.arange(length)
                block = Block(
                    weights,
                    np.searchsorted(self.codes.features, inputs.indices[entries]),
                    inputs.data[entries],
                    self.coefficients[np.ix_(self.rows[chunk], self.units)],
                )
                for codes, contributions, values in block.terms(with_values):
                    row = np.repeat(self.rows[chunk], codes.shape[1])
                    yield RowTerms(row, codes.ravel(), contributions.ravel(), values.ravel())

    def _lengths(self) -> Ints:
        """How many features each node has at which some unit counts."""
        return np.diff(self.reading.inputs.indptr)[self.nodes[self.rows]].astype(np.int64)


def expand_rows(reading: Reading, nodes: Ints, coefficients: Floats) -> Expansion:
    """Prepare to multiply out the first layer at some nodes.

    Args:
        reading: The model on its graph.
        nodes: Where.
        coefficients: With what each unit counts at each node, ``[nodes, units]``.

    Raises:
        BadInput: If there are more products than there are numbers for them.
    """
    counts = coefficients != 0
    rows, units = np.flatnonzero(counts.any(axis=1)), np.flatnonzero(counts.any(axis=0))
    features = np.unique(reading.inputs[nodes[rows]].indices).astype(np.int64)
    codes = TermCodes(features, reading.layers[0].order)
    if codes.base**codes.length > np.iinfo(np.int64).max:
        raise BadInput(
            f"products of order {codes.length} of {len(features)} features are too many to tell "
            "apart; explain a model of lower order, or with fewer features"
        )
    return Expansion(reading, nodes, coefficients, rows, units, codes)


def _check_size(lengths: Ints, nodes: Ints, order: int) -> None:
    if lengths.size and int(lengths.max()) ** order > MAX_CELLS:
        node = int(nodes[lengths.argmax()])
        raise BadInput(
            f"node {node} has {lengths.max()} features that are not 0, whose products of order "
            f"{order} are too many to list; explain a model of lower order, or with fewer features"
        )
    work = (lengths.astype(np.float64) ** order).sum()
    if work > MAX_WORK:
        raise BadInput(
            f"the score is made of products of order {order} of the features of {nodes.size:,} "
            f"nodes, about {work:.1e} in all (at most {MAX_WORK:.0e}); explain a model of lower "
            "order or with fewer layers, or a graph of which only some neighbours are kept"
        )
