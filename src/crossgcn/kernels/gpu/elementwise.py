"""Dropout with ReLU, Adam and cross-entropy on a GPU.

Forward and backward of dropout are one kernel, which masks and scales ``x`` or the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from crossgcn.kernels.draws import Draws, threshold
from crossgcn.kernels.gpu.triton_helpers import blocks, jit, on_device_of, power_of_two, tl

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
    """See :func:`crossgcn.kernels.draws.mix`; unsigned numbers wrap around."""
    bits = bits ^ (bits >> 16)
    bits = bits * tl.full((), 0x7FEB352D, tl.uint32)
    bits = bits ^ (bits >> 15)
    bits = bits * tl.full((), 0x846CA68B, tl.uint32)
    return bits ^ (bits >> 16)


@jit
def entry_bits(position: tl.tensor, key: tl.tensor) -> tl.tensor:
    """See :func:`crossgcn.kernels.draws.entry_bits`."""
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
    # A block may span several models: each overwrites the entries from its start on.
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


def adam(
    weights: Sequence[Tensor],
    gradients: Sequence[Tensor],
    means: Sequence[Tensor],
    squares: Sequence[Tensor],
    steps: Sequence[Tensor],
    learning_rate: float,
    weight_decays: Sequence[float],
) -> None:
    """Make one step of Adam, in place, on contiguous tensors.

    ``means`` and ``squares`` are the running means of gradients and their squares. ``steps`` count
    from 1 and are on the device. ``weight_decays`` times the weights are added to the gradients.
    """
    sizes = [weight.numel() for weight in weights]
    with on_device_of(weights[0]):
        _adam[(blocks(max(sizes), _BLOCK), len(sizes))](
            *map(tuple, (weights, gradients, means, squares, steps)),
            learning_rate,
            *map(tuple, (weight_decays, sizes)),
            COUNT=len(sizes),
            BLOCK=_BLOCK,
            num_warps=4,
        )


@jit
def _adam(
    weights: tl.tensor,
    gradients: tl.tensor,
    means: tl.tensor,
    squares: tl.tensor,
    steps: tl.tensor,
    learning_rate: tl.float32,
    weight_decays: tl.tensor,
    sizes: tl.tensor,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    for i in tl.static_range(COUNT):
        if (tl.program_id(1) == i) & (tl.program_id(0) * BLOCK < sizes[i]):
            _update(
                weights[i],
                gradients[i],
                means[i],
                squares[i],
                steps[i],
                learning_rate,
                weight_decays[i],
                sizes[i],
                BLOCK,
            )


@jit
def _update(
    weight: tl.tensor,
    gradient: tl.tensor,
    mean: tl.tensor,
    square: tl.tensor,
    step: tl.tensor,
    learning_rate: tl.float32,
    weight_decay: tl.float32,
    size: tl.int32,
    BLOCK: tl.constexpr,
) -> None:
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    here = place < size
    # In float64: 1 - 0.999 loses four digits in float32. The constants are ln 0.9, ln 0.999.
    count = tl.load(step).to(tl.float64)
    first = 1.0 - tl.exp(count * -0.10536051565782628)
    second = 1.0 - tl.exp(count * -0.0010005003335835335)
    size_of_step = (learning_rate / first).to(tl.float32)
    correction = (1.0 / tl.sqrt(second)).to(tl.float32)
    w = tl.load(weight + place, mask=here, other=0.0)
    g = tl.load(gradient + place, mask=here, other=0.0) + weight_decay * w
    m = 0.9 * tl.load(mean + place, mask=here, other=0.0) + 0.1 * g
    s = 0.999 * tl.load(square + place, mask=here, other=0.0) + 0.001 * g * g
    tl.store(mean + place, m, mask=here)
    tl.store(square + place, s, mask=here)
    tl.store(weight + place, w - size_of_step * m / (tl.sqrt(s) * correction + 1e-8), mask=here)


_ENTRIES = 2048


def score(
    scores: Tensor, labels: Tensor, counts: Tensor, num_classes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """See :func:`crossgcn.kernels.plain.score`."""
    scores, labels, counts = scores.contiguous(), labels.contiguous(), counts.contiguous()
    models, rows, width = scores.shape
    block_columns = power_of_two(width)
    block_rows = max(1, _ENTRIES // block_columns)
    num_blocks = blocks(rows, block_rows)
    gradient = torch.empty_like(scores)
    sums = scores.new_empty(models, num_blocks, 2, dtype=torch.float32)
    with on_device_of(scores):
        _score[(num_blocks, models)](
            scores,
            labels,
            counts,
            gradient,
            sums,
            rows,
            num_blocks,
            CLASSES=num_classes,
            WIDTH=width,
            BLOCK_ROWS=block_rows,
            BLOCK_COLUMNS=block_columns,
            num_warps=4,
        )
    losses = scores.new_empty(models, dtype=torch.float32)
    accuracies = scores.new_empty(models, dtype=torch.float64)
    with on_device_of(scores):
        _add_scores[(models,)](
            *(sums, counts, losses, accuracies, num_blocks), BLOCK=_BLOCK, num_warps=4
        )
    return losses, accuracies, gradient


@jit
def _score(
    scores: tl.tensor,
    labels: tl.tensor,
    counts: tl.tensor,
    gradient: tl.tensor,
    sums: tl.tensor,
    rows: tl.int32,
    num_blocks: tl.int32,
    CLASSES: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
) -> None:
    model = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    column = tl.arange(0, BLOCK_COLUMNS)
    here = row < rows
    label = tl.load(labels + model * rows + row, mask=here, other=-1)
    counted = label >= 0
    place = (model * rows + row.to(tl.int64))[:, None] * WIDTH + column[None, :]
    is_class = column < CLASSES
    given = tl.load(scores + place, mask=here[:, None] & is_class[None, :], other=0.0)
    given = tl.where(is_class[None, :], given.to(tl.float32), float("-inf"))
    best = tl.max(given, axis=1)
    exponential = tl.exp(given - best[:, None])
    total = tl.sum(exponential, axis=1)
    own = column[None, :] == label[:, None]
    loss = tl.log(total) + best - tl.sum(tl.where(own, given, 0.0), axis=1)
    # Of several highest scores, the first class is predicted.
    first = tl.min(tl.where(given == best[:, None], column[None, :], BLOCK_COLUMNS), axis=1)
    right = (first == label) & counted
    slope = exponential / total[:, None] - tl.where(own, 1.0, 0.0)
    slope = tl.where(counted[:, None], slope / tl.load(counts + model).to(tl.float32), 0.0)
    tl.store(
        gradient + place,
        tl.where(is_class[None, :], slope, 0.0).to(gradient.dtype.element_ty),
        mask=here[:, None] & (column < WIDTH)[None, :],
    )
    slot = (model * num_blocks + tl.program_id(0)) * 2
    tl.store(sums + slot, tl.sum(tl.where(counted, loss, 0.0), axis=0))
    tl.store(sums + slot + 1, tl.sum(right.to(tl.float32), axis=0))


@jit
def _add_scores(
    sums: tl.tensor,
    counts: tl.tensor,
    losses: tl.tensor,
    accuracies: tl.tensor,
    num_blocks: tl.int32,
    BLOCK: tl.constexpr,
) -> None:
    """Add up a model's sums, and divide them by its number of rows."""
    model = tl.program_id(0).to(tl.int64)
    loss = tl.zeros((BLOCK,), dtype=tl.float32)
    right = tl.zeros((BLOCK,), dtype=tl.float32)
    for begin in range(0, num_blocks, BLOCK):
        block = begin + tl.arange(0, BLOCK)
        place, here = sums + (model * num_blocks + block) * 2, block < num_blocks
        loss += tl.load(place, mask=here, other=0.0)
        right += tl.load(place + 1, mask=here, other=0.0)
    count = tl.load(counts + model)
    tl.store(losses + model, tl.sum(loss) / count.to(tl.float32))
    tl.store(accuracies + model, tl.sum(right.to(tl.float64)) / count.to(tl.float64))
