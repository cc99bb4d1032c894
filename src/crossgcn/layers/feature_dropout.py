"""Dropout for dense and sparse features, with an optional ReLU before it."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from crossgcn import kernels
from crossgcn.errors import BadInput
from crossgcn.graph import DenseFeatures, SparseMatrix
from crossgcn.kernels import Draws
from crossgcn.layers.feature_transform import is_dense

SITES_PER_DRAW = 64
"""Upper bound of the number of dropouts in a model."""

Features = TypeVar("Features", Tensor, SparseMatrix, DenseFeatures)


class FeatureDropout(nn.Module):
    """:func:`feature_dropout` as a module; passes of different ``draw`` drop different entries."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise BadInput(f"dropout must be at least 0 and below 1; got {p}")
        self.p = p
        self.draw = 0
        self._seeds: Tensor | None = None
        self._step: Tensor | None = None

    def follow(self, seeds: Tensor, step: Tensor) -> None:
        """Drop by a seed per model and the training step, instead of torch's generator."""
        self._seeds, self._step = seeds, step

    def forward(self, x: Features, *, site: int = 0, activate: bool = False) -> Features:
        """Drop entries in training mode; ``site`` is the number of this dropout in the model."""
        draws = None
        if self._seeds is not None and self._step is not None:
            draws = Draws(self._seeds, self._step, site + SITES_PER_DRAW * self.draw)
        return feature_dropout(x, self.p, self.training, activate=activate, draws=draws)

    def extra_repr(self) -> str:
        """Describe it for ``print(model)``."""
        return f"p={self.p}"


def feature_dropout(
    x: Features,
    p: float,
    training: bool,
    *,
    activate: bool = False,
    draws: Draws | None = None,
) -> Features:
    """Zero each entry with probability ``p`` and scale the others by ``1 / (1 - p)``.

    For a sparse matrix only the stored entries are drawn, which has the same distribution.

    Args:
        x: Dense, ``torch.sparse_csr``, :class:`~crossgcn.graph.SparseMatrix` or
            :class:`~crossgcn.graph.DenseFeatures`.
        activate: Apply a ReLU first, to dense features.
        draws: The random bits; from torch's generator by default.
    """
    dense = is_dense(x)
    if not training or p == 0.0:
        return torch.relu(x) if activate and dense else x  # type: ignore[arg-type, return-value]
    if draws is None:
        device = x.values.device if isinstance(x, SparseMatrix) else x.device
        seeds = torch.randint(2**32, (1,), device=device)
        draws = Draws(seeds, torch.zeros_like(seeds), 0)
    if isinstance(x, DenseFeatures):
        return x.drop(draws, p)  # type: ignore[return-value]
    if isinstance(x, SparseMatrix):
        return x.with_values(kernels.drop(x.values, x.model_starts, draws, p, False))
    if x.layout == torch.sparse_csr:
        return torch.sparse_csr_tensor(
            x.crow_indices(),
            x.col_indices(),
            kernels.drop(x.values(), None, draws, p, False),
            x.shape,
            check_invariants=False,
        )
    if not dense:
        raise BadInput(f"features of layout {x.layout} cannot be dropped: pass x.to_sparse_csr()")
    return kernels.drop(x, None, draws, p, activate)
