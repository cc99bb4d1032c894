"""What commands share while they work: notes, progress bars, and the folder of the results."""

from __future__ import annotations

import logging
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from crossgcn.cli.options import available_cores
from crossgcn.cli.output import VERBOSITY, SafeConsole, print_line
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    from rich.status import Status

    from crossgcn.data.tables.graph import TableGraph
    from crossgcn.experiments.experiment import Experiment
    from crossgcn.training.config import RunConfig

_LOGGER = logging.getLogger(__name__)


class _ToStderr(logging.Handler):
    """Prints to ``sys.stderr`` as it is now: a progress bar replaces it while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


def set_verbosity(quiet: bool, verbose: bool = False) -> None:
    """Follow ``--quiet`` and ``--verbose`` from here on."""
    if quiet and verbose:
        raise BadInput("--quiet and --verbose contradict each other: leave one out")
    VERBOSITY.quiet = quiet
    logger = logging.getLogger("crossgcn")
    logger.handlers = [_ToStderr()] if verbose else []
    logger.setLevel(logging.INFO if verbose else logging.NOTSET)


def terminal() -> Console:
    """Return the console for progress and notes; it is silent with ``--quiet``."""
    return SafeConsole(stderr=True, quiet=VERBOSITY.quiet)


def status(words: str) -> Status:
    """Return a spinner with a text, for work that does not take long."""
    return terminal().status(escape(words))


def check_workers(workers: int | None, threads: int) -> int:
    """Return the number of processes: by default as many as the cores have threads for."""
    workers = max(1, available_cores() // max(1, threads)) if workers is None else workers
    most = max(64, 4 * available_cores())
    for name, value in (("--workers", workers), ("--threads", threads)):
        if not 1 <= value <= most:
            raise BadInput(
                f"{name} is {value:,}, but this machine has {available_cores()} cores; give 1 to "
                f"{most}"
            )
    return workers


def make_folder(out: Path) -> Path:
    """Create the folder that ``--out`` names, if it does not exist."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{out}: cannot be made ({error.strerror}); give another --out") from None
    return out


def new_folder(name: str) -> Path:
    """Return the path of a folder in ``runs/`` that does not exist yet."""
    wanted = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    candidates = (wanted.with_name(f"{wanted.name}-{number}") for number in count(2))
    return next(folder for folder in chain([wanted], candidates) if not folder.exists())


@contextmanager
def results_folder(out: Path | None, resume: bool, name: str) -> Iterator[Path]:
    """Make and lock the folder for the results, called ``name`` in ``runs/`` without ``--out``.

    A folder that contains earlier results is refused unless ``resume`` is set. If the work in the
    block is interrupted, the user is told how to continue it.
    """
    from crossgcn.data.files import holding, is_empty  # imports NumPy

    if out is None:
        if resume:
            raise BadInput("--resume needs --out DIR, the folder of the run to continue")
        out = new_folder(name)
    with holding(make_folder(out)):
        if not resume and not is_empty(out):
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
            raise typer.Exit(130) from None


def load_experiment(
    configs: Sequence[RunConfig], graph: TableGraph | None, device: str
) -> Experiment:
    """Load the data of configurations, unless it is given, and check that they can be trained."""
    with status(f"loading {configs[0].dataset}"):
        from crossgcn.data.tables.graph import describe_encoding
        from crossgcn.experiments.experiment import Experiment
        from crossgcn.graph.hop_file import HopTable
        from crossgcn.training.device import check_precision, choose_device

        for config in configs:
            _LOGGER.info("settings of %s: %s", config.model, config.identity())
            check_precision(config.precision, choose_device(device))
        if graph is None:
            return Experiment(configs)
        columns = graph.columns if isinstance(graph, HopTable) else None
        return Experiment(configs, graph.data, describe_encoding(graph), columns=columns)


LINE_EVERY = 10.0
"""Seconds from one line of progress to the next, where there is no terminal."""


class _Progress(Progress):
    """A progress bar; in a file or a pipe, the same as a line every ten seconds."""

    def __init__(self, *columns: ProgressColumn, console: Console) -> None:
        super().__init__(*columns, console=console)
        self._stopped = threading.Event()

    def start(self) -> None:
        super().start()
        if not self.console.is_terminal:
            threading.Thread(target=self._print_lines, daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        super().stop()

    def _print_lines(self) -> None:
        while not self._stopped.wait(LINE_EVERY):
            self.console.print(self.get_renderable())


@contextmanager
def progress_bar(what: str, unit: str | None = None) -> Iterator[Callable[..., None]]:
    """Show a progress bar with the text ``what``, in percent or counted in a unit.

    Yields:
        A function to call with the amount done, the total and, if the work has several, the
        stage; the bar starts again with each stage.
    """
    amount = (TaskProgressColumn(),) if unit is None else (MofNCompleteColumn(), TextColumn(unit))
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), *amount)
    columns = (*columns, TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("left"))
    with _Progress(*columns, console=terminal()) as progress:
        task = progress.add_task(what, total=None)

        def show(done: int, total: int | None, stage: str | None = None) -> None:
            if stage not in (None, progress.tasks[0].description):
                progress.reset(task, description=stage, total=total)
            progress.update(task, completed=done, total=total)

        yield show
