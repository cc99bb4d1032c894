"""Measure the cells of tables, each one a file: what is finished is never done again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from crossgcn.data.atomic_file import write_json
from crossgcn.errors import BadInput
from crossgcn.evaluation.findings_records import CellRecord, FindingsRecord, Measured
from crossgcn.evaluation.findings_search import SearchRecord, read_search
from crossgcn.evaluation.findings_tables import FindingsCell, FindingsTable
from crossgcn.evaluation.plan import config_name
from crossgcn.training.config import RunConfig

__all__ = ["CellFolder", "PlannedCell", "collect_table", "plan_table"]


@dataclass(frozen=True)
class PlannedCell:
    """A cell as it is trained.

    Attributes:
        cell: Its place.
        configs: The configurations of which validation takes one; mostly a single one.
        choose_splits: On how many splits it is chosen.
        trials: From how many settings a search chose before.
    """

    cell: FindingsCell
    configs: tuple[RunConfig, ...]
    choose_splits: int
    trials: int | None = None

    @property
    def name(self) -> str:
        """Of its file: the same for equal work, whichever table it stands in, and for no other."""
        first = self.configs[0]
        work = [[config.identity(), config.num_splits] for config in self.configs]
        if len(work) > 1:
            work.append([self.choose_splits])
        digest = hashlib.sha256(json.dumps(work, sort_keys=True).encode()).hexdigest()[:10]
        return f"{Path(first.dataset).stem}-{config_name(first).rpartition('-')[0]}-{digest}"


def plan_table(
    table: FindingsTable, searches: Path, overrides: Mapping[str, Any]
) -> list[PlannedCell]:
    """What to train for each cell of a table, in the order of use.

    Args:
        table: The table.
        searches: Folder with the records of searches.
        overrides: Settings of every run, such as ``epochs``.

    Raises:
        BadInput: If a search is missing or a setting is no setting.
    """
    search = read_search(searches / f"{table.search}.json") if table.search else None
    return [_plan(cell, table, search, overrides) for cell in table.cells()]


def _plan(
    cell: FindingsCell,
    table: FindingsTable,
    search: SearchRecord | None,
    overrides: Mapping[str, Any],
) -> PlannedCell:
    found: Mapping[str, Any] = {}
    trials = None
    if cell.searched is not None and search is not None:
        chosen = search.choose(cell.settings["dataset"], cell.searched)
        found, trials = chosen.settings, chosen.trials
    settings = {**cell.defaults, **found, **cell.settings}
    configs = tuple(
        RunConfig.create(**{**settings, **candidate, **overrides})
        for candidate in cell.candidates()
    )
    return PlannedCell(cell, configs, table.choose_splits, trials)


class CellFolder:
    """Finished cells, and which are being measured now by any process of this machine.

    Args:
        folder: Where they are kept.
        device: Where they were trained; results of a GPU are kept apart.
    """

    def __init__(self, folder: Path, device: str) -> None:
        self.folder = folder / device

    def read(self, planned: PlannedCell) -> tuple[Measured, Mapping[str, Any]] | None:
        """What was measured, and where; none if it was not."""
        path = self._path(planned)
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise BadInput(f"{path}: is not JSON ({error}); delete it") from None
        return Measured(**content["measured"]), content["environment"]

    def write(
        self, planned: PlannedCell, measured: Measured, environment: Mapping[str, Any]
    ) -> None:
        """Keep what was measured."""
        content = measured.model_dump(mode="json", exclude_defaults=True)
        write_json(self._path(planned), {"measured": content, "environment": environment})

    @contextmanager
    def claim(self, planned: PlannedCell) -> Iterator[bool]:
        """Whether this process may measure the cell, and no other until it is done."""
        path = self._path(planned)
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_suffix(".lock"), timeout=0)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        try:
            yield not path.exists()
        finally:
            lock.release()

    def _path(self, planned: PlannedCell) -> Path:
        return self.folder / f"{planned.name}.json"


def collect_table(
    table: FindingsTable, planned: Sequence[PlannedCell], *folders: CellFolder
) -> FindingsRecord:
    """Put the finished cells of a table together, in the table's order of rows.

    Args:
        table: The table.
        planned: Its cells.
        *folders: Where they may be; the first that has a cell gives it.
    """
    cells, missing, environments = {}, [], []
    for plan in planned:
        row, column = plan.cell.row, plan.cell.column
        found = next(filter(None, (folder.read(plan) for folder in folders)), None)
        if found is None:
            missing.append((row, column))
            continue
        measured, environment = found
        environments += [] if environment in environments else [environment]
        cells[row, column] = CellRecord(
            row=row, column=column, trials=plan.trials, **dict(measured)
        )
    places = [(row.label, column.label) for row in table.rows for column in table.columns]
    return FindingsRecord(
        table=table.name,
        cells=tuple(cells[place] for place in places if place in cells),
        missing=tuple(missing),
        environments=tuple(environments),
    )
