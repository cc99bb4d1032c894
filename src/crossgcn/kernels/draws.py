"""Counter-based random bits for dropout.

Whether an entry is dropped is a hash of the model's seed, the training step, the site of the
dropout in the model and the position of the entry. Every device and kernel drops the same
entries, whether a model is trained alone or stacked with others, and backward recomputes the
bits instead of keeping a mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_LOW = 0xFFFFFFFF


@dataclass(frozen=True)
class Draws:
    """What the random bits depend on, besides the position of an entry.

    Attributes:
        seeds: One per model, 0 to 2³²−1, ``[models]``, int64.
        step: The training step, a single int64.
        site: Number of the dropout within a model.
    """

    seeds: Tensor
    step: Tensor
    site: int


def mix(bits: Tensor) -> Tensor:
    """Hash 32-bit numbers by Wellons' ``lowbias32``.

    They are stored as int64, whose overflow leaves the low 32 bits correct.
    """
    bits = bits ^ (bits >> 16)
    bits = (bits * 0x7FEB352D) & _LOW
    bits = bits ^ (bits >> 15)
    bits = (bits * 0x846CA68B) & _LOW
    return bits ^ (bits >> 16)


def keys(draws: Draws) -> Tensor:
    """Return one 32-bit key per model, ``[models]``."""
    key = mix(draws.seeds & _LOW)
    key = mix((key + draws.step) & _LOW)
    return mix((key + draws.site) & _LOW)


def entry_bits(position: Tensor, key: Tensor) -> Tensor:
    """Return the 32 random bits of an entry.

    Each key has a stride of its own, so that two training steps do not read the same sequence
    with an offset.
    """
    return mix((position * (key | 1) + key) & _LOW)


def threshold(p: float) -> int:
    """Return the 32-bit number below which an entry is dropped."""
    return min(round(p * 2**32), _LOW)


def keep(draws: Draws, starts: Tensor | None, num_entries: int, p: float) -> Tensor:
    """Return 1 for entries that are kept and 0 for the others, ``[entries]``.

    ``starts`` are offsets of each model's entries, ``[models + 1]``; ``None`` if all models have
    the same number. ``p`` is the probability of dropping an entry.
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
