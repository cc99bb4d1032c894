from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from crossgcn.kernels.reference import DropoutBits, keep

SIGMAS = 5.0
"""How many standard deviations a statistic may be off; chance does so about once in a million."""


def mask(
    seed: int = 0, step: int = 1, site: int = 0, entries: int = 1 << 15, p: float = 0.5
) -> Tensor:
    return keep(DropoutBits(torch.tensor(seed), torch.tensor(step), site), entries, p)


def assert_unrelated(one: Tensor, other: Tensor, p: float) -> None:
    """Two masks agree as often as chance lets them."""
    kept = 1.0 - p
    agreement = (one.double() - kept) * (other.double() - kept)
    score = agreement.sum().item() / (p * kept * agreement.numel() ** 0.5)
    assert abs(score) < SIGMAS


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
@pytest.mark.parametrize("p", [0.0, 0.001, 0.3, 0.5, 0.99])
def test_entries_are_dropped_at_the_rate_asked_for(p: float, seed: int) -> None:
    entries = 1 << 18
    kept = int(mask(seed, entries=entries, p=p).sum())
    deviation = (entries * p * (1.0 - p)) ** 0.5
    assert abs(kept - entries * (1.0 - p)) <= SIGMAS * deviation


def test_bits_depend_on_seed_step_site_and_position_alone() -> None:
    assert torch.equal(mask(7, step=8, site=9), mask(7, step=8, site=9))
    assert torch.equal(mask(3, entries=1000)[:77], mask(3, entries=77))
    # The same bits as in earlier versions, so that a seed gives the same model.
    kept = mask(2**32 - 1, step=2**31 + 5, site=3, entries=24).int().tolist()
    assert "".join(map(str, kept)) == FIRST_BITS


FIRST_BITS = "111000101000101100110011"


@pytest.mark.parametrize("p", [0.2, 0.9])
def test_masks_of_other_seeds_steps_sites_and_positions_are_unrelated(p: float) -> None:
    places = product((0, 1, 2**16, 2**32 - 1), (1, 2), (0, 1))
    masks = [mask(seed, step, site, p=p) for seed, step, site in places]
    for position, one in enumerate(masks):
        for other in masks[:position]:
            assert_unrelated(one, other, p)
        for distance in (1, 2, 3, 8, 16, 41, 1024, 3703):
            assert_unrelated(one[distance:], one[:-distance], p)


def test_every_pattern_of_eight_neighbours_is_equally_common() -> None:
    bits = torch.cat([mask(seed) for seed in range(4)]).view(-1, 8).long()
    counts = (bits << torch.arange(8)).sum(1).bincount(minlength=256)
    expected = len(bits) / 256
    chi_squared = ((counts - expected).square() / expected).sum().item()
    assert abs(chi_squared - 255) < SIGMAS * (2 * 255) ** 0.5
