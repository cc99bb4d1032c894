"""How exactly a GPU multiplies matrices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import torch

from crossgcn.errors import BadInput, unknown_name

__all__ = ["PRECISIONS", "Precision", "check_precision", "multiplying_in"]

Precision = Literal["fp32", "tf32", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse a precision that the device does not have.

    Args:
        precision: ``fp32``; on a GPU also ``tf32``, whose products round their factors to
            10 bits after the point, or ``bf16``, which also holds what lies between the
            layers in 16 bits. Weights, sums and losses are 32 bits in each.
        device: Where the work is done.
    """
    if precision not in PRECISIONS:
        raise unknown_name("precision", precision, PRECISIONS)
    if precision != "fp32" and device.type != "cuda":
        raise BadInput(
            f"precision {precision!r} needs a CUDA GPU, and this runs on the {device.type}: "
            "use --precision fp32, or --device cuda where there is a GPU"
        )


@contextmanager
def multiplying_in(precision: str, device: torch.device) -> Iterator[None]:
    """Let matrix products have that precision, as before afterwards."""
    if device.type != "cuda":
        yield
        return
    products = torch.backends.cuda.matmul
    before = products.fp32_precision
    products.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    try:
        with torch.autocast(
            "cuda", torch.bfloat16, enabled=precision == "bf16", cache_enabled=False
        ):
            yield
    finally:
        products.fp32_precision = before
