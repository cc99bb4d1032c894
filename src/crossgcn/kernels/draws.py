"""Random bits that depend on a seed, a step and a place, and on nothing else.

Whether an entry is dropped is a hash of the model's seed, the training step, the place
in the model and the position of the entry. So the same entries are dropped on every
device, by every kernel, whether a model is trained alone or together with others; and a
backward pass asks again instead of keeping a mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_LOW = 0xFFFFFFFF


@dataclass(frozen=True)
class Draws:
    """Which random bits to use.

    Attributes:
        seeds: One per model, 0 to 2³²−1, ``[models]``, int64.
        step: The training step, one number, int64.
        site: Which of the places of a model where entries are dropped.
    """

    seeds: Tensor
    step: Tensor
    site: int


def mix(bits: Tensor) -> Tensor:
    """A bijection of 32-bit numbers whose every output bit hangs on every input bit.

    Multipliers and shifts are those of Wellons' ``lowbias32``. The numbers are held in
    int64, whose overflow leaves the low 32 bits right.
    """
    bits = bits ^ (bits >> 16)
    bits = (bits * 0x7FEB352D) & _LOW
    bits = bits ^ (bits >> 15)
    bits = (bits * 0x846CA68B) & _LOW
    return bits ^ (bits >> 16)


def keys(draws: Draws) -> Tensor:
    """One 32-bit key per model, ``[models]``."""
    key = mix(draws.seeds & _LOW)
    key = mix((key + draws.step) & _LOW)
    return mix((key + draws.site) & _LOW)


def entry_bits(position: Tensor, key: Tensor) -> Tensor:
    """The 32 random bits of an entry.

    Each key steps through the positions in strides of its own, so that two steps of a
    training do not read the same sequence from two places.
    """
    return mix((position * (key | 1) + key) & _LOW)


def threshold(p: float) -> int:
    """The number of 32 bits below which an entry is dropped."""
    return min(round(p * 2**32), _LOW)


def keep(draws: Draws, starts: Tensor | None, num_entries: int, p: float) -> Tensor:
    """Which entries are kept, as zeros and ones, ``[entries]``.

    Args:
        draws: The random bits.
        starts: Where each model's entries start, and where the last one's end,
            ``[models + 1]``; all have equally many when left out.
        num_entries: How many there are in all.
        p: Probability of dropping one.
    """
    models = draws.seeds.numel()
    key = keys(draws)
    position = torch.arange(num_entries, device=key.device)
    if starts is None:
        each = num_entries // models
        key, position = key.repeat_interleave(each), position % max(each, 1)
    else:
        lengths = starts.diff()
        key = key.repeat_interleave(lengths, output_size=num_entries)
        first = starts[:-1].repeat_interleave(lengths, output_size=num_entries)
        position = position - first
    return (entry_bits(position, key) >= threshold(p)).to(torch.uint8)
