"""Multiply out the first layer at some nodes: every product of features and its contribution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from crossgcn.errors import BadInput
from crossgcn.explanation.reading import Floats, Ints, Reading
from crossgcn.explanation.terms import count_terms, list_terms, term_weights

MAX_CELLS = 30_000_000
"""Products of one node's features, before symmetrisation: 240 MB."""

MAX_WORK = 20_000_000_000
"""Products of all nodes' features, before symmetrisation: some minutes."""

MAX_ROWS = 5_000_000
"""Rows of one table: about 2 GB with the names."""

MAX_SUMS = 20_000_000
"""Different products whose contributions are summed: 320 MB."""

_CHUNK_CELLS = 1_000_000
_CHUNK_TERMS = 4096
_DENSE_CODES = 10_000_000
_PENDING = 4_000_000


@dataclass(frozen=True)
class TermCodes:
    """A number (code) for each product of some features.

    The digits of a code in base ``len(features) + 1`` are the positions of its features in
    ``features``, counted from 1, in ascending order; shorter products start with zeros.

    Attributes:
        features: The features that occur.
        length: The largest number of features of a product.
    """

    features: Ints
    length: int

    @property
    def base(self) -> int:
        """The base of the codes."""
        return len(self.features) + 1

    def encode(self, digits: Ints) -> Ints:
        """Return the codes of products; their digits are the last axis."""
        code = digits[..., 0]
        for place in range(1, digits.shape[-1]):
            code = code * self.base + digits[..., place]
        return code

    def digits(self, codes: Ints) -> Ints:
        """Return the digits of codes, ``[codes, length]``."""
        places = reversed(range(self.length))
        return np.stack([codes // self.base**place % self.base for place in places], axis=1)

    def decode(self, codes: Ints) -> list[tuple[int, ...]]:
        """Return the features of each product, in ascending order."""
        names = np.concatenate([[-1], self.features])[self.digits(codes)]
        return [tuple(name for name in row if name >= 0) for row in names.tolist()]


class RowTerms(NamedTuple):
    """Terms of some nodes, one entry per term."""

    row: Ints
    """Position of the node in ``Expansion.nodes``."""
    code: Ints
    contribution: Floats
    value: Floats
    """Product of the feature values; empty if not requested."""


def expand_rows(reading: Reading, nodes: Ints, coefficients: Floats) -> Expansion:
    """Prepare to multiply out the first layer at some nodes.

    Args:
        reading: The model on its graph.
        nodes: Which nodes.
        coefficients: Weight of each unit at each node, ``[nodes, units]``.
    """
    counts = coefficients != 0
    rows, units = np.flatnonzero(counts.any(axis=1)), np.flatnonzero(counts.any(axis=0))
    features = np.unique(reading.inputs[nodes[rows]].indices).astype(np.int64)
    codes = TermCodes(features, reading.layers[0].order)
    if codes.base**codes.length > np.iinfo(np.int64).max:
        raise BadInput(
            f"products of order {codes.length} of {len(features)} features are too many to "
            "number; explain a model of lower order, or with fewer features"
        )
    return Expansion(reading, nodes, coefficients, rows, units, codes)


@dataclass(frozen=True)
class Expansion:
    """The first layer at some nodes, multiplied out when terms are requested.

    Attributes:
        reading: The model on its graph.
        nodes: Which nodes.
        coefficients: Weight of each unit at each node, ``[nodes, units]``.
        rows: Positions of the nodes where some coefficient is not 0.
        units: Units for which some coefficient is not 0.
        codes: Numbers of the products.
    """

    reading: Reading
    nodes: Ints
    coefficients: Floats
    rows: Ints
    units: Ints
    codes: TermCodes

    def list_terms(self) -> RowTerms:
        """Return every term of every node."""
        total = count_terms(self._lengths(), self.codes.length).sum()
        if total > MAX_ROWS:
            raise BadInput(
                f"the score is a sum of about {total:,.0f} terms of {self.rows.size:,} nodes, too "
                f"many for one table (at most {MAX_ROWS:,}); use by_cross or top_crosses, which "
                "sum them over the nodes, or frame_of for some of the nodes, or explain a model "
                "of lower order"
            )
        none = np.zeros(0, np.int64)
        parts = [RowTerms(none, none, np.zeros(0), np.zeros(0)), *self.chunks(with_values=True)]
        return RowTerms(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def sum_by_row(self) -> Floats:
        """Return the sum of all terms of each node."""
        sums = np.zeros(len(self.nodes))
        inputs = self.reading.inputs[self.nodes[self.rows]]
        linear, crosses = self.reading.layers[0].apply(inputs, None)
        sums[self.rows] = ((linear + crosses) * self.coefficients[self.rows]).sum(axis=1)
        return sums

    def sum_by_code(self) -> tuple[Ints, Floats]:
        """Return each product's code and its contribution summed over nodes, unless it is 0."""
        lengths, order = self._lengths(), self.codes.length
        products = float(count_terms(np.array([len(self.codes.features)]), order)[0])
        work = (lengths.astype(np.float64) ** order).sum()
        by_product = products * (self.rows.size + 3**order)
        if products <= MAX_SUMS and by_product <= min(work, MAX_WORK):
            return self.sum_by_product()
        space = self.codes.base**order
        if space > _DENSE_CODES:
            return self.sum_sparse()
        total = np.zeros(space)
        for part in self.chunks():
            np.add.at(total, part.code, part.contribution)
        present = np.flatnonzero(total)
        return present, total[present]

    def sum_by_product(self) -> tuple[Ints, Floats]:
        """Sum product by product instead of node by node.

        The weights of a product in the units are the same at all nodes. They are computed once
        and multiplied with the sum over nodes of the coefficients times the value of the
        product. This is much less work if most nodes have most of the features.
        """
        codes, binary = self.codes, self.reading.binary
        layer = self.reading.layers[0].of_units(self.units)
        coefficients = self.coefficients[np.ix_(self.rows, self.units)]
        dense = self.reading.inputs[self.nodes[self.rows]][:, codes.features].toarray()
        step = max(1, _CHUNK_CELLS // _CHUNK_TERMS)
        found, sums = [np.zeros(0, np.int64)], [np.zeros(0)]
        for length in range(1, codes.length + 1):
            terms = list_terms(binary[codes.features], length)
            for start in range(0, len(terms), _CHUNK_TERMS):
                some = terms[start : start + _CHUNK_TERMS]
                moments = np.zeros((len(some), coefficients.shape[1]))
                for row in range(0, len(dense), step):
                    values = dense[row : row + step]
                    products = values[:, some[:, 0]]
                    for place in range(1, length):
                        products *= values[:, some[:, place]]
                    moments += products.T @ coefficients[row : row + step]
                weights = term_weights(layer, codes.features[some], binary)
                total = np.einsum("tu,tu->t", weights, moments)
                present = np.flatnonzero(total)
                found.append(codes.encode(some[present] + 1))
                sums.append(total[present])
        return np.concatenate(found), np.concatenate(sums)

    def sum_sparse(self) -> tuple[Ints, Floats]:
        """Sum node by node, merging the terms whenever enough new ones are pending."""
        found, sums = np.zeros(0, np.int64), np.zeros(0)
        pending: list[tuple[Ints, Floats]] = []
        size = 0
        for part in self.chunks():
            pending.append((part.code, part.contribution))
            size += part.code.size
            if size > max(_PENDING, found.size):
                found, sums = _merge([(found, sums), *pending])
                pending, size = [], 0
        found, sums = _merge([(found, sums), *pending])
        present = np.flatnonzero(sums)
        return found[present], sums[present]

    def chunks(self, *, with_values: bool = False) -> Iterator[RowTerms]:
        """Yield all terms, some nodes and one order at a time.

        A product of binary features may come more than once, as the powers that fold into it.
        """
        inputs, order = self.reading.inputs, self.codes.length
        lengths, nodes = self._lengths(), self.nodes[self.rows]
        _check_size(lengths, nodes, order)
        expander = _RowExpander(self.reading, self.codes, self.units)
        for length in np.unique(lengths[lengths > 0]).tolist():
            alike = np.flatnonzero(lengths == length)
            step = max(1, _CHUNK_CELLS // length ** max(order, 2))
            for chunk in (alike[start : start + step] for start in range(0, alike.size, step)):
                entries = inputs.indptr[nodes[chunk]][:, np.newaxis] + np.arange(length)
                local = np.searchsorted(self.codes.features, inputs.indices[entries])
                coefficients = self.coefficients[np.ix_(self.rows[chunk], self.units)]
                for codes, contributions, values in expander.expand(
                    local, inputs.data[entries], coefficients, with_values
                ):
                    row = np.repeat(self.rows[chunk], codes.shape[1])
                    yield RowTerms(row, codes.ravel(), contributions.ravel(), values.ravel())

    def _lengths(self) -> Ints:
        """Return the number of features of each node in ``rows``."""
        return np.diff(self.reading.inputs.indptr)[self.nodes[self.rows]].astype(np.int64)


class _RowExpander:
    """Multiplies out nodes with equally many features, together."""

    def __init__(self, reading: Reading, codes: TermCodes, units: Ints) -> None:
        layer, place = reading.layers[0], np.ix_(units, codes.features)
        self.codes, self.binary = codes, reading.binary[codes.features]
        self.first_order = np.ascontiguousarray(layer.first_order[place].T)
        self.projections = [
            np.ascontiguousarray(projection[place].T)
            for projection in layer.projections[: layer.order if layer.order > 1 else 0]
        ]
        self.order_weights = layer.order_weights[:, units]

    def expand(
        self, local: Ints, values: Floats, coefficients: Floats, with_values: bool
    ) -> Iterator[tuple[Ints, Floats, Floats]]:
        """Yield codes, contributions and values of each order, ``[nodes, terms]`` each.

        Args:
            local: Positions of the nodes' features in the codes, ``[nodes, features of a node]``.
            values: Their values, likewise.
            coefficients: Weight of each unit at each node, ``[nodes, units]``.
            with_values: Whether to compute the products of values, too.
        """
        linear = np.matmul(self.first_order[local], coefficients[:, :, np.newaxis])
        yield local + 1, linear[..., 0] * values, values if with_values else values[:, :0]
        projected = [each[local] * values[..., np.newaxis] for each in self.projections]
        if not projected:
            return
        product = projected[0] * coefficients[:, np.newaxis]
        for order, projection in enumerate(projected[1:], 2):
            weighted = projection * self.order_weights[order - 1]
            cells = np.matmul(product, weighted.transpose(0, 2, 1)).reshape(len(local), -1)
            pattern = _pattern(local.shape[1], order)
            cells = np.take(cells, pattern.sorting, axis=1)
            summed = np.add.reduceat(cells, pattern.starts, axis=1)
            multiplied = values[:, pattern.members].prod(axis=2) if with_values else summed[:, :0]
            yield self._encode(local, pattern), summed, multiplied
            if order < len(projected):
                product = product[:, :, np.newaxis] * projection[:, np.newaxis]
                product = product.reshape(len(local), -1, product.shape[-1])

    def _encode(self, local: Ints, pattern: _Pattern) -> Ints:
        """Return the codes of the products, with powers of binary features folded."""
        digits = local[:, pattern.members] + 1
        some = digits[:, pattern.repeated]
        folds = (some[..., 1:] == some[..., :-1]) & self.binary[some[..., 1:] - 1]
        some[..., :-1][folds] = 0
        digits[:, pattern.repeated] = np.sort(some, axis=2)
        return self.codes.encode(digits)


class _Pattern(NamedTuple):
    """Which cells of the outer power of a row are the same product."""

    members: Ints
    """Positions in the row that each product multiplies, in ascending order."""
    repeated: Ints
    """The products that contain a position twice."""
    sorting: Ints
    """The cells, sorted by product."""
    starts: Ints
    """Where the cells of each product start in ``sorting``."""


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


def _merge(parts: list[tuple[Ints, Floats]]) -> tuple[Ints, Floats]:
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    codes, inverse = np.unique(columns[0], return_inverse=True)
    if codes.size > MAX_SUMS:
        raise BadInput(
            f"the score is a sum of more than {MAX_SUMS:,} different products of features, too "
            "many to add up; explain a model of lower order, or with fewer features"
        )
    sums = np.bincount(inverse, columns[1], minlength=codes.size)
    return codes, sums.astype(np.float64, copy=False)


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
            f"the score is a sum of products of order {order} of the features of {nodes.size:,} "
            f"nodes, about {work:.1e} in all (at most {MAX_WORK:.0e}); explain a model of lower "
            "order or with fewer layers, or a graph of which only some neighbours are kept"
        )
