"""What every command shares: options in groups, ``--seed`` and ``--json``, and the output."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from crossgcn.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

RUN = "Run"
"""Title of the options about where and how a command runs."""


def option(words: str, *names: str, panel: str | None = None, **more: Any) -> Any:
    """Return an option for Typer; square brackets in its help are shown as they are."""
    words = words.replace("[", "\\[")
    return typer.Option(*names, help=words, rich_help_panel=panel, **more)


def argument(words: str, metavar: str | None = None) -> Any:
    """Return an argument for Typer, as :func:`option` does."""
    return typer.Argument(help=words.replace("[", "\\["), metavar=metavar)


def option_name(name: str) -> str:
    """Return ``--hidden-channels`` for ``hidden_channels``."""
    return f"--{name.replace('_', '-')}"


RunArgument = Annotated[Path, argument("Folder written by crossgcn train.", "RUN")]
SeedOption = Annotated[int, option("Random seed.", min=0, max=2**32 - 1)]
UnusedSeedOption = Annotated[int | None, option("Ignored; accepted for consistency.", panel=RUN)]
JsonOption = Annotated[
    bool,
    option("Print one JSON object on stdout, everything else on stderr.", "--json", panel=RUN),
]


QuietOption = Annotated[
    bool, option("Print the result only: no progress, no notes.", "--quiet", "-q", panel=RUN)
]
VerboseOption = Annotated[
    bool, option("Print the settings, and a line for every finished run.", "--verbose", panel=RUN)
]


def _show_all_help(context: typer.Context, wanted: bool) -> None:
    if wanted:
        context.meta[ALL_OPTIONS] = True
        typer.echo(context.get_help())
        raise typer.Exit


ALL_OPTIONS = "crossgcn.all_options"
HelpAllOption = Annotated[
    bool,
    option("Show all options and exit.", "--help-all", is_eager=True, callback=_show_all_help),
]
_MANY = 30
"""A command with more options than this has ``--help-all``, and a short ``--help``."""


@dataclass(frozen=True)
class Answer:
    """The result of a command, as one JSON object and as text for people.

    Attributes:
        summary: Printed with ``--json``.
        parts: Printed otherwise: strings as they are, ``Text`` wrapped between words, tables.
        folder: Folder of the runs, which also gets the summary as ``result.json``.
    """

    summary: dict[str, Any]
    parts: Iterable[RenderableType] = ()
    folder: Path | None = None
    exit_code: int = 0

    def give(self, as_json: bool) -> None:
        """Write and print the result."""
        from crossgcn.cli.output import print_json, print_line

        if self.folder is not None:
            from crossgcn.training.records import write_summary

            write_summary(self.folder, self.summary)
        if as_json:
            print_json(self.summary)
        else:
            console = answer_console()
            for part in self.parts:
                as_it_is = isinstance(part, str)
                console.print(part, highlight=False, markup=False, soft_wrap=as_it_is)
            if self.folder is not None:
                print_line(
                    f"\nWritten to {self.folder} (result.json, and a run.json for every run)."
                )
        if self.exit_code:
            raise typer.Exit(self.exit_code)


def answer_console() -> Console:
    """Return the console for results; lines are not wrapped in files and pipes."""
    from crossgcn.cli.output import SafeConsole

    console = SafeConsole()
    return console if console.is_terminal else SafeConsole(width=200)


def command(function: Callable[..., Answer | None]) -> Callable[..., None]:
    """Make a function a command for Typer, and print the answer that it returns.

    A group of options, which is a dataclass such as ``RunOptions`` or a dict annotated with
    ``SettingOptions``, becomes single options. ``--seed`` and ``--json`` are added unless the
    function takes them itself.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters: dict[str, Parameter] = {}
    groups: dict[str, tuple[list[str], Callable[..., Any]]] = {}

    def add(name: str, annotation: Any, default: Any) -> None:
        parameters[name] = Parameter(
            name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )

    for name, parameter in signature(function).parameters.items():
        kind = hints[name]
        notes = [note for note in get_args(kind) if hasattr(note, "annotations")]
        if notes:
            types = notes[0].annotations()
            groups[name] = list(types), notes[0].read
            for each, annotation in types.items():
                add(each, annotation, None)
        elif is_dataclass(kind):
            types = get_type_hints(kind, include_extras=True)
            make: Any = kind
            groups[name] = list(types), make
            for field in fields(kind):
                add(field.name, types[field.name], field.default)
        else:
            add(name, kind, parameter.default)
    common = {
        "seed": (UnusedSeedOption, None),
        "as_json": (JsonOption, False),
        "quiet": (QuietOption, False),
        "verbose": (VerboseOption, False),
        **({"help_all": (HelpAllOption, False)} if len(parameters) > _MANY else {}),
    }
    added = [name for name in common if name not in parameters]
    for name in added:
        add(name, *common[name])

    @wraps(function)
    def run(**values: Any) -> None:
        as_json = values["as_json"]
        _set_verbosity(values["quiet"], values["verbose"])
        for name in added:
            del values[name]
        for name, (names, read) in groups.items():
            values[name] = read(**{each: values.pop(each) for each in names})
        with ExitStack() as stack:
            _running.append(stack)
            stack.callback(_running.pop)
            answer = function(**values)
            if answer is not None:
                answer.give(as_json)

    del run.__wrapped__
    run.__signature__ = Signature([*parameters.values()])  # type: ignore[attr-defined]
    run.__annotations__ = {name: each.annotation for name, each in parameters.items()}
    return run


@dataclass
class _Verbosity:
    quiet: bool = False


VERBOSITY = _Verbosity()
"""What the options of the command that runs ask for."""


class _ToStderr(logging.Handler):
    """Prints to ``sys.stderr`` as it is now: a progress bar replaces it while it is shown."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


def _set_verbosity(quiet: bool, verbose: bool) -> None:
    if quiet and verbose:
        raise BadInput("--quiet and --verbose contradict each other: leave one out")
    VERBOSITY.quiet = quiet
    logger = logging.getLogger("crossgcn")
    logger.handlers = [_ToStderr()] if verbose else []
    logger.setLevel(logging.INFO if verbose else logging.NOTSET)


_running: list[ExitStack] = []


def until_end(context: AbstractContextManager[Any]) -> None:
    """Enter a context, and leave it when the running command has written all its results."""
    _running[-1].enter_context(context)
