"""Finished trials in Optuna's journal, and Optuna's proposal for the next one.

========================  =====================================================
``journal.jsonl``         what is searched, and a line for each finished trial
``MODEL/trial-007/``      the runs of a trial that is not finished yet
========================  =====================================================
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import optuna
from optuna.samplers import TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import TrialState, create_trial

from crossgcn.errors import BadInput
from crossgcn.experiments.tune.space import Space, decode, encode

JOURNAL = "journal.jsonl"

RANDOM_TRIALS = 10
"""Trials drawn at random before the search learns from them."""


@dataclass(frozen=True)
class Trial:
    """Settings that were tried; ``validation_score`` is one per run, by split and repeat."""

    number: int
    values: dict[str, Any]
    validation_score: tuple[float, ...] = ()
    seconds: float = 0.0
    failure: str | None = None

    @property
    def score(self) -> float | None:
        """Mean validation score, which the search maximises; ``None`` if failed."""
        return None if self.failure is not None else fmean(self.validation_score)


def open_journal(folder: Path) -> JournalStorage:
    """Open the journal in a folder, or begin one; drop a line that was cut short."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / JOURNAL
    path.touch()
    os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
    # A killed process may leave its lock; writing a line takes milliseconds, not seconds.
    lock = JournalFileOpenLock(str(path), grace_period=3)
    try:
        return JournalStorage(JournalFileBackend(str(path), lock))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadInput(f"{path}: is damaged; give another --out") from None


class TrialLog:
    """The trials of one model, in a journal from :func:`open_journal` of the same folder.

    ``identity`` is what the trials depend on, as JSON; it must be equal to continue a search.
    """

    def __init__(
        self,
        folder: Path,
        journal: JournalStorage,
        model: str,
        space: Space,
        identity: dict[str, Any],
    ) -> None:
        self.folder = folder / model
        self.space = dict(space)
        self._study = _create_study(storage=journal, study_name=model, load_if_exists=True)
        identity = json.loads(json.dumps(identity))
        found = self._study.user_attrs.get("search")
        if found is None:
            self._study.set_user_attr("search", identity)
            found = identity
        for name in {**identity, **found}:
            before, now = found.get(name), identity.get(name)
            if before == now:
                continue
            if isinstance(before, dict) and isinstance(now, dict):
                part = next(key for key in {**now, **before} if before.get(key) != now.get(key))
                name, before, now = f"{name}: {part}", before.get(part), now.get(part)
            raise BadInput(
                f"{folder} holds a search with another {name} ({before}, not {now}): give another "
                "--out, or the options of that search to continue it"
            )
        self.trials = []
        for trial in self._study.trials:
            values = {name: decode(value) for name, value in trial.params.items()}
            scores = tuple(trial.user_attrs.get("validation_score", ()))
            result = trial.user_attrs | {"validation_score": scores}
            self.trials.append(Trial(trial.number, values, **result))

    def propose(self, seed: int, first: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings for the next trial.

        Each trial has its own sampler, seeded by ``seed`` and its number, so an interrupted
        search continues with the trials that it would have made. The first trial has the
        values ``first``, as far as they are given.
        """
        number = len(self.trials)
        own_seed = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
        study = _create_study(sampler=TPESampler(n_startup_trials=RANDOM_TRIALS, seed=own_seed))
        study.add_trials(self._study.trials)
        if number == 0:
            study.enqueue_trial({name: encode(value) for name, value in first.items()})
        asked = study.ask(self.space).params
        return {name: decode(asked[name]) for name in self.space}

    def add(self, trial: Trial) -> None:
        """Write a finished trial to the journal, in a single line."""
        done = trial.failure is None
        names = ("validation_score", "seconds") if done else ("failure",)
        self._study.add_trial(
            create_trial(
                state=TrialState.COMPLETE if done else TrialState.FAIL,
                value=trial.score,
                params={name: encode(value) for name, value in trial.values.items()},
                distributions=self.space,
                user_attrs={name: getattr(trial, name) for name in names},
            )
        )
        self.trials.append(trial)

    def runs_of(self, number: int) -> Path:
        """Return the folder for the runs of an unfinished trial."""
        return self.folder / f"trial-{number:03d}"


def _create_study(**arguments: Any) -> optuna.Study:
    """Create a study without Optuna's announcement."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        return optuna.create_study(direction="maximize", **arguments)
    finally:
        optuna.logging.set_verbosity(verbosity)
