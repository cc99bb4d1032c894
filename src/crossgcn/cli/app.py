"""The command line application: a list of commands, each imported when it is used."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from crossgcn import __version__
from crossgcn.errors import BadInput

COMMANDS = {
    "train": "Train one model on many splits and report its test scores.",
    "compare": "Train several models and pair their results split by split.",
    "check": "Show how tables are read, and what would harm training.",
    "explain": "List the terms that drive each class or one node's score.",
    "predict": "Write what is predicted for nodes, with probabilities.",
    "report": "Write one HTML file about a run.",
    "hops": "Compute columns of neighbours in DuckDB or Spark.",
    "data": "List the datasets, or fetch one.",
}
"""The commands and a line about each; the module ``crossgcn.cli.train`` holds ``train``."""

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
    "explain --raw": "terms are purified; explain lists products of features for bags of words",
    "report --compare": "write a page for each run; crossgcn compare pairs models split by split",
    "bench": "use python -m benchmarks NAME in a checkout",
    "links": _IN_EXAMPLES.format("link_prediction.py"),
    "reproduce": "use python -m paper in a checkout",
    "tune": "compare tries settings; " + _IN_EXAMPLES.format("search_settings.py"),
    "example": "us-county is the example: crossgcn train us-county",
    "data import": "for tables larger than memory: crossgcn hops NODES EDGES --out FILE.parquet",
    "data show": "graph folders left; crossgcn report RUN describes a run",
    "--checkpoint-every": "long trainings write a checkpoint every ten seconds",
    "--fanout": "models of layers train on the whole graph; "
    + _IN_EXAMPLES.format("mini_batches.py"),
    "--parquet": "crossgcn hops writes one Parquet file: --out FILE.parquet",
    "--log": _IN_EXAMPLES.format("log_metrics.py") + "; epochs.csv of each run has its metrics",
    "--aggr": "CrossGCN(..., aggr=...) takes every aggregation of PyG, in Python",
    "--transform": "crossify puts crosses into any layer, in Python",
    "--scaling": "leave it out",
    "--residual": "PyG's DeepGCNLayer does it: " + _IN_EXAMPLES.format("deep.py"),
    "--laplacian-weight": _BASELINES,
    "--hash-features": "every value of two nodes has a feature; --ignore leaves a column out",
    **dict.fromkeys(_OF_GRAND, "the recipe cross-grand left; use --model cross-gcn"),
    "--sign": _HASHES,
    "--trust": _HASHES,
    "--help-all": "--help shows the options, crossgcn train --settings the rarer settings",
    **{
        f"--{name.replace('_', '-')}": f"give --set {name}=VALUE"
        for name in (
            *("first_order", "aggregate_first", "bias", "label_features"),
            *("learning_rate", "weight_decay", "precision", "batch_size"),
        )
    },
    "compare --order-weights": "give --set order_weights=NAME",
    "--transform-first": "give --set aggregate_first=false",
    "--no-bias": "give --set bias=false",
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
        for name, words in COMMANDS.items():
            self.add_command(TyperCommand(name, help=words))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(str(name)), rest


def load_command(name: str) -> TyperCommand | TyperGroup:
    """Import a command: a function whose docstring is the help, or a group of commands."""
    command = getattr(import_module(f"crossgcn.cli.{name}"), name)
    if not isinstance(command, typer.Typer):
        function, command = command, typer.Typer(add_completion=False, rich_markup_mode=None)
        command.command(name, help=inspect.cleandoc(function.__doc__ or ""))(function)
    made: Any = typer.main.get_command(command)
    for parameter in made.params if name in ("train", "compare") else ():
        parameter.hidden = getattr(parameter, "hidden", False) or parameter.name in IN_CHECK
    return made  # type: ignore[no-any-return]


IN_CHECK = (
    *("task", "rare_classes", "name_column", "source_column", "destination_column"),
    *("weight_column", "categorical", "numeric", "lists", "missing", "unknown_ids"),
)
"""Options about tables that ``train`` and ``compare`` take and only the help of ``check`` lists."""


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
    add_completion=False,
    help="Graph convolutions with explicit cross features, and when they help.",
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
