"""Disturb commands while they run, let them run again, and compare the results.

``make test-faults`` continues ``results/faults.json`` until every fault has had its trials. A trial
starts a command in a process that has imported everything, disturbs it, notes how it ended, and
runs it again undisturbed (with ``--resume`` where a command has that). Then every result must be
the one of an undisturbed run, and no temporary file may be left.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from conftest_fixtures import make_small_graph, run_command
from forked_commands import PATIENCE, Setup, cpu_seconds, read_said, start, wait

from crossgcn.data.graph_file import save_graph
from crossgcn.training.records import describe_environment

PLACE = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

TRAIN = ("--model", "cross-gcn", "--epochs", "3", "--workers", "1", "--out", "out")
SPLITS = ("--splits", "stratified", "--num-splits", "2")
TWO = ("--models", "gcn,cross-gcn", *SPLITS, "--epochs", "2", "--workers", "1", "--out", "out")
TABLES = ("edges.csv", "--nodes", "nodes.csv", "--target", "kind")
TRIALS = ("--trials", "2", "--epochs", "2", "--workers", "1", "--out", "out")


@dataclass(frozen=True)
class Command:
    """What is run, what continues it, and how often it is tried compared with others."""

    arguments: tuple[str, ...]
    again: tuple[str, ...] = ()
    weight: int = 6


COMMANDS = {
    "train": Command(("train", "small.npz", *TRAIN, *SPLITS), ("--resume",)),
    "train in batches": Command(
        ("train", "small.npz", *TRAIN, *SPLITS, "--batch-size", "16", "--fanout", "4"),
        ("--resume",),
    ),
    "resume": Command(("train", "small.npz", *TRAIN, *SPLITS, "--resume")),
    "predict": Command(("predict", "run", "--out", "out.csv")),
    "explain": Command(("explain", "run", "--csv", "out.csv", "--out", "out"), weight=1),
    "report": Command(("report", "run", "--out", "out.html"), weight=1),
    "data import": Command(("data", "import", *TABLES, "--out", "out")),
    "compare": Command(("compare", "small.npz", *TWO), ("--resume",)),
}

# ------------------------------------------------------------------------------------- the faults


@dataclass
class Trial:
    """A command in a folder of its own, and what undisturbed runs of it were like."""

    command: Command
    folder: Path
    random: Random
    seconds: float
    written: int

    def start(self, setup: Setup | None = None) -> int:
        """Start the command."""
        return start(self.command.arguments, self.folder, setup)

    def sent(self, *signals: int) -> int | None:
        """Send signals at a random moment of the run, 50 ms apart."""
        child = self.start()
        moment = self.random.uniform(0, 1.05 * self.seconds)
        end = time.monotonic() + PATIENCE
        with suppress(OSError, IndexError):
            while cpu_seconds(child) < moment and time.monotonic() < end:
                if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    break
                time.sleep(0.001)
            for at, each in enumerate(signals):
                time.sleep(0.05 * (at > 0))
                os.kill(child, each)
        return wait(child)

    def limited(self, which: int, limit: int) -> int | None:
        """Run with a limit of the system."""
        return wait(self.start(lambda: resource.setrlimit(which, (limit, limit))))


def kill(trial: Trial) -> int | None:
    """Half of the time at a random moment, otherwise at a random change of the file system."""
    if trial.random.random() < 0.5:
        return trial.sent(signal.SIGKILL)
    left = trial.random.randint(1, 3 * trial.written)

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & 0o3
        if writes or event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return wait(trial.start(lambda: sys.addaudithook(count)))


def terminate(trial: Trial) -> int | None:
    return trial.sent(trial.random.choice((signal.SIGTERM, signal.SIGINT)))


def stop_and_continue(trial: Trial) -> int | None:
    return trial.sent(signal.SIGSTOP, signal.SIGCONT)


def full_disk(trial: Trial) -> int | None:
    """A file system of its own that is too small for a part of what is written."""
    folder = trial.folder
    inputs, outputs = size_of(folder), 4096 * trial.written
    own = folder.with_name(f"{folder.name}-inputs")
    folder.rename(own)
    folder.mkdir()
    size = inputs + trial.random.randrange(outputs + 4096)
    mount("-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(folder))
    shutil.copytree(own, folder, dirs_exist_ok=True)
    shutil.rmtree(own)
    code = wait(trial.start())
    mount("-o", "remount,size=256m", str(folder))
    return code


def read_only_folder(trial: Trial) -> int | None:
    mount("--bind", str(trial.folder), str(trial.folder))
    mount("-o", "remount,bind,ro", str(trial.folder))
    code = wait(trial.start())
    mount("-o", "remount,bind,rw", str(trial.folder))
    return code


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def can_mount() -> bool:
    """Return whether file systems can be mounted; ``unshare -Umr`` allows it to everybody."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            mount("-t", "tmpfs", "-o", "size=4096", "tmpfs", folder)
        except (OSError, subprocess.CalledProcessError):
            return False
        subprocess.run(["umount", folder], check=True)
    return True


def file_size_limit(trial: Trial) -> int | None:
    return trial.limited(resource.RLIMIT_FSIZE, trial.random.choice((0, 64, 512, 2048, 8192)))


def descriptor_limit(trial: Trial) -> int | None:
    return trial.limited(resource.RLIMIT_NOFILE, trial.random.randint(3, 24))


def memory_limit(trial: Trial) -> int | None:
    pages = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return trial.limited(resource.RLIMIT_AS, pages + trial.random.randrange(16 << 20, 64 << 20))


def two_writers(trial: Trial) -> int | None:
    children = [trial.start(), trial.start()]
    codes = [wait(child) for child in children]
    return next((code for code in codes if code not in (0, 2)), min(codes, key=lambda c: c or 0))


def clock_moved_back(trial: Trial) -> int | None:
    """Files come from the future, and the clock falls by days at a random call."""
    for path in trial.folder.rglob("*"):
        os.utime(path, (4e9, 4e9))
    left, usual = trial.random.randint(0, 40), (time.time, time.time_ns)

    def back() -> float:
        nonlocal left
        left -= 1
        return usual[0]() - (1e6 if left < 0 else 0)

    def setup() -> None:
        time.time, time.time_ns = back, lambda: int(back() * 1e9)

    return wait(trial.start(setup))


def closed_streams(trial: Trial) -> int | None:
    streams = trial.random.choice(((1,), (2,), (0, 1, 2)))
    is_pipe = trial.random.random() < 0.5
    reading, writing = os.pipe()
    os.close(reading)

    def setup() -> None:
        for stream in streams:
            os.dup2(writing, stream) if is_pipe else os.close(stream)

    code = wait(trial.start(setup))
    os.close(writing)
    return code


@dataclass(frozen=True)
class Fault:
    """A fault, its number of trials, and the exit codes it may end with besides 0, 1 and 2."""

    disturb: Callable[[Trial], int | None]
    trials: int
    codes: tuple[int, ...] = ()


# Libraries abort without memory, as the system kills: that is one more kill.
ABORTS = (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGKILL, 127)

FAULTS = {
    "kill": Fault(kill, 200, (-signal.SIGKILL,)),
    "terminate": Fault(terminate, 20, (130,)),
    "stop and continue": Fault(stop_and_continue, 20),
    "full disk": Fault(full_disk, 110),
    "file size limit": Fault(file_size_limit, 30),
    "read-only folder": Fault(read_only_folder, 20),
    "descriptor limit": Fault(descriptor_limit, 30),
    "memory limit": Fault(memory_limit, 30, ABORTS),
    "two writers": Fault(two_writers, 20),
    "clock moved back": Fault(clock_moved_back, 20),
    "closed streams": Fault(closed_streams, 20, (120,)),
}
MOUNTED = ("full disk", "read-only folder")

# ------------------------------------------------------------------------------------- the harness


def size_of(folder: Path) -> int:
    """Return the bytes of a folder's files on a file system of pages."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in files)


def results_of(folder: Path) -> dict[str, str]:
    """Return a hash of each result; of JSON, without times and hashes of files with times."""
    found = {}
    for path in sorted(folder.glob("out*")):
        for file in [path, *sorted(path.rglob("*"))]:
            if file.is_file() and "journal" not in file.name:
                content = file.read_bytes()
                if file.suffix == ".json":
                    content = json.dumps(_without_times(json.loads(content))).encode()
                if file.name != "epochs.csv":  # holds seconds
                    name = str(file.relative_to(folder))
                    found[name] = hashlib.sha256(content).hexdigest()
    return found


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        skipped = ("seconds", "sha256", "files", "time", "started", "finished")
        kept = {key: each for key, each in value.items() if not key.endswith(skipped)}
        return {key: _without_times(each) for key, each in kept.items()}
    return [_without_times(each) for each in value] if isinstance(value, list) else value


def left_overs(folder: Path) -> list[str]:
    """Return hidden files, which are temporary files and locks."""
    return [str(path.relative_to(folder)) for path in folder.rglob(".*")]


class Harness:
    """Folders to start from, and undisturbed results of each command."""

    def __init__(self, root: Path, names: tuple[str, ...] = tuple(COMMANDS)) -> None:
        self.root, self.names = root, names
        self.base = root / "base"
        self.base.mkdir()
        save_graph(self.base / "small.npz", make_small_graph())
        random = np.random.default_rng(0)
        nodes = {"id": range(40), "a": random.normal(size=40), "kind": ["x", "y"] * 20}
        pd.DataFrame(nodes).to_csv(self.base / "nodes.csv", index=False)
        ends = {"from": random.integers(0, 40, 90), "to": random.integers(0, 40, 90)}
        pd.DataFrame(ends).to_csv(self.base / "edges.csv", index=False)
        before = Path.cwd()
        os.chdir(self.base)
        assert run_command(*COMMANDS["train"].arguments).returncode == 0
        Path("out").rename("run")
        for name in names:  # in this process, which imports what its children need
            assert run_command(*COMMANDS[name].arguments).returncode == 0
            shutil.rmtree("out", ignore_errors=True)
        os.chdir(before)
        for path in self.base.glob("out*"):
            path.unlink()
        self.expected: dict[str, tuple[dict[str, str], float, int]] = {}
        for name in names:
            folder = self._copy(name)
            size = size_of(folder)
            start_of_run = os.times()
            self._run(COMMANDS[name].arguments, folder)
            times = zip(os.times()[2:4], start_of_run[2:4], strict=True)
            seconds = sum(after - before for after, before in times)
            written = (size_of(folder) - size) // 4096
            assert not left_overs(folder), left_overs(folder)
            self.expected[name] = (results_of(folder), seconds, written)
            shutil.rmtree(folder)

    def _run(self, arguments: tuple[str, ...], folder: Path) -> None:
        code = wait(start(arguments, folder))
        said = read_said()
        assert code == 0, (arguments, said)

    def _copy(self, name: str) -> Path:
        folder = self.root / "trial"
        shutil.copytree(self.base, folder)
        if name == "resume":  # one of its runs is missing
            shutil.copytree(folder / "run", folder / "out")
            shutil.rmtree(next((folder / "out").rglob("split-01")))
        if name in ("predict", "explain"):
            (folder / "out.csv").write_text("old\n")
        return folder

    def try_once(self, fault: str, number: int) -> dict[str, Any]:
        """Disturb a command, run it again, and return what happened."""
        names = [name for name in self.names for _ in range(COMMANDS[name].weight)]
        name = names[number * 7 % len(names)]
        command, (expected, seconds, written) = COMMANDS[name], self.expected[name]
        folder = self._copy(name)
        trial = Trial(command, folder, Random(f"{fault} {number}"), seconds, written)
        code = FAULTS[fault].disturb(trial)
        said = read_said()
        found: dict[str, Any] = {"command": name, "number": number, "code": code}
        found["ended"] = "finished" if code == 0 else "told" if code in (1, 2, 130) else "killed"
        bad = []
        if code is None:
            bad.append("hang")
        elif code not in (0, 1, 2, *FAULTS[fault].codes):
            bad.append("crash")
        if "Traceback" in said:
            bad.append("traceback")
        if code in (1, 2) and not said.strip() and "stream" not in fault:
            bad.append("silent")
        if name == "predict" and (folder / "out.csv").read_text() != "old\n":
            results = results_of(folder)["out.csv"]
            bad += [] if results == expected["out.csv"] else ["half a file"]
        if code != 0:
            again = wait(start((*command.arguments, *command.again), folder))
            # An import that was complete when its process ended is not made again.
            is_complete = name == "data import" and results_of(folder) == expected
            bad += [] if again == 0 or is_complete else ["not continued"]
            said += f"\n--- again: {again}\n{read_said()}"
        after = results_of(folder)
        names_of_files = sorted(expected.keys() | after.keys())
        found["differences"] = [x for x in names_of_files if expected.get(x) != after.get(x)]
        found["left_over"] = left_overs(folder)
        bad += [key for key in ("differences", "left_over") if found[key]]
        found["bad"] = bad
        if bad:
            found["said"] = said[-1500:]
        if fault in MOUNTED:
            subprocess.run(["umount", str(folder)], check=True)
        shutil.rmtree(folder)
        return found


EMPTY = {"trials": 0, "finished": 0, "told": 0, "killed": 0, "differences": 0, "left_over": 0}


def add_trial(about: dict[str, Any], found: dict[str, Any]) -> None:
    """Add a trial to the counts of its fault."""
    about["trials"] += 1
    about[found["ended"]] += 1
    about["differences"] += bool(found["differences"])
    about["left_over"] += bool(found["left_over"])
    command = found["command"]
    about["commands"][command] = about["commands"].get(command, 0) + 1
    about["bad"] += [found] if found["bad"] else []


def main() -> int:
    """Continue the record until every fault has its trials."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/faults.json"))
    parser.add_argument("--faults", nargs="*", default=list(FAULTS), choices=list(FAULTS))
    parser.add_argument("--trials", type=int, help="of every fault [default: by fault]")
    chosen = parser.parse_args()
    out = chosen.out.absolute()
    record = json.loads(out.read_text()) if out.exists() else {"faults": {}}
    with tempfile.TemporaryDirectory(prefix="faults-", dir=PLACE) as root:
        harness = Harness(Path(root))
        wanted = {name: chosen.trials or FAULTS[name].trials for name in chosen.faults}
        if not can_mount():
            print(f"without mount ({', '.join(MOUNTED)}): unshare -Umr make test-faults")
            wanted = {name: trials for name, trials in wanted.items() if name not in MOUNTED}
        about = {
            name: record["faults"].setdefault(name, {**EMPTY, "commands": {}, "bad": []})
            for name in wanted
        }
        while left := {name: each for name, each in wanted.items() if about[name]["trials"] < each}:
            # All faults in turn, so that a record that was stopped has some of each.
            name = min(left, key=lambda name: about[name]["trials"] / left[name])
            add_trial(about[name], harness.try_once(name, about[name]["trials"]))
            record |= {"command": "make test-faults", "environment": describe_environment()}
            out.write_text(json.dumps(record, indent=1) + "\n")
        for name in wanted:
            counts = {key: about[name][key] for key in EMPTY}
            print(name, counts, len(about[name]["bad"]), "bad", flush=True)
    return 1 if any(about["bad"] for about in record["faults"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
