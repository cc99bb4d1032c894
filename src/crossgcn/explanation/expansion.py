r"""Multiply out the first layer: the weight of every product of features, and what it contributes.

The :math:`k`-th order part of a unit, :math:`\alpha_k\prod_{m\le k}\mathbf{w}^m\mathbf{x}`,
multiplies out to products of :math:`k` features. Only the symmetrised weight, the sum over all
assignments of features to projections, has a meaning. For a binary feature (0 or 1) all powers
are equal, so :math:`x_i^2x_j` counts towards the pair :math:`x_ix_j`. A product is identified by
its features in ascending order; a feature that is not binary is repeated as its power says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from crossgcn.errors import BadInput
from crossgcn.explanation.reading import Bools, Floats, Ints, LayerReading, Reading

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
_PENDING = 4_000_000
_WEIGHT_CELLS = 2_000_000


def fold(features: Sequence[int], binary: Bools) -> tuple[int, ...]:
    """Return the identity of a product: features in ascending order, binary ones once."""
    kept: list[int] = []
    for feature in sorted(features):
        if not (kept and kept[-1] == feature and binary[feature]):
            kept.append(int(feature))
    return tuple(kept)


def term_weights(layer: LayerReading, terms: Ints, binary: Bools) -> Floats:
    """Return the symmetrised and folded weights of products, ``[terms, channels]``.

    Every feature of a product is assigned at least one of the K projections; a binary feature
    may get several. The sum over all assignments is built feature by feature over the sets of
    projections already used, in 3^K steps instead of one step per assignment.

    ``terms [terms, length]`` are products of one length as :func:`fold` returns them.
    """
    channels = layer.first_order.shape[0]
    step = max(1, _WEIGHT_CELLS // (channels << layer.order))
    parts = [
        _weights_of_chunk(layer, terms[start : start + step], binary)
        for start in range(0, len(terms), step)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, channels))


def _weights_of_chunk(layer: LayerReading, terms: Ints, binary: Bools) -> Floats:
    length, order = terms.shape[1], layer.order
    out = np.zeros((len(terms), layer.first_order.shape[0]))
    if length == 1:
        out += layer.first_order.T[terms[:, 0]]
    if order < max(2, length):
        return out
    sums: dict[int, Floats] = {0: np.ones_like(out)}
    for place in range(length):
        blocks = block_products(layer, terms[:, place], binary)
        grown: dict[int, Floats] = {}
        for used, value in sums.items():
            for block, product in blocks.items():
                if not used & block:
                    grown[used | block] = grown.get(used | block, 0.0) + value * product
        sums = grown
    for highest in range(2, order + 1):
        assigned = sums.get((1 << highest) - 1)
        if assigned is not None:
            out += layer.order_weights[highest - 1] * assigned
    return out / _repetitions(terms)[:, np.newaxis]


def block_products(layer: LayerReading, features: Ints, binary: Bools) -> dict[int, Floats]:
    """Return the product of each feature's weights over every set of projections.

    A set is given as the bits of a number; each product is ``[features, channels]``. Features that
    are not binary get one projection at a time.
    """
    weights = layer.projections[: layer.order, :, features].transpose(0, 2, 1)
    may_fold = binary[features]
    products: dict[int, Floats] = {}
    for block in range(1, 1 << layer.order):
        members = [position for position in range(layer.order) if block >> position & 1]
        if len(members) == 1:
            products[block] = weights[members[0]]
        elif may_fold.any():
            product = weights[members].prod(axis=0)
            products[block] = np.where(may_fold[:, np.newaxis], product, 0.0)
    return products


def _repetitions(terms: Ints) -> Floats:
    """Return how often each product was counted because a feature occurs in several places."""
    count, run = np.ones(len(terms)), np.ones(len(terms))
    for place in range(1, terms.shape[1]):
        run = np.where(terms[:, place] == terms[:, place - 1], run + 1, 1.0)
        count *= run
    return count


def list_terms(binary: Bools, length: int) -> Ints:
    """Return all products of ``length`` features in ascending order, binary ones at most once."""
    terms = np.arange(binary.size)[:, np.newaxis]
    for _ in range(1, length):
        first = terms[:, -1] + binary[terms[:, -1]]
        counts = binary.size - first
        starts = np.cumsum(counts) - counts
        last = np.arange(counts.sum()) + np.repeat(first - starts, counts)
        terms = np.concatenate([np.repeat(terms, counts, axis=0), last[:, np.newaxis]], axis=1)
    return terms


def count_terms(num_features: Ints, order: int) -> Floats:
    """Return how many products of at most ``order`` factors each number of features has."""
    features = num_features.astype(np.float64)
    total, count = np.zeros_like(features), np.ones_like(features)
    for length in range(1, order + 1):
        count = count * (features + length - 1) / length
        total += count
    return total


@dataclass(frozen=True)
class TermCodes:
    """A number (code) for each product of some features.

    The digits of a code in base ``len(features) + 1`` are the positions of its features in
    ``features``, counted from 1, in ascending order; shorter products start with zeros. A
    product has at most ``length`` features.
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


class Expansion:
    """The first layer at some nodes, multiplied out when terms are requested.

    Args:
        coefficients: Weight of each unit at each node, ``[nodes, units]``. Nodes and units whose
            coefficients are all 0 have no terms.

    Attributes:
        codes: Numbers of the products.
    """

    def __init__(self, reading: Reading, nodes: Ints, coefficients: Floats) -> None:
        self.reading, self.nodes, self.layer = reading, nodes, reading.layers[0]
        counts = coefficients != 0
        self.rows, self.units = np.flatnonzero(counts.any(axis=1)), np.flatnonzero(counts.any(0))
        self.coefficients = coefficients[self.rows]
        self.inputs = reading.inputs[nodes[self.rows]]
        self.lengths = np.diff(self.inputs.indptr).astype(np.int64)
        features = np.unique(self.inputs.indices).astype(np.int64)
        self.codes = TermCodes(features, self.layer.order)
        if self.codes.base**self.codes.length > np.iinfo(np.int64).max:
            raise BadInput(
                f"products of order {self.codes.length} of {len(features)} features are too many "
                "to number; explain a model of lower order, or with fewer features"
            )

    def list_terms(self) -> RowTerms:
        """Return every term of every node."""
        total = count_terms(self.lengths, self.codes.length).sum()
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
        linear, crosses = self.layer.apply(self.inputs, None)
        sums[self.rows] = ((linear + crosses) * self.coefficients).sum(axis=1)
        return sums

    def sum_by_code(self) -> tuple[Ints, Floats]:
        """Return each product's code and its contribution summed over nodes, unless it is 0."""
        order = self.codes.length
        products = float(count_terms(np.array([len(self.codes.features)]), order)[0])
        work = (self.lengths.astype(np.float64) ** order).sum()
        by_product = products * (self.rows.size + 3**order)
        if products <= MAX_SUMS and by_product <= min(work, MAX_WORK):
            return self.sum_by_product()
        return self.sum_by_node()

    def sum_by_product(self) -> tuple[Ints, Floats]:
        """Sum product by product.

        The weights of a product in the units are the same at all nodes. They are computed once
        and multiplied with the sum over nodes of the coefficients times the value of the
        product. This is much less work if most nodes have most of the features.
        """
        codes, binary = self.codes, self.reading.binary
        layer, coefficients = self.layer.of_units(self.units), self.coefficients[:, self.units]
        dense = self.inputs[:, codes.features].toarray()
        step = max(1, _CHUNK_CELLS // _CHUNK_TERMS)
        found, sums = [np.zeros(0, np.int64)], [np.zeros(0)]
        for length in range(1, codes.length + 1):
            terms = list_terms(binary[codes.features], length)
            for start in range(0, len(terms), _CHUNK_TERMS):
                some = terms[start : start + _CHUNK_TERMS]
                moments = np.zeros((len(some), self.units.size))
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

    def sum_by_node(self) -> tuple[Ints, Floats]:
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
        self._check_size()
        for length in np.unique(self.lengths[self.lengths > 0]).tolist():
            alike = np.flatnonzero(self.lengths == length)
            step = max(1, _CHUNK_CELLS // length ** max(self.codes.length, 2))
            for start in range(0, alike.size, step):
                yield from self._multiply_out(alike[start : start + step], length, with_values)

    def _multiply_out(self, chunk: Ints, length: int, with_values: bool) -> Iterator[RowTerms]:
        """Multiply out nodes with ``length`` features each, one order after the other."""
        entries = self.inputs.indptr[chunk][:, np.newaxis] + np.arange(length)
        local = np.searchsorted(self.codes.features, self.inputs.indices[entries])
        data, coefficients = self.inputs.data[entries], self.coefficients[chunk][:, self.units]

        def as_terms(digits: Ints, contributions: Floats, values: Floats) -> RowTerms:
            row = np.repeat(self.rows[chunk], digits.shape[1])
            code = self.codes.encode(digits).ravel()
            return RowTerms(row, code, contributions.ravel(), values.ravel())

        first_order, projections = self._weights
        linear = np.matmul(first_order[local], coefficients[:, :, np.newaxis])[..., 0] * data
        yield as_terms(local[..., np.newaxis] + 1, linear, data if with_values else data[:, :0])
        if not projections:
            return
        projected = [each[local] * data[..., np.newaxis] for each in projections]
        product = projected[0] * coefficients[:, np.newaxis]
        for order, projection in enumerate(projected[1:], 2):
            weighted = projection * self.layer.order_weights[order - 1, self.units]
            cells = np.matmul(product, weighted.transpose(0, 2, 1)).reshape(len(chunk), -1)
            pattern = _pattern(length, order)
            cells = np.take(cells, pattern.sorting, axis=1)
            summed = np.add.reduceat(cells, pattern.starts, axis=1)
            values = data[:, pattern.members].prod(axis=2) if with_values else data[:, :0]
            yield as_terms(self._fold(local, pattern), summed, values)
            if order < len(projected):
                product = product[:, :, np.newaxis] * projection[:, np.newaxis]
                product = product.reshape(len(chunk), -1, product.shape[-1])

    @cached_property
    def _weights(self) -> tuple[Floats, list[Floats]]:
        """First-order weights and projections of the units, ``[features, units]`` each."""
        place = np.ix_(self.units, self.codes.features)
        used = self.layer.projections[: self.codes.length if self.codes.length > 1 else 0]
        first_order, *rest = (
            np.ascontiguousarray(each[place].T) for each in (self.layer.first_order, *used)
        )
        return first_order, rest

    def _fold(self, local: Ints, pattern: _Pattern) -> Ints:
        """Return the digits of the products, with powers of binary features folded."""
        digits = local[:, pattern.members] + 1
        some = digits[:, pattern.repeated]
        binary = self.reading.binary[self.codes.features]
        folds = (some[..., 1:] == some[..., :-1]) & binary[some[..., 1:] - 1]
        some[..., :-1][folds] = 0
        digits[:, pattern.repeated] = np.sort(some, axis=2)
        return digits

    def _check_size(self) -> None:
        lengths, order = self.lengths, self.codes.length
        if lengths.size and int(lengths.max()) ** order > MAX_CELLS:
            node = int(self.nodes[self.rows[lengths.argmax()]])
            raise BadInput(
                f"node {node} has {lengths.max()} features that are not 0, whose products of order "
                f"{order} are too many to list; explain a model of lower order, or with fewer "
                "features"
            )
        work = (lengths.astype(np.float64) ** order).sum()
        if work > MAX_WORK:
            raise BadInput(
                f"the score is a sum of products of order {order} of the features of "
                f"{lengths.size:,} nodes, about {work:.1e} in all (at most {MAX_WORK:.0e}); "
                "explain a model of lower order or with fewer layers, or a graph of which only "
                "some neighbours are kept"
            )


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
