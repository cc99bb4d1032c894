"""Run a benchmark, from its own script or from ``crossgcn bench``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import torch
from rich.console import Console

from crossgcn.cli.running import work_progress
from crossgcn.data.files import write_json
from crossgcn.errors import BadInput, CrossGCNError
from research.benchmarks.catalogue import BENCHMARKS
from research.benchmarks.harness.other_work import OtherWork
from research.benchmarks.harness.record import Measurement, Record, make_record
from research.benchmarks.harness.rounds import Pace
from research.pages.benchmarks import benchmark_table, read_floors, write_growth_figure

__all__ = [
    "Options",
    "Record",
    "check_rounds",
    "check_target",
    "conduct",
    "load_measure",
    "main",
    "show_record",
    "why_not",
    "write_record",
]

FOLDER: Final = Path(__file__).parents[1]
ROUNDS, QUICK_ROUNDS, FEWEST_ROUNDS = 7, 3, 5
BATCH_SECONDS, QUICK_BATCH_SECONDS = 0.5, 0.1


@dataclass(frozen=True)
class Options:
    """Options of a benchmark run.

    Attributes:
        quick: Whether to measure a smaller problem for a quick look.
        rounds: Number of timing rounds.
        seed: Seed of splits, weights and dropout.
        device: ``cpu`` or ``cuda``.
        show: Progress callback: receives a description, the parts done and the number of parts.
    """

    quick: bool = False
    rounds: int = ROUNDS
    seed: int = 0
    device: str = "cpu"
    show: Callable[[str, int, int], None] = lambda what, done, total: None

    def pace(self, what: str) -> Pace:
        """Return the pace for ``interleave``; progress is reported as ``what``."""
        self.show(what, 0, self.rounds)
        return Pace(
            self.rounds,
            QUICK_BATCH_SECONDS if self.quick or self.device == "cuda" else BATCH_SECONDS,
            wait=torch.cuda.synchronize if self.device == "cuda" else lambda: None,
            on_round=lambda done: self.show(what, done, self.rounds),
        )


Measure = Callable[[Options], Measurement]


def why_not(name: str) -> str | None:
    """Return why a benchmark cannot run on this machine, or ``None`` if it can."""
    if BENCHMARKS[name].device == "cuda" and not torch.cuda.is_available():
        return (
            f"{name} needs a CUDA GPU and torch {torch.__version__} sees none: run it where "
            "there is one, with a CUDA build of torch"
        )
    if name == "engines" and not (find_spec("ibis") and find_spec("duckdb")):
        return f"{name} needs Ibis and DuckDB: pip install 'crossgcn[duckdb]'"
    return None


def load_measure(name: str) -> Measure:
    """Import a benchmark's script and return its ``measure`` function."""
    script = import_module(f"research.benchmarks.{BENCHMARKS[name].script}")
    measure: Measure = script.measure
    return measure


def conduct(
    name: str,
    measure: Measure,
    *,
    quick: bool = False,
    rounds: int | None = None,
    seed: int = 0,
) -> Record:
    """Run one benchmark with a progress bar and return its record.

    Args:
        name: Name of the benchmark.
        measure: Function that measures.
        quick: Whether to take a quick look; the record says so.
        rounds: Number of timing rounds, at least 5 unless ``quick``.
        seed: Seed of splits, weights and dropout.

    Raises:
        BadInput: If this machine cannot run the benchmark, or for too few rounds.
        WorkFailed: If the sides do not compute the same function.
    """
    rounds = check_rounds(rounds, quick)
    reason = why_not(name)
    if reason is not None:
        raise BadInput(reason)
    device = BENCHMARKS[name].device
    started, others = time.perf_counter(), OtherWork()
    with work_progress(Console(stderr=True)) as progress:
        task = progress.add_task(name, total=None)

        def show(what: str, done: int, total: int) -> None:
            progress.update(task, description=f"{name}: {what}", completed=done, total=total)

        measurement = measure(Options(quick, rounds, seed, device, show))
    warning = others.warning()
    measurement.notes += [] if warning is None else [warning]
    measurement.extra["other_work_cores"] = others.cores()
    settings = {"quick": quick, "rounds": rounds, "seed": seed, "device": device}
    return make_record(name, measurement, settings, time.perf_counter() - started)


def show_record(record: Record, console: Console) -> None:
    """Print the results with their floors, and the notes."""
    console.print(benchmark_table(record, read_floors(FOLDER / "floors.toml")))
    for note in record["notes"]:
        console.print(f"- {note}", highlight=False, markup=False)


def check_rounds(rounds: int | None, quick: bool) -> int:
    """Return the number of timing rounds.

    Raises:
        BadInput: If there are too few rounds.
    """
    fewest = 1 if quick else FEWEST_ROUNDS
    rounds = (QUICK_ROUNDS if quick else ROUNDS) if rounds is None else rounds
    if rounds < fewest:
        hint = "" if quick else ", or --quick for a look"
        raise BadInput(f"--rounds is {rounds}; give at least {fewest}{hint}")
    return rounds


def check_target(path: Path, *, quick: bool) -> None:
    """Raise an error if a quick record would replace a full one; called before measuring.

    Args:
        quick: Whether the new record is a quick one.
    """
    if quick and path.exists() and not json.loads(path.read_bytes()).get("quick"):
        raise BadInput(
            f"{path} is a full record; a quick record must not replace it; give another --out"
        )


def write_record(record: Record, path: Path) -> None:
    """Write a record, and for growth its figure."""
    write_json(path, record)
    if "growth" in record:
        write_growth_figure(record, path.with_suffix(".png"))


def main(script: str, measure: Measure) -> None:
    """Run the command line of one script.

    Args:
        script: File name of the script, without the suffix.
        measure: Function that measures.
    """
    names = {entry.device: name for name, entry in BENCHMARKS.items() if entry.script == script}
    first = BENCHMARKS[next(iter(names.values()))]
    parser = argparse.ArgumentParser(description=f"Measure {first.title}.")
    parser.add_argument("--quick", action="store_true", help="a smaller problem, about a minute")
    parser.add_argument("--rounds", type=int, help="number of timing rounds (default 7)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=list(names), default=first.device)
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="path of the record")
    given = parser.parse_args()
    try:
        if given.out is not None:
            check_target(given.out, quick=given.quick)
        record = conduct(
            names[given.device], measure, quick=given.quick, rounds=given.rounds, seed=given.seed
        )
        show_record(record, Console())
        if given.out is not None:
            given.out.parent.mkdir(parents=True, exist_ok=True)
            write_record(record, given.out)
    except CrossGCNError as error:
        print(f"{script}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
