"""Crossing of projections on a GPU, in one pass over memory."""

from __future__ import annotations

import torch
from torch import Tensor

from crossgcn.kernels.gpu.triton_helpers import blocks, jit, on_device_of, power_of_two, tl


def cross(projections: Tensor, order_weights: Tensor, release: bool, first_is_one: bool) -> Tensor:
    """See :func:`crossgcn.kernels.reference.cross`."""
    order = order_weights.numel()
    rows, channels = projections.size(0), projections.size(1) // order
    out = projections.new_empty(rows, channels)
    block_rows, block_channels = _tile(channels, order)
    if out.numel() > 0:
        with on_device_of(projections):
            _cross[(blocks(rows, block_rows), blocks(channels, block_channels))](
                projections.contiguous(),
                order_weights.contiguous(),
                out,
                rows,
                CHANNELS=channels,
                ORDER=order,
                RELEASE=release,
                FIRST_IS_ONE=first_is_one,
                BLOCK_ROWS=block_rows,
                BLOCK_CHANNELS=block_channels,
                num_warps=4,
            )
    return out


def cross_backward(
    gradient: Tensor,
    projections: Tensor,
    order_weights: Tensor,
    release: bool,
    first_is_one: bool,
    with_order_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """See :func:`crossgcn.kernels.reference.cross_backward`."""
    order = order_weights.numel()
    rows, channels = gradient.shape
    out = torch.empty_like(projections, memory_format=torch.contiguous_format)
    block_rows, block_channels = _tile(channels, order)
    grid = (blocks(rows, block_rows), blocks(channels, block_channels))
    sums = out.new_empty(order, grid[0] * grid[1], dtype=torch.float32)
    if out.numel() > 0:
        with on_device_of(projections):
            _cross_backward[grid](
                gradient.contiguous(),
                projections.contiguous(),
                order_weights.contiguous(),
                out,
                sums,
                rows,
                CHANNELS=channels,
                ORDER=order,
                RELEASE=release,
                FIRST_IS_ONE=first_is_one,
                WITH_ORDER_WEIGHTS=with_order_weights,
                BLOCK_ROWS=block_rows,
                BLOCK_CHANNELS=block_channels,
                num_warps=4,
            )
    return out, sums.sum(dim=1).to(order_weights.dtype) if with_order_weights else None


def _tile(channels: int, order: int) -> tuple[int, int]:
    """Return rows and channels of a program; high orders need more registers, so fewer rows."""
    block_channels = min(power_of_two(max(channels, 1)), 128)
    return (1024 if order <= 4 else 512) // block_channels, block_channels


@jit
def _cross(
    projections: tl.tensor,
    order_weights: tl.tensor,
    out: tl.tensor,
    num_rows: tl.int64,
    CHANNELS: tl.constexpr,
    ORDER: tl.constexpr,
    RELEASE: tl.constexpr,
    FIRST_IS_ONE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_CHANNELS: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)[:, None]
    channel = tl.program_id(1) * BLOCK_CHANNELS + tl.arange(0, BLOCK_CHANNELS)[None, :]
    inside = (row < num_rows) & (channel < CHANNELS)
    place = projections + row * (ORDER * CHANNELS) + channel
    hidden = tl.load(place, mask=inside, other=0.0).to(tl.float32)
    first = hidden
    total = tl.zeros((BLOCK_ROWS, BLOCK_CHANNELS), dtype=tl.float32)
    for k in tl.static_range(1, ORDER):
        part = tl.load(place + k * CHANNELS, mask=inside, other=0.0).to(tl.float32)
        hidden *= part
        total += tl.load(order_weights + k).to(tl.float32) * hidden
        if RELEASE:
            first += part
    if FIRST_IS_ONE:
        total += first
    else:
        total += tl.load(order_weights).to(tl.float32) * first
    tl.store(out + row * CHANNELS + channel, total.to(out.dtype.element_ty), mask=inside)


@jit
def _cross_backward(
    gradient: tl.tensor,
    projections: tl.tensor,
    order_weights: tl.tensor,
    grad_projections: tl.tensor,
    sums: tl.tensor,
    num_rows: tl.int64,
    CHANNELS: tl.constexpr,
    ORDER: tl.constexpr,
    RELEASE: tl.constexpr,
    FIRST_IS_ONE: tl.constexpr,
    WITH_ORDER_WEIGHTS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_CHANNELS: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)[:, None]
    channel = tl.program_id(1) * BLOCK_CHANNELS + tl.arange(0, BLOCK_CHANNELS)[None, :]
    inside = (row < num_rows) & (channel < CHANNELS)
    place = row * (ORDER * CHANNELS) + channel
    slope = tl.load(gradient + row * CHANNELS + channel, mask=inside, other=0.0).to(tl.float32)

    parts = []
    before = []
    hidden = tl.full((BLOCK_ROWS, BLOCK_CHANNELS), 1.0, dtype=tl.float32)
    first = tl.zeros((BLOCK_ROWS, BLOCK_CHANNELS), dtype=tl.float32)
    # This program writes one sum per order, into its own column.
    num_programs = tl.num_programs(0) * tl.num_programs(1)
    own_sum = sums + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    for k in tl.static_range(ORDER):
        part = tl.load(projections + place + k * CHANNELS, mask=inside, other=0.0).to(tl.float32)
        parts += [part]
        before += [hidden]
        hidden *= part
        first += part
        if WITH_ORDER_WEIGHTS and k > 0:
            tl.store(own_sum + k * num_programs, tl.sum(slope * hidden))
    if WITH_ORDER_WEIGHTS:
        if FIRST_IS_ONE:
            first_sum = 0.0
        elif RELEASE:
            first_sum = tl.sum(slope * first)
        else:
            first_sum = tl.sum(slope * parts[0])
        tl.store(own_sum, first_sum)

    first_weight = 1.0 if FIRST_IS_ONE else tl.load(order_weights).to(tl.float32)
    suffix = tl.zeros((BLOCK_ROWS, BLOCK_CHANNELS), dtype=tl.float32)
    for k in tl.static_range(ORDER - 1, -1, -1):
        if k > 0:
            suffix += tl.load(order_weights + k).to(tl.float32)
        elif not RELEASE:
            suffix += first_weight
        result = before[k] * suffix
        if RELEASE:
            result += first_weight
        result = (result * slope).to(grad_projections.dtype.element_ty)
        tl.store(grad_projections + place + k * CHANNELS, result, mask=inside)
        suffix *= parts[k]
