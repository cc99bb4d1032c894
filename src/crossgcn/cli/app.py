"""The command line application: a list of commands, each imported when it is used."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from crossgcn import __version__
from crossgcn.cli.command import ALL_OPTIONS
from crossgcn.errors import BadInput

COMMANDS = {
    "crossgcn.cli.train": "Train one model on many splits and report its scores on test nodes.",
    "crossgcn.cli.compare": "Train several models on the same splits and pair their results split "
    "by split.",
    "crossgcn.cli.check": "Show how your tables are read, and what in them would prevent or harm "
    "training.",
    "crossgcn.cli.explain": "List the terms that drive each class, by column, or the terms of one "
    "node's score, exactly.",
    "crossgcn.cli.predict": "Write what is predicted for nodes: classes with probabilities, or "
    "numbers.",
    "crossgcn.cli.report": "Write one HTML file about a run: scores, mistakes, terms, nodes.",
    "crossgcn.cli.example": "Write example tables of a shop (the default), or a large graph.",
    "crossgcn.cli.hops": "Compute the columns of nodes and their neighbours in DuckDB or Spark, "
    "for crossgcn train.",
    "crossgcn.cli.data": "List the datasets, fetch one, or import large graphs of your own.",
}
"""The first line of each command's help. The module ``crossgcn.cli.train`` holds ``train``."""


_IN_EXAMPLES = "examples/{} of the checkout shows it"
_HASHES = "run.json holds the SHA-256 of every file, which explain, predict and report check"
_BASELINES = "python -m paper in a checkout trains the paper's baselines"
_OF_GRAND = (
    "--input-dropout",
    "--node-drop",
    "--draws",
    "--consistency",
    "--temperature",
    "--warm-up",
)
LEFT = {
    "bench": "use python -m benchmarks NAME in a checkout",
    "links": _IN_EXAMPLES.format("link_prediction.py"),
    "reproduce": "use python -m paper in a checkout",
    "tune": "compare tries settings; " + _IN_EXAMPLES.format("search_settings.py"),
    "--log": _IN_EXAMPLES.format("log_metrics.py") + "; epochs.csv of each run has its metrics",
    "--aggr": "CrossGCN(..., aggr=...) takes every aggregation of PyG, in Python",
    "--transform": "crossify puts crosses into any layer, in Python",
    "--scaling": "leave it out",
    "--residual": "PyG's DeepGCNLayer does it: " + _IN_EXAMPLES.format("deep.py"),
    "--laplacian-weight": _BASELINES,
    **dict.fromkeys(_OF_GRAND, "the recipe cross-grand left; use --model cross-gcn"),
    "--sign": _HASHES,
    "--trust": _HASHES,
}
"""Commands, options (``--log``) and options of one command (``data import``) that left in this
release, and what replaces them."""


def refuse_left(arguments: Sequence[str]) -> None:
    """Refuse a command line, without the program's name, that uses something of ``LEFT``."""
    command = next((each for each in arguments if not each.startswith("-")), "")
    for each in arguments:
        name = each.partition("=")[0]
        for key in [f"{command} {name}", *([name] if name == command or name[:2] == "--" else [])]:
            if key in LEFT:
                raise BadInput(f"{key} is not part of crossgcn any more: {LEFT[key]}")


class _Commands(TyperGroup):
    """Commands whose modules are imported when they are called, not when they are listed."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for module, words in COMMANDS.items():
            self.add_command(TyperCommand(module.rpartition(".")[2], help=words))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(str(name)), rest


class _ShortHelp(TyperCommand):
    """A command whose ``--help`` shows the options that most people use.

    ``--help-all`` shows the others too, and lists the names that the command takes.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        parameters: list[Any] = list(self.params)
        before = [(each, each.hidden, each.rich_help_panel) for each in parameters]
        short = ALL_OPTIONS not in ctx.meta and any(each.name == "help_all" for each in parameters)
        self.epilog = "" if short else _epilog(str(self.name))
        for each in parameters if short else ():
            each.hidden, each.rich_help_panel = each.name not in USUAL, None
        super().format_help(ctx, formatter)
        for each, hidden, panel in before:
            each.hidden, each.rich_help_panel = hidden, panel


@cache
def load_command(name: str) -> TyperCommand | TyperGroup:
    """Import a command: a function whose docstring is the help, or a group of commands."""
    command = getattr(import_module(f"crossgcn.cli.{name}"), name)
    if not isinstance(command, typer.Typer):
        function, command = command, typer.Typer(add_completion=False, rich_markup_mode="rich")
        paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        words = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        command.command(name, cls=_ShortHelp, help=words)(function)
    return typer.main.get_command(command)  # type: ignore[return-value]


def _epilog(name: str) -> str:
    """Return the names that a command takes, for the end of its help."""
    parts = []
    if name in ("train", "compare"):
        from crossgcn.models.catalogue import PRESETS

        parts.append(_listed("models", {key: each.description for key, each in PRESETS.items()}))
    if name == "compare":
        from crossgcn.experiments.candidates import CANDIDATES

        descriptions = {key: each.description for key, each in CANDIDATES.items()}
        parts.append(_listed("models for tables", descriptions))
    return "\n\n".join(parts)


def _listed(what: str, descriptions: Mapping[str, str]) -> str:
    lines = [f"[bold]{name}[/bold]: {words}" for name, words in descriptions.items()]
    return "\n\n".join([f"The {what}:", *(lines or ["in a checkout only"])])


USUAL = (
    *("dataset", "edges", "target", "model", "models", "trials", "order", "metric", "epochs"),
    *("num_splits", "seed", "config", "out", "as_json", "help_all"),
)
"""Arguments and options that the short help shows."""

START = f"""\
crossgcn {__version__}: predict a column of a table of nodes from its other columns and from the
neighbours of each node, as an exact sum of named terms.

  crossgcn check   NODES EDGES --target COLUMN            how the tables are read; their problems
  crossgcn compare NODES EDGES --target COLUMN            do the graph and crosses help?
  crossgcn train   NODES EDGES --target COLUMN --out RUN  train a model, and test it
  crossgcn explain RUN                                    the terms that decide, by name
  crossgcn report  RUN                                    one HTML page about it

NODES and EDGES are tables (CSV, TSV, Parquet, XLSX). Without any of your own, start here:

  crossgcn compare us-county

All commands: crossgcn --help. Options of one: crossgcn train --help."""


app = typer.Typer(
    cls=_Commands,
    name="crossgcn",
    help="Graph convolutions with explicit cross features, and when they help.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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
