"""Measured steps, read from the records of benchmarks, for the cost model to be fitted to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from crossgcn.evaluation.step_work import StepShape, Work, full_batch, step_work

__all__ = ["CostPoint", "Records", "gpu_points", "measured_memory_rate"]

Record = Mapping[str, Any]
Records = Mapping[str, Record]

GROWTH_NODES: Final = 20_000
GROWTH: Final[Mapping[str, Mapping[str, int]]] = {
    "K": {"stored": 64},
    "D": {"stored": 0},
    "nnz": {"features": 2048},
    "E": {},
    "edges": {"stored": 4},
}
"""What stays the same on each axis of ``benchmarks/growth.py``, where it is not as usual."""
_USUAL: Final = {
    "degree": 4,
    "features": 512,
    "stored": 16,
    "classes": 8,
    "order": 2,
    "hidden": 128,
}
_ARGUMENT: Final = {
    "K": "order",
    "D": "features",
    "nnz": "stored",
    "E": "hidden",
    "edges": "degree",
}

BIG: Final = {"features": 100, "classes": 47}
"""Of ``benchmarks/big_graph.py``, whose cases say the rest."""
BIG_TRAIN_SHARE: Final = 0.6

WIDE: Final = {"nodes": 100_000, "classes": 8}
"""Of ``benchmarks/wide_features.py``."""


@dataclass(frozen=True)
class CostPoint:
    """One measured step.

    Attributes:
        record: The benchmark's name.
        case: Which of its cases.
        precision: ``fp32``, ``tf32`` or ``bf16``.
        parts: What the step must do.
        seconds: How long it took.
        shape: Its sizes, where memory was measured.
        peak_bytes: The most it held.
    """

    record: str
    case: str
    precision: str
    parts: tuple[Work, ...]
    seconds: float
    shape: StepShape | None = None
    peak_bytes: float | None = None

    @property
    def value_bytes(self) -> int:
        """Of a feature or an activation."""
        return 2 if self.precision == "bf16" else 4


def gpu_points(records: Records) -> list[CostPoint]:
    """Every step of ours that was measured on a GPU, and whose sizes are known.

    Args:
        records: Of benchmarks, by name; those that are missing or a quick look are left out.
    """
    readers = {
        "gpu-step": _steps,
        "gpu-growth": _growth,
        "gpu-big-graph": _big_graph,
        "gpu-wide-features": _wide_features,
    }
    points: list[CostPoint] = []
    for name, read in readers.items():
        record = records.get(name)
        if record is not None and not record["quick"]:
            points += read(record)
    return points


def measured_memory_rate(records: Records) -> float | None:
    """Bytes per second of a large copy, where that was measured."""
    record = records.get("gpu-step")
    if record is None or record["quick"]:
        return None
    return float(record["ceilings"]["fp32"]["memory_bytes_per_second"])


def _medians(record: Record) -> dict[tuple[str, str], float]:
    return {(each["case"], each["side"]): each["median"] for each in record["timings"]}


def _steps(record: Record) -> Iterator[CostPoint]:
    """Ours and our GCN, whose least work the record holds."""
    medians = _medians(record)
    names = ("name", "operations", "memory_bytes", "gathered_bytes")
    for entry in record["roofline"]:
        case, order = entry["case"], entry["order"]
        seconds = medians.get((case, "ours" if order == 2 else "our GCN"))
        if seconds is not None:
            parts = tuple(Work(*(part[name] for name in names)) for part in entry["parts"])
            precision = case.split(",")[0]
            yield CostPoint("gpu-step", f"{case}, K {order}", precision, parts, seconds)


def _growth(record: Record) -> Iterator[CostPoint]:
    for curve in record["growth"]:
        name = curve["name"]
        for size, seconds, held in zip(curve["sizes"], curve["time"], curve["memory"], strict=True):
            sizes = {**_USUAL, **GROWTH[name], _ARGUMENT[name]: size}
            shape = full_batch(
                GROWTH_NODES,
                drawn_entries(GROWTH_NODES, sizes["degree"]),
                sizes["features"],
                sizes["hidden"],
                sizes["classes"],
                sizes["order"],
                stored=sizes["stored"] or None,
            )
            yield _point("gpu-growth", f"{name} {size}", "fp32", shape, seconds, held)


def _big_graph(record: Record) -> Iterator[CostPoint]:
    pattern = r"([\d,]+) nodes, ([\d,]+) edges, E (\d+), (\w+)"
    for (case, side), seconds in _medians(record).items():
        found = re.fullmatch(pattern, case)
        if side != "ours" or found is None:
            continue
        nodes, edges, hidden = (int(found[place].replace(",", "")) for place in (1, 2, 3))
        shape = full_batch(
            nodes,
            2 * edges + nodes,
            BIG["features"],
            hidden,
            BIG["classes"],
            2,
            train_share=BIG_TRAIN_SHARE,
        )
        held = record["peak_bytes"].get(case)
        yield _point("gpu-big-graph", case, found[4], shape, seconds, held)


def _wide_features(record: Record) -> Iterator[CostPoint]:
    """Columns that never occur cost nothing, so those that do are the features."""
    pattern = r"([\d,]+) entries in ([\d,]+) of [\d,]+ columns, ([\d,]+) directed edges"
    found = next(filter(None, (re.search(pattern, note) for note in record["notes"])), None)
    if found is None:
        return
    stored, used, edges = (int(found[place].replace(",", "")) for place in (1, 2, 3))
    nodes, classes = WIDE["nodes"], WIDE["classes"]
    for (case, side), seconds in _medians(record).items():
        width = re.search(r"E (\d+)", case)
        if side == "ours" and width is not None:
            shape = full_batch(
                nodes, edges + nodes, used, int(width[1]), classes, 2, stored=round(stored / nodes)
            )
            held = record["peak_bytes"].get("ours")
            yield _point("gpu-wide-features", case, "fp32", shape, seconds, held)


def _point(
    record: str, case: str, precision: str, shape: StepShape, seconds: float, held: float | None
) -> CostPoint:
    parts = tuple(step_work(shape, 2 if precision == "bf16" else 4))
    return CostPoint(record, case, precision, parts, seconds, shape, held)


def drawn_entries(nodes: int, degree: int) -> int:
    """Entries of a graph whose pairs are drawn at random; a pair drawn twice counts once.

    Args:
        nodes: How many nodes, each with a self-loop.
        degree: Neighbours of a node, about.
    """
    pairs = nodes * (nodes - 1) / 2
    return round(-2 * pairs * math.expm1(-(nodes * degree / 2) / pairs)) + nodes
