"""Products with a matrix of which entries are dropped, on the tensor cores of a GPU.

The dropped matrix is either never written, its mask being drawn anew in each tile, or
written once in rows whose starts are aligned. The first suits narrow products, which wait
for memory; the second wide ones, in which every tile would be drawn many times.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from crossgcn.kernels.draws import Draws, threshold
from crossgcn.kernels.gpu_language import blocks, on_device_of
from crossgcn.kernels.gpu_product_kernels import add_chunks, multiply, multiply_turned, prepare

__all__ = [
    "DroppedProduct",
    "Plan",
    "Precision",
    "ProductShape",
    "plan",
    "project",
    "project_backward",
]

Precision = Literal["fp32", "tf32", "bf16"]
"""Three TF32 products, as exact as float32's; one TF32 product; or bfloat16 operands."""

_ALIGNED = 32
_PREPARE_BLOCK = 64
_ADD_BLOCK = 512


class ProductShape(NamedTuple):
    """How a product is shared out.

    Attributes:
        block_rows: Rows of a program's part of the result, a power of two.
        block_columns: Columns of it, a power of two.
        block_depth: What is summed up at once, a power of two.
        num_warps: Warps of a program, at least four for Hopper's tensor cores.
        num_stages: How many tiles are under way from memory.
        chunks: In how many parts the sum is cut, each the work of another program.
    """

    block_rows: int
    block_columns: int
    block_depth: int
    num_warps: int
    num_stages: int
    chunks: int = 1


class Plan(NamedTuple):
    """How a product and its gradient are computed.

    Attributes:
        keep: Write the dropped matrix out, and keep it for the gradient.
        turn: Write both operands of the gradient transposed first.
        forward: How the product is shared out.
        backward: How the gradient is.
    """

    keep: bool
    turn: bool
    forward: ProductShape
    backward: ProductShape


def plan(width: int, precision: Precision) -> Plan:
    """What to do for a width of the result."""
    depth = 64 if precision == "bf16" else 32
    if width <= 64:
        narrow = 64 if width > 32 else 32
        return Plan(
            keep=False,
            turn=False,
            forward=ProductShape(64, narrow, depth, num_warps=4, num_stages=3),
            backward=ProductShape(128, narrow, depth, num_warps=4, num_stages=3, chunks=52),
        )
    tiles = 5 * blocks(width, 128)
    shape = ProductShape(128, 128, depth, num_warps=8, num_stages=3)
    return Plan(
        keep=width >= 512,
        turn=width >= 512 and precision != "bf16",
        forward=shape,
        backward=shape._replace(chunks=max(4, 264 // tiles)),
    )


class DroppedProduct:
    """``drop(x) @ weight`` of one model, and the gradient for the weight.

    Both may be captured in a CUDA graph, add nothing atomically and drop the entries that
    :func:`crossgcn.kernels.plain.drop` drops.

    Args:
        x: ``[rows, features]``; gets no gradient.
        draws: Of one model, decide which entries are kept; all are when left out.
        p: Probability of dropping; 0 drops none.
        precision: Of the products; sums are in float32.
    """

    def __init__(self, x: Tensor, draws: Draws | None, p: float, precision: Precision) -> None:
        self.x = x.contiguous()
        self.precision: Precision = precision
        self._draws = draws if p > 0.0 else None
        self._p = p if draws is not None else 0.0
        self._kept: Tensor | None = None

    def project(self, weight: Tensor, chosen: Plan | None = None) -> Tensor:
        """The product with a weight ``[features, width]``.

        Returns:
            ``[rows, width]``, in float32, or in bfloat16 if that is the precision.
        """
        chosen = chosen or plan(weight.size(1), self.precision)
        high, low = self._turned(weight, split=self.precision == "fp32")
        source = self._keep() if chosen.keep else self.x
        return self._multiply(source, high, low, chosen.forward, drop=not chosen.keep)

    def project_backward(self, gradient: Tensor, chosen: Plan | None = None) -> Tensor:
        """The gradient for the weight, from that for the product, ``[rows, width]``.

        Returns:
            ``[features, width]``, in the type of the product.
        """
        chosen = chosen or plan(gradient.size(1), self.precision)
        shape = chosen.backward
        if chosen.turn:
            high, low = self._turned(gradient, split=self.precision == "fp32")
            dropped, _ = self._prepare(self.x, turn=True, drop=True, split=False)
            return self._multiply(dropped, high, low, shape, drop=False, rows=self.x.size(1))
        return self._multiply_turned(gradient.contiguous(), shape)

    def _multiply_turned(self, gradient: Tensor, shape: ProductShape) -> Tensor:
        kept = self._kept
        source = self.x if kept is None else kept
        rows, features, width = self.x.size(0), self.x.size(1), gradient.size(1)
        parts = self._parts(shape.chunks, features, width)
        if rows == 0:
            return parts.new_zeros(features, width, dtype=self._dtype)
        if parts.numel() > 0:
            grid = (blocks(features, shape.block_rows), blocks(width, shape.block_columns))
            with on_device_of(gradient):
                multiply_turned[(*grid, shape.chunks)](
                    source,
                    gradient,
                    parts,
                    *self._drawn(),
                    1.0 / (1.0 - self._p),
                    ROWS=rows,
                    WIDTH=width,
                    FEATURES=features,
                    STRIDE=source.size(1),
                    CHUNK=_chunk(rows, shape),
                    DROP=self._draws is not None and kept is None,
                    SPLIT=self.precision == "fp32",
                    HALF=self.precision == "bf16",
                    **_blocks_of(shape),
                )
        return self._add(parts)

    def _multiply(
        self,
        left: Tensor,
        right_high: Tensor,
        right_low: Tensor | None,
        shape: ProductShape,
        drop: bool,
        rows: int | None = None,
    ) -> Tensor:
        num_rows, depth = left.shape
        width, stride = right_high.shape
        parts = self._parts(shape.chunks, num_rows, width)
        if depth == 0:
            return parts.new_zeros(num_rows, width, dtype=self._dtype)
        if parts.numel() > 0:
            grid = (blocks(width, shape.block_columns), blocks(num_rows, shape.block_rows))
            with on_device_of(left):
                multiply[(*grid, shape.chunks)](
                    left,
                    right_high,
                    right_low,
                    parts,
                    *self._drawn(),
                    1.0 / (1.0 - self._p),
                    ROWS=num_rows,
                    WIDTH=width,
                    DEPTH=depth,
                    STRIDE=stride,
                    CHUNK=_chunk(depth, shape),
                    DROP=drop and self._draws is not None,
                    SPLIT=right_low is not None,
                    **_blocks_of(shape),
                )
        return self._add(parts)
