"""The command line application: a list of commands, each imported when it is used."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from crossgcn import __version__

COMMANDS = {
    "train": "Train one model on many splits and report its test scores.",
    "compare": "Train several models and pair their results split by split.",
    "check": "Show how tables are read, and their problems.",
    "explain": "List the terms that drive each class or one node's score.",
    "predict": "Write predictions for nodes, with probabilities.",
    "export": "Write a model as an SQL query or an ONNX graph.",
    "report": "Write one HTML file about a run.",
    "hops": "Compute columns of neighbours in DuckDB or Spark.",
    "data": "List the datasets, or fetch one.",
}
"""The commands and a line about each; the module ``crossgcn.cli.train`` holds ``train``."""

PURPOSE = """\
crossgcn predicts a column of a table of nodes from each node's other columns
and from those of its neighbours. Every score is an exact sum of named terms."""
"""What README.md begins with."""

START = f"""\
{PURPOSE}

  crossgcn check   NODES EDGES --target COLUMN   how the tables are read
  crossgcn compare NODES EDGES --target COLUMN   do the graph and crosses help?
  crossgcn train   NODES EDGES --target COLUMN --out RUN   train and test
  crossgcn explain RUN                           the terms that matter most
  crossgcn report  RUN                           one HTML page about it

NODES and EDGES are tables: CSV, TSV, Parquet or XLSX. Without tables of your
own, start here:

  crossgcn train us-county --out counties

All commands: crossgcn --help. Options of one: crossgcn train --help."""


class _Commands(TyperGroup):
    """Commands whose modules are imported when called, not when listed."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, words in COMMANDS.items():
            self.add_command(TyperCommand(name, help=words))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(str(name)), rest


def load_command(name: str) -> TyperCommand | TyperGroup:
    """Import a command: a function whose docstring is the help, or a group of commands."""
    from crossgcn.cli.options import with_options
    from crossgcn.cli.tables import RARE_OPTIONS

    command = getattr(import_module(f"crossgcn.cli.{name}"), name)
    if not isinstance(command, typer.Typer):
        function, command = command, typer.Typer(add_completion=False, rich_markup_mode=None)
        command.command(name, help=inspect.getdoc(function))(with_options(function))
    made: Any = typer.main.get_command(command)
    for parameter in made.params if name in ("train", "compare") else ():
        parameter.hidden |= parameter.name in RARE_OPTIONS
    return made  # type: ignore[no-any-return]


app = typer.Typer(
    cls=_Commands,
    name="crossgcn",
    add_completion=False,
    help=PURPOSE,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"crossgcn {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(START)
