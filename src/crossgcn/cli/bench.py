"""``crossgcn bench``: how fast this is, beside what people run today."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import crossgcn
from crossgcn.cli import options
from crossgcn.errors import BadInput, WorkFailed, unknown_name
from crossgcn.reports.benchmark_names import BENCHMARKS

__all__ = ["bench"]


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Which, as listed below. \\[default: all that this machine can run]",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A look, about a minute each; not for publication."),
    ] = False,
    rounds: Annotated[
        int | None,
        typer.Option(help="How often each side is timed, at least 5. \\[default: 7]"),
    ] = None,
    seed: options.SeedOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the records. \\[default: a new one in runs/]"),
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Time training against PyTorch Geometric, both sides in turns, and print the ratios.

    Each benchmark first checks that both sides compute the same function, and
    writes a record with every round, the hardware and the versions.
    """
    for name in names or ():
        if name not in BENCHMARKS:
            raise unknown_name("benchmark", name, BENCHMARKS)
    started = time.perf_counter()
    console = Console(stderr=as_json)
    if not console.is_terminal:
        console = Console(stderr=as_json, width=140)
    command = load_harness()
    rounds = command.check_rounds(rounds, quick)
    chosen = [name for name in BENCHMARKS if name in (names or BENCHMARKS)]
    skipped = _skip(command, chosen, asked=bool(names), console=console)
    from crossgcn.cli.running import make_folder, prepare_folder

    folder = prepare_folder(None, False, "bench") if out is None else make_folder(out)
    running = [name for name in chosen if name not in skipped]
    for name in running:
        command.check_target(folder / f"{name}.json", quick=quick)
    records, failed = [], []
    for name in running:
        try:
            measure = command.load_measure(name)
            record = command.conduct(name, measure, quick=quick, rounds=rounds, seed=seed or 0)
        except WorkFailed as error:
            failed.append(f"{name}: {error}")
            continue
        command.write_record(record, folder / f"{name}.json")
        command.show_record(record, console)
        console.print()
        records.append(record)
    summary = {
        "benchmarks": records,
        "skipped": skipped,
        "failed": failed,
        "out": str(folder),
        "wall_seconds": time.perf_counter() - started,
    }
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
    else:
        console.print(f"Written to {folder}.", highlight=False)
    if failed:
        typer.echo(f"crossgcn: {'; '.join(failed)}", err=True)
        raise typer.Exit(1)


def load_harness() -> Any:
    """What the scripts share, from the checkout or from inside the installed package.

    Raises:
        BadInput: If the scripts are in neither.
    """
    package = Path(crossgcn.__file__).parent
    for folder in (package / "benchmarks", package.parents[1] / "benchmarks"):
        if (folder / "harness").is_dir():
            if str(folder) not in sys.path:
                sys.path.insert(0, str(folder))
            return import_module("harness.command")
    raise BadInput(
        f"the benchmark scripts are not beside {package}: install the wheel, or use a checkout"
    )


def _skip(command: Any, names: Sequence[str], *, asked: bool, console: Console) -> dict[str, str]:
    """Benchmarks that cannot run here and why; an error if one was asked for, or if all are."""
    reasons = {name: command.why_not(name) for name in names}
    skipped = {name: reason for name, reason in reasons.items() if reason is not None}
    if skipped and (asked or len(skipped) == len(names)):
        raise BadInput("; ".join(skipped.values()))
    for reason in skipped.values():
        console.print(f"[yellow]skipped:[/yellow] {reason}", highlight=False)
    return skipped
