"""What benchmarks find, and what they are held to."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from crossgcn.errors import BadInput, unknown_name
from crossgcn.reports.benchmark_names import BENCHMARKS

__all__ = ["BenchmarkResult", "Floor", "Floors", "read_floors"]

Unit = Literal["×", "%", "slope", "points", "relative error"]
Verdict = Literal[
    "aim met", "floor met", "floor missed", "floor missed, aim met", "below the aim", "—"
]


@dataclass(frozen=True)
class BenchmarkResult:
    """One number that a benchmark exists for.

    Attributes:
        case: What it was measured on, such as ``citeseer`` or ``fp32, E 32``.
        what: The other side of a ratio, or the quantity.
        value: The median over the rounds.
        unit: Of ``value``.
        low: The lower quartile over the rounds, where there are several.
        high: The upper one.
        aim: What it should reach, where only the measurement can tell.
    """

    case: str
    what: str
    value: float
    unit: Unit = "×"
    low: float | None = None
    high: float | None = None
    aim: float | None = None


@dataclass(frozen=True)
class Floor:
    """What one result is held to.

    Attributes:
        floor: What it must reach, if anything.
        aim: What it hopes for, if anything.
        at_most: Whether small is good.
    """

    floor: float | None = None
    aim: float | None = None
    at_most: bool = False

    def judge(self, value: float) -> Verdict:
        """Where a value stands; an aim that was measured may be easier than the floor."""
        reached = self._reaches(value, self.aim)
        if self.floor is not None and not self._reaches(value, self.floor):
            return "floor missed, aim met" if reached else "floor missed"
        if reached:
            return "aim met"
        if self.floor is not None:
            return "floor met"
        return "—" if self.aim is None else "below the aim"

    def _reaches(self, value: float, bound: float | None) -> bool:
        if bound is None:
            return False
        return value <= bound if self.at_most else value >= bound


class Floors:
    """Floors and aims of all benchmarks.

    Args:
        table: By benchmark, result and case.
    """

    def __init__(self, table: Mapping[tuple[str, str, str], Floor]) -> None:
        self.table = table

    def of(self, benchmark: str, result: BenchmarkResult) -> Floor:
        """What a result is held to; an aim that was measured with it counts."""
        found = self.table.get((benchmark, result.what, result.case), Floor())
        at_most = found.at_most or result.what.startswith("over ")
        return Floor(found.floor, found.aim if result.aim is None else result.aim, at_most)


def read_floors(path: Path) -> Floors:
    """Read ``floors.toml``.

    Raises:
        BadInput: An unknown benchmark or key, which would otherwise hold nothing to anything.
    """
    table: dict[tuple[str, str, str], Floor] = {}
    for benchmark, results in tomllib.loads(path.read_text(encoding="utf-8")).items():
        if benchmark not in BENCHMARKS:
            raise unknown_name(f"benchmark in {path}", benchmark, BENCHMARKS)
        for what, entry in results.items():
            _check_keys(entry, f"{path}: {benchmark}, {what}")
            floors, aims = entry.get("floor", {}), entry.get("aim", {})
            for case in floors | aims:
                table[benchmark, what, case] = Floor(
                    floors.get(case), aims.get(case), entry.get("at_most", False)
                )
    return Floors(table)


def _check_keys(keys: Iterable[str], where: str) -> None:
    for key in keys:
        if key not in ("floor", "aim", "at_most"):
            raise BadInput(f"{where} has {key!r}; give floor, aim and at_most only")
