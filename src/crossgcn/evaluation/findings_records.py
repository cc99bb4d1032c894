"""What came out of a table: small enough to keep, whole enough to judge everything from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from crossgcn.data.atomic_file import write_json
from crossgcn.errors import BadInput

__all__ = [
    "CandidateRecord",
    "CellRecord",
    "FindingsRecord",
    "Measured",
    "read_record",
    "write_record",
]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CandidateRecord(_Part):
    """Settings that validation chose from; their test accuracy was never computed.

    Attributes:
        settings: What sets it apart.
        validation_mean: Mean accuracy over the splits of the choice; none where it diverged.
    """

    settings: Mapping[str, Any]
    validation_mean: float | None


class Measured(_Part):
    """One configuration over all its splits.

    Attributes:
        settings: What was trained.
        device: ``cpu`` or ``cuda``.
        test_accuracy: Fractions, one per split (per seed where all splits are one).
        validation_accuracy: Likewise, at the selected epochs.
        best_epoch: The selected epochs.
        num_training_sets: How many different ones; 1 where all nodes train.
        parameters: Numbers that are trained.
        seconds: Of all splits together, the choice of settings not counted.
        chosen: The settings that validation chose.
        candidates: What it chose from.
        failure: Why there is no accuracy.
    """

    settings: Mapping[str, Any]
    device: str
    test_accuracy: tuple[float, ...] = ()
    validation_accuracy: tuple[float, ...] = ()
    best_epoch: tuple[int, ...] = ()
    num_training_sets: int = 0
    parameters: int | None = None
    seconds: float | None = None
    chosen: Mapping[str, Any] = Field(default_factory=dict)
    candidates: tuple[CandidateRecord, ...] = ()
    failure: str | None = None


class CellRecord(Measured):
    """What was measured, and where it stands.

    Attributes:
        row: Label of its row.
        column: Label of its column.
        trials: From how many settings a search chose these, where one did.
    """

    row: str
    column: str
    trials: int | None = None


class FindingsRecord(_Part):
    """Everything that was found for a table.

    Attributes:
        table: Its name.
        cells: Those that were measured, in the table's order.
        missing: Those that were not, row and column each.
        environments: Versions, threads, commit and machine of the runs, each once.
    """

    table: str
    cells: tuple[CellRecord, ...]
    missing: tuple[tuple[str, str], ...] = ()
    environments: tuple[Mapping[str, Any], ...] = ()

    def find(self, row: str, column: str) -> CellRecord | None:
        """The cell at a place, if it was measured and came to an end."""
        for cell in self.cells:
            if (cell.row, cell.column) == (row, column) and cell.test_accuracy:
                return cell
        return None


def write_record(path: Path, record: FindingsRecord) -> None:
    """Write a record as JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, record.model_dump(mode="json", exclude_defaults=True))


def read_record(path: Path) -> FindingsRecord:
    """Read a record.

    Raises:
        BadInput: If the file is not there or not one.
    """
    try:
        return FindingsRecord(**json.loads(path.read_bytes()))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); measure it first") from None
    except (ValueError, TypeError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise BadInput(f"{path}: is not the record of a table ({first}); measure again") from None
