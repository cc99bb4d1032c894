"""``crossgcn reproduce``: the tables and figures of the paper, with our numbers beside them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.markup import escape

from crossgcn.cli.command import Answer, JsonOption, argument, command, option
from crossgcn.cli.options import SettingOptions, Settings, WorkOptions
from crossgcn.cli.output import SafeConsole, duration, print_line
from crossgcn.cli.running import check_workers, prepare_folder, resumable, work_progress
from crossgcn.errors import BadInput, unknown_name
from crossgcn.reproduction import ITEM_NAMES

if TYPE_CHECKING:
    from rich.console import Console

    from crossgcn.reproduction.collect import ItemResult
    from crossgcn.reproduction.items import Item
    from crossgcn.reproduction.plan import ItemPlan


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
    for name in items or ():
        if name not in ITEM_NAMES:
            raise unknown_name("item", name, ITEM_NAMES)
    started = time.perf_counter()

    from crossgcn.reproduction.items import read_item
    from crossgcn.reproduction.plan import plan_item

    workers = check_workers(work.workers, work.threads)
    wanted = None if datasets is None else [name.strip() for name in datasets.split(",")]
    plans = [
        plan_item(
            read_item(name),
            quick=quick,
            splits=splits,
            datasets=wanted,
            **settings,
        )
        for name in ITEM_NAMES
        if not items or name in items
    ]
    if not any(plan.cells for plan in plans):
        lines = dict.fromkeys(line for plan in plans for line in plan.skipped)
        raise BadInput(f"none of these can be run here: {'; '.join(lines)}")
    if out is None:
        out = Path("results") / ("reproduce-quick" if quick else "reproduce")
    folder = prepare_folder(out, work.resume, "reproduce")
    _same_settings(
        folder,
        {
            "quick": quick,
            "datasets": wanted,
            "epochs": settings["epochs"],
            "num-splits": settings["num_splits"],
            "seed": settings["seed"],
            "splits": splits,
            "training sets": {name: kind for plan in plans for name, kind in plan.splits.items()},
        },
    )
    console = SafeConsole(stderr=as_json)
    if not console.is_terminal:
        console = SafeConsole(stderr=as_json, width=160)
    _announce(plans, console)
    pairs = _run(plans, folder, replace(work, workers=workers), console)

    from crossgcn.reproduction.page import summarise_reproduction

    summary = summarise_reproduction(pairs)
    summary |= {
        "out": str(folder),
        "report": str(folder / "report.html"),
        "wall_seconds": time.perf_counter() - started,
    }
    shown = []
    for what, counts in (("Numbers of the paper", "verdicts"), ("Its claims", "claims")):
        found = [f"{count} {name}" for name, count in summary[counts].items() if count]
        shown.append(f"{what}: {', '.join(found) or 'none'}.")
    shown.append(f"{duration(summary['wall_seconds'])}. Read {summary['report']}")
    failed = [f"{item.name}: {line}" for item, result in pairs for line in result.failed]
    if failed:
        print_line(f"crossgcn: {'; '.join(failed)}", error=True)
    return Answer(summary, shown, exit_code=int(bool(failed)))


def _same_settings(folder: Path, settings: dict[str, Any]) -> None:
    """Refuse to continue a folder with other settings."""
    from crossgcn.data.files import write_json

    path = folder / "settings.json"
    try:
        before = json.loads(path.read_bytes())
    except (OSError, ValueError):
        before = {}
    known = before.get("training sets", {})
    for name, kind in settings["training sets"].items():
        if known.get(name, kind) != kind:
            raise BadInput(
                f"{folder} was made with the {known[name]} training sets of {name}, and now "
                f"they would be {kind}: set CROSSGCN_DATA or --splits as they were, or give "
                "another --out"
            )
    for name, value in settings.items():
        if name != "training sets" and before.get(name, value) != value:
            raise BadInput(
                f"{folder} was made with {_option(name, before[name])}, not with "
                f"{_option(name, value)}: give the same to continue, or another --out"
            )
    write_json(path, {**settings, "training sets": {**known, **settings["training sets"]}})


def _option(name: str, value: Any) -> str:
    if value is None or value is False:
        return f"no --{name}"
    return f"--{name}" if value is True else f"--{name} {value}"


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


def _run(
    plans: Sequence[ItemPlan], folder: Path, options: WorkOptions, console: Console
) -> list[tuple[Item, ItemResult]]:

    workers = options.workers or 1
    terminal = SafeConsole(stderr=True)
    with terminal.status("loading the data"):
        from crossgcn.reproduction.collect import write_model
        from crossgcn.reproduction.numbers import item_table
        from crossgcn.reproduction.page import write_report
        from crossgcn.reproduction.run import Reproduction

        work = Reproduction(
            plans, folder, workers=workers, threads=options.threads, device=options.device
        )
    finished: dict[str, tuple[Item, ItemResult]] = {}
    earlier = _earlier(plans, folder, console)

    def show_item(plan: ItemPlan, result: ItemResult) -> None:
        write_model(folder / f"{plan.item.name}.json", result)
        finished[plan.item.name] = (plan.item, result)
        everything = earlier | finished
        write_report(folder, [everything[name] for name in ITEM_NAMES if name in everything])
        console.print(item_table(plan.item, result), "")

    with resumable(folder), work_progress(terminal) as progress:
        task = progress.add_task("timing a few epochs of each model", total=None)

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        seconds = work.expected_seconds(show)
        progress.remove_task(task)
        if seconds > 0:
            waiting, total = work.num_waiting, work.num_runs
            done = f" ({total - waiting} of {total} are finished)" if waiting < total else ""
            shared = f"{workers} process{'es' * (workers > 1)}"
            if work.trainer.device.type == "cuda":
                shared = f"the GPU ({work.trainer.device})"
            console.print(
                f"{waiting} runs to do{done}: about {duration(seconds)} with {shared}, "
                "epochs to be timed included.",
                highlight=False,
            )
        task = progress.add_task(f"{work.num_waiting} runs", total=None)

        def show_timing(what: str) -> None:
            progress.update(task, description=f"timing {what}")

        work.run(on_work=show, on_item=show_item, on_timing=show_timing)
    return [finished[plan.item.name] for plan in plans]


def _earlier(
    plans: Sequence[ItemPlan], folder: Path, console: Console
) -> dict[str, tuple[Item, ItemResult]]:
    """Return the items in the folder that an earlier command finished, for the report."""
    from crossgcn.reproduction.collect import read_item_result
    from crossgcn.reproduction.items import read_item

    found = {}
    for name in ITEM_NAMES:
        path = folder / f"{name}.json"
        if path.exists() and name not in {plan.item.name for plan in plans}:
            try:
                found[name] = (read_item(name), read_item_result(path))
            except BadInput as error:
                console.print(f"[yellow]left out:[/yellow] {escape(str(error))}", highlight=False)
    return found
