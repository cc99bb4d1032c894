"""What commands share: printing, progress bars, and the folder of the results.

Text from data is escaped, so that it cannot control the terminal.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.text import Text

from crossgcn.cli.options import WorkOptions
from crossgcn.errors import BadInput, Note, printable

if TYPE_CHECKING:
    from rich.status import Status

    from crossgcn.data.tables.graph import TableGraph
    from crossgcn.experiments.experiment import Experiment
    from crossgcn.training.config import RunConfig

LINE_EVERY = 10.0
"""Seconds between lines of progress in a file or a pipe."""


class SafeConsole(Console):
    """A console that escapes control characters in texts and tables."""

    def render(  # noqa: D102
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            safe = segment.text if segment.control else printable(segment.text)
            yield Segment(safe, segment.style, segment.control)


def print_line(words: str, *, error: bool = False) -> None:
    """Print a line to stdout; or to stderr, where a terminal breaks it between words."""
    if error and sys.stderr.isatty():
        terminal().print(Text(words))
    else:
        print(printable(words), file=sys.stderr if error else sys.stdout)


def print_json(content: dict[str, Any]) -> None:
    """Print an object as one line of JSON."""
    print_line(json.dumps(content, ensure_ascii=False))


def print_answer(summary: dict[str, Any], parts: Iterable[RenderableType], as_json: bool) -> None:
    """Print a result, as one JSON object or as parts for people.

    Args:
        parts: Strings are printed as they are, ``Text`` is wrapped between words.
    """
    if as_json:
        print_json(summary)
        return
    # Lines are not wrapped in files and pipes.
    console = SafeConsole(width=None if sys.stdout.isatty() else 200)
    for part in parts:
        console.print(part, highlight=False, markup=False, soft_wrap=isinstance(part, str))


def show_notes() -> None:
    """Print each :class:`~crossgcn.errors.Note` as one line, without a source location."""
    warnings.formatwarning = _describe_warning


_usual_description = warnings.formatwarning


def _describe_warning(message: Any, category: Any, *place: Any, **more: Any) -> str:
    if issubclass(category, Note):
        return f"crossgcn: {printable(str(message))}\n"
    return _usual_description(message, category, *place, **more)


def terminal() -> Console:
    """Return the console for progress and notes."""
    return SafeConsole(stderr=True, markup=False, highlight=False)


def status(words: str) -> Status:
    """Return a spinner with a text, for short work."""
    return terminal().status(Text(words))


def make_folder(out: Path) -> Path:
    """Create the folder that ``--out`` names, if it does not exist."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{out}: cannot be made ({error.strerror}); give another --out") from None
    return out


@contextmanager
def results_folder(work: WorkOptions, name: str) -> Iterator[Path]:
    """Make and lock the folder for the results: ``--out``, or a new ``runs/NAME-DATE``.

    A folder with earlier results is refused without ``--resume``. If the work is interrupted, a
    message says how to continue.
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


def finish(
    summary: dict[str, Any],
    screen: Callable[[dict[str, Any]], Iterable[RenderableType]],
    folder: Path,
    started: float,
    as_json: bool,
) -> None:
    """Write the result of a training to its folder and print it, with the next command.

    Args:
        screen: Formats the summary for people.
        started: Start of the work, by :func:`time.perf_counter`.
    """
    from crossgcn.training.records import write_summary

    summary |= {"wall_seconds": time.perf_counter() - started, "out": str(folder)}
    write_summary(folder, summary)
    print_answer(summary, screen(summary), as_json)
    if not as_json:
        print_line(f"\nWritten to {folder} (result.json, and a run.json for every run).")
        print_line(f"Next: {summary['next']}" if summary["next"] else "")


def load_experiment(configs: Sequence[RunConfig], graph: TableGraph | None = None) -> Experiment:
    """Return an experiment on ``graph``, or on the dataset that the configurations name."""
    with status(f"loading {configs[0].dataset}"):
        from crossgcn.data.tables.graph import describe_encoding
        from crossgcn.experiments.experiment import Experiment

        if graph is None:
            return Experiment(configs)
        return Experiment(configs, graph.data, describe_encoding(graph))


@contextmanager
def progress_bar(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar; yield a function to call with the amount done and the total.

    In a file or a pipe, a line is printed every ten seconds instead.
    """
    with Progress(
        *(TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()),
        *(TextColumn(unit), TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("left")),
        console=terminal(),
    ) as progress:
        task = progress.add_task(what, total=None)
        next_line = time.monotonic() + LINE_EVERY

        def show(done: int, total: int) -> None:
            nonlocal next_line
            progress.update(task, completed=done, total=total)
            if not progress.console.is_terminal and time.monotonic() > next_line:
                next_line = time.monotonic() + LINE_EVERY
                progress.print(progress.get_renderable())

        yield show
