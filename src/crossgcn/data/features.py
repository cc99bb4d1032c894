"""Feature matrices: sparse ones are built here, and rows are scaled here."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.errors import BadInput


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


@dataclass(frozen=True)
class FeatureSpace:
    """Names of the features, and the field each comes from.

    A field is a column of the user's table. A category of it is a feature, such as
    ``gender=female``; so is a range of a number, ``age=[20, 25)``, and the number itself,
    ``age``. Two features of one field name no cross.

    Attributes:
        names: Of each feature, all different.
        fields: The field of each feature.
    """

    names: tuple[str, ...]
    fields: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.fields):
            raise BadInput(
                f"{len(self.names)} features have names, but {len(self.fields)} have a field: "
                "give one of each per feature"
            )

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def unnamed(cls, num_features: int) -> FeatureSpace:
        """``x0``, ``x1``, ...: each a field of its own, for features that have no names."""
        names = tuple(f"x{position}" for position in range(num_features))
        return cls(names, names)

    @classmethod
    def named(cls, names: Sequence[str]) -> FeatureSpace:
        """The given names, each a field of its own."""
        return cls(tuple(names), tuple(names))
