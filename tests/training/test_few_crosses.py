"""Crosses of few pairs of columns, against sums over all products in float64."""

from __future__ import annotations

from itertools import combinations, product

import pytest
import torch
from test_few_columns import NAMES, planted, search
from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.config import RunConfig
from crossgcn.training.few_crosses import Pair, keep_pairs, rank_pairs

COLUMNS = [torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3, 4, 5]), torch.tensor([6])]
ALL_PAIRS = list(combinations(range(len(COLUMNS)), 2))


def make_model(outputs: int) -> CrossHops:
    torch.manual_seed(outputs)
    model = CrossHops(7, 3, out_channels=outputs, hops=0, bags=2).double().eval()
    with torch.no_grad():
        for gates in model.transform.gates():
            gates.copy_(torch.rand_like(gates) + 0.5)
        model.readout.bias.normal_()
    return model


def slow_scores(model: CrossHops, x: Tensor, pairs: list[Pair]) -> Tensor:
    """Return scores with the products of some pairs of columns, one product after the other."""
    of_column = {int(place): column for column, places in enumerate(COLUMNS) for place in places}
    kept = [
        (one, two)
        for one, two in product(range(x.size(1)), repeat=2)
        if of_column[one] == of_column[two]
        or tuple(sorted((of_column[one], of_column[two]))) in pairs
    ]
    first, second = model.transform.weight
    order_weights = model.transform.unit_order_weights()
    assert order_weights is not None
    linear, crossed = order_weights
    units = linear * (x @ first.t())
    for one, two in kept:
        products = x[:, [one]] * x[:, [two]]
        units = units + crossed * products * first[:, one] * second[:, two]
    scores: Tensor = model.readout(units).mean(0)
    return scores


def differences(scores: Tensor) -> Tensor:
    """Return scores of classes up to what all classes have in common."""
    return scores - scores.mean(dim=1, keepdim=True) if scores.size(1) > 1 else scores


@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_with_units_for_all_of_them_the_other_products_are_kept_exactly(outputs: int) -> None:
    model = make_model(outputs)
    x = torch.randn(20, 7, dtype=torch.float64)
    # Squares of a column's own features are kept where it is the center of a star.
    pairs = [(0, 1), (1, 2), (2, 3), (0, 3)]
    few, kept = keep_pairs(model, pairs, COLUMNS, 4, units=40)
    assert kept == pairs
    expected = slow_scores(model, x, pairs)
    squares_of = set(range(len(COLUMNS))) - {center(few, column) for column in range(len(COLUMNS))}
    expected = expected - own_squares(model, x, squares_of)
    torch.testing.assert_close(differences(few(x)), differences(expected), rtol=1e-10, atol=1e-10)


def center(model: CrossHops, column: int) -> int:
    """Return the column if some unit's first projection reads it alone, else -1."""
    assert model.reads is not None
    first, second = model.reads
    crossing = second.any(dim=1)
    reads = first[crossing]
    alone = torch.zeros(7, dtype=torch.float64)
    alone[COLUMNS[column]] = 1
    return column if bool((reads == alone).all(dim=1).any()) else -1


def own_squares(model: CrossHops, x: Tensor, columns: set[int]) -> Tensor:
    first, second = model.transform.weight
    order_weights = model.transform.unit_order_weights()
    assert order_weights is not None
    crossed = order_weights[1]
    units = torch.zeros(len(x), first.size(0), dtype=torch.float64)
    for column in columns:
        for one, two in product(COLUMNS[column].tolist(), repeat=2):
            units += crossed * (x[:, [one]] * first[:, one]) * (x[:, [two]] * second[:, two])
    squares: Tensor = model.readout(units) - model.readout(torch.zeros_like(units))
    return squares.mean(0)


@pytest.mark.parametrize("outputs", [1, 3])
def test_pairs_are_ranked_by_the_change_of_scores_without_their_product(outputs: int) -> None:
    model = make_model(outputs)
    x = torch.randn(50, 7, dtype=torch.float64)
    x = x - x.mean(dim=0)
    changes = {
        pair: differences(slow_scores(model, x, ALL_PAIRS))
        - differences(slow_scores(model, x, [each for each in ALL_PAIRS if each != pair]))
        for pair in ALL_PAIRS
    }
    sizes = {pair: float(change.detach().std(dim=0).norm()) for pair, change in changes.items()}
    assert rank_pairs(model, x, COLUMNS) == sorted(ALL_PAIRS, key=lambda pair: -sizes[pair])


@pytest.mark.parametrize("number", [False, True])
def test_training_multiplies_the_kept_pairs_only_and_finds_the_planted_one(number: bool) -> None:
    result, model, _ = search(planted(number=number), columns=6, crosses=2)
    columns, crosses = result.chosen["columns"], result.chosen["crosses"]
    assert len(columns) == 6 and len(crosses) == 2
    assert any("own" in pair and pair[1 - pair.index("own")] != "own" for pair in crosses)
    model.double().eval()
    names = model.plan.name_columns(NAMES)
    zeros = torch.zeros(1, len(names), dtype=torch.float64)

    def score(*changed: str) -> Tensor:
        x = zeros.clone()
        x[0, [names.index(name) for name in changed]] = 1.0
        scores: Tensor = model(x).detach()
        return scores

    for one, two in combinations(columns, 2):
        together = score(one, two) - score(one) - score(two) + score()
        is_kept = [one, two] in crosses or [two, one] in crosses
        assert bool(together.abs().max() > 1e-9) == is_kept, (one, two)


def test_crosses_of_all_columns_cannot_be_chosen() -> None:
    with pytest.raises(BadInput, match="crosses is 5, but the model reads all columns"):
        RunConfig.create(model="cross-hops", crosses=5)
    with pytest.raises(BadInput, match="crosses is 0; give at least 1, or all"):
        RunConfig.create(model="cross-hops", columns=4, crosses=0)


def test_all_crosses_of_few_columns_can_be_asked_for() -> None:
    data = planted(200)
    few, _, _ = search(data, columns=8, crosses=3)
    every, _, _ = search(data, columns=8, crosses="all")
    assert len(few.chosen["crosses"]) == 3
    assert every.chosen["crosses"] is None
    assert few.test != every.test
