"""Dropout with ReLU on a GPU; one kernel masks and scales the entries, or their gradient.

What follows is mostly a product. Tensor cores read rows fastest that start at multiples of 16
bytes, so the rows of a dropped matrix have gaps where needed; and under autocast it is written in
half precision at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from crossgcn.kernels.dropout_bits import DropoutBits, threshold
from crossgcn.kernels.gpu.triton_helpers import blocks, jit, on_device_of, tl

_BLOCK = 1024


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
    """See :func:`crossgcn.kernels.reference.drop_backward`."""
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
        with on_device_of(source):
            _drop[(blocks(entries, _BLOCK),)](
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


@jit
def _mix(bits: tl.tensor) -> tl.tensor:
    """See :func:`crossgcn.kernels.dropout_bits.mix`; unsigned numbers wrap around."""
    bits = bits ^ (bits >> 16)
    bits = bits * tl.full((), 0x7FEB352D, tl.uint32)
    bits = bits ^ (bits >> 15)
    bits = bits * tl.full((), 0x846CA68B, tl.uint32)
    return bits ^ (bits >> 16)


@jit
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
    """Mask and scale ``source``; with ``ACTIVATE``, also zero it where ``gate`` is not positive.

    With a ``GAP``, ``out`` has as many more columns than the other two, of zeros.
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
