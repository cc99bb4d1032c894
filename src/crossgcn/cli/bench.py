"""``crossgcn bench``: how fast this is, beside what people run today."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

import crossgcn
from crossgcn.cli import options
from crossgcn.errors import BadInput, WorkFailed, unknown_name


@dataclass(frozen=True)
class BenchmarkEntry:
    """One benchmark.

    Attributes:
        script: Its file in ``research/benchmarks/``, without the ending.
        device: What it needs.
        title: What it measures, in half a line.
    """

    script: str
    device: Literal["cpu", "cuda"]
    title: str


BENCHMARKS: Mapping[str, BenchmarkEntry] = {
    "cpu-step": BenchmarkEntry("cpu_step", "cpu", "one training step on the CPU"),
    "cpu-protocol": BenchmarkEntry(
        "cpu_protocol", "cpu", "the whole 20-split protocol on Citeseer, on the CPU"
    ),
    "growth": BenchmarkEntry(
        "growth", "cpu", "time and memory of a step as the problem grows, on the CPU"
    ),
    "top-pairs": BenchmarkEntry(
        "top_pairs", "cpu", "the exact strongest pairs of every class, without listing all"
    ),
    "peers": BenchmarkEntry(
        "peers", "cpu", "other feature-crossing modules in the place of the cross transform"
    ),
    "wide-features": BenchmarkEntry(
        "wide_features", "cpu", "one training step in a million sparse features"
    ),
    "big-graph": BenchmarkEntry(
        "big_graph", "cpu", "a million nodes and ten million edges at once, on the CPU"
    ),
    "sampler": BenchmarkEntry(
        "sampler", "cpu", "batches with sampled neighbours, from a graph on disk"
    ),
    "graph-import": BenchmarkEntry(
        "graph_import", "cpu", "edges of a Parquet file made into a graph on disk"
    ),
    "ranks": BenchmarkEntry(
        "ranks", "cpu", "training in batches by two processes of one thread, beside one"
    ),
    "sampled-accuracy": BenchmarkEntry(
        "sampled_accuracy", "cpu", "what sampling neighbours costs in accuracy"
    ),
    "gpu-step": BenchmarkEntry("gpu_step", "cuda", "one training step on a GPU, and its roofline"),
    "gpu-stack": BenchmarkEntry(
        "gpu_stack", "cuda", "20 splits of four hidden sizes on Citeseer as stacks on a GPU"
    ),
    "gpu-growth": BenchmarkEntry(
        "growth", "cuda", "time and memory of a step as the problem grows, on a GPU"
    ),
    "gpu-wide-features": BenchmarkEntry(
        "wide_features", "cuda", "one training step in a million sparse features, on a GPU"
    ),
    "gpu-big-graph": BenchmarkEntry(
        "big_graph", "cuda", "2.45 million nodes and 62 million edges at once, on a GPU"
    ),
    "precision": BenchmarkEntry("precision", "cuda", "what tf32 and bf16 cost in accuracy"),
    "own-tables": BenchmarkEntry(
        "own_tables", "cpu", "from two CSV files to a report, in three commands"
    ),
}
"""In the order in which they are run and shown."""


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
    """Import the benchmarks from the checkout that this package is installed from.

    Raises:
        BadInput: If the package is not installed from a checkout.
    """
    checkout = Path(crossgcn.__file__).parents[2]
    if not (checkout / "research" / "benchmarks").is_dir():
        raise BadInput(
            "the benchmarks are not part of the installed package; clone the repository and "
            "install it with `pip install -e .`, then run `crossgcn bench` again"
        )
    if str(checkout) not in sys.path:
        sys.path.insert(0, str(checkout))
    return import_module("research.benchmarks.harness.command")


def _skip(command: Any, names: Sequence[str], *, asked: bool, console: Console) -> dict[str, str]:
    """Benchmarks that cannot run here and why; an error if one was asked for, or if all are."""
    reasons = {name: command.why_not(name) for name in names}
    skipped = {name: reason for name, reason in reasons.items() if reason is not None}
    if skipped and (asked or len(skipped) == len(names)):
        raise BadInput("; ".join(skipped.values()))
    for reason in skipped.values():
        console.print(f"[yellow]skipped:[/yellow] {reason}", highlight=False)
    return skipped
