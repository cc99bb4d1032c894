"""Feature matrices: sparse ones are built here, and rows are scaled here."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["csr_tensor", "row_normalise"]


def csr_tensor(
    indptr: Tensor | NDArray[np.integer],
    indices: Tensor | NDArray[np.integer],
    values: Tensor | NDArray[np.floating],
    shape: tuple[int, int],
) -> Tensor:
    """A torch sparse CSR matrix, checked, without torch's notices about them.

    Torch says once per process that CSR is in beta and once that it will not
    check invariants. Both are said on the first matrix, so building every
    matrix here keeps a user's terminal clean; invariants are checked anyway.

    Args:
        indptr: Where each row starts in ``indices``, length rows + 1.
        indices: Column of each value, ascending within a row.
        values: The values themselves.
        shape: Rows and columns.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR tensor|invariant checks)", UserWarning)
        # Leaving this context states explicitly that later matrices go unchecked,
        # which is what keeps torch from announcing it.
        with torch.sparse.check_sparse_tensor_invariants():  # type: ignore[no-untyped-call]
            return torch.sparse_csr_tensor(
                torch.as_tensor(indptr, dtype=torch.int64),
                torch.as_tensor(indices, dtype=torch.int64),
                torch.as_tensor(values),
                size=shape,
            )


def row_normalise(x: Tensor) -> Tensor:
    """Divide every row by its sum; a row that sums to zero becomes (or stays) zero.

    Args:
        x: Node features, dense or sparse CSR; the layout is kept.
    """
    if x.layout != torch.sparse_csr:
        return x * _inverse(x.sum(dim=1)).unsqueeze(1)
    indptr, indices, values = x.crow_indices(), x.col_indices(), x.values()
    rows = torch.repeat_interleave(torch.arange(x.shape[0], device=x.device), indptr.diff())
    sums = values.new_zeros(x.shape[0]).index_add_(0, rows, values)
    scaled = values * _inverse(sums)[rows]
    return csr_tensor(indptr, indices, scaled, (x.shape[0], x.shape[1]))


def _inverse(sums: Tensor) -> Tensor:
    return torch.where(sums == 0, 0, 1 / sums)
