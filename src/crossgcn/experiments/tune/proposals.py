"""The next settings to try, by Optuna: what was tried before and a seed decide them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import TPESampler
from optuna.trial import Trial, TrialState, create_trial

from crossgcn.errors import BadInput
from crossgcn.experiments.tune.space import Choices, Entry, Space

try:
    import optuna
except ImportError:
    raise BadInput(
        "crossgcn tune searches with Optuna, which is not installed: pip install 'crossgcn[tune]'"
    ) from None


RANDOM_TRIALS = 10
"""How many trials are drawn at random before the search learns from them."""


class Proposer:
    """Proposes settings, one trial after the other.

    Every trial has a sampler of its own, seeded by the trial's number: a search that was
    stopped and told its finished trials again goes on as if nothing had happened.

    Args:
        space: What to choose from.
        seed: Of the whole search.
        first: What the first trial has, as far as it is in the space.
    """

    def __init__(self, space: Space, seed: int, first: Mapping[str, Any]) -> None:
        self.space = {name: entry for name, entry in space.items() if not _is_held(entry)}
        self.held = {name: entry.ends[0] for name, entry in space.items() if _is_held(entry)}
        self.seed = seed
        self.first = {name: value for name, value in first.items() if name in self.space}
        self._distributions = {name: _distribution(entry) for name, entry in self.space.items()}
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            self._study = optuna.create_study(direction="maximize")
        finally:
            optuna.logging.set_verbosity(verbosity)
        self._asked: Trial | None = None

    @property
    def num_trials(self) -> int:
        """How many were told so far."""
        finished = (TrialState.COMPLETE, TrialState.FAIL)
        return len(self._study.get_trials(deepcopy=False, states=finished))

    def propose(self) -> dict[str, Any]:
        """The settings of the next trial, held ones included; nothing counts until it is told."""
        if self._asked is None:
            if self.num_trials == 0:
                self._study.enqueue_trial(self._coded(self.first))
            seed = _seed_of(self.seed, self.num_trials)
            self._study.sampler = TPESampler(n_startup_trials=RANDOM_TRIALS, seed=seed)
            self._asked = self._study.ask(self._distributions)
        params = self._asked.params
        chosen = {name: _decoded(entry, params[name]) for name, entry in self.space.items()}
        return self.held | chosen

    def tell(self, values: Mapping[str, Any], score: float | None) -> None:
        """Learn the outcome of the next trial, whether it was proposed just now or long ago.

        Args:
            values: Its settings.
            score: The higher the better; none where it failed.
        """
        state = TrialState.FAIL if score is None else TrialState.COMPLETE
        if self._asked is not None:
            self._study.tell(self._asked, score, state)
            self._asked = None
            return
        chosen = {name: values[name] for name in self.space}
        self._study.add_trial(
            create_trial(
                state=state,
                value=score,
                params=self._coded(chosen),
                distributions=self._distributions,
            )
        )

    def _coded(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _coded(self.space[name], value) for name, value in values.items()}


def _is_held(entry: Entry) -> bool:
    return len(set(map(str, entry.ends))) == 1


def _seed_of(seed: int, number: int) -> int:
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def _distribution(entry: Entry) -> BaseDistribution:
    if isinstance(entry, Choices):
        return CategoricalDistribution([_coded(entry, value) for value in entry.values])
    if entry.whole:
        return IntDistribution(int(entry.low), int(entry.high), log=entry.log)
    return FloatDistribution(float(entry.low), float(entry.high), log=entry.log)


def _coded(entry: Entry, value: Any) -> Any:
    """As Optuna takes it, for which a choice is a word."""
    return json.dumps(value) if isinstance(entry, Choices) else value


def _decoded(entry: Entry, value: Any) -> Any:
    if not isinstance(entry, Choices):
        return value
    return next(choice for choice in entry.values if json.dumps(choice) == value)
