"""``python -m paper``: the paper's tables and figures, with our numbers beside them."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.progress import Progress

from crossgcn import BadInput, WorkFailed
from paper.cells import Result, read_result
from paper.items import ITEMS
from paper.plan import plan_item
from paper.report import Report
from paper.run import Runner
from paper.verdicts import evaluate_claims


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    names = "\n".join(f"  {name:15} {each.source}, {each.title}" for name, each in ITEMS.items())
    parser = argparse.ArgumentParser(
        prog="python -m paper",
        description="Reproduce the paper's tables and figures, with a verdict for every number.\n"
        "Writes report.html and report.md. Finished runs in --out are not repeated.",
        epilog=f"items:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("items", nargs="*", metavar="ITEM", help="tables and figures, see below [default: all]")
    add("--quick", action="store_true", help="minutes: few splits, few epochs, few settings")
    add("--out", type=Path, default=Path("results/paper"), help="folder [default: %(default)s]")
    add("--from-records", action="store_true", help="only write the report of the items in --out")
    add("--splits", choices=("authors", "random"), help="[default: authors, if they are here]")
    add("--datasets", type=lambda text: text.split(","), help="only these, separated by commas")
    add("--epochs", type=int, help="instead of each item's own")
    add("--num-splits", type=int, help="instead of each item's own")
    add("--seed", type=int, default=0, help="of the drawn splits and of every run")
    cores = os.cpu_count() or 1
    add("--workers", type=int, default=cores, help="processes on a CPU [default: one per core]")
    add("--threads", type=int, default=1, help="threads of each process")
    add("--device", choices=("cpu", "cuda", "auto"), default="cpu")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    arguments = _arguments(given)
    unknown = [name for name in arguments.items if name not in ITEMS]
    if unknown:
        print(f"paper: no item {unknown[0]!r}; choose from {', '.join(ITEMS)}", file=sys.stderr)
        return 2
    try:
        return _run(arguments)
    except (BadInput, WorkFailed) as error:
        print(f"paper: {error}", file=sys.stderr)
        return 2 if isinstance(error, BadInput) else 1


def _run(arguments: argparse.Namespace) -> int:
    started, out = time.perf_counter(), arguments.out
    names = [name for name in ITEMS if not arguments.items or name in arguments.items]
    results: dict[str, Result] = {
        name: read_result(out / f"{name}.json", ITEMS[name])
        for name in ITEMS
        if (out / f"{name}.json").exists()
    }
    if arguments.from_records:
        if not results:
            raise BadInput(f"{out} has no records of items; run them first")
        names = []
    else:
        given = {name: getattr(arguments, name) for name in ("epochs", "num_splits", "seed")}
        overrides = {name: value for name, value in given.items() if value is not None}
        choices = {name: getattr(arguments, name) for name in ("quick", "splits", "datasets")}
        plans = {name: plan_item(ITEMS[name], **choices, **overrides) for name in names}
        if not any(plan.jobs for plan in plans.values()):
            lines = dict.fromkeys(line for plan in plans.values() for line in plan.skipped)
            raise BadInput(f"none of these can be run here: {'; '.join(lines)}")
        out.mkdir(parents=True, exist_ok=True)
        settings = {name: getattr(arguments, name) for name in ("workers", "threads", "device")}
        runner = Runner(out, **settings)
        for name, plan in plans.items():
            for line in (*plan.shortened, *plan.skipped):
                print(f"{name}: {line}")
            results[name] = runner.run(plan, Progress())
            results[name].write(out / f"{name}.json")
            Report([results[each] for each in ITEMS if each in results]).write(out)
            counted = Counter(claim.outcome for claim in evaluate_claims(results[name]))
            words = ", ".join(f"{count} {outcome}" for outcome, count in counted.items())
            print(f"{name}: {len(results[name].measured)} numbers; claims: {words or 'none'}")
    report = Report([results[each] for each in ITEMS if each in results])
    report.write(out)
    counts = ", ".join(f"{count} {name}" for name, count in report.counts.items() if count)
    print(f"Numbers of the paper: {counts or 'none'}.")
    print(f"{time.perf_counter() - started:.0f} s. Read {out / 'report.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
