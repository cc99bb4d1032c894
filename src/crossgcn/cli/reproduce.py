"""``crossgcn reproduce``: the tables and figures of the paper, with our numbers beside them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.markup import escape

from crossgcn.cli.command import Answer, JsonOption, argument, command, option
from crossgcn.cli.options import SettingOptions, Settings, WorkOptions
from crossgcn.cli.output import SafeConsole, duration, print_line
from crossgcn.cli.running import check_workers, prepare_folder, resumable, work_progress

if TYPE_CHECKING:
    from rich.console import Console

    from crossgcn.reproduction.plan import ItemPlan
    from crossgcn.reproduction.run import Reproduction


_DEFAULTS = {"epochs": "the item's", "num_splits": "the item's"}


@command
def reproduce(
    items: Annotated[
        list[str] | None,
        argument("Tables and figures, as listed below. [default: all]", "[ITEM]..."),
    ] = None,
    quick: Annotated[
        bool, option("Some minutes: few splits, few epochs, few settings.", "--quick")
    ] = False,
    splits: Annotated[
        Literal["authors", "random"] | None,
        option(
            "Training sets: released with the paper, or drawn by seed. "
            "[default: the authors', if they are on this machine]"
        ),
    ] = None,
    datasets: Annotated[
        str | None, option("Only these, separated by commas. [default: all]", metavar="NAMES")
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "Folder for the records and the report. "
            "[default: results/reproduce, or results/reproduce-quick]"
        ),
    ] = None,
    as_json: JsonOption = False,
    *,
    work: WorkOptions,
    settings: Annotated[Settings, SettingOptions(("epochs", "num_splits", "seed"), _DEFAULTS)],
) -> Answer:
    """Reproduce the paper's tables and figures, with a verdict for every number.

    Writes report.html and report.md. Finished runs are kept in --out: the same command with
    --resume continues after an interruption.
    """
    started = time.perf_counter()

    from crossgcn.workflows.reproduce import check_settings, plan_items, run_items

    workers = check_workers(work.workers, work.threads)
    wanted = None if datasets is None else [name.strip() for name in datasets.split(",")]
    chosen: dict[str, Any] = {"quick": quick, "splits": splits, "datasets": wanted, **settings}
    plans = plan_items(items or (), **chosen)
    if out is None:
        out = Path("results") / ("reproduce-quick" if quick else "reproduce")
    folder = prepare_folder(out, work.resume, "reproduce")
    check_settings(folder, plans, **chosen)
    console = SafeConsole(stderr=as_json)
    if not console.is_terminal:
        console = SafeConsole(stderr=as_json, width=160)
    _announce(plans, console)
    terminal = SafeConsole(stderr=True)
    with terminal.status("loading the data"):
        from crossgcn.reproduction.numbers import item_table
        from crossgcn.reproduction.run import Reproduction

        reproduction = Reproduction(
            plans, folder, workers=workers, threads=work.threads, device=work.device
        )

    with resumable(folder), work_progress(terminal) as progress:
        task = progress.add_task("timing a few epochs of each model", total=None)

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        seconds = reproduction.expected_seconds(show)
        progress.remove_task(task)
        _estimate(reproduction, seconds, console)
        task = progress.add_task(f"{reproduction.num_waiting} runs", total=None)
        summary = run_items(
            reproduction,
            on_work=show,
            on_timing=lambda what: progress.update(task, description=f"timing {what}"),
            on_item=lambda plan, result: console.print(item_table(plan.item, result), ""),
            on_note=lambda words: console.print(
                f"[yellow]left out:[/yellow] {escape(words)}", highlight=False
            ),
        )
    summary["wall_seconds"] = time.perf_counter() - started
    shown = []
    for what, counts in (("Numbers of the paper", "verdicts"), ("Its claims", "claims")):
        found = [f"{count} {name}" for name, count in summary[counts].items() if count]
        shown.append(f"{what}: {', '.join(found) or 'none'}.")
    shown.append(f"{duration(summary['wall_seconds'])}. Read {summary['report']}")
    failed = [f"{item['item']}: {line}" for item in summary["items"] for line in item["failed"]]
    if failed:
        print_line(f"crossgcn: {'; '.join(failed)}", error=True)
    return Answer(summary, shown, exit_code=int(bool(failed)))


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
        f"{waiting} runs to do{done}: about {duration(seconds)} with {shared}, "
        "epochs to be timed included.",
        highlight=False,
    )
