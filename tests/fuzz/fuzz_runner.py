"""Damage files that a user can be handed, many times, and count what the commands do with them.

``make test-fuzz`` continues ``results/fuzz.json`` until every kind of file has had its number of
mutations. Mutation ``n`` of a kind is the same in every run.

A mutation is *refused* (exit code 1 or 2 and a message), or its answer is *identical* to that of
the undamaged file or *different* from it. It must not end in a *traceback*, *crash* or *hang*.
Commands run in a process that has imported everything; only a crash or a hang costs a new one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from fuzz_kinds import KINDS, Answer, Kind, make_run

from crossgcn.training.records import describe_environment

OUTCOMES = ("refused", "identical", "different", "traceback", "crash", "hang")
CHUNK, PATIENCE, MEMORY = 500, 60.0, 4 << 30
FAILED, FAILURE = 3, Path(tempfile.gettempdir(), "fuzz-failed.txt")
PLACE = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def work(kind: Kind, name: str, numbers: range, report: Callable[[dict[str, Any]], None]) -> None:
    """Make the files once, then damage a copy for every number, in the current folder."""
    shutil.rmtree("files", ignore_errors=True)
    Path("files").mkdir()
    kind.make()
    Path("files").rename("sound")
    resource.setrlimit(resource.RLIMIT_AS, (_memory() + MEMORY, -1))
    expected: dict[Callable[[], Answer], Answer] = {}
    for number in numbers:
        random = Random(f"{name} {number}")
        shutil.copytree("sound", "files")
        ask_it = kind.asks[number % len(kind.asks)]
        if ask_it not in expected:
            expected[ask_it] = ask_it()
            assert expected[ask_it][0] == 0, expected[ask_it]
            shutil.rmtree("files")
            shutil.copytree("sound", "files")
        where = kind.damage(random)
        said = ""
        try:
            code, said = ask_it()
            if code in (1, 2) and said:
                outcome = "refused"
            elif code == 0:
                outcome = "identical" if said == expected[ask_it][1] else "different"
            else:
                outcome, said = "traceback", f"exit code {code}: {said}"
        except BaseException:
            outcome, said = "traceback", traceback.format_exc()
        report({"number": number, "outcome": outcome, "where": where, "said": said[-1500:]})
        _remove("files")


def _remove(name: str) -> None:
    """Remove a folder that may hold anything."""
    shutil.rmtree(name, ignore_errors=True)
    if os.path.lexists(name):
        Path(name).unlink()


def _memory() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def outcomes(name: str, numbers: range) -> Iterator[dict[str, Any]]:
    """Yield what each mutation of a kind did; a crash ends one process and starts another."""
    left = numbers
    while left:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _in_child(name, left, writing)
        os.close(writing)
        ended = ""
        with os.fdopen(reading, "rb") as pipe:
            while not ended:
                ready, _, _ = select.select([pipe], [], [], PATIENCE)
                line = pipe.readline() if ready else b""
                if line:
                    found = json.loads(line)
                    left = range(found["number"] + 1, numbers.stop)
                    yield found
                else:
                    ended = "crash" if ready else "hang"
                    if ended == "hang":
                        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        assert status != FAILED << 8, f"the harness failed: see {FAILURE}"
        if left and (ended == "hang" or status != 0):
            yield {"number": left.start, "outcome": ended, "said": f"status {status}"}
            left = range(left.start + 1, numbers.stop)


def _in_child(name: str, numbers: range, pipe: int) -> None:
    status = FAILED
    warnings.resetwarnings()
    try:
        with tempfile.TemporaryDirectory(prefix="fuzz-", dir=PLACE) as folder:
            os.chdir(folder)
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 2)

            def report(found: dict[str, Any]) -> None:
                os.write(pipe, json.dumps(found).encode() + b"\n")

            work(KINDS[name], name, numbers, report)
            status = 0
            os.chdir("/")
    except BaseException:
        FAILURE.write_text(traceback.format_exc())
    finally:
        os._exit(status)


def import_all() -> None:
    """Import in this process what its children need."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=PLACE) as folder:
        os.chdir(folder)
        Path("files").mkdir()
        make_run()
        for asks in {kind.asks for kind in KINDS.values() if kind.make is make_run}:
            for ask_it in set(asks):
                ask_it()
        os.chdir(before)


def is_bad(kind: Kind, outcome: str) -> bool:
    """Return whether an outcome breaks a promise."""
    return outcome in ("traceback", "crash", "hang") or (
        kind.has_checksums and outcome == "different"
    )


def main() -> int:
    """Continue the record until every kind has its mutations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, help="mutations of every kind [default: by kind]")
    parser.add_argument("--out", type=Path, default=Path("results/fuzz.json"))
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    chosen = parser.parse_args()
    record: dict[str, Any] = {"kinds": {}}
    if chosen.out.exists():
        record = json.loads(chosen.out.read_text())
    num_bad = 0
    import_all()
    for name in chosen.kinds:
        empty = {"mutations": 0, "has_checksums": KINDS[name].has_checksums}
        about = record["kinds"].setdefault(name, empty | dict.fromkeys(OUTCOMES, 0) | {"bad": []})
        count = chosen.count or KINDS[name].mutations
        while about["mutations"] < count:
            start = about["mutations"]
            for found in outcomes(name, range(start, min(start + CHUNK, count))):
                about["mutations"] += 1
                about[found["outcome"]] += 1
                if is_bad(KINDS[name], found["outcome"]):
                    about["bad"].append(found)
            record |= {"command": "make test-fuzz", "environment": describe_environment()}
            chosen.out.write_text(json.dumps(record, indent=1) + "\n")
        num_bad += len(about["bad"])
        print(name, {outcome: about[outcome] for outcome in OUTCOMES}, flush=True)
    return 1 if num_bad else 0


if __name__ == "__main__":
    sys.exit(main())
