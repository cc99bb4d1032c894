"""Restrict the crosses of cross-hops to few pairs of columns.

A unit of the model multiplies two weighted sums of columns. Without restriction both sums read all
columns, so all pairs are crossed. Here the first sum of a unit reads one column, the center of a
star, and the second sum reads the center and the columns crossed with it. A few more units are
linear in all columns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import deepcopy
from itertools import combinations

import torch
from torch import Tensor

from crossgcn.models.cross_hops import CrossHops

Pair = tuple[int, int]
"""Positions of two columns, ascending."""


@torch.no_grad()
def rank_pairs(model: CrossHops, x: Tensor, columns: Sequence[Tensor]) -> list[Pair]:
    """Return all pairs of columns, sorted by how much their product changes the scores.

    Columns are centered first, so that the effect of a single column does not count as a product.

    Args:
        model: A model of order 2.
        x: Standardised rows.
        columns: Positions of the features of each column.
    """
    first, second = model.transform.weight
    readout = (_order_weights(model)[1] * _readout(model)).t() / model.bags
    x = x - x.mean(dim=0)
    left = [x[:, places] @ first[:, places].t() for places in columns]
    right = [x[:, places] @ second[:, places].t() for places in columns]
    changes = dict[Pair, float]()
    for one, two in combinations(range(len(columns)), 2):
        scores = (left[one] * right[two] + left[two] * right[one]) @ readout
        changes[one, two] = float(scores.std(dim=0).norm())
    return sorted(changes, key=lambda pair: -changes[pair])


@torch.no_grad()
def keep_pairs(
    model: CrossHops, ranked: Sequence[Pair], columns: Sequence[Tensor], most: int, units: int
) -> tuple[CrossHops, list[Pair]]:
    """Return a copy of a model of order 2 that multiplies few pairs of columns, and the pairs.

    Units are assigned to the stars in turn. They start from the model's largest products for
    their star. Training keeps all other products at 0.

    Args:
        ranked: Pairs, the strongest first, from :func:`rank_pairs`.
        columns: Positions of the features of each column.
        most: Maximum number of pairs; fewer are kept if they form more stars than there are units.
        units: Units per bag that multiply.
    """
    bags, outputs = model.bags, model.readout.out_channels
    pairs = _first_pairs(ranked, most, units)
    first, second = (each.view(bags, -1, each.size(-1)) for each in model.transform.weight)
    linear_readout, cross_readout = (
        (each * _readout(model)).view(outputs, bags, -1).permute(1, 2, 0)
        for each in _order_weights(model)
    )
    to_scores = first.new_tensor([[-1.0, 1.0]]) if outputs == 2 else torch.eye(outputs).to(first)
    all_units = units + len(to_scores)
    weight, reads = (first.new_zeros(2, bags, all_units, first.size(-1)) for _ in range(2))
    readout = first.new_zeros(bags, all_units, outputs)
    stars = _stars(pairs)
    device = first.device
    bag = torch.arange(bags, device=device).unsqueeze(1)
    for place, (center, others) in enumerate(stars.items()):
        in_center, in_others = (torch.zeros_like(first[0, 0]) for _ in range(2))
        in_center[columns[center]] = 1
        in_others[torch.cat([columns[column] for column in others])] = 1
        in_star = in_center + in_others
        left = torch.cat([first * in_center, second * in_center], dim=1)
        right = torch.cat([second * in_star, first * in_others], dim=1)
        scores = torch.cat([cross_readout, cross_readout], dim=1)
        sizes = left.norm(dim=2) * right.norm(dim=2) * scores.norm(dim=2)
        unit = torch.arange(place, units, len(stars), device=device)[: sizes.size(1)]
        largest = sizes.topk(len(unit), dim=1).indices
        weight[0][:, unit], weight[1][:, unit] = left[bag, largest], right[bag, largest]
        readout[:, unit] = scores[bag, largest]
        reads[0][:, unit], reads[1][:, unit] = in_center, in_star
    linear = linear_readout.mT @ first - readout.mT @ weight[0]
    linear = to_scores @ linear / to_scores.square().sum(dim=1, keepdim=True)
    scale = linear.norm(dim=2, keepdim=True).clamp(min=1e-6).sqrt()
    weight[0][:, units:], readout[:, units:] = linear / scale, scale * to_scores
    reads[0][:, units:] = 1

    copy = deepcopy(model)
    copy.set_units(all_units)
    copy.transform.weight.copy_(weight.flatten(1, 2))
    for gates in copy.transform.gates():
        gates.fill_(1.0)
    copy.readout.weight.copy_(readout.flatten(0, 1).t())
    copy.readout.bias.copy_(model.readout.bias)
    copy.reads = reads.flatten(1, 2)
    return copy, pairs


def _first_pairs(ranked: Sequence[Pair], most: int, num_stars: int) -> list[Pair]:
    """Return at most ``most`` of the first pairs that together form at most ``num_stars`` stars."""
    kept: list[Pair] = []
    for pair in ranked:
        if len(kept) < most and len(_stars([*kept, pair])) <= num_stars:
            kept.append(pair)
    return kept


def _stars(pairs: Collection[Pair]) -> dict[int, list[int]]:
    """Group pairs into stars: center columns, each with the columns crossed with it."""
    remaining, stars = set(pairs), dict[int, list[int]]()
    while remaining:
        ends = [end for pair in sorted(remaining) for end in pair]
        center = max(sorted(set(ends)), key=ends.count)
        star = {pair for pair in remaining if center in pair}
        stars[center] = sorted(sum(pair) - center for pair in star)
        remaining -= star
    return stars


def _order_weights(model: CrossHops) -> Tensor:
    order_weights = model.transform.unit_order_weights()
    assert order_weights is not None and model.order == 2
    return order_weights


def _readout(model: CrossHops) -> Tensor:
    """Return the weights of the read-out; for classes, minus their mean over the classes."""
    weight = model.readout.weight
    return weight - weight.mean(dim=0) if len(weight) > 1 else weight
