"""The strongest pairs where most of them occur: blocks of features, multiplied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.explanation.best import SLACK, Best
from crossgcn.explanation.cross_rule import CrossRule
from crossgcn.explanation.layer_reading import Floats
from crossgcn.explanation.occurrence import PairOccurrence
from crossgcn.explanation.pair_factors import PairFactors

__all__ = ["search_blocks"]

Ints = NDArray[np.int64]

_BLOCK = 1024
_CHUNK_PAIRS = 16_384
_CORNER = 256


def search_blocks(
    factors: PairFactors,
    size: Floats | None,
    occurrence: PairOccurrence | None,
    rule: CrossRule | None,
    best: Best,
) -> None:
    """Multiply blocks of features, those of the largest bounds first, and skip what they rule out.

    The products are made in 32 bits; what comes near the best found, rounding allowed for,
    is weighed again in 64.

    Args:
        factors: Weights of all pairs for one class.
        size: Root mean square of each feature; ``None`` ranks by weight alone.
        occurrence: Counts chosen pairs; ``None`` likewise.
        rule: Which pairs may be named; all when left out.
        best: What is found.
    """
    reach = factors.lengths() * (1.0 if size is None else size)
    order = np.argsort(-reach, kind="stable")
    order = order[reach[order] > 0]
    reach = reach[order]
    scale = 1.0 if size is None else size[order][:, np.newaxis]
    left, right = factors.left[order] * scale, factors.right[order] * scale
    signed = np.concatenate([left * factors.scale, right * factors.scale], axis=1)
    rows = torch.from_numpy(signed).float()
    columns = torch.from_numpy(np.concatenate([right, left], axis=1)).float()
    rounding = (rows.shape[1] + 8) * 2.0**-23
    judge = _Judge(factors, occurrence, rule, best)
    for start in range(0, len(order), _BLOCK):
        for other in range(start, len(order), _BLOCK):
            bound = reach[start] * reach[other]
            if bound < best.threshold * SLACK:
                break
            sizes = (rows[start : start + _BLOCK] @ columns[other : other + _BLOCK].T).abs_()
            if other == start:
                sizes = sizes.triu_(1)
            here, there = order[start : start + _BLOCK], order[other : other + _BLOCK]
            judge.look_through(sizes, bound * rounding, here, there)


@dataclass(frozen=True)
class _Judge:
    """Weighs pairs exactly."""

    factors: PairFactors
    occurrence: PairOccurrence | None
    rule: CrossRule | None
    best: Best

    def look_through(self, sizes: Tensor, rounding: float, here: Ints, there: Ints) -> None:
        """Weigh the pairs of a block that may be good enough, the most promising first.

        Args:
            sizes: About what each pair can reach.
            rounding: How far off that may be.
            here: Features of the rows.
            there: Features of the columns.
        """
        if float(sizes.amax()) < self._needed(rounding):
            return
        flat = sizes.flatten()
        if not self.best.threshold:
            corner = sizes[:_CORNER, :_CORNER]
            leading = torch.topk(corner.flatten(), min(8 * self.best.num, corner.numel())).indices
            width = corner.shape[1]
            leading = leading // width * sizes.shape[1] + leading % width
            self._weigh(leading[flat[leading] > 0], sizes.shape[1], here, there)
            flat[leading] = -1.0
        near = torch.nonzero(flat > self._needed(rounding)).flatten()
        while near.numel():
            values = flat[near]
            chosen = torch.topk(values, min(_CHUNK_PAIRS, near.numel())).indices
            self._weigh(near[chosen], sizes.shape[1], here, there)
            values[chosen] = -1.0
            near = near[values > self._needed(rounding)]

    def _needed(self, rounding: float) -> float:
        return max(0.0, self.best.threshold * SLACK - rounding)

    def _weigh(self, places: Tensor, width: int, here: Ints, there: Ints) -> None:
        rows, columns = np.divmod(places.numpy(), width)
        pairs = np.sort(np.stack([here[rows], there[columns]], axis=1), axis=1)
        if self.rule is not None:
            pairs = pairs[self.rule.allows(pairs[:, 0], pairs[:, 1])]
        often = np.ones(len(pairs))
        if self.occurrence is not None:
            often = self.occurrence.of(pairs[:, 0], pairs[:, 1])
        self.best.offer(pairs, self.factors.weigh(pairs)[:, 0], often)
