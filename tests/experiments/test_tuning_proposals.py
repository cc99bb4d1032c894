from __future__ import annotations

import math
import sys
from collections.abc import Callable
from importlib import import_module
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossgcn.errors import BadInput
from crossgcn.experiments.tune.proposals import RANDOM_TRIALS, Proposer
from crossgcn.experiments.tune.space import Choices, Range, Space

SPACE: Space = {
    "width": Choices((16, 32, 64)),
    "rate": Range(1e-3, 1e-1, log=True),
    "depth": Range(1, 9, whole=True),
    "held": Choices((7,)),
    "orders": Choices(((2, 1), 3)),
}
FIRST = {"width": 32, "rate": 0.01}

Values = dict[str, Any]


def score_of(values: Values) -> float | None:
    """Best at one place; wide and deep fails."""
    if values["width"] == 64 and values["depth"] > 6:
        return None
    return -abs(math.log10(values["rate"]) + 2) - abs(int(values["depth"]) - 4)


def search(count: int, known: list[Values], seed: int = 0, space: Space = SPACE) -> list[Values]:
    """A search that is told its first trials and makes the others."""
    proposer = Proposer(space, seed, FIRST)
    tried = list(known)
    for values in known:
        proposer.tell(values, score_of(values))
    while len(tried) < count:
        values = proposer.propose()
        assert values == proposer.propose()
        tried.append(values)
        proposer.tell(values, score_of(values))
    return tried


@pytest.fixture(scope="module")
def whole() -> list[Values]:
    return search(26, [])


@settings(max_examples=12, deadline=None)
@given(stop=st.integers(0, 26))
def test_a_search_goes_on_as_if_it_had_not_been_stopped(stop: int, whole: list[Values]) -> None:
    assert any(score_of(values) is None for values in whole)
    assert search(26, whole[:stop]) == whole


def test_what_is_proposed_is_in_the_space(whole: list[Values]) -> None:
    for values in whole:
        assert values.keys() == SPACE.keys()
        assert all(values[name] in entry for name, entry in SPACE.items())
        assert type(values["depth"]) is int
    assert {values["orders"] for values in whole} == {(2, 1), 3}


def test_the_first_trial_is_what_nobody_searched_for(whole: list[Values]) -> None:
    assert FIRST.items() <= whole[0].items()


def test_the_seed_decides(whole: list[Values]) -> None:
    other = search(5, [], seed=1)
    assert other[1:] != whole[1:5]


def test_what_was_learnt_is_used(whole: list[Values]) -> None:
    def mean_distance(trials: list[Values]) -> float:
        return fmean(abs(values["depth"] - 4) for values in trials)

    assert mean_distance(whole[RANDOM_TRIALS:]) < mean_distance(whole[:RANDOM_TRIALS])


def test_random_trials_of_a_twin_are_its_models_less_the_last_settings(
    whole: list[Values],
) -> None:
    names = ("width", "rate", "depth", "held")
    twin = search(RANDOM_TRIALS, [], space={name: SPACE[name] for name in names})
    ours = [{name: values[name] for name in names} for values in whole]
    assert twin == ours[:RANDOM_TRIALS]


def test_without_optuna_the_remedy_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "crossgcn.experiments.tune.proposals")
    load: Callable[[str], object] = import_module
    with pytest.raises(BadInput, match=r"not installed: pip install 'crossgcn\[tune\]'$"):
        load("crossgcn.experiments.tune.proposals")
