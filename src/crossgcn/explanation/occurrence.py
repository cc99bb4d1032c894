"""How often features occur together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from crossgcn.explanation.layer_reading import Floats

__all__ = ["PairOccurrence", "cross_products", "root_mean_square"]

Ints = NDArray[np.int64]

_DENSE_SHARE = 0.2
_CHUNK_ENTRIES = 20_000_000


class PairOccurrence:
    """Mean size of the product of two features, for chosen pairs.

    Args:
        inputs: The features, ``[nodes, features]``.
    """

    def __init__(self, inputs: sp.csr_array) -> None:
        self.num_nodes, num_features = inputs.shape
        sizes = abs(inputs)
        share = inputs.nnz / max(1, self.num_nodes * num_features)
        self._dense: Floats | None = sizes.toarray().T.copy() if share > _DENSE_SHARE else None
        self._sparse: Any = None if self._dense is not None else sp.csr_array(sizes.T)

    def of(self, first: Ints, second: Ints) -> Floats:
        """The mean of the sizes of the products over all nodes, one per pair."""
        step = max(1, _CHUNK_ENTRIES // max(1, self.num_nodes))
        parts = [
            self._sums(first[start : start + step], second[start : start + step])
            for start in range(0, len(first), step)
        ]
        return np.concatenate(parts) / self.num_nodes if parts else np.zeros(0)

    def _sums(self, first: Ints, second: Ints) -> Floats:
        if self._dense is not None:
            sums: Floats = np.einsum("pn,pn->p", self._dense[first], self._dense[second])
            return sums
        return np.asarray(self._sparse[first].multiply(self._sparse[second]).sum(axis=1)).ravel()


def cross_products(inputs: sp.csr_array, terms: Sequence[Sequence[int]]) -> sp.csc_array:
    """Products of features at every node.

    Args:
        inputs: The features, ``[nodes, features]``.
        terms: The features of each product.

    Returns:
        ``[nodes, terms]``; where a product is 0 nothing is stored.
    """
    columns = sp.csc_array(inputs)
    parts, places = [], []
    for length in sorted({len(term) for term in terms}):
        chosen = [place for place, term in enumerate(terms) if len(term) == length]
        members = np.array([terms[place] for place in chosen], np.int64)
        product: Any = columns[:, members[:, 0]]
        for position in range(1, length):
            product = product.multiply(columns[:, members[:, position]])
        parts.append(sp.csc_array(product))
        places += chosen
    if not parts:
        return sp.csc_array((inputs.shape[0], 0))
    products = sp.csc_array(sp.hstack(parts, format="csc"))[:, np.argsort(places)]
    products.eliminate_zeros()
    return sp.csc_array(products)


def root_mean_square(inputs: sp.csr_array) -> Floats:
    """The size of each feature: two features' mean product is at most that of their sizes."""
    squares = np.bincount(inputs.indices, inputs.data**2, minlength=inputs.shape[1])
    return np.sqrt(squares / inputs.shape[0])
