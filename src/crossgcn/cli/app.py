"""The Typer application with all commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from crossgcn import __version__
from crossgcn.cli.bench import bench, list_benchmarks
from crossgcn.cli.check import check
from crossgcn.cli.compare import compare
from crossgcn.cli.data import data
from crossgcn.cli.example import example
from crossgcn.cli.explain import explain
from crossgcn.cli.links import links
from crossgcn.cli.predict import predict
from crossgcn.cli.report import report
from crossgcn.cli.reproduce import reproduce
from crossgcn.cli.train import train
from crossgcn.cli.tune import tune
from crossgcn.experiments.candidates import CANDIDATES
from crossgcn.models.catalogue import PRESETS
from crossgcn.reproduction import ITEM_NAMES

app = typer.Typer(
    name="crossgcn",
    help="Graph convolutions with explicit cross features, and when they help.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"crossgcn {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version),
    ] = False,
) -> None:
    pass


def _add(command: Callable[..., None], epilog: str | None = None) -> None:
    """Add a command whose help is its docstring, each paragraph on one line."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    app.command(help=text, epilog=epilog)(command)


def _listed(what: Mapping[str, str]) -> str:
    return "\n\n".join(f"[bold]{name}[/bold]: {words}" for name, words in what.items())


_models = _listed({name: preset.description for name, preset in PRESETS.items()})
_candidates = _listed({name: candidate.description for name, candidate in CANDIDATES.items()})
_add(train, f"The models:\n\n{_models}")
_add(compare, f"The models:\n\n{_models}\n\nThe models for tables:\n\n{_candidates}")
_add(tune, f"The models:\n\n{_models}")
_add(links)
_add(check)
_add(explain)
_add(predict)
_add(report)
_add(reproduce, f"The items:\n\n{_listed(ITEM_NAMES)}")
_add(bench, f"The benchmarks:\n\n{_listed(list_benchmarks()) or 'in a checkout only'}")
app.add_typer(example, name="example")
app.add_typer(data, name="data")
