"""Which implementation of a kernel is used: the fastest one that is here."""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from crossgcn.kernels import plain
from crossgcn.kernels.draws import Draws
from crossgcn.kernels.pattern import Pattern

PLAIN = "CROSSGCN_PLAIN_KERNELS"
"""Environment variable; where it is 1, plain PyTorch is used throughout."""


def row_sums(pattern: Pattern, values: Tensor, dense: Tensor) -> Tensor:
    """Sparse times dense; see :func:`crossgcn.kernels.plain.row_sums`."""
    result: Tensor = _for(dense).row_sums(pattern, values, dense)
    return result


def drop(x: Tensor, starts: Tensor | None, draws: Draws, p: float, activate: bool) -> Tensor:
    """ReLU, if asked for, and dropout; see :func:`crossgcn.kernels.plain.drop`."""
    result: Tensor = _for(x).drop(x, starts, draws, p, activate)
    return result


def drop_backward(
    gradient: Tensor, x: Tensor, starts: Tensor | None, draws: Draws, p: float, activate: bool
) -> Tensor:
    """Its gradient; see :func:`crossgcn.kernels.plain.drop_backward`."""
    result: Tensor = _for(x).drop_backward(gradient, x, starts, draws, p, activate)
    return result


def cross(projections: Tensor, order_weights: Tensor, release: bool) -> Tensor:
    """Hadamard products, weighted and summed; see :func:`crossgcn.kernels.plain.cross`."""
    result: Tensor = _for(projections).cross(projections, order_weights, release)
    return result


def cross_backward(
    gradient: Tensor,
    projections: Tensor,
    order_weights: Tensor,
    release: bool,
    with_order_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """Their gradients; see :func:`crossgcn.kernels.plain.cross_backward`."""
    result: tuple[Tensor, Tensor | None] = _for(projections).cross_backward(
        gradient, projections, order_weights, release, with_order_weights
    )
    return result


def score(
    scores: Tensor, labels: Tensor, counts: Tensor, num_classes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Losses, accuracies and gradient; see :func:`crossgcn.kernels.plain.score`."""
    result: tuple[Tensor, Tensor, Tensor] = _for(scores).score(scores, labels, counts, num_classes)
    return result


def has_numba() -> bool:
    """Whether kernels for the CPU can be compiled here."""
    return _compiled("numba", "crossgcn.kernels.cpu") is not plain


def has_triton() -> bool:
    """Whether kernels for GPUs can be compiled here."""
    return _compiled("triton", "crossgcn.kernels.gpu") is not plain


def _for(tensor: Tensor) -> Any:
    if tensor.is_cuda and tensor.dtype in (torch.float32, torch.bfloat16):
        return _compiled("triton", "crossgcn.kernels.gpu")
    if tensor.device.type == "cpu" and tensor.dtype == torch.float32:
        return _compiled("numba", "crossgcn.kernels.cpu")
    return plain


@cache
def _compiled(compiler: str, module: str) -> Any:
    if os.environ.get(PLAIN) == "1" or find_spec(compiler) is None:
        return plain
    try:
        return import_module(module)
    except ImportError as error:
        warnings.warn(f"{compiler} cannot be used ({error}): training is slower", stacklevel=2)
        return plain
