"""What the kernels for GPUs take from Triton, which ships no types."""

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
    """How many blocks cover a size."""
    return -(-size // block)


def power_of_two(size: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << (size - 1).bit_length()


def on_device_of(tensor: Tensor) -> AbstractContextManager[None]:
    """A context in which kernels are launched where a tensor is."""
    context: AbstractContextManager[None] = torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call]
    return context
