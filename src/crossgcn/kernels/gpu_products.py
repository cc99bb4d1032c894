"""Products with a matrix of which entries are dropped, on the tensor cores of a GPU.

In float32, by kernels of our own. There the dropped matrix is either never written, its
mask being drawn anew in every tile, or written once in aligned rows: the first suits narrow
products, which wait for memory, the second wide ones, for which every tile would be drawn
many times. In TF32 and bfloat16 PyTorch's library multiplies what was dropped and aligned.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from crossgcn.kernels.draws import Draws
from crossgcn.kernels.gpu_aligned import Dropping, aligned, with_readable_rows
from crossgcn.kernels.gpu_language import blocks
from crossgcn.kernels.gpu_product_steps import ProductShape, along_rows, down_columns

__all__ = [
    "DroppedProduct",
    "Plan",
    "Precision",
    "ProductShape",
    "pad_rows",
    "plan_for",
]

Precision = Literal["fp32", "tf32", "bf16"]
"""Three TF32 products, as exact as one of float32; one TF32 product; bfloat16 operands."""


_MANY_ROWS = 1 << 18
_PROGRAMS = 256
"""As many keep an H200's 132 processors busy."""


class Plan(NamedTuple):
    """How a product and its gradient are computed.

    Attributes:
        keep: Write the dropped matrix out, and keep it for the gradient.
        turn: For the gradient, write both operands transposed first.
        forward: How the product is shared out.
        backward: How the gradient is.
    """

    keep: bool
    turn: bool
    forward: ProductShape
    backward: ProductShape


def plan_for(width: int, rows: int = 0, features: int = 0) -> Plan:
    """The plan for a width of the result.

    Args:
        width: Of the result.
        rows: Of the matrix; where they are many, the gradient's sum is cut into more parts.
        features: Of the matrix.
    """
    if width <= 64:
        columns = 64 if width > 32 else 32
        forward = ProductShape(128, columns, 32, num_warps=8, num_stages=3)
        backward = ProductShape(128, columns, 32, num_warps=4, num_stages=3, chunks=52)
        return Plan(False, False, forward, backward)
    shape = ProductShape(128, 128, 32, num_warps=8, num_stages=3)
    chunks = 26 if width <= 128 else 13
    if rows >= _MANY_ROWS:
        tiles = blocks(features, shape.block_rows) * blocks(width, shape.block_columns)
        chunks = max(chunks, blocks(_PROGRAMS, tiles))
    return Plan(width >= 512, True, shape, shape._replace(chunks=chunks))


class DroppedProduct:
    """``drop(x) @ weight`` of one model, and the gradient for the weight.

    Drops what :func:`crossgcn.kernels.plain.drop` drops, adds nothing atomically, and may
    be captured in a CUDA graph. One object serves one training step: it keeps between the
    two products what they share.

    Args:
        x: ``[rows, features]``; gets no gradient. See :func:`pad_rows` for one that is
            used often.
        draws: Of one model, decide which entries are kept; all are when left out.
        p: Probability of dropping; 0 drops none.
        precision: Of the products; sums are in float32.
    """

    def __init__(self, x: Tensor, draws: Draws | None, p: float, precision: Precision) -> None:
        self.x = with_readable_rows(x)
        self.precision: Precision = precision
        self._dropping = Dropping(draws if p > 0.0 else None, p)
        self._dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self._kept: Tensor | None = None

    def project(self, weight: Tensor, plan: Plan | None = None) -> Tensor:
        """The product with a weight ``[features, width]``.

        Args:
            weight: The weight.
            plan: How a product in float32 is computed.

        Returns:
            ``[rows, width]``, in float32, or in bfloat16 if that is the precision.
        """
        if self.precision != "fp32":
            left = self._keep()
            below = left.size(1) - weight.size(0)
            scaled = (weight * self._dropping.scale).to(self._dtype)
            return left @ functional.pad(scaled, (0, 0, 0, below))
        plan = plan or plan_for(weight.size(1))
        right = aligned(weight, self._dtype, turn=True, split=True)
        left = self._keep() if plan.keep else self.x
        return along_rows(left, right, plan.forward, self._dropping, drop=not plan.keep)

    def project_backward(self, gradient: Tensor, plan: Plan | None = None) -> Tensor:
        """The gradient for the weight, from that for the product, ``[rows, width]``.

        Returns:
            ``[features, width]``, in the type of the product.
        """
        features = self.x.size(1)
        if self.precision != "fp32":
            for_weight = self._keep().t() @ gradient.to(self._dtype)
            return for_weight[:features] * self._dropping.scale
        plan = plan or plan_for(gradient.size(1), gradient.size(0), features)
        if plan.turn:
            # Read once, it is cut as it is read; cut beforehand, if it is read several times.
            split = features > plan.backward.block_rows
            right = aligned(gradient, self._dtype, turn=True, split=split)
            (left,) = aligned(self.x, self._dtype, True, False, self._dropping)
            return along_rows(left, right, plan.backward, self._dropping, drop=False)
        left = self._keep()[:, :features] if plan.keep else self.x
        return down_columns(
            left, gradient.contiguous(), plan.backward, self._dropping, drop=not plan.keep
        )

    def _keep(self) -> Tensor:
        if self._kept is None:
            (self._kept,) = aligned(self.x, self._dtype, False, False, self._dropping)
        return self._kept


def pad_rows(x: Tensor) -> Tensor:
    """Copy a matrix into rows that start at aligned addresses, which are read faster."""
    (copy,) = aligned(x, x.dtype, turn=False, split=False)
    return copy[:, : x.size(1)]
