"""Run the benchmarks: the entry point of ``crossgcn bench``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from crossgcn.cli.running import make_folder
from crossgcn.errors import BadInput, CrossGCNError, WorkFailed, unknown_name
from research.benchmarks.catalogue import BENCHMARKS
from research.benchmarks.harness import command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run benchmarks and return the exit code: 0 done, 1 failed, 2 bad input."""
    parser = argparse.ArgumentParser(prog="crossgcn bench")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", action="store_true", dest="as_json")
    given = parser.parse_args(arguments)
    try:
        failed = _run(given)
    except CrossGCNError as error:
        if given.as_json:
            print(json.dumps({"error": str(error), "exit_code": error.exit_code}))
        print(f"crossgcn: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    if failed:
        print(f"crossgcn: {'; '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _run(given: argparse.Namespace) -> list[str]:
    """Run the selected benchmarks and return a message for each failure."""
    for name in given.names:
        if name not in BENCHMARKS:
            raise unknown_name("benchmark", name, BENCHMARKS)
    started = time.perf_counter()
    console = Console(stderr=given.as_json)
    if not console.is_terminal:
        console = Console(stderr=given.as_json, width=140)
    rounds = command.check_rounds(given.rounds, given.quick)
    chosen = [name for name in BENCHMARKS if name in (given.names or BENCHMARKS)]
    skipped = _skip(chosen, asked=bool(given.names), console=console)
    running = [name for name in chosen if name not in skipped]
    for name in running:
        command.check_target(given.out / f"{name}.json", quick=given.quick)
    make_folder(given.out)
    records: list[command.Record] = []
    failed = []
    for name in running:
        try:
            measure = command.load_measure(name)
            record = command.conduct(
                name, measure, quick=given.quick, rounds=rounds, seed=given.seed
            )
        except WorkFailed as error:
            failed.append(f"{name}: {error}")
            continue
        command.write_record(record, given.out / f"{name}.json")
        command.show_record(record, console)
        console.print()
        records.append(record)
    summary: dict[str, Any] = {
        "benchmarks": records,
        "skipped": skipped,
        "failed": failed,
        "out": str(given.out),
        "wall_seconds": time.perf_counter() - started,
    }
    if given.as_json:
        print(json.dumps(summary, ensure_ascii=False))
    else:
        console.print(f"Written to {given.out}.", highlight=False)
    return failed


def _skip(names: Sequence[str], *, asked: bool, console: Console) -> dict[str, str]:
    """Return the benchmarks that cannot run on this machine, with the reason.

    Raises:
        BadInput: If such a benchmark was selected by name, or if no benchmark can run.
    """
    reasons = {name: command.why_not(name) for name in names}
    skipped = {name: reason for name, reason in reasons.items() if reason is not None}
    if skipped and (asked or len(skipped) == len(names)):
        raise BadInput("; ".join(skipped.values()))
    for reason in skipped.values():
        console.print(f"[yellow]skipped:[/yellow] {reason}", highlight=False)
    return skipped


if __name__ == "__main__":
    sys.exit(main())
