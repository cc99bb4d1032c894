"""Run benchmarks: ``python -m benchmarks [NAME…] [--out DIR] [--quick]``.

``python -m benchmarks real --graph NAME`` makes a record of :mod:`benchmarks.real_graphs` anew.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import torch

from benchmarks.harness import Measurement, Options
from benchmarks.records import OtherWork, make_record, markdown_of, write_record
from crossgcn import BadInput, CrossGCNError

BENCHMARKS: dict[str, tuple[str, ...]] = {
    "cpu-step": ("cpu",),
    "gpu-step": ("cuda",),
    "hops": ("cpu", "cuda"),
    "own-tables": ("cpu",),
    "engines": ("cpu",),
}
"""The devices of each benchmark; its module has the same name."""

ROUNDS, QUICK_ROUNDS, FEWEST_ROUNDS = 7, 3, 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run benchmarks and return the exit code: 0 done, 1 failed, 2 bad input."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["real"]:
        from benchmarks.real_graphs import main as make_record_of_graph

        return make_record_of_graph(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="smaller problems, not judged")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="by default every possible one")
    parser.add_argument("--rounds", type=int, help=f"timing rounds (default {ROUNDS})")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the records")
    given = parser.parse_args(arguments)
    try:
        rounds = _check_rounds(given.rounds, given.quick)
        chosen = _choose(given.names, given.device)
    except BadInput as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    code = 0
    for name, device in chosen:
        options = Options(given.quick, rounds, given.seed, device)
        try:
            _run(name, options, given.out)
        except CrossGCNError as error:
            print(f"benchmarks: {name}: {error}", file=sys.stderr)
            code = max(code, error.exit_code)
    return code


def measure_of(name: str) -> Callable[[Options], Measurement]:
    """Return the function that measures a benchmark."""
    measure: Callable[[Options], Measurement]
    measure = import_module(f"benchmarks.{name.replace('-', '_')}").measure
    return measure


def _run(name: str, options: Options, out: Path | None) -> None:
    own = name if options.device == BENCHMARKS[name][0] else f"{name}-{options.device}"
    print(f"{own}:", file=sys.stderr)
    started, others = time.perf_counter(), OtherWork()
    measurement = measure_of(name)(options)
    seconds = time.perf_counter() - started
    record = make_record(own, measurement, options, seconds, others.cores())
    print(f"## {own}\n\n{markdown_of(record)}\n")
    if out is not None:
        print(json.dumps({"record": str(write_record(record, out))}), file=sys.stderr)


def _choose(names: Sequence[str], device: str | None) -> list[tuple[str, str]]:
    """Return the benchmarks to run, each with a device.

    Raises:
        BadInput: If a name is unknown, or if one that was asked for cannot run here.
    """
    for name in names:
        if name not in BENCHMARKS:
            raise BadInput(f"{name!r} is none of the benchmarks {', '.join(BENCHMARKS)}")
    chosen, reasons = [], []
    for name in names or BENCHMARKS:
        devices = [each for each in BENCHMARKS[name] if device in (None, each)]
        missing = {each: _why_not(name, each) for each in devices}
        possible = [(name, each) for each in devices if missing[each] is None]
        chosen += possible
        if not possible:
            reasons += [why for why in missing.values() if why] or [f"{name} has no {device}"]
    if reasons and names:
        raise BadInput("; ".join(reasons))
    for reason in reasons:
        print(f"skipped: {reason}", file=sys.stderr)
    return chosen


def _why_not(name: str, device: str) -> str | None:
    if device == "cuda" and not torch.cuda.is_available():
        return f"{name} needs a CUDA GPU, and torch {torch.__version__} sees none"
    if name == "engines" and not (find_spec("ibis") and find_spec("duckdb")):
        return f"{name} needs Ibis and DuckDB: pip install 'crossgcn[duckdb]'"
    return None


def _check_rounds(rounds: int | None, quick: bool) -> int:
    fewest = 1 if quick else FEWEST_ROUNDS
    rounds = (QUICK_ROUNDS if quick else ROUNDS) if rounds is None else rounds
    if rounds < fewest:
        raise BadInput(f"--rounds is {rounds}; give at least {fewest}")
    return rounds


if __name__ == "__main__":
    sys.exit(main())
