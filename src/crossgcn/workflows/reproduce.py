"""The paper's tables and figures, run again, with a verdict for every number."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from crossgcn.data.files import write_json
from crossgcn.errors import BadInput, unknown_name
from crossgcn.reproduction import ITEM_NAMES
from crossgcn.reproduction.items import Item, read_item
from crossgcn.reproduction.page import summarise_reproduction, write_report
from crossgcn.reproduction.plan import (
    ItemPlan,
    ItemResult,
    plan_item,
    read_item_result,
    write_model,
)
from crossgcn.reproduction.run import Reproduction


def reproduce(
    items: Sequence[str] = (),
    out: Path | str = "results/reproduce",
    *,
    quick: bool = False,
    splits: Literal["authors", "random"] | None = None,
    datasets: Sequence[str] | None = None,
    workers: int = 1,
    threads: int = 1,
    device: str = "cpu",
    on_work: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Run tables and figures of the paper again, and judge every number and claim.

    Args:
        items: Names such as ``"citation"`` (Table 5) or ``"alpha"`` (Figure 4), see
            :data:`crossgcn.reproduction.ITEM_NAMES`; all by default.
        out: Folder for the records, ``report.html`` and ``report.md``; finished runs in it are
            not repeated.
        quick: Few splits, few epochs, few settings: some minutes.
        splits: The training sets released with the paper, or random ones; the released ones by
            default, if they are on this machine.
        datasets: Only these; all by default.
        workers: As for :func:`crossgcn.compare`, like ``threads`` and ``device``.
        on_work: Called with the work done and the work in total.
        **settings: ``epochs``, ``num_splits`` and ``seed``, where they are not the item's own.

    Returns:
        The summary that ``crossgcn reproduce --json`` prints: ``items`` with ``cells`` and
        ``claims``, and how often each verdict was given. ``failed`` of an item names the runs
        that diverged.

    Raises:
        BadInput: If nothing can be run, or the folder was made with other settings.
    """
    plans = plan_items(items, quick=quick, splits=splits, datasets=datasets, **settings)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    check_settings(folder, plans, quick=quick, splits=splits, datasets=datasets, **settings)
    work = Reproduction(plans, folder, workers=workers, threads=threads, device=device)
    return run_items(work, on_work=on_work)


def plan_items(items: Sequence[str] = (), **options: Any) -> list[ItemPlan]:
    """Decide what is run of these items; ``options`` are those of :func:`reproduce`."""
    for name in items:
        if name not in ITEM_NAMES:
            raise unknown_name("item", name, ITEM_NAMES)
    names = [name for name in ITEM_NAMES if not items or name in items]
    plans = [plan_item(read_item(name), **options) for name in names]
    if not any(plan.cells for plan in plans):
        lines = dict.fromkeys(line for plan in plans for line in plan.skipped)
        raise BadInput(f"none of these can be run here: {'; '.join(lines)}")
    return plans


def check_settings(folder: Path, plans: Sequence[ItemPlan], **options: Any) -> None:
    """Refuse to continue a folder with other settings; keep those of a new one."""
    path = folder / "settings.json"
    try:
        before = json.loads(path.read_bytes())
    except (OSError, ValueError):
        before = {}
    known = before.get("training sets", {})
    kinds = {name: kind for plan in plans for name, kind in plan.splits.items()}
    for name, kind in kinds.items():
        if known.get(name, kind) != kind:
            raise BadInput(
                f"{folder} was made with the {known[name]} training sets of {name}, and now "
                f"they would be {kind}: set CROSSGCN_DATA or --splits as they were, or give "
                "another --out"
            )
    names = ("quick", "datasets", "epochs", "num_splits", "seed", "splits")
    given = {name.replace("_", "-"): options.get(name) for name in names}
    for name, value in given.items():
        if before.get(name, value) != value:
            raise BadInput(
                f"{folder} was made with {_option(name, before[name])}, not with "
                f"{_option(name, value)}: give the same to continue, or another --out"
            )
    write_json(path, {**given, "training sets": known | kinds})


def run_items(
    work: Reproduction,
    *,
    on_item: Callable[[ItemPlan, ItemResult], None] = lambda *_: None,
    on_note: Callable[[str], None] = lambda _: None,
    **callbacks: Callable[..., None] | None,
) -> dict[str, Any]:
    """Do all work that is not finished, and write the report; return its summary.

    Args:
        on_item: Called with each item as soon as its last run is finished.
        on_note: Called with a sentence about an earlier result that cannot be read.
        **callbacks: ``on_work`` and ``on_timing`` of :meth:`Reproduction.run
            <crossgcn.reproduction.run.Reproduction.run>`.
    """
    started, finished = time.perf_counter(), {}
    earlier = _earlier(work, on_note)

    def keep(plan: ItemPlan, result: ItemResult) -> None:
        write_model(work.out / f"{plan.item.name}.json", result)
        finished[plan.item.name] = (plan.item, result)
        everything = earlier | finished
        write_report(work.out, [everything[name] for name in ITEM_NAMES if name in everything])
        on_item(plan, result)

    work.run(on_item=keep, **callbacks)
    return summarise_reproduction([finished[plan.item.name] for plan in work.plans]) | {
        "out": str(work.out),
        "report": str(work.out / "report.html"),
        "wall_seconds": time.perf_counter() - started,
    }


def _earlier(
    work: Reproduction, on_note: Callable[[str], None]
) -> dict[str, tuple[Item, ItemResult]]:
    """Return the items in the folder that are not run now, for the report."""
    found = {}
    for name in ITEM_NAMES:
        path = work.out / f"{name}.json"
        if path.exists() and name not in {plan.item.name for plan in work.plans}:
            try:
                found[name] = (read_item(name), read_item_result(path))
            except BadInput as error:
                on_note(str(error))
    return found


def _option(name: str, value: Any) -> str:
    if value is None or value is False:
        return f"no --{name}"
    return f"--{name}" if value is True else f"--{name} {value}"
