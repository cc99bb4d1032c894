"""Dropout with ReLU on a GPU; one kernel masks and scales the entries, or their gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from crossgcn.kernels.dropout_bits import DropoutBits, threshold
from crossgcn.kernels.gpu.triton_helpers import blocks, jit, on_device_of, tl

_BLOCK = 1024


def drop(x: Tensor, bits: DropoutBits, p: float, activate: bool) -> Tensor:
    """See :func:`crossgcn.kernels.reference.drop`."""
    x = x.contiguous()
    return _launch(x, x, bits, p, activate)


def drop_backward(
    gradient: Tensor, x: Tensor, bits: DropoutBits, p: float, activate: bool
) -> Tensor:
    """See :func:`crossgcn.kernels.reference.drop_backward`."""
    return _launch(gradient.contiguous(), x.contiguous(), bits, p, activate)


def _launch(source: Tensor, gate: Tensor, bits: DropoutBits, p: float, activate: bool) -> Tensor:
    out = torch.empty_like(source)
    entries = source.numel()
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
                ACTIVATE=activate,
                BLOCK=_BLOCK,
                num_warps=4,
            )
    return out


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
    ACTIVATE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Mask and scale ``source``; with ``ACTIVATE``, also zero it where ``gate`` is not positive."""
    key = _mix(tl.load(seed).to(tl.uint32))
    key = _mix(key + tl.load(step).to(tl.uint32))
    key = _mix(key + tl.cast(site, tl.uint32))
    entry = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    bits = _mix(entry.to(tl.uint32) * (key | tl.full((), 1, tl.uint32)) + key)
    inside = entry < num_entries
    value = tl.load(source + entry, mask=inside, other=0.0).to(tl.float32)
    if ACTIVATE:
        value = tl.where(tl.load(gate + entry, mask=inside, other=0.0) <= 0.0, 0.0, value)
    value = tl.where(bits >= tl.cast(drop_below, tl.uint32), value * scale, 0.0)
    tl.store(out + entry, value.to(out.dtype.element_ty), mask=inside)
