"""Products of a matrix after dropout, on the tensor cores of a GPU.

In float32 by our own kernels. Narrow products are limited by memory, so every tile draws its mask
and the dropped matrix is never written; for wide products it is written once, in aligned rows. In
TF32 and bfloat16, PyTorch multiplies the dropped and aligned copy.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from crossgcn.kernels.draws import Draws
from crossgcn.kernels.gpu.padded_copies import (
    Dropping,
    aligned,
    drop_tile,
    high_part,
    model_key,
    with_readable_rows,
)
from crossgcn.kernels.gpu.triton_helpers import blocks, jit, on_device_of, tl


@jit
def multiply_along_rows(
    left: tl.tensor,
    right_high: tl.tensor,
    right_low: tl.tensor,
    out: tl.tensor,
    seeds: tl.tensor,
    step: tl.tensor,
    site: tl.uint32,
    drop_below: tl.uint32,
    scale: tl.float32,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    TERMS: tl.constexpr,
    LEFT_STRIDE: tl.constexpr,
    STRIDE: tl.constexpr,
    CHUNK: tl.constexpr,
    DROP: tl.constexpr,
    SPLIT: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
) -> None:
    """Compute ``out[chunk] = left[:, chunk] @ right[:, chunk].T``.

    The summed dimension is contiguous in both: ``left`` is ``[ROWS, TERMS]`` with row stride
    ``LEFT_STRIDE``, ``right`` has row stride ``STRIDE``. Column blocks are the fast axis of the
    grid, because all of them read the same tile of ``left``. Without ``SPLIT``, ``right`` is
    split into its TF32 part and remainder here.
    """
    column = tl.program_id(0) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    row = tl.program_id(1) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    chunk = tl.program_id(2)
    in_rows, in_width = row < ROWS, column < WIDTH
    left_rows = left + row.to(tl.int64)[:, None] * LEFT_STRIDE
    right_rows = column.to(tl.int64)[:, None] * STRIDE
    if DROP:
        key = model_key(seeds, step, site)
    sums = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), dtype=tl.float32)
    for begin in range(0, CHUNK, BLOCK_DEPTH):
        term = chunk * CHUNK + begin + tl.arange(0, BLOCK_DEPTH)
        # Padding between rows is read too, so that the loads of a tile stay vectorised.
        within = in_rows[:, None] & (term < LEFT_STRIDE)[None, :]
        a = tl.load(left_rows + term[None, :], mask=within, other=0.0)
        if LEFT_STRIDE > TERMS:
            a = tl.where((term < TERMS)[None, :], a, 0.0)
        if DROP:
            a = drop_tile(a, row, term, key, drop_below, TERMS)
        within = in_width[:, None] & (term < STRIDE)[None, :]
        b = tl.load(right_high + right_rows + term[None, :], mask=within, other=0.0)
        if SPLIT:
            b_low = tl.load(right_low + right_rows + term[None, :], mask=within, other=0.0)
        else:
            b_low = b - high_part(b)
            b = high_part(b)
        near = high_part(a)
        part = tl.dot(a - near, tl.trans(b), input_precision="tf32")
        part = tl.dot(near, tl.trans(b_low), part, input_precision="tf32")
        sums += tl.dot(near, tl.trans(b), part, input_precision="tf32")
    places = (chunk * ROWS + row.to(tl.int64))[:, None] * WIDTH + column[None, :]
    inside = in_rows[:, None] & in_width[None, :]
    tl.store(out + places, (sums * scale), mask=inside)


@jit
def multiply_down_columns(
    left: tl.tensor,
    right: tl.tensor,
    out: tl.tensor,
    seeds: tl.tensor,
    step: tl.tensor,
    site: tl.uint32,
    drop_below: tl.uint32,
    scale: tl.float32,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    FEATURES: tl.constexpr,
    STRIDE: tl.constexpr,
    CHUNK: tl.constexpr,
    DROP: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
    BLOCK_DEPTH: tl.constexpr,
) -> None:
    """Compute ``out[chunk] = left[chunk].T @ right[chunk]``.

    ``left`` is ``[ROWS, FEATURES]`` with row stride ``STRIDE``.
    """
    feature = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    chunk = tl.program_id(2)
    in_width = column < WIDTH
    if DROP:
        key = model_key(seeds, step, site)
    sums = tl.zeros((BLOCK_ROWS, BLOCK_COLUMNS), dtype=tl.float32)
    for begin in range(0, CHUNK, BLOCK_DEPTH):
        row = chunk * CHUNK + begin + tl.arange(0, BLOCK_DEPTH)
        in_rows, long_row = row < ROWS, row.to(tl.int64)[:, None]
        # Columns beyond the features give rows of the result that are not stored.
        within = in_rows[:, None] & (feature < STRIDE)[None, :]
        a = tl.load(left + long_row * STRIDE + feature[None, :], mask=within, other=0.0)
        if DROP:
            a = drop_tile(a, row, feature, key, drop_below, FEATURES)
        within = in_rows[:, None] & in_width[None, :]
        b = tl.load(right + long_row * WIDTH + column[None, :], mask=within, other=0.0)
        a = tl.trans(a)
        near_a, near_b = high_part(a), high_part(b)
        part = tl.dot(a - near_a, near_b, input_precision="tf32")
        part = tl.dot(near_a, b - near_b, part, input_precision="tf32")
        sums += tl.dot(near_a, near_b, part, input_precision="tf32")
    places = (chunk * FEATURES + feature.to(tl.int64))[:, None] * WIDTH + column[None, :]
    inside = (feature < FEATURES)[:, None] & in_width[None, :]
    tl.store(out + places, (sums * scale), mask=inside)


@jit
def add_chunks(
    parts: tl.tensor,
    out: tl.tensor,
    num_entries: tl.int32,
    CHUNKS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Add the chunks of a product in order."""
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = entry < num_entries
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for chunk in tl.static_range(CHUNKS):
        first = parts + tl.cast(num_entries, tl.int64) * chunk
        sums += tl.load(first + entry, mask=inside, other=0.0)
    tl.store(out + entry, sums, mask=inside)


_ADD_BLOCK = 512


class ProductShape(NamedTuple):
    """Launch parameters of a product.

    A program computes a tile of ``block_rows`` and ``block_columns``; all blocks are powers of two.

    Attributes:
        block_depth: Terms that are read at once.
        num_warps: Warps of a program; four together feed Hopper's tensor cores.
        num_stages: Tiles that are loaded ahead.
        chunks: Upper bound of the parts that the sum is cut into, one program each.
    """

    block_rows: int
    block_columns: int
    block_depth: int
    num_warps: int
    num_stages: int
    chunks: int = 1


def along_rows(
    left: Tensor, right: list[Tensor], shape: ProductShape, dropping: Dropping, drop: bool
) -> Tensor:
    """Compute ``scale * left @ right.T``.

    Args:
        left: ``[rows, terms]``, from :func:`with_readable_rows`.
        right: ``[width, terms]`` from :func:`aligned`, split or not.
        dropping: The scale and the random bits.
        drop: Drop entries of ``left``; they may be dropped already.
    """
    (rows, terms), (width, stride) = left.shape, right[0].shape
    return _multiply(
        multiply_along_rows,
        (left, right[0], right[-1]),
        (rows, width),
        terms,
        (blocks(width, shape.block_columns), blocks(rows, shape.block_rows)),
        shape,
        dropping,
        drop,
        TERMS=terms,
        ROWS=rows,
        LEFT_STRIDE=left.stride(0),
        STRIDE=stride,
        SPLIT=len(right) > 1,
    )


def down_columns(
    left: Tensor, right: Tensor, shape: ProductShape, dropping: Dropping, drop: bool
) -> Tensor:
    """Compute ``scale * left.T @ right``.

    ``left`` is ``[rows, features]``, from :func:`with_readable_rows`, ``right`` is
    ``[rows, width]`` and contiguous. The others are as for :func:`along_rows`.
    """
    (rows, width), features = right.shape, left.size(1)
    return _multiply(
        multiply_down_columns,
        (left, right),
        (features, width),
        rows,
        (blocks(features, shape.block_rows), blocks(width, shape.block_columns)),
        shape,
        dropping,
        drop,
        ROWS=rows,
        FEATURES=features,
        STRIDE=left.stride(0),
    )


def _multiply(
    kernel: Any,
    operands: tuple[Tensor, ...],
    size: tuple[int, int],
    terms: int,
    grid: tuple[int, int],
    shape: ProductShape,
    dropping: Dropping,
    drop: bool,
    **sizes: int,
) -> Tensor:
    """Launch a kernel for each chunk of the terms, none of them empty, and add the chunks."""
    chunk = blocks(blocks(terms, shape.block_depth), shape.chunks) * shape.block_depth
    chunks = blocks(terms, chunk) if terms else 1
    parts = operands[0].new_empty(chunks, *size)
    if parts.numel() and terms:
        with on_device_of(parts):
            kernel[(*grid, chunks)](
                *operands,
                parts,
                *dropping.arguments,
                dropping.scale,
                WIDTH=size[1],
                DROP=drop and dropping.draws is not None,
                CHUNK=chunk,
                BLOCK_ROWS=shape.block_rows,
                BLOCK_COLUMNS=shape.block_columns,
                BLOCK_DEPTH=shape.block_depth,
                num_warps=shape.num_warps,
                num_stages=shape.num_stages,
                **sizes,
            )
    return _add(parts, any_terms=terms > 0)


def _add(parts: Tensor, any_terms: bool) -> Tensor:
    if not any_terms:
        return parts.new_zeros(parts.shape[1:])
    if parts.size(0) == 1:
        return parts[0]
    out = parts.new_empty(parts.shape[1:])
    entries = out.numel()
    if entries:
        with on_device_of(parts):
            add_chunks[(blocks(entries, _ADD_BLOCK),)](
                parts, out, entries, CHUNKS=parts.size(0), BLOCK=_ADD_BLOCK, num_warps=4
            )
    return out


Precision = Literal["fp32", "tf32", "bf16"]
"""``fp32`` is three TF32 products, as exact as one of float32."""


_MANY_ROWS = 1 << 18
_PROGRAMS = 256
"""Programs that keep the 132 processors of an H200 busy."""


class Plan(NamedTuple):
    """How a product and its gradient are computed.

    Attributes:
        keep: Write the dropped matrix, and keep it for the gradient.
        turn: For the gradient, transpose both operands first.
    """

    keep: bool
    turn: bool
    forward: ProductShape
    backward: ProductShape


def plan_for(width: int, rows: int = 0, features: int = 0) -> Plan:
    """Choose a plan by the width of the result.

    For a matrix of many rows, the sum of the gradient is cut into more parts.
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
    """``drop(x) @ weight`` of one model, and the gradient of the weight.

    It drops the same entries as :func:`crossgcn.kernels.plain.drop`. One object serves one
    training step: it may keep the dropped matrix between the two products.

    Args:
        x: ``[rows, features]``, a constant; see :func:`pad_rows`.
        draws: Random bits of one model; ``None`` drops nothing.
        precision: Of the products; sums are in float32.
    """

    def __init__(self, x: Tensor, draws: Draws | None, p: float, precision: Precision) -> None:
        self.x = with_readable_rows(x)
        self.precision: Precision = precision
        self._dropping = Dropping(draws if p > 0.0 else None, p)
        self._dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self._kept: Tensor | None = None

    def project(self, weight: Tensor, plan: Plan | None = None) -> Tensor:
        """Multiply by a weight ``[features, width]``; the result has the type of the precision."""
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
        """Compute the gradient of the weight from that of the product, ``[rows, width]``."""
        features = self.x.size(1)
        if self.precision != "fp32":
            grad_weight = self._keep().t() @ gradient.to(self._dtype)
            return grad_weight[:features] * self._dropping.scale
        plan = plan or plan_for(gradient.size(1), gradient.size(0), features)
        if plan.turn:
            # Split it beforehand if it is read several times, and otherwise while reading.
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
    """Copy a matrix into aligned rows, which are read faster."""
    (copy,) = aligned(x, x.dtype, turn=False, split=False)
    return copy[:, : x.size(1)]
