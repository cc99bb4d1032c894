"""Dropout of features, dense or sparse."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

from crossgcn import kernels
from crossgcn.errors import BadInput
from crossgcn.graph import SparseMatrix
from crossgcn.kernels import DropoutBits

Features = TypeVar("Features", Tensor, SparseMatrix)


class FeatureDropout(nn.Module):
    """Zero each entry with probability ``p`` and scale the others by ``1 / (1 - p)``, in training.

    Only stored entries of a sparse matrix are dropped; the others are 0 anyway.

    PyTorch's generator selects the entries, unless :meth:`follow` has set a seed and a step, as
    training in this package does.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise BadInput(f"dropout must be at least 0 and below 1; got {p}")
        self.p = p
        self._seed: Tensor | None = None
        self._step: Tensor | None = None

    def follow(self, seed: Tensor | None, step: Tensor | None) -> None:
        """Select entries by a seed and the training step; ``None`` for PyTorch's generator."""
        self._seed, self._step = seed, step

    def bits(self, site: int = 0) -> DropoutBits | None:
        """Return the random bits of a dropout of the model; ``None`` for PyTorch's generator."""
        if self._seed is None or self._step is None:
            return None
        return DropoutBits(self._seed, self._step, site)

    def forward(self, x: Features, *, site: int = 0, activate: bool = False) -> Features:
        """Drop entries in training mode.

        Args:
            x: Dense, ``torch.sparse_csr`` or :class:`~crossgcn.graph.SparseMatrix`.
            site: The number of this dropout in the model.
            activate: Apply a ReLU first, to dense features.
        """
        dense = isinstance(x, Tensor) and x.layout == torch.strided
        if not self.training or self.p == 0.0:
            return torch.relu(x) if activate and dense else x  # type: ignore[arg-type, return-value]
        bits = self.bits(site)
        if bits is None:
            device = x.values.device if isinstance(x, SparseMatrix) else x.device
            seed = torch.randint(2**32, (1,), device=device)
            bits = DropoutBits(seed, torch.zeros_like(seed), 0)
        if isinstance(x, SparseMatrix):
            return x.with_values(kernels.drop(x.values, bits, self.p, False))
        if x.layout == torch.sparse_csr:
            return torch.sparse_csr_tensor(
                x.crow_indices(),
                x.col_indices(),
                kernels.drop(x.values(), bits, self.p, False),
                x.shape,
                check_invariants=False,
            )
        if not dense:
            raise BadInput(
                f"features of layout {x.layout} cannot be dropped: pass x.to_sparse_csr()"
            )
        return kernels.drop(x, bits, self.p, activate)

    def extra_repr(self) -> str:
        """Return the arguments for ``print(model)``."""
        return f"p={self.p}"
