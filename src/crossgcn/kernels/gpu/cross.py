"""Crossing of projections on a GPU, in one pass over memory."""

from __future__ import annotations

import torch
from torch import Tensor

from crossgcn.kernels.gpu.halves import TILE, Halves, store_halves, stretch_tile
from crossgcn.kernels.gpu.triton_helpers import blocks, jit, on_device_of, power_of_two, tl


def cross(
    projections: Tensor, order_weights: Tensor, release: bool, first_is_one: bool = False
) -> Tensor:
    """See :func:`crossgcn.kernels.plain.cross`."""
    models, rows, width = projections.shape
    order = order_weights.size(1)
    channels = width // order
    out = projections.new_empty(models, rows, channels)
    if out.numel() == 0:
        return out
    block_rows, block_channels = _tile(channels, order)
    with on_device_of(projections):
        _cross[(blocks(rows, block_rows), blocks(channels, block_channels), models)](
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
    with_order_weights: bool,
    first_is_one: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """See :func:`crossgcn.kernels.plain.cross_backward`."""
    out = torch.empty_like(projections, memory_format=torch.contiguous_format)
    how = (release, with_order_weights, first_is_one)
    tile = _tile(projections.size(2) // order_weights.size(1), order_weights.size(1))
    return out, _launch_backward(gradient, projections, order_weights, *how, out, tile=tile)


def cross_backward_in_halves(
    gradient: Tensor,
    projections: Tensor,
    order_weights: Tensor,
    release: bool,
    with_order_weights: bool,
    first_is_one: bool,
    exact: bool,
) -> tuple[Halves, Tensor | None]:
    """Compute :func:`cross_backward` for a product's gradient, of one model.

    The number of channels must be a multiple of 128.

    Args:
        exact: Keep the remainders.
    """
    _, rows, width = projections.shape
    high = projections.new_empty(rows, width, dtype=torch.float16)
    low = torch.empty_like(high) if exact else None
    shrink = projections.new_empty(blocks(rows, TILE), blocks(width, TILE))
    how = (release, with_order_weights, first_is_one)
    sums = _launch_backward(
        *(gradient, projections, order_weights, *how, high, low, shrink), tile=(TILE, TILE)
    )
    return Halves(high, low, shrink), sums


def _launch_backward(
    gradient: Tensor,
    projections: Tensor,
    order_weights: Tensor,
    release: bool,
    with_order_weights: bool,
    first_is_one: bool,
    out: Tensor,
    low: Tensor | None = None,
    shrink: Tensor | None = None,
    *,
    tile: tuple[int, int],
) -> Tensor | None:
    """Write the gradient of the projections; return that of the order weights if asked for."""
    models, rows, width = projections.shape
    order = order_weights.size(1)
    channels, (block_rows, block_channels) = width // order, tile
    grid = (blocks(rows, block_rows), blocks(channels, block_channels), models)
    sums = out.new_empty(models, order, grid[0] * grid[1], dtype=torch.float32)
    if out.numel() > 0:
        with on_device_of(projections):
            _cross_backward[grid](
                gradient.contiguous(),
                projections.contiguous(),
                order_weights.contiguous(),
                out,
                low,
                shrink,
                sums,
                rows,
                CHANNELS=channels,
                ORDER=order,
                RELEASE=release,
                FIRST_IS_ONE=first_is_one,
                WITH_ORDER_WEIGHTS=with_order_weights,
                BLOCK_ROWS=block_rows,
                BLOCK_CHANNELS=block_channels,
                num_warps=4 if shrink is None else 32,
            )
    return sums.sum(dim=2).to(order_weights.dtype) if with_order_weights else None


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
    model = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)[:, None]
    channel = tl.program_id(1) * BLOCK_CHANNELS + tl.arange(0, BLOCK_CHANNELS)[None, :]
    inside = (row < num_rows) & (channel < CHANNELS)
    row_of_all = model * num_rows + row
    place = projections + row_of_all * (ORDER * CHANNELS) + channel
    hidden = tl.load(place, mask=inside, other=0.0).to(tl.float32)
    first = hidden
    total = tl.zeros((BLOCK_ROWS, BLOCK_CHANNELS), dtype=tl.float32)
    for k in tl.static_range(1, ORDER):
        part = tl.load(place + k * CHANNELS, mask=inside, other=0.0).to(tl.float32)
        hidden *= part
        total += tl.load(order_weights + model * ORDER + k).to(tl.float32) * hidden
        if RELEASE:
            first += part
    if FIRST_IS_ONE:
        total += first
    else:
        total += tl.load(order_weights + model * ORDER).to(tl.float32) * first
    place = out + row_of_all * CHANNELS + channel
    tl.store(place, total.to(out.dtype.element_ty), mask=inside)


@jit
def _cross_backward(
    gradient: tl.tensor,
    projections: tl.tensor,
    order_weights: tl.tensor,
    grad_projections: tl.tensor,
    low: tl.tensor,
    shrink: tl.tensor,
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
    model = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)[:, None]
    channel = tl.program_id(1) * BLOCK_CHANNELS + tl.arange(0, BLOCK_CHANNELS)[None, :]
    inside = (row < num_rows) & (channel < CHANNELS)
    row_of_all = model * num_rows + row
    offset = row_of_all * (ORDER * CHANNELS) + channel
    slope = tl.load(gradient + row_of_all * CHANNELS + channel, mask=inside, other=0.0)
    slope = slope.to(tl.float32)

    parts = []
    before = []
    hidden = tl.full((BLOCK_ROWS, BLOCK_CHANNELS), 1.0, dtype=tl.float32)
    first = tl.zeros((BLOCK_ROWS, BLOCK_CHANNELS), dtype=tl.float32)
    # This program writes one sum per order, into its own column.
    num_programs = tl.num_programs(0) * tl.num_programs(1)
    program = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    for k in tl.static_range(ORDER):
        part = tl.load(projections + offset + k * CHANNELS, mask=inside, other=0.0)
        part = part.to(tl.float32)
        parts += [part]
        before += [hidden]
        hidden *= part
        first += part
        if WITH_ORDER_WEIGHTS and k > 0:
            sum_place = sums + (model * ORDER + k) * num_programs + program
            tl.store(sum_place, tl.sum(slope * hidden))
    if WITH_ORDER_WEIGHTS:
        if FIRST_IS_ONE:
            first_sum = 0.0
        elif RELEASE:
            first_sum = tl.sum(slope * first)
        else:
            first_sum = tl.sum(slope * parts[0])
        tl.store(sums + model * ORDER * num_programs + program, first_sum)

    first_weight = 1.0 if FIRST_IS_ONE else tl.load(order_weights + model * ORDER).to(tl.float32)
    suffix = tl.zeros((BLOCK_ROWS, BLOCK_CHANNELS), dtype=tl.float32)
    for k in tl.static_range(ORDER - 1, -1, -1):
        if k > 0:
            suffix += tl.load(order_weights + model * ORDER + k).to(tl.float32)
        elif not RELEASE:
            suffix += first_weight
        result = before[k] * suffix
        if RELEASE:
            result += first_weight
        result *= slope
        if shrink is not None:
            result, power = stretch_tile(result)
            tile = (tl.program_id(0) * ORDER + k) * tl.num_programs(1) + tl.program_id(1)
            tl.store(shrink + tile, power)
        store_halves(result, offset + k * CHANNELS, inside, grad_projections, low)
        suffix *= parts[k]
