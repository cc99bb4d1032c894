"""What came out of an item: small enough to keep, whole enough to draw everything from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from crossgcn.data.atomic_file import write_json
from crossgcn.errors import BadInput
from crossgcn.evaluation.items import CellKey, PaperValue

__all__ = [
    "CandidateResult",
    "CellResult",
    "Curve",
    "ItemResult",
    "read_item_result",
    "write_item_result",
]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Curve(_Part):
    """Accuracy epoch by epoch, averaged over runs; fractions.

    Attributes:
        epoch: Counted from 1.
        train: Mean accuracy on the training nodes, with dropout.
        train_sd: Its standard deviation over runs.
        test: Mean accuracy on the test nodes.
        test_sd: Its standard deviation over runs.
    """

    epoch: tuple[int, ...]
    train: tuple[float, ...]
    train_sd: tuple[float, ...]
    test: tuple[float, ...]
    test_sd: tuple[float, ...]


class CandidateResult(_Part):
    """One of the settings that validation chose from; its test accuracy is not looked at."""

    settings: Mapping[str, Any]
    validation_accuracy: float


class CellResult(_Part):
    """One cell, with what is needed to judge and draw it.

    Attributes:
        panel: Where it stands.
        row: Likewise.
        column: Likewise.
        x: Its place on a figure's axis.
        paper: What the paper prints there.
        reason: Why ours is not the same.
        compare_with: The row it is paired with.
        settings: What was run (after the choice by validation).
        chosen: The settings that validation chose.
        candidates: What it chose from.
        test_accuracy: Fractions, one per split (per seed where all splits are one).
        validation_accuracy: Likewise, at the selected epochs.
        best_epoch: The selected epochs, one per run.
        curve: Of ``curves``.
        timing: Of ``timing``: the record of :mod:`crossgcn.evaluation.epoch_time`.
        statistics: Of ``statistics``: ours, by name.
    """

    panel: str
    row: str
    column: str
    x: float | None = None
    paper: PaperValue | None = None
    reason: str | None = None
    compare_with: str | None = None
    settings: Mapping[str, Any] = Field(default_factory=dict)
    chosen: Mapping[str, Any] = Field(default_factory=dict)
    candidates: tuple[CandidateResult, ...] = ()
    test_accuracy: tuple[float, ...] = ()
    validation_accuracy: tuple[float, ...] = ()
    best_epoch: tuple[int, ...] = ()
    curve: Curve | None = None
    timing: Mapping[str, Any] | None = None
    statistics: Mapping[str, Any] | None = None


class ItemResult(_Part):
    """Everything that was found for an item.

    Attributes:
        item: Its name.
        cells: Those that were run, in the item's order.
        shortened: What ``--quick`` left out, a line each; empty for a full run.
        skipped: What could not be run and how to provide it, a line each.
        failed: What was tried and did not work, and why, a line each.
        splits: Which training sets were used, by dataset.
        environment: Versions, threads, commit and machine of the runs.
    """

    item: str
    cells: tuple[CellResult, ...]
    shortened: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    splits: Mapping[str, str] = Field(default_factory=dict)
    environment: Mapping[str, Any] = Field(default_factory=dict)

    def matching(self, key: CellKey) -> list[CellResult]:
        """The cells a selector means."""
        return [
            cell
            for cell in self.cells
            if key.panel in (None, cell.panel)
            and key.row in (None, cell.row)
            and key.column in (None, cell.column)
        ]

    def find(self, panel: str, row: str, column: str) -> CellResult | None:
        """The cell at a place, if it was run."""
        found = self.matching(CellKey(panel=panel, row=row, column=column))
        return found[0] if found else None


def write_item_result(path: Path, result: ItemResult) -> None:
    """Write a result as JSON, whole or not at all."""
    write_json(path, result.model_dump(mode="json", exclude_defaults=True))


def read_item_result(path: Path) -> ItemResult:
    """Read a result.

    Raises:
        BadInput: If the file is not there or not one.
    """
    try:
        return ItemResult(**json.loads(path.read_bytes()))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); run the item first") from None
    except (ValueError, TypeError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise BadInput(f"{path}: is not the result of an item ({first}); run it again") from None
