"""Cross-entropy, its gradient and how many rows are right, in one pass on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor

from crossgcn.kernels.gpu_language import blocks, jit, on_device_of, power_of_two, tl

__all__ = ["score"]

_ENTRIES = 2048


def score(
    scores: Tensor, labels: Tensor, counts: Tensor, num_classes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """See :func:`crossgcn.kernels.plain.score`."""
    scores = scores.contiguous()
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
    totals = sums.sum(dim=1)
    return totals[:, 0] / counts, totals[:, 1].double() / counts, gradient


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
    # The first of the highest is the class that is predicted.
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
