"""Crossing of projections on a GPU, in one pass over memory."""

from __future__ import annotations

import torch
from torch import Tensor

from crossgcn.kernels.gpu.halves import (
    TILE,
    Halves,
    empty_halves,
    largest,
    powers_of_two,
    store_halves,
)
from crossgcn.kernels.gpu.rows import rounds
from crossgcn.kernels.gpu.triton_helpers import blocks, jit, on_device_of, power_of_two, tl


def cross(
    projections: Tensor, order_weights: Tensor, release: bool, first_is_one: bool = False
) -> Tensor:
    """See :func:`crossgcn.kernels.plain.cross`."""
    models, rows, width = projections.shape
    out = projections.new_empty(models, rows, width // order_weights.size(1))
    _launch(projections, order_weights, release, first_is_one, out)
    return out


def cross_to_sum(
    projections: Tensor, order_weights: Tensor, release: bool, first_is_one: bool = False
) -> Tensor | Halves:
    """Compute :func:`cross` of one model for :func:`~crossgcn.kernels.gpu.row_sums`.

    Crosses that the sums would round are written in halves at once.
    """
    _, rows, width = projections.shape
    channels = width // order_weights.size(1)
    if channels % TILE or not rounds(projections.dtype, channels):
        return cross(projections, order_weights, release, first_is_one)[0]
    out = empty_halves(projections, rows, channels, exact=False)
    _launch(projections, order_weights, release, first_is_one, out.high, out.shrink)
    return out


def _launch(
    projections: Tensor,
    order_weights: Tensor,
    release: bool,
    first_is_one: bool,
    out: Tensor,
    shrink: Tensor | None = None,
) -> None:
    models, rows, width = projections.shape
    order = order_weights.size(1)
    if out.numel() == 0:
        return
    channels = width // order
    block_rows, block_channels = _tile(channels, order)
    if shrink is not None:
        block_rows = TILE
    with on_device_of(projections):
        _cross[(blocks(rows, block_rows), blocks(channels, block_channels), models)](
            projections.contiguous(),
            order_weights.contiguous(),
            out,
            shrink,
            rows,
            CHANNELS=channels,
            STRIDE=out.stride(-2),
            ORDER=order,
            RELEASE=release,
            FIRST_IS_ONE=first_is_one,
            BLOCK_ROWS=block_rows,
            BLOCK_CHANNELS=block_channels,
            num_warps=_warps(shrink, block_channels),
        )


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


_MOST_IN_HALVES = 2
"""Highest order whose gradient is written in halves at once; more need too many registers."""


def cross_backward_to_multiply(
    gradient: Tensor,
    projections: Tensor,
    order_weights: Tensor,
    release: bool,
    with_order_weights: bool,
    first_is_one: bool = False,
    *,
    exact: bool,
) -> tuple[Tensor | Halves, Tensor | None]:
    """Compute :func:`cross_backward` of one model for a product, in halves if possible.

    For that, the channels of all orders must fit into a tile, or those of each must fill tiles.

    Args:
        exact: Keep the remainders.
    """
    how = (release, with_order_weights, first_is_one)
    _, rows, width = projections.shape
    order = order_weights.size(1)
    channels = width // order
    fits = width <= TILE or channels % TILE == 0
    if not fits or order > _MOST_IN_HALVES or projections.dtype != torch.float32:
        found, sums = cross_backward(gradient, projections, order_weights, *how)
        return found[0], sums
    halves = empty_halves(projections, rows, width, exact)
    _, block_channels = _tile(channels, order)
    sums = _launch_backward(
        *(gradient, projections, order_weights, *how, *halves), tile=(TILE, block_channels)
    )
    return halves, sums


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
                STRIDE=out.stride(-2),
                ORDER=order,
                RELEASE=release,
                FIRST_IS_ONE=first_is_one,
                WITH_ORDER_WEIGHTS=with_order_weights,
                BLOCK_ROWS=block_rows,
                BLOCK_CHANNELS=block_channels,
                num_warps=_warps(shrink, block_channels),
            )
    return sums.sum(dim=2).to(order_weights.dtype) if with_order_weights else None


def _tile(channels: int, order: int) -> tuple[int, int]:
    """Return rows and channels of a program; high orders need more registers, so fewer rows."""
    block_channels = min(power_of_two(max(channels, 1)), 128)
    return (1024 if order <= 4 else 512) // block_channels, block_channels


def _warps(shrink: Tensor | None, block_channels: int) -> int:
    """Return what was fastest on an H200; programs that write halves see all rows of a tile."""
    return 4 if shrink is None or block_channels < TILE else 8


@jit
def _cross(
    projections: tl.tensor,
    order_weights: tl.tensor,
    out: tl.tensor,
    shrink: tl.tensor,
    num_rows: tl.int64,
    CHANNELS: tl.constexpr,
    STRIDE: tl.constexpr,
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
    most = 0.0
    if shrink is not None:
        most = largest(total)
    tile = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    _store(total, most, shrink, tile, row_of_all * STRIDE + channel, inside, out, None)


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
    STRIDE: tl.constexpr,
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
    # In halves, the orders are in one tile, or each in tiles of its own.
    together: tl.constexpr = shrink is not None and ORDER * CHANNELS <= BLOCK_ROWS
    tile = tl.program_id(0)
    place = row_of_all * STRIDE + channel
    suffix = tl.zeros((BLOCK_ROWS, BLOCK_CHANNELS), dtype=tl.float32)
    results = []
    most = 0.0
    for k in tl.static_range(ORDER - 1, -1, -1):
        if k > 0:
            suffix += tl.load(order_weights + model * ORDER + k).to(tl.float32)
        elif not RELEASE:
            suffix += first_weight
        result = before[k] * suffix
        if RELEASE:
            result += first_weight
        result *= slope
        if together:
            results += [result]
            most = tl.maximum(most, largest(result))
        else:
            if shrink is not None:
                most = largest(result)
                tile = (tl.program_id(0) * ORDER + k) * tl.num_programs(1) + tl.program_id(1)
            _store(result, most, shrink, tile, place + k * CHANNELS, inside, grad_projections, low)
        suffix *= parts[k]
    if together:
        for k in tl.static_range(ORDER):
            at, result = place + k * CHANNELS, results[ORDER - 1 - k]
            _store(result, most, shrink, tile, at, inside, grad_projections, low)


@jit
def _store(
    value: tl.tensor,
    most: tl.tensor,
    shrink: tl.tensor,
    tile: tl.tensor,
    place: tl.tensor,
    inside: tl.tensor,
    high: tl.tensor,
    low: tl.tensor,
) -> None:
    """Store a part of a tile whose largest entry is known."""
    if shrink is not None:
        stretch, power = powers_of_two(most)
        value *= stretch
        tl.store(shrink + tile, power)
    store_halves(value, place, inside, high, low)
