"""Imports and helpers for Triton, which has no type annotations."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch import Tensor

__all__ = ["blocks", "jit", "on_device_of", "power_of_two", "tl"]

jit: Callable[[Callable[..., Any]], Any] = triton.jit


def blocks(size: int, block: int) -> int:
    """Return the number of blocks that cover a size."""
    return -(-size // block)


def power_of_two(size: int) -> int:
    """Return the smallest power of two that is at least ``size``."""
    return 1 << (size - 1).bit_length()


def on_device_of(tensor: Tensor) -> AbstractContextManager[None]:
    """Launch kernels on a tensor's device within this context."""
    context: AbstractContextManager[None] = torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call]
    return context
