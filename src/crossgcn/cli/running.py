"""What long commands share: the folder of the results, progress bars, and training."""

from __future__ import annotations

import logging
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

from crossgcn.cli.command import VERBOSITY, until_end
from crossgcn.cli.options import RunOptions, available_cores
from crossgcn.cli.output import SafeConsole, print_line
from crossgcn.cli.torchrun import join_others, leads, refuse_unjoined
from crossgcn.errors import BadInput
from crossgcn.models.catalogue import get_preset
from crossgcn.training.launch import find_launch

if TYPE_CHECKING:
    from rich.status import Status

    from crossgcn.data.tables.graph import TableGraph
    from crossgcn.experiments.experiment import RepeatedRuns
    from crossgcn.training.config import RunConfig


_LOGGER = logging.getLogger(__name__)


def prepare_folder(out: Path | None, resume: bool, name: str) -> Path:
    """Return the folder for the results, called ``name`` without ``--out``.

    A folder that contains earlier results is refused unless ``resume`` is set. The folder is
    locked until the command ends.
    """
    from crossgcn.data.files import holding, is_empty  # imports NumPy

    if out is None:
        if resume:
            raise BadInput("--resume needs --out DIR, the folder of the run to continue")
        out = new_folder(name)
    until_end(holding(make_folder(out)))
    if not resume and not is_empty(out):
        raise BadInput(
            f"{out} exists and is not empty: give another --out, or --resume to continue in it"
        )
    return out


def new_folder(name: str) -> Path:
    """Return the path of a folder in ``runs/`` that does not exist yet."""
    wanted = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    candidates = (wanted.with_name(f"{wanted.name}-{number}") for number in count(2))
    return next(folder for folder in chain([wanted], candidates) if not folder.exists())


def make_folder(out: Path) -> Path:
    """Create the folder that ``--out`` names, if it does not exist."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{out}: cannot be made ({error.strerror}); give another --out") from None
    return out


def check_workers(workers: int | None, threads: int) -> int:
    """Return the number of processes: by default as many as the cores have threads for."""
    workers = max(1, available_cores() // max(1, threads)) if workers is None else workers
    for option, value in (("--workers", workers), ("--threads", threads)):
        if value < 1:
            raise BadInput(f"{option} must be at least 1; got {value}")
        if value > (most := max(64, 4 * available_cores())):
            raise BadInput(
                f"{option} is {value:,}, but this machine has {available_cores()} cores; give at "
                f"most {most}"
            )
    return workers


def terminal() -> Console:
    """Return the console for progress and notes.

    It is silent with ``--quiet``, and in all processes but the first.
    """
    return SafeConsole(stderr=True, quiet=VERBOSITY.quiet or not leads())


def status(words: str) -> Status:
    """Return a spinner with a text, for work that does not take long."""
    return terminal().status(escape(words))


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


def work_progress(console: Console, *amount: ProgressColumn) -> Progress:
    """Return a progress bar; ``amount`` are columns to show instead of the percentage."""
    return _Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *(amount or (TaskProgressColumn(),)),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
    )


@contextmanager
def progress_bar(what: str, *amount: ProgressColumn) -> Iterator[Callable[..., None]]:
    """Show a progress bar with the text ``what``.

    Yields:
        A function to call with the amount done, the total and, if the work has several, the
        stage; the bar starts again with each stage.
    """
    with work_progress(terminal(), *amount) as progress:
        task = progress.add_task(what, total=None)

        def show(done: int, total: int | None, stage: str | None = None) -> None:
            if stage not in (None, progress.tasks[0].description):
                progress.reset(task, description=stage, total=total)
            progress.update(task, completed=done, total=total)

        yield show


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Tell the user of a stopped command how to continue it."""
    try:
        yield
    except KeyboardInterrupt:
        if leads():
            print_line(
                "crossgcn: stopped; finished runs are kept. Continue with the same command and "
                f"--resume --out {shlex.quote(str(folder))}",
                error=True,
            )
        raise typer.Exit(130) from None


@contextmanager
def show_progress(
    run: RunOptions, what: str, name: str, unit: str = "epochs"
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Prepare the folder of a long training, called ``name`` without ``--out``, and show a bar.

    The bar counts in ``unit``.

    Yields:
        The folder, and further arguments for :meth:`crossgcn.Experiment.run`.
    """
    from crossgcn.training.distributed import processes

    refuse_unjoined(processes().world_size)
    workers = check_workers(run.workers, run.threads)
    bar = progress_bar(what, MofNCompleteColumn(), TextColumn(unit))
    folder = Path(processes().share(lambda: str(prepare_folder(run.out, run.resume, name))))
    with resumable(folder), bar as show:
        work = {"workers": workers, "threads": run.threads, "device": run.device}
        yield folder, {**work, "on_epochs": show}


def run_with_progress(
    configs: Sequence[RunConfig],
    run: RunOptions,
    *,
    name: str,
    save_models: bool,
    graph: TableGraph | None = None,
    training: Mapping[str, Any] | None = None,
) -> tuple[list[RepeatedRuns], Path]:
    """Train all configurations with a progress bar; return the results and their folder.

    Args:
        name: End of the name of the folder, without ``--out``.
        save_models: Save the weights of each run, and make the folder a saved model.
        training: Saved with the models: how to train them again.
    """
    check_workers(run.workers, run.threads)
    for config in configs:
        _LOGGER.info("settings of %s: %s", config.model, config.identity())
    with ExitStack() as stack:
        if run.out is not None and find_launch() is not None:
            stack.enter_context(resumable(run.out))
        run = stack.enter_context(join_others(configs, run))
        dataset = configs[0].dataset
        with status(f"loading {dataset}"):
            from crossgcn.experiments.experiment import Experiment, run_folder_name
            from crossgcn.graph.prepared import choose_device
            from crossgcn.training.device import check_precision

            for config in configs:
                check_precision(config.precision, choose_device(run.device))
            if graph is None:
                experiment = Experiment(configs)
            else:
                from crossgcn.data.tables.graph import describe_encoding

                experiment = Experiment(configs, graph.data, describe_encoding(graph))
        what = configs[0].model if len(configs) == 1 else f"{len(configs)} models"
        splits = len(experiment.splits)
        words = f"{what} × {splits} split{'s' * (splits > 1)}"
        with show_progress(run, words, f"{Path(dataset).stem}-{name}") as (folder, work):
            results = experiment.run(out=folder, save_models=save_models, training=training, **work)
    if save_models:
        from crossgcn.experiments.run_folder import choose_model

        ids, names = (None, None) if graph is None else (graph.ids, graph.names)
        model, data = run_folder_name(configs[0]), experiment.data
        choose_model(folder, model, data, experiment.splits, ids, names)
    return results, folder


def is_explainable(folder: Path, model: str) -> bool:
    """Return whether ``crossgcn explain`` can read the model saved in a folder."""
    from crossgcn.explanation.api import can_be_explained
    from crossgcn.training.checkpoints import load_model

    of_features = get_preset(model).inputs == "features"
    return of_features and can_be_explained(load_model(folder))
