"""The trials of a search on disk: one sealed file each, whole or not there.

========================  =====================================================
``search.json``           what is searched, so that nothing else is continued here
``trial-007.json``        a finished trial: its settings and how they did
``trial-007/``            the runs of a trial that is not finished yet
========================  =====================================================
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from crossgcn.data.files import add_checksum, checksum_matches, write_json
from crossgcn.errors import BadInput

_SEARCH = "search.json"


@dataclass(frozen=True)
class Trial:
    """One try of some settings.

    Attributes:
        number: Counted from 0.
        values: The settings, by name.
        validation_accuracy: One per run, in order of split and repeat; none of a failed trial.
        seconds: Of its runs, added up.
        failure: Why it failed, if it did.
    """

    number: int
    values: dict[str, Any]
    validation_accuracy: tuple[float, ...] = ()
    seconds: float = 0.0
    failure: str | None = None

    @property
    def score(self) -> float | None:
        """Mean validation accuracy, which the search makes as high as it can."""
        return None if self.failure is not None else fmean(self.validation_accuracy)


class TrialFolder:
    """Where the trials of one model are kept.

    Args:
        folder: Made if it is not there.
        search: What is searched, as JSON; it must be the same when a search is continued.

    Raises:
        BadInput: If the folder holds another search.
    """

    def __init__(self, folder: Path, search: dict[str, Any]) -> None:
        self.folder = folder
        search = json.loads(json.dumps(search))
        folder.mkdir(parents=True, exist_ok=True)
        found = _read_sealed(folder / _SEARCH)
        if found is None and any(folder.glob("trial-*.json")):
            raise BadInput(
                f"{folder / _SEARCH}: is missing or damaged, so that nothing says what its trials "
                "are of; give another --out"
            )
        if found is None:
            write_json(folder / _SEARCH, add_checksum(search))
        else:
            _check_same(found, search, folder)

    def read(self, number: int) -> Trial | None:
        """A finished trial; none where it is not there, or is not what was written."""
        content = _read_sealed(self._path(number))
        if content is None:
            return None
        values = {name: _as_tuple(value) for name, value in content["values"].items()}
        accuracies = tuple(content["validation_accuracy"])
        return Trial(**(content | {"values": values, "validation_accuracy": accuracies}))

    def write(self, trial: Trial) -> None:
        """Keep a finished trial in place of its runs."""
        write_json(self._path(trial.number), add_checksum(json.loads(json.dumps(asdict(trial)))))
        self.forget_runs(trial.number)

    def runs_of(self, number: int) -> Path:
        """Where the runs of a trial are kept until it is finished."""
        return self._path(number).with_suffix("")

    def forget_runs(self, number: int) -> None:
        """Remove what a trial that is finished has left."""
        shutil.rmtree(self.runs_of(number), ignore_errors=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"trial-{number:03d}.json"


def _read_sealed(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict) or not checksum_matches(content):
        return None
    return {name: value for name, value in content.items() if name != "sha256"}


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


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
