"""ReLU and dropout on a GPU, the mask drawn anew wherever it is needed.

Forward and backward are one kernel: both zero what the mask or the ReLU zeroes and scale
the rest, one of ``x`` itself, the other of the gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from crossgcn.kernels.draws import Draws, threshold
from crossgcn.kernels.gpu_language import blocks, jit, on_device_of, power_of_two, tl

__all__ = ["drop", "drop_backward", "entry_bits", "mix"]

_BLOCK = 1024


def drop(x: Tensor, starts: Tensor | None, draws: Draws, p: float, activate: bool) -> Tensor:
    """See :func:`crossgcn.kernels.plain.drop`."""
    x = x.contiguous()
    return _launch(x, x, starts, draws, p, activate)


def drop_backward(
    gradient: Tensor, x: Tensor, starts: Tensor | None, draws: Draws, p: float, activate: bool
) -> Tensor:
    """See :func:`crossgcn.kernels.plain.drop_backward`."""
    return _launch(gradient.contiguous(), x.contiguous(), starts, draws, p, activate)


def _launch(
    source: Tensor, gate: Tensor, starts: Tensor | None, draws: Draws, p: float, activate: bool
) -> Tensor:
    out = torch.empty_like(source)
    entries, models = source.numel(), draws.seeds.numel()
    if entries == 0:
        return out
    equal = starts is None or models == 1
    with on_device_of(source):
        _drop[(blocks(entries, _BLOCK),)](
            source,
            gate,
            out,
            starts,
            draws.seeds,
            draws.step,
            draws.site,
            threshold(p),
            1.0 / (1.0 - p),
            entries,
            entries // models,
            models,
            EQUAL=equal,
            MODELS=1 if equal else power_of_two(models),
            ACTIVATE=activate,
            GATE_IS_SOURCE=gate is source,
            BLOCK=_BLOCK,
            num_warps=4,
        )
    return out


@jit
def mix(bits: tl.tensor) -> tl.tensor:
    """:func:`crossgcn.kernels.draws.mix` of unsigned numbers, which wrap around."""
    bits = bits ^ (bits >> 16)
    bits = bits * tl.full((), 0x7FEB352D, tl.uint32)
    bits = bits ^ (bits >> 15)
    bits = bits * tl.full((), 0x846CA68B, tl.uint32)
    return bits ^ (bits >> 16)


@jit
def entry_bits(position: tl.tensor, key: tl.tensor) -> tl.tensor:
    """:func:`crossgcn.kernels.draws.entry_bits`."""
    return mix(position * (key | tl.full((), 1, tl.uint32)) + key)


@jit
def _drop(
    source: tl.tensor,
    gate: tl.tensor,
    out: tl.tensor,
    starts: tl.tensor,
    seeds: tl.tensor,
    step: tl.tensor,
    site: tl.uint32,
    drop_below: tl.uint32,
    scale: tl.float32,
    num_entries: tl.int64,
    entries_each: tl.int64,
    num_models: tl.int32,
    EQUAL: tl.constexpr,
    MODELS: tl.constexpr,
    ACTIVATE: tl.constexpr,
    GATE_IS_SOURCE: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    first_entry = tl.program_id(0).to(tl.int64) * BLOCK
    last_entry = tl.minimum(first_entry + BLOCK, num_entries) - 1
    if EQUAL:
        model = first_entry // entries_each
        last_model = last_entry // entries_each
    else:
        any_model = tl.arange(0, MODELS)
        ends = tl.load(starts + 1 + any_model, mask=any_model < num_models, other=num_entries)
        model = tl.sum((ends <= first_entry).to(tl.int64))
        last_model = tl.sum((ends <= last_entry).to(tl.int64))
    entry = first_entry + tl.arange(0, BLOCK)
    key = tl.zeros((BLOCK,), dtype=tl.uint32)
    start = tl.zeros((BLOCK,), dtype=tl.uint32)
    # A block is one model's, or parts of a few: each takes over what the last one left.
    while model <= last_model:
        model_start = model * entries_each if EQUAL else tl.load(starts + model)
        model_key = mix(tl.load(seeds + model).to(tl.uint32))
        model_key = mix(model_key + tl.load(step).to(tl.uint32))
        model_key = mix(model_key + tl.cast(site, tl.uint32))
        key = tl.where(entry >= model_start, model_key, key)
        start = tl.where(entry >= model_start, tl.cast(model_start, tl.uint32), start)
        model += 1
    bits = entry_bits(entry.to(tl.uint32) - start, key)
    inside = entry < num_entries
    value = tl.load(source + entry, mask=inside, other=0.0).to(tl.float32)
    if ACTIVATE:
        sign = value if GATE_IS_SOURCE else tl.load(gate + entry, mask=inside, other=0.0)
        value = tl.where(sign <= 0.0, 0.0, value)
    value = tl.where(bits >= tl.cast(drop_below, tl.uint32), value * scale, 0.0)
    tl.store(out + entry, value.to(out.dtype.element_ty), mask=inside)
