"""Dropout that leaves the zeros of a sparse matrix alone, after a ReLU if need be."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from crossgcn import kernels
from crossgcn.errors import BadInput
from crossgcn.graph import DenseFeatures, SparseMatrix
from crossgcn.kernels import Draws, plain


def may_use_kernels(*tensors: Tensor) -> bool:
    """Whether these tensors are plain data that a kernel can read.

    Not while ``torch.compile`` traces a model or ``torch.func`` transforms it: both want
    to see PyTorch's own operations.
    """
    return not (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or any(type(tensor) not in (Tensor, torch.nn.Parameter) for tensor in tensors)
    )


SITES_PER_DRAW = 64
"""No model drops entries in more places than this."""

Features = TypeVar("Features", Tensor, SparseMatrix, DenseFeatures)


class FeatureDropout(nn.Module):
    """:func:`feature_dropout` as a module, for any kind of feature matrix.

    Args:
        p: Probability of dropping an entry.

    Attributes:
        draw: Which of the passes of one step this is, where a step has several; each
            drops other entries.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise BadInput(f"dropout must be at least 0 and below 1; got {p}")
        self.p = p
        self.draw = 0
        self._seeds: Tensor | None = None
        self._step: Tensor | None = None

    def follow(self, seeds: Tensor, step: Tensor) -> None:
        """Drop what a seed per model and the number of the step decide, from now on.

        Until then torch's own generator decides.

        Args:
            seeds: ``[models]``, int64.
            step: One number, int64; its owner counts it up.
        """
        self._seeds, self._step = seeds, step

    def forward(self, x: Features, *, site: int = 0, activate: bool = False) -> Features:
        """Drop entries while training.

        Args:
            x: What :func:`feature_dropout` takes.
            site: Which of the model's dropouts this is.
            activate: Apply a ReLU first.
        """
        draws = None
        if self._seeds is not None and self._step is not None:
            draws = Draws(self._seeds, self._step, site + SITES_PER_DRAW * self.draw)
        return feature_dropout(x, self.p, self.training, activate=activate, draws=draws)

    def extra_repr(self) -> str:
        """What ``print(model)`` shows of this layer."""
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

    A zero stays zero whatever is drawn for it, so for a sparse matrix only the
    stored entries are drawn: same distribution, no dense mask.

    Args:
        x: Dense, ``torch.sparse_csr``, :class:`~crossgcn.graph.SparseMatrix` or
            :class:`~crossgcn.graph.DenseFeatures`.
        p: Probability of dropping an entry.
        training: Drop nothing when false.
        activate: Apply a ReLU first, to dense features.
        draws: Decide what is dropped; torch's generator does when left out.
    """
    dense = isinstance(x, Tensor) and x.layout == torch.strided
    if not training or p == 0.0:
        return torch.relu(x) if activate and dense else x  # type: ignore[arg-type, return-value]
    if isinstance(x, DenseFeatures):
        return x.drop(draws or _draws_of_torch(x.device), p)  # type: ignore[return-value]
    if isinstance(x, SparseMatrix):
        draws = draws or _draws_of_torch(x.values.device)
        return x.with_values(kernels.drop(x.values, x.model_starts, draws, p, False))
    if x.layout == torch.sparse_csr:
        values = x.values()
        return torch.sparse_csr_tensor(
            x.crow_indices(),
            x.col_indices(),
            kernels.drop(values, None, draws or _draws_of_torch(x.device), p, False),
            x.shape,
            check_invariants=False,
        )
    if x.layout != torch.strided:
        raise BadInput(f"features of layout {x.layout} cannot be dropped: pass x.to_sparse_csr()")
    draws = draws or _draws_of_torch(x.device)
    if not may_use_kernels(x):
        return plain.drop(x, None, draws, p, activate)
    dropped: Tensor = _Drop.apply(x, draws, p, activate)  # type: ignore[no-untyped-call]
    return dropped


def _draws_of_torch(device: torch.device) -> Draws:
    seeds = torch.randint(2**32, (1,), device=device)
    return Draws(seeds, torch.zeros_like(seeds), 0)


class _Drop(torch.autograd.Function):
    """ReLU and dropout in one pass, whose backward draws the same bits again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, draws: Draws, p: float, activate: bool) -> Tensor:
        ctx.save_for_backward(x)
        ctx.how = (None, draws, p, activate)
        return kernels.drop(x, *ctx.how)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (x,) = ctx.saved_tensors
        implementation = plain if torch.is_grad_enabled() else kernels
        return implementation.drop_backward(gradient, x, *ctx.how), None, None, None
