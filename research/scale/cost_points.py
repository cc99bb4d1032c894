"""Measured steps from the records of benchmarks, to fit the cost model to."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

INDEX_AND_WEIGHT = 8
"""Bytes of an edge or of a stored feature: a 32-bit column index and a 32-bit value."""

PARAMETER = 4
ADAM = 7
"""Values that Adam moves per parameter: the gradient is read, three others are read and written."""


@dataclass(frozen=True)
class StepShape:
    """Sizes of one step of a two-layer model.

    Attributes:
        inputs: Number of nodes whose features are read.
        hidden: Number of nodes whose hidden values are needed.
        targets: Number of training nodes.
        first_edges: Edges from inputs to hidden nodes, including self-loops.
        second_edges: Edges from hidden nodes to targets.
        features: Number of features, D.
        hidden_channels: E.
        classes: Number of classes.
        order: K.
        stored: Nonzero features per node if features are sparse; ``None`` if they are dense.
    """

    inputs: int
    hidden: int
    targets: int
    first_edges: int
    second_edges: int
    features: int
    hidden_channels: int
    classes: int
    order: int
    stored: int | None = None

    @property
    def parameters(self) -> int:
        """Return the number of weights of both layers, without biases."""
        return self.order * self.hidden_channels * (self.features + self.classes)


@dataclass(frozen=True)
class Work:
    """One part of a step.

    Attributes:
        name: Name of the part.
        operations: Multiplications and additions of its matrix product.
        memory_bytes: Bytes read from and written to memory, each value once.
        gathered_bytes: Bytes of the rows that edges or stored features gather.
    """

    name: str
    operations: int = 0
    memory_bytes: int = 0
    gathered_bytes: int = 0


def full_batch(
    nodes: int,
    entries: int,
    features: int,
    hidden_channels: int,
    classes: int,
    order: int,
    *,
    train_share: float = 1.0,
    stored: int | None = None,
) -> StepShape:
    """Return the shape of a full-batch step in which the loss depends on the whole graph.

    Args:
        nodes: Number of nodes, N.
        entries: Entries of the adjacency: two per undirected edge, one per self-loop.
        features: Number of features, D.
        hidden_channels: E.
        classes: Number of classes.
        order: K.
        train_share: Fraction of training nodes; the same fraction of the entries leads to them.
        stored: See :class:`StepShape`.
    """
    return StepShape(
        nodes,
        nodes,
        round(train_share * nodes),
        entries,
        round(train_share * entries),
        features,
        hidden_channels,
        classes,
        order,
        stored,
    )


def step_work(shape: StepShape, value_bytes: int) -> Iterator[Work]:
    """Return every part of a step.

    Args:
        shape: Sizes of the step.
        value_bytes: Bytes of a feature or an activation: 4, or 2 in bf16.
    """
    size, width, classes = value_bytes, shape.hidden_channels, shape.classes
    crossed = shape.order > 1
    # The backward pass of crosses reads all K projections; order 1 has no product to differentiate.
    kept = shape.order + 1 if crossed else 1
    reread = shape.order if crossed else 0

    def product(name: str, rows: int, left: int, right: int, moved: int) -> Work:
        return Work(
            name,
            operations=2 * rows * left * right,
            memory_bytes=size * moved + PARAMETER * left * right,
        )

    def propagate(name: str, edges: int, channels: int, moved: int) -> Work:
        return Work(
            name,
            memory_bytes=size * moved + INDEX_AND_WEIGHT * edges,
            gathered_bytes=size * edges * channels,
        )

    first, second = shape.order * width, shape.order * classes
    inputs, hidden, targets = shape.inputs, shape.hidden, shape.targets

    def of_features(name: str, moved: int) -> Work:
        if shape.stored is None:
            read = inputs * shape.features
            return product(name, inputs, shape.features, first, read + moved)
        # Each stored feature gathers a row of weights, in the backward pass its node's gradient.
        stored = inputs * shape.stored
        return Work(
            name,
            memory_bytes=size * moved
            + INDEX_AND_WEIGHT * stored
            + PARAMETER * shape.features * first,
            gathered_bytes=size * stored * first,
        )

    yield of_features("project features", inputs * kept * width)
    moved = (inputs + hidden) * width
    yield propagate("propagate hidden", shape.first_edges, width, moved)
    yield product("project hidden", hidden, width, second, hidden * (width + kept * classes))
    moved = (hidden + targets) * classes
    yield propagate("propagate scores", shape.second_edges, classes, moved)
    yield Work("loss", memory_bytes=2 * size * targets * classes)
    moved = (targets + hidden * (reread + shape.order)) * classes
    yield propagate("propagate scores back", shape.second_edges, classes, moved)
    yield product("gradient of second weights", hidden, width, second, hidden * (width + second))
    yield product("gradient of hidden", hidden, second, width, hidden * (second + 2 * width))
    moved = (hidden + inputs * (reread + shape.order)) * width
    yield propagate("propagate hidden back", shape.first_edges, width, moved)
    yield of_features("gradient of first weights", inputs * first)
    yield Work("Adam", memory_bytes=ADAM * PARAMETER * shape.parameters)


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
"""Fixed sizes of each axis of the benchmark ``growth`` that differ from the defaults."""
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
"""Sizes of ``research/benchmarks/big_graph.py`` that the names of its cases do not contain."""
BIG_TRAIN_SHARE: Final = 0.6

WIDE: Final = {"nodes": 100_000, "classes": 8}
"""Sizes of ``research/benchmarks/wide_features.py``."""


@dataclass(frozen=True)
class CostPoint:
    """One measured step.

    Attributes:
        record: Name of the benchmark.
        case: Name of the case.
        precision: ``fp32``, ``tf32`` or ``bf16``.
        parts: Work of the step.
        seconds: Measured time.
        shape: Sizes of the step, if memory was measured.
        peak_bytes: Measured peak memory.
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
        """Return the bytes of a feature or an activation."""
        return 2 if self.precision == "bf16" else 4


def gpu_points(records: Records) -> list[CostPoint]:
    """Return every step of our model that was measured on a GPU with known sizes.

    Args:
        records: Records of benchmarks, by name; missing and quick records are skipped.
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
    """Return the bytes per second of a large copy, or ``None`` if not measured."""
    record = records.get("gpu-step")
    if record is None or record["quick"]:
        return None
    return float(record["ceilings"]["fp32"]["memory_bytes_per_second"])


def _medians(record: Record) -> dict[tuple[str, str], float]:
    return {(each["case"], each["side"]): each["median"] for each in record["timings"]}


def _steps(record: Record) -> Iterator[CostPoint]:
    """Return the steps of our model and our GCN, whose least work is in the record."""
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
    """Return the steps with sparse features; columns that never occur are not counted."""
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
    """Return the expected entries of a random graph; a pair that is drawn twice counts once.

    Args:
        nodes: Number of nodes, each with a self-loop.
        degree: Approximate number of neighbours of a node.
    """
    pairs = nodes * (nodes - 1) / 2
    return round(-2 * pairs * math.expm1(-(nodes * degree / 2) / pairs)) + nodes
