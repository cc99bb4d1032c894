from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from crossgcn.kernels.draws import Draws, keep

SIGMAS = 5.0
"""How many standard deviations a statistic may be off; chance does so about once in a million."""


def draws(*seeds: int, step: int = 1, site: int = 0) -> Draws:
    return Draws(torch.tensor(seeds), torch.tensor(step), site)


def mask(
    seed: int = 0, step: int = 1, site: int = 0, entries: int = 1 << 15, p: float = 0.5
) -> Tensor:
    return keep(draws(seed, step=step, site=site), None, entries, p)


def assert_unrelated(one: Tensor, other: Tensor, p: float) -> None:
    """Two masks agree as often as chance lets them."""
    kept = 1.0 - p
    agreement = (one.double() - kept) * (other.double() - kept)
    score = agreement.sum().item() / (p * kept * agreement.numel() ** 0.5)
    assert abs(score) < SIGMAS


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.8, 0.99])
def test_entries_are_dropped_at_the_rate_asked_for(p: float, seed: int) -> None:
    entries = 1 << 18
    kept = int(mask(seed, entries=entries, p=p).sum())
    deviation = (entries * p * (1.0 - p)) ** 0.5
    assert abs(kept - entries * (1.0 - p)) < SIGMAS * deviation


def test_nothing_is_dropped_at_rate_zero() -> None:
    assert mask(seed=3, p=0.0).all()


def test_the_same_is_drawn_for_the_same() -> None:
    assert torch.equal(mask(7, step=8, site=9), mask(7, step=8, site=9))


@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_masks_of_other_seeds_steps_and_sites_are_unrelated(p: float) -> None:
    places = product((0, 1, 2**16, 2**32 - 1), (1, 2), (0, 1))
    masks = [mask(seed, step, site, p=p) for seed, step, site in places]
    for position, one in enumerate(masks):
        for other in masks[:position]:
            assert_unrelated(one, other, p)


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_neighbouring_entries_are_unrelated(p: float) -> None:
    for seed in range(6):
        own = mask(seed, p=p)
        for distance in (*range(1, 9), 16, 32, 41, 64, 1024, 3703):
            assert_unrelated(own[distance:], own[:-distance], p)


def test_every_pattern_of_eight_neighbours_is_equally_common() -> None:
    bits = torch.cat([mask(seed) for seed in range(4)]).view(-1, 8).long()
    counts = (bits << torch.arange(8)).sum(1).bincount(minlength=256)
    expected = len(bits) / 256
    chi_squared = ((counts - expected).square() / expected).sum().item()
    assert abs(chi_squared - 255) < SIGMAS * (2 * 255) ** 0.5


def test_an_entry_is_dropped_in_its_share_of_the_steps_whatever_it_was_before() -> None:
    p, steps, entries = 0.3, 400, 500
    masks = torch.stack([mask(5, step=step, entries=entries, p=p) for step in range(steps)])
    for before, after in pairwise(masks.chunk(4)):
        assert_unrelated(before, after, p)
    assert_unrelated(masks[1:], masks[:-1], p)
    kept = masks.sum(0).double()
    chi_squared = ((kept - steps * (1 - p)).square() / (steps * p * (1 - p))).sum().item()
    assert abs(chi_squared - entries) < SIGMAS * (2 * entries) ** 0.5


@pytest.mark.parametrize("lengths", [[10, 0, 25, 7], [1, 1, 1, 1], [0, 0, 0, 300]])
def test_a_models_mask_does_not_depend_on_the_models_beside_it(lengths: Sequence[int]) -> None:
    seeds = (4, 2**31 + 1, 0, 4)
    starts = torch.tensor([0, *lengths]).cumsum(0)
    together = keep(draws(*seeds, step=6, site=1), starts, sum(lengths), 0.5)
    for seed, own, length in zip(seeds, torch.split(together, list(lengths)), lengths, strict=True):
        assert torch.equal(own, mask(seed, step=6, site=1, entries=length))


def test_models_of_one_size_need_no_starts() -> None:
    together = keep(draws(4, 9, 0), None, 600, 0.5)
    assert torch.equal(together, keep(draws(4, 9, 0), torch.arange(0, 601, 200), 600, 0.5))
    assert torch.equal(together[200:400], mask(9, entries=200))


def test_entries_at_the_end_change_nothing_for_those_before() -> None:
    assert torch.equal(mask(3, entries=1000)[:77], mask(3, entries=77))
