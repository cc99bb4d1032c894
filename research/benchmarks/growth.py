"""Time and memory of our step as one size grows and the others stay fixed.

Graphs are synthetic and all nodes are training nodes, so that nothing is pruned. For each size,
the other sizes are fixed such that the part that grows dominates. A slope is that of the
least-squares line in log-log space: 1 is linear growth, less is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import linear_regression
from typing import Any

import torch

from crossgcn.training.full_batch import FullBatchStep
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.memory import peak_bytes
from research.benchmarks.harness.ours import build_ours, prepare, training_step
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.rounds import Side, interleave, torch_threads
from research.benchmarks.harness.synthetic import GraphSize, draw_graph
from research.pages.benchmarks import BenchmarkResult

THREADS = 1
"""Threads on a CPU. With more, starting threads would dominate the smallest sizes."""


@dataclass(frozen=True)
class Axis:
    """A size that grows.

    Attributes:
        name: The paper's letter.
        label: Description.
        sizes: Values in ascending order.
        argument: The field of ``around`` that the size replaces, or ``order`` or ``hidden``.
        around: The fixed sizes of the graph.
    """

    name: str
    label: str
    sizes: tuple[int, ...]
    argument: str
    around: GraphSize


def axes(nodes: int) -> list[Axis]:
    """Return every axis, for graphs of about the given number of nodes."""
    wide = GraphSize(nodes, features=512, stored=64)
    doubling = (64, 128, 256, 512, 1024)
    return [
        Axis("K", "order K", (1, 2, 3, 4, 5, 6), "order", wide),
        Axis(
            "D",
            "dense features D",
            tuple(4 * size for size in doubling),
            "features",
            GraphSize(nodes, stored=0),
        ),
        Axis(
            "nnz", "stored features per node", doubling, "stored", GraphSize(nodes, features=2048)
        ),
        Axis("E", "hidden size E", doubling, "hidden", GraphSize(nodes)),
        Axis("edges", "edges per node", doubling, "degree", GraphSize(nodes, stored=4)),
    ]


def measure(options: Options) -> Measurement:
    """Measure every axis."""
    nodes = 5_000 if options.device == "cpu" else 20_000
    return measure_axes(axes(nodes // 5 if options.quick else nodes), options)


def measure_axes(wanted: Sequence[Axis], options: Options) -> Measurement:
    """Measure time and memory along the given axes."""
    found = Measurement(extra={"growth": []})
    for axis in wanted:
        memory, sides = [], []
        for number, size in enumerate(axis.sizes):
            options.show(f"{axis.label}, memory", number, len(axis.sizes))
            start = starter(axis, size, options)
            start()
            step, held = peak_bytes(start, options.device)
            memory.append(held)
            sides.append(Side(f"{size}", step, THREADS))
        timings = interleave(axis.name, sides, options.pace(f"{axis.label}, time"))
        found.timings += timings.values()
        quantities = {
            "time": [timings[side.name].median for side in sides],
            "memory": [float(value) for value in memory],
        }
        slopes = {name: log_log_slope(axis.sizes, each) for name, each in quantities.items()}
        found.results += [
            BenchmarkResult(axis.name, name, slope, "slope") for name, slope in slopes.items()
        ]
        last = {
            name: log_log_slope(axis.sizes[-2:], each[-2:]) for name, each in quantities.items()
        }
        found.notes.append(
            f"{axis.name}, between the two largest sizes alone: slope {last['time']:.2f} in time, "
            f"{last['memory']:.2f} in memory"
        )
        found.extra["growth"].append(
            {"name": axis.name, "label": axis.label, "sizes": list(axis.sizes), "slopes": slopes}
            | quantities
        )
    found.notes.append(
        "memory is the most that was held at once while the step was made and run three times, "
        "graph and features as they were given not counted"
    )
    return found


def log_log_slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the growth exponent, by least squares."""
    return linear_regression(
        [math.log(size) for size in sizes], [math.log(value) for value in values]
    ).slope


def starter(axis: Axis, size: int, options: Options) -> Callable[[], FullBatchStep]:
    """Return a function that builds the step for one size and runs it, for memory measurement."""
    arguments: dict[str, Any] = {"order": 2, "hidden": 128}
    around = axis.around
    if axis.argument in arguments:
        arguments[axis.argument] = size
    else:
        around = replace(around, **{axis.argument: size})
    data = draw_graph(around, options.seed)
    graph = prepare(data)
    model = build_ours(data, arguments["order"], hidden_channels=arguments["hidden"])
    nodes = torch.arange(around.nodes)

    def start() -> FullBatchStep:
        with torch_threads(THREADS):
            step = training_step(model, graph, data, nodes, device=options.device)
            for _ in range(3):
                step()
        return step

    return start


if __name__ == "__main__":
    main("growth", measure)
