"""The record of a benchmark: results, environment and options in one JSON file, and as a table."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import torch

from benchmarks.floors import floor_of, judge
from benchmarks.harness import Measurement, Options, Result, available_cores, quartiles
from crossgcn import BadInput, __version__

Record = dict[str, Any]

BUSY = 0.1
"""Cores that other processes may keep busy without a note."""


def make_record(
    name: str, measurement: Measurement, options: Options, seconds: float, others: float | None
) -> Record:
    """Combine a measurement with its environment and options.

    Args:
        name: Name of the benchmark.
        seconds: Duration of the benchmark.
        others: Cores that other processes kept busy meanwhile, if known.
    """
    notes = list(measurement.notes)
    if others is not None and others > BUSY:
        notes.append(
            f"other work kept {others:.1f} of {available_cores()} cores busy meanwhile, which "
            "slows sides with several threads most: repeat this on a quiet machine"
        )
    return {
        "benchmark": name,
        **asdict(options),
        "wall_seconds": seconds,
        "hardware": describe_hardware(),
        "environment": describe_environment(),
        "results": [asdict(result) for result in measurement.results],
        "timings": [
            {**asdict(timing), "median": timing.median, "quartiles": quartiles(timing.seconds)}
            for timing in measurement.timings
        ],
        "checks": [asdict(check) for check in measurement.checks],
        "notes": notes,
        "other_work_cores": others,
    }


def write_record(record: Record, folder: Path) -> Path:
    """Write a record as ``NAME.json`` and return its path.

    Raises:
        BadInput: If a quick record would replace a full one.
    """
    path = folder / f"{record['benchmark']}.json"
    if record["quick"] and path.exists() and not json.loads(path.read_bytes()).get("quick"):
        raise BadInput(f"{path} is a full record, which --quick must not replace: other --out")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def markdown_of(record: Mapping[str, Any]) -> str:
    """Render a record as Markdown: the machine, the results and the notes.

    Ratios to several peers are a table of cases by peers; other results are a list.
    """
    names = [each.name for each in fields(Result)]
    results = [Result(**{name: entry[name] for name in names}) for entry in record["results"]]
    cases = list(dict.fromkeys(result.case for result in results))
    columns = list(dict.fromkeys(result.what for result in results))
    is_grid = len(results) > 2 * max(len(cases), len(columns))
    table = _grid(record, results, cases, columns) if is_grid else _list(record, results)
    notes = "\n".join(f"- {note}" for note in record["notes"])
    return "\n\n".join(part for part in (_machine(record), table, notes) if part)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Render a table whose first column is text and whose others are numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


class OtherWork:
    """Measure the number of cores used by other processes, from construction on.

    Other load slows a side with many threads far more than a side with one, so it does not
    cancel in a ratio.
    """

    def __init__(self) -> None:
        self._clock, self._busy = time.monotonic(), _busy_seconds()

    def cores(self) -> float | None:
        """Return the mean number of cores used by other processes; ``None`` if unknown."""
        now, seconds = _busy_seconds(), time.monotonic() - self._clock
        if now is None or self._busy is None or seconds <= 0:
            return None
        return max(0.0, (now - self._busy) / seconds)


def describe_hardware() -> dict[str, Any]:
    """Return processor, available cores, memory, and the GPU if there is one."""
    gpu = torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None
    return {
        "processor": _processor(),
        "cores": available_cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpu": None if gpu is None else gpu.name,
        "gpu_memory_bytes": None if gpu is None else gpu.total_memory,
    }


def describe_environment() -> dict[str, Any]:
    """Return versions, threads and commit; ``-modified`` marks a commit with changes.

    The environment variable ``CROSSGCN_COMMIT`` is the commit of a copy without a history.
    """
    names = ("numpy", "scipy", "scikit-learn", "torch", "torch-geometric")
    installed = {each.metadata["Name"]: each.version for each in distributions()}
    asked = ("git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=-modified")
    commit = os.environ.get("CROSSGCN_COMMIT")
    if commit is None and shutil.which("git"):
        done = subprocess.run(asked, cwd=Path(__file__).parent, capture_output=True, text=True)
        commit = done.stdout.strip() or None
    versions = {name: installed.get(name) for name in names}
    return {
        "versions": {"python": platform.python_version(), "crossgcn": __version__, **versions},
        "threads": torch.get_num_threads(),
        "commit": commit,
    }


def _grid(
    record: Mapping[str, Any], results: Sequence[Result], cases: list[str], columns: list[str]
) -> str:
    found = {(result.case, result.what): result for result in results}
    rows = []
    for case in cases:
        own = (found.get((case, column)) for column in columns)
        cells = ["" if result is None else _cell(record, result) for result in own]
        rows.append([case, _milliseconds(record, case), *cells])
    return markdown_table(["", "our step", *columns], rows)


def _list(record: Mapping[str, Any], results: Sequence[Result]) -> str:
    rows = []
    for each in results:
        spread = ""
        if each.low is not None and each.high is not None and each.low < each.high:
            spread = f"{number(each.low, '')} – {number(each.high, '')}"
        rows.append([each.case, each.what, _cell(record, each), spread])
    return markdown_table(["case", "what", "measured", "quartiles"], rows)


def _cell(record: Mapping[str, Any], result: Result) -> str:
    place = (record["benchmark"], result.what, result.case)
    text, floor = number(result.value, result.unit), floor_of(*place)
    if record["quick"] or not floor:  # a quick record measures a smaller problem
        return text
    verdict = judge(*place, result.value)
    return f"{text} ({floor})" if verdict == "met" else f"**{text}, not {floor}**"


def _milliseconds(record: Mapping[str, Any], case: str) -> str:
    own = [
        timing["median"]
        for timing in record["timings"]
        if timing["case"] == case and timing["side"].partition(",")[0] == "ours"
    ]
    return f"{1e3 * min(own):.3g} ms" if own else ""


def number(value: float, unit: str) -> str:
    """Return a value with three digits and its unit."""
    text = f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return text + (unit if unit in ("×", "") else f" {unit}")


def _machine(record: Mapping[str, Any]) -> str:
    hardware, environment = record["hardware"], record["environment"]
    gpu = f"{hardware['gpu']}; " if record["device"] == "cuda" else ""
    commit = environment["commit"] or "unknown"
    return (
        f"{gpu}{hardware['processor']}, {hardware['cores']} cores. {record['rounds']} rounds, "
        f"torch {environment['versions']['torch']}, PyG "
        f"{environment['versions']['torch-geometric']}, commit {commit[:12]}{commit[40:]}."
    )


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    named = (line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line)
    return next(named, "") or platform.processor() or platform.machine()


def _busy_seconds() -> float | None:
    """Return the CPU seconds of all processes but this one and its children that ended."""
    try:
        columns = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    idle = (3, 4)  # idle time and waiting for disks
    ticks = sum(int(value) for place, value in enumerate(columns) if place not in idle)
    own = os.times()
    return ticks / os.sysconf("SC_CLK_TCK") - sum(own[:4])
