"""``crossgcn reproduce``: the tables and figures of the paper, with our numbers beside them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape

from crossgcn.cli import options
from crossgcn.cli.command import JsonOption, command
from crossgcn.cli.options import SettingOptions, Settings
from crossgcn.cli.output import SafeConsole, print_json
from crossgcn.errors import WorkFailed

if TYPE_CHECKING:
    from rich.console import Console

    from crossgcn.reproduction.plan import ItemPlan
    from crossgcn.reproduction.run import Reproduction


_DEFAULTS = {"epochs": "the item's", "num_splits": "the item's"}


@command
def reproduce(
    items: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ITEM]...", help="Tables and figures, as listed below. \\[default: all]"
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Some minutes: few splits, few epochs, few settings."),
    ] = False,
    splits: Annotated[
        Literal["authors", "random"] | None,
        typer.Option(
            help="Training sets: released with the paper, or drawn by seed. "
            "\\[default: the authors', if they are on this machine]"
        ),
    ] = None,
    datasets: Annotated[
        str | None,
        typer.Option(help="Only these, separated by commas. \\[default: all]", metavar="NAMES"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the records and the report. "
            "\\[default: results/reproduce, or results/reproduce-quick]",
        ),
    ] = None,
    resume: options.ResumeOption = False,
    workers: options.WorkersOption = None,
    threads: options.ThreadsOption = 1,
    device: options.DeviceOption = "auto",
    as_json: JsonOption = False,
    *,
    settings: Annotated[Settings, SettingOptions(("epochs", "num_splits", "seed"), _DEFAULTS)],
) -> None:
    """Reproduce the paper's tables and figures, with a verdict for every number.

    Writes report.html and report.md. Finished runs are kept in --out: the same command with
    --resume continues after an interruption.
    """
    started = time.perf_counter()

    from crossgcn.cli.running import check_workers, prepare_folder, resumable, work_progress
    from crossgcn.workflows.reproduce import check_settings, plan_items, run_items

    workers = check_workers(workers, threads)
    wanted = None if datasets is None else [name.strip() for name in datasets.split(",")]
    chosen: dict[str, Any] = {"quick": quick, "splits": splits, "datasets": wanted, **settings}
    plans = plan_items(items or (), **chosen)
    if out is None:
        out = Path("results") / ("reproduce-quick" if quick else "reproduce")
    folder = prepare_folder(out, resume, "reproduce")
    check_settings(folder, plans, **chosen)
    console = SafeConsole(stderr=as_json)
    if not console.is_terminal:
        console = SafeConsole(stderr=as_json, width=160)
    _announce(plans, console)
    terminal = SafeConsole(stderr=True)
    with terminal.status("loading the data"):
        from crossgcn.reproduction.numbers import item_table
        from crossgcn.reproduction.run import Reproduction

        work = Reproduction(plans, folder, workers=workers, threads=threads, device=device)

    with resumable(folder), work_progress(terminal) as progress:
        task = progress.add_task("timing a few epochs of each model", total=None)

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        seconds = work.expected_seconds(show)
        progress.remove_task(task)
        _estimate(work, seconds, console)
        task = progress.add_task(f"{work.num_waiting} runs", total=None)
        summary = run_items(
            work,
            on_work=show,
            on_timing=lambda what: progress.update(task, description=f"timing {what}"),
            on_item=lambda plan, result: console.print(item_table(plan.item, result), ""),
            on_note=lambda words: console.print(
                f"[yellow]left out:[/yellow] {escape(words)}", highlight=False
            ),
        )
    summary["wall_seconds"] = time.perf_counter() - started
    if as_json:
        print_json(summary)
    else:
        for what, counts in (("Numbers of the paper", "verdicts"), ("Its claims", "claims")):
            found = [f"{count} {name}" for name, count in summary[counts].items() if count]
            console.print(f"{what}: {', '.join(found) or 'none'}.", highlight=False)
        took = _duration(summary["wall_seconds"])
        console.print(f"{took}. Read {summary['report']}", highlight=False)
    failed = [f"{item['item']}: {line}" for item in summary["items"] for line in item["failed"]]
    if failed:
        raise WorkFailed("; ".join(failed))


def _announce(plans: Sequence[ItemPlan], console: Console) -> None:
    """Print what is skipped or shortened before the work starts."""
    lines: dict[str, list[str]] = {}
    for plan in plans:
        for word in ("shortened", "skipped"):
            for line in getattr(plan, word):
                words = f"[yellow]{word}:[/yellow] {escape(line)}"
                lines.setdefault(words, []).append(plan.item.name)
    splits = {name: kind for plan in plans for name, kind in plan.splits.items()}
    for kind in dict.fromkeys(splits.values()):
        names = [name for name, each in splits.items() if each == kind]
        console.print(f"training sets: {kind} for {', '.join(names)}", highlight=False)
    for line, names in lines.items():
        where = "" if len(names) == len(plans) > 1 else f" ({', '.join(names)})"
        console.print(f"{line}{where}", highlight=False)


def _estimate(work: Reproduction, seconds: float, console: Console) -> None:
    """Print how long the work will take."""
    if seconds == 0:
        return
    waiting, total = work.num_waiting, work.num_runs
    done = f" ({total - waiting} of {total} are finished)" if waiting < total else ""
    shared = f"{work.workers} process{'es' * (work.workers > 1)}"
    if work.trainer.device.type == "cuda":
        shared = f"the GPU ({work.trainer.device})"
    console.print(
        f"{waiting} runs to do{done}: about {_duration(seconds)} with {shared}, "
        "epochs to be timed included.",
        highlight=False,
    )


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
