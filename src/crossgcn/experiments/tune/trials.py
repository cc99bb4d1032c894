"""Finished trials in Optuna's journal, and Optuna's proposal for the next one.

========================  =====================================================
``journal.jsonl``         what is searched, and a line for each finished trial
``MODEL/trial-007/``      the runs of a trial that is not finished yet
========================  =====================================================
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import optuna
from optuna.samplers import TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState, create_trial

from crossgcn.errors import BadInput
from crossgcn.experiments.tune.space import Space, decode, encode

JOURNAL = "journal.jsonl"

RANDOM_TRIALS = 10
"""Trials drawn at random before the search learns from them."""


@dataclass(frozen=True)
class Trial:
    """Settings that were tried.

    Attributes:
        number: Counted from 0.
        validation_accuracy: One per run, ordered by split and repeat; empty if failed.
        seconds: Total time of its runs.
        failure: Why it failed, if it did.
    """

    number: int
    values: dict[str, Any]
    validation_accuracy: tuple[float, ...] = ()
    seconds: float = 0.0
    failure: str | None = None

    @property
    def score(self) -> float | None:
        """Mean validation accuracy, which the search maximises; ``None`` if failed."""
        return None if self.failure is not None else fmean(self.validation_accuracy)


def open_journal(folder: Path) -> JournalStorage:
    """Open the journal in a folder, or begin one; drop a line that was cut short.

    Raises:
        BadInput: If the journal is damaged.
    """
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
    """The trials of one model.

    Args:
        folder: Holds the journal and the runs of unfinished trials.
        journal: From :func:`open_journal` of the same folder.
        model: Name of the model.
        space: What is searched.
        identity: What the trials depend on, as JSON; must be equal to continue a search.

    Raises:
        BadInput: If the journal holds another search of this model.
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
        with _quiet():
            self._study = optuna.create_study(
                storage=journal, study_name=model, direction="maximize", load_if_exists=True
            )
        identity = json.loads(json.dumps(identity))
        found = self._study.user_attrs.get("search")
        if found is None:
            self._study.set_user_attr("search", identity)
        else:
            _check_same(found, identity, folder)
        self.trials = [_read(trial) for trial in self._study.trials]

    def propose(self, seed: int, first: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings for the next trial.

        Each trial has its own sampler, seeded by ``seed`` and its number, so an interrupted
        search continues with the trials that it would have made. The first trial has the
        values ``first``, as far as they are given.
        """
        number = len(self.trials)
        own_seed = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
        with _quiet():
            study = optuna.create_study(
                direction="maximize",
                sampler=TPESampler(n_startup_trials=RANDOM_TRIALS, seed=own_seed),
            )
        study.add_trials(self._study.trials)
        if number == 0:
            study.enqueue_trial({name: encode(value) for name, value in first.items()})
        asked = study.ask(self.space).params
        return {name: decode(asked[name]) for name in self.space}

    def add(self, trial: Trial) -> None:
        """Write a finished trial to the journal, in a single line."""
        result: dict[str, Any] = {"failure": trial.failure}
        if trial.failure is None:
            result = {"validation_accuracy": trial.validation_accuracy, "seconds": trial.seconds}
        self._study.add_trial(
            create_trial(
                state=TrialState.COMPLETE if trial.failure is None else TrialState.FAIL,
                value=trial.score,
                params={name: encode(value) for name, value in trial.values.items()},
                distributions=self.space,
                user_attrs=result,
            )
        )
        self.trials.append(trial)

    def runs_of(self, number: int) -> Path:
        """Return the folder for the runs of an unfinished trial."""
        return self.folder / f"trial-{number:03d}"

    def remove_runs(self, number: int) -> None:
        """Remove the runs of a finished trial."""
        shutil.rmtree(self.runs_of(number), ignore_errors=True)


def _read(trial: FrozenTrial) -> Trial:
    result = trial.user_attrs
    return Trial(
        trial.number,
        {name: decode(value) for name, value in trial.params.items()},
        tuple(result.get("validation_accuracy", ())),
        result.get("seconds", 0.0),
        result.get("failure"),
    )


def _check_same(found: dict[str, Any], wanted: dict[str, Any], folder: Path) -> None:
    for name in {**wanted, **found}:
        before, now = found.get(name), wanted.get(name)
        if before == now:
            continue
        if isinstance(before, dict) and isinstance(now, dict):
            part = next(key for key in {**now, **before} if before.get(key) != now.get(key))
            name, before, now = f"{name}: {part}", before.get(part), now.get(part)
        raise BadInput(
            f"{folder} holds a search with another {name} ({before}, not {now}): give another "
            "--out, or the options of that search to continue it"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Optuna from announcing new studies."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)
