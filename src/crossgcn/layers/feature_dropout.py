"""Dropout that leaves the zeros of a sparse matrix alone."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossgcn.errors import BadInput
from crossgcn.graph import SparseMatrix

__all__ = ["FeatureDropout", "feature_dropout"]

Features = TypeVar("Features", Tensor, SparseMatrix)


class FeatureDropout(nn.Module):
    """:func:`feature_dropout` as a module, for any kind of feature matrix.

    Args:
        p: Probability of dropping an entry.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise BadInput(f"dropout must be at least 0 and below 1; got {p}")
        self.p = p

    def forward(self, x: Features) -> Features:
        """Drop entries while training."""
        return feature_dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """What ``print(model)`` shows of this layer."""
        return f"p={self.p}"


def feature_dropout(x: Features, p: float, training: bool) -> Features:
    """Zero each entry with probability ``p`` and scale the others by ``1 / (1 - p)``.

    A zero stays zero whatever is drawn for it, so for a sparse matrix only the
    stored entries are drawn: same distribution, no dense mask.

    Args:
        x: Dense, ``torch.sparse_csr`` or :class:`~crossgcn.graph.SparseMatrix`.
        p: Probability of dropping an entry.
        training: Return ``x`` as it is when false.
    """
    if not training or p == 0.0:
        return x
    if isinstance(x, SparseMatrix):
        return x.with_values(functional.dropout(x.values, p))
    if x.layout == torch.sparse_csr:
        return torch.sparse_csr_tensor(
            x.crow_indices(),
            x.col_indices(),
            functional.dropout(x.values(), p),
            x.shape,
            check_invariants=False,
        )
    if x.layout != torch.strided:
        raise BadInput(f"features of layout {x.layout} cannot be dropped: pass x.to_sparse_csr()")
    return functional.dropout(x, p)
