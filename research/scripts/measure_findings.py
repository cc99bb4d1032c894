"""Measure the tables of docs/findings.md: every setting and its baseline.

A cell is one setting on one graph over all its splits. Each finished cell is a file and is
skipped, so the script can be stopped and restarted at any time. Several processes with the same
folder divide the cells among themselves; on machines that share no folder, give each a
``--share``. ``--collect`` writes the finished cells to ``results/findings``. Cells that
``--device`` has not measured are taken from the other device.
The script needs Cora, Pubmed and the authors' splits (``CROSSGCN_DATA``).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from crossgcn.errors import BadInput, CrossGCNError
from research.findings.cells import (
    CellFolder,
    CellTrainer,
    PlannedCell,
    collect_table,
    parse_share,
    plan_table,
)
from research.findings.records import write_record
from research.findings.tables import TABLE_NAMES, read_table

PROJECT = Path(__file__).parents[2]
RECORDS = PROJECT / "results" / "findings"
DEVICES = ("cpu", "cuda")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure or collect, and return the exit code."""
    options = _parser().parse_args(arguments)
    overrides = {"epochs": options.epochs, "num_splits": options.splits}
    overrides = {name: value for name, value in overrides.items() if value is not None}
    folder = CellFolder(options.cells, options.device)
    planned: dict[str, PlannedCell] = {}
    problems = 0
    for name in options.table:
        try:
            cells = plan_table(read_table(name), options.searches, overrides)
            if options.collect:
                others = [CellFolder(options.cells, d) for d in DEVICES if d != options.device]
                _collect(name, cells, [folder, *others], options.out)
        except BadInput as error:
            problems += 1
            print(f"{name}: {error}", file=sys.stderr)
            continue
        planned |= {cell.name: cell for cell in cells if cell.name not in planned}
    if not options.collect:
        index, of = options.share
        problems += _measure(list(planned.values())[index::of], folder, options)
    return 1 if problems else 0


def _collect(
    name: str, cells: Sequence[PlannedCell], folders: Sequence[CellFolder], out: Path
) -> None:
    record = collect_table(read_table(name), cells, *folders)
    if record.cells:
        write_record(out / f"{name}.json", record)
    print(f"{name}: {len(record.cells)} cells, {len(record.missing)} missing")


def _measure(cells: Sequence[PlannedCell], folder: CellFolder, options: argparse.Namespace) -> int:
    """Measure the unfinished cells that no other process holds; return the number of failures."""
    started, problems = time.monotonic(), 0
    trainer = CellTrainer(options.device, options.workers)
    for number, planned in enumerate(cells, 1):
        if time.monotonic() - started > options.time_limit:
            print(f"time is up: {len(cells) - number + 1} cells not looked at")
            break
        place = f"[{number}/{len(cells)}] {planned.cell.row}, {planned.cell.column}"
        with folder.claim(planned) as ours:
            if not ours:
                continue
            begun = time.monotonic()
            try:
                measured, environment = trainer.measure(planned)
            except CrossGCNError as error:
                problems += 1
                print(f"{place}: {error}", file=sys.stderr, flush=True)
                continue
            folder.write(planned, measured, environment)
        said = measured.failure or f"{100 * fmean(measured.test_accuracy):.1f} %"
        print(f"{place}: {said}, {time.monotonic() - begun:.0f} s", flush=True)
    return problems


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--table", nargs="+", choices=TABLE_NAMES, default=TABLE_NAMES, help="tables (default all)"
    )
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes per cell, on the CPU")
    parser.add_argument(
        "--share",
        type=parse_share,
        default=(0, 1),
        metavar="I/N",
        help="every N-th cell from the I-th, counted from 0",
    )
    parser.add_argument(
        "--time-limit",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="start no cell after this time; a running cell is finished, which may take minutes",
    )
    parser.add_argument("--collect", action="store_true", help="only write the records")
    parser.add_argument("--epochs", type=int, help="override the table's epochs, for a trial")
    parser.add_argument("--splits", type=int, help="override the table's splits, for a trial")
    parser.add_argument("--cells", type=Path, default=PROJECT / "runs" / "findings")
    parser.add_argument("--searches", type=Path, default=RECORDS, help="folder of search records")
    parser.add_argument("--out", type=Path, default=RECORDS, help="folder of the tables' records")
    return parser


if __name__ == "__main__":
    sys.exit(main())
