"""What commands share while they work: notes, progress bars, and the folder of the results."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from crossgcn.cli.options import WorkOptions
from crossgcn.cli.output import SafeConsole, print_line
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    from rich.status import Status

    from crossgcn.data.tables.graph import TableGraph
    from crossgcn.experiments.experiment import Experiment
    from crossgcn.training.config import RunConfig

_QUIET = False


def be_quiet(quiet: bool) -> None:
    """Follow ``--quiet`` from here on."""
    global _QUIET
    _QUIET = quiet


def terminal() -> Console:
    """Return the console for progress and notes; it is silent with ``--quiet``."""
    return SafeConsole(stderr=True, quiet=_QUIET)


def status(words: str) -> Status:
    """Return a spinner with a text, for work that does not take long."""
    return terminal().status(escape(words))


def check_work(work: WorkOptions) -> dict[str, Any]:
    """Return how the runs share the machine: by default as many processes as have cores."""
    cores = available_cores()
    workers = max(1, cores // max(1, work.threads)) if work.workers is None else work.workers
    most = max(64, 4 * cores)
    for name, value in (("--workers", workers), ("--threads", work.threads)):
        if not 1 <= value <= most:
            raise BadInput(
                f"{name} is {value:,}, but this machine has {cores} cores; give 1 to {most}"
            )
    return {"workers": workers, "threads": work.threads, "device": work.device}


def available_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_folder(out: Path) -> Path:
    """Create the folder that ``--out`` names, if it does not exist."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{out}: cannot be made ({error.strerror}); give another --out") from None
    return out


@contextmanager
def results_folder(work: WorkOptions, name: str) -> Iterator[Path]:
    """Make and lock the folder for the results, called ``name`` in ``runs/`` without ``--out``.

    A folder that contains earlier results is refused without ``--resume``. If the work in the
    block is interrupted, the user is told how to continue it.
    """
    from crossgcn.data.files import holding, is_empty  # imports NumPy

    if work.resume and work.out is None:
        raise BadInput("--resume needs --out DIR, the folder of the run to continue")
    out = work.out or Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S-%f}"
    with holding(make_folder(out)):
        if not work.resume and not is_empty(out):
            raise BadInput(
                f"{out} exists and is not empty: give another --out, or --resume to continue in it"
            )
        try:
            yield out
        except KeyboardInterrupt:
            print_line(
                "crossgcn: stopped; finished runs are kept. Continue with the same command and "
                f"--resume --out {shlex.quote(str(out))}",
                error=True,
            )
            raise


def load_experiment(
    configs: Sequence[RunConfig], graph: TableGraph | None, device: str
) -> Experiment:
    """Load the data of configurations, unless it is given, and check that they can be trained."""
    with status(f"loading {configs[0].dataset}"):
        from crossgcn.data.tables.graph import describe_encoding
        from crossgcn.experiments.experiment import Experiment
        from crossgcn.training.device import check_precision, choose_device

        for config in configs:
            check_precision(config.precision, choose_device(device))
        if graph is None:
            return Experiment(configs)
        return Experiment(configs, graph.data, describe_encoding(graph))


LINE_EVERY = 10.0
"""Seconds from one line of progress to the next, where there is no terminal."""


@contextmanager
def progress_bar(what: str, unit: str | None = None) -> Iterator[Callable[..., None]]:
    """Show a progress bar with the text ``what``, in percent or counted in a unit.

    In a file or a pipe, a line is printed every ten seconds instead.

    Yields:
        A function to call with the amount done, the total and, if the work has several, the
        stage; the bar starts again with each stage.
    """
    amount = (TaskProgressColumn(),) if unit is None else (MofNCompleteColumn(), TextColumn(unit))
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), *amount)
    columns = (*columns, TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("left"))
    with Progress(*columns, console=terminal()) as progress:
        task = progress.add_task(what, total=None)
        last_line = time.monotonic()

        def show(done: int, total: int | None, stage: str | None = None) -> None:
            nonlocal last_line
            if stage not in (None, progress.tasks[0].description):
                progress.reset(task, description=stage, total=total)
            progress.update(task, completed=done, total=total)
            if not progress.console.is_terminal and time.monotonic() > last_line + LINE_EVERY:
                last_line = time.monotonic()
                progress.print(progress.get_renderable())

        yield show
