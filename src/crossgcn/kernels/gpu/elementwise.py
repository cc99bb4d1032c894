"""Crosses, and ReLU with dropout, on a GPU; each kernel reads and writes every entry once.

The output of a dropout mostly goes into a matrix product. Tensor cores are fastest if rows start
at multiples of 16 bytes, so :func:`drop` pads rows with zeros where needed. Under autocast,
:func:`drop` writes half precision directly.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from crossgcn.kernels.reference import DropoutBits, threshold

_BLOCK = 1024


def cross(projections: Tensor, order_weights: Tensor, release: bool, first_is_one: bool) -> Tensor:
    """See :func:`crossgcn.kernels.reference.cross`."""
    order = order_weights.numel()
    rows, channels = projections.size(0), projections.size(1) // order
    out = projections.new_empty(rows, channels)
    grid, sizes = _tiles(rows, channels, order)
    how = {"RELEASE": release, "FIRST_IS_ONE": first_is_one}
    if out.numel() > 0:
        given = projections.contiguous(), order_weights.contiguous()
        with torch.cuda.device_of(projections):
            _cross[grid](*given, out, rows, **how, **sizes)
    return out


def cross_backward(
    gradient: Tensor,
    projections: Tensor,
    order_weights: Tensor,
    release: bool,
    first_is_one: bool,
    with_order_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """Return the gradients of :func:`cross`; those of the order weights only if asked for.

    They are computed as in :func:`crossgcn.kernels.cpu_loops.cross_backward`. The gradient of the
    first order weight, which is never trained, is 0.
    """
    order = order_weights.numel()
    rows, channels = gradient.shape
    out = torch.empty_like(projections, memory_format=torch.contiguous_format)
    grid, sizes = _tiles(rows, channels, order)
    how = {"RELEASE": release, "FIRST_IS_ONE": first_is_one}
    sums = out.new_zeros(order, grid[0] * grid[1], dtype=torch.float32)
    if out.numel() > 0:
        given = gradient.contiguous(), projections.contiguous(), order_weights.contiguous()
        how["WITH_ORDER_WEIGHTS"] = with_order_weights
        with torch.cuda.device_of(projections):
            _cross_backward[grid](*given, out, sums, rows, **how, **sizes)
    return out, sums.sum(dim=1).to(order_weights.dtype) if with_order_weights else None


def _tiles(rows: int, channels: int, order: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """Return the grid of programs and their sizes; high orders need more registers, so fewer rows.

    A program computes all orders of a tile of rows and channels.
    """
    block_channels = min(triton.next_power_of_2(max(channels, 1)), 128)
    block_rows = (1024 if order <= 4 else 512) // block_channels
    blocks = {"BLOCK_ROWS": block_rows, "BLOCK_CHANNELS": block_channels}
    sizes = {"CHANNELS": channels, "ORDER": order, **blocks, "num_warps": 4}
    return (triton.cdiv(rows, block_rows), triton.cdiv(channels, block_channels)), sizes


@triton.jit
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


@triton.jit
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
    grad = tl.load(gradient + row * CHANNELS + channel, mask=inside, other=0.0).to(tl.float32)

    parts = []
    before = []
    hidden = tl.full((BLOCK_ROWS, BLOCK_CHANNELS), 1.0, dtype=tl.float32)
    # This program writes one sum per order, into its own column.
    num_programs = tl.num_programs(0) * tl.num_programs(1)
    own_sum = sums + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    for k in tl.static_range(ORDER):
        part = tl.load(projections + place + k * CHANNELS, mask=inside, other=0.0).to(tl.float32)
        parts += [part]
        before += [hidden]
        hidden *= part
        if WITH_ORDER_WEIGHTS and k > 0:
            tl.store(own_sum + k * num_programs, tl.sum(grad * hidden))

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
        result = (result * grad).to(grad_projections.dtype.element_ty)
        tl.store(grad_projections + place + k * CHANNELS, result, mask=inside)
        suffix *= parts[k]


def drop(x: Tensor, bits: DropoutBits, p: float, activate: bool) -> Tensor:
    """See :func:`crossgcn.kernels.reference.drop`."""
    x = x.contiguous()
    if x.dim() != 2:  # entries of a sparse matrix
        entries = torch.empty_like(x)
        _launch(x, x, entries, bits, p, activate)
        return entries
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x.dtype
    rows, columns = x.shape
    gap = -columns % (16 // dtype.itemsize)
    out = x.new_empty(rows, columns + gap, dtype=dtype)
    _launch(x, x, out, bits, p, activate, gap)
    return out[:, :columns]


def drop_backward(
    gradient: Tensor, x: Tensor, bits: DropoutBits, p: float, activate: bool
) -> Tensor:
    """Return the gradient of :func:`drop` for ``x``."""
    out = x.new_empty(x.shape)
    _launch(gradient.contiguous(), x.contiguous(), out, bits, p, activate)
    return out


def _launch(
    source: Tensor,
    gate: Tensor,
    out: Tensor,
    bits: DropoutBits,
    p: float,
    activate: bool,
    gap: int = 0,
) -> None:
    entries, columns = out.numel(), out.size(-1) - gap
    if entries > 0:
        with torch.cuda.device_of(source):
            _drop[(triton.cdiv(entries, _BLOCK),)](
                source,
                gate,
                out,
                bits.seed,
                bits.step,
                bits.site,
                threshold(p),
                1.0 / (1.0 - p),
                entries,
                COLUMNS=columns if gap else 0,
                GAP=gap,
                ACTIVATE=activate,
                BLOCK=_BLOCK,
                num_warps=4,
            )


@triton.jit
def _mix(bits: tl.tensor) -> tl.tensor:
    """See :func:`crossgcn.kernels.reference.mix`; unsigned numbers wrap around."""
    bits = bits ^ (bits >> 16)
    bits = bits * tl.full((), 0x7FEB352D, tl.uint32)
    bits = bits ^ (bits >> 15)
    bits = bits * tl.full((), 0x846CA68B, tl.uint32)
    return bits ^ (bits >> 16)


@triton.jit
def _drop(
    source: tl.tensor,
    gate: tl.tensor,
    out: tl.tensor,
    seed: tl.tensor,
    step: tl.tensor,
    site: tl.uint32,
    drop_below: tl.uint32,
    scale: tl.float32,
    num_entries: tl.int64,
    COLUMNS: tl.constexpr,
    GAP: tl.constexpr,
    ACTIVATE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Mask and scale ``source``; ``ACTIVATE`` also zeroes entries where ``gate`` is not positive.

    ``out`` has ``GAP`` more columns than ``source`` and ``gate``, filled with zeros.
    """
    key = _mix(tl.load(seed).to(tl.uint32))
    key = _mix(key + tl.load(step).to(tl.uint32))
    key = _mix(key + tl.cast(site, tl.uint32))
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    entry, inside = place, place < num_entries
    if GAP:
        column = place % (COLUMNS + GAP)
        entry = place // (COLUMNS + GAP) * COLUMNS + column
        inside &= column < COLUMNS
    bits = _mix(entry.to(tl.uint32) * (key | tl.full((), 1, tl.uint32)) + key)
    value = tl.load(source + entry, mask=inside, other=0.0).to(tl.float32)
    if ACTIVATE:
        value = tl.where(tl.load(gate + entry, mask=inside, other=0.0) <= 0.0, 0.0, value)
    value = tl.where(bits >= tl.cast(drop_below, tl.uint32), value * scale, 0.0)
    tl.store(out + place, value.to(out.dtype.element_ty), mask=place < num_entries)
