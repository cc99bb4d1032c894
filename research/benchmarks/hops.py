"""Neighbourhood columns and training of cross-hops on a graph of millions of edges.

The graph is synthetic and stored on disk. Memory is the peak of a process that opens the graph,
computes the nodes' own columns and the means of two hops, trains for one epoch, selects and tests.
The time of a step is that of one batch, on graphs with the same nodes and a growing number of
edges. Training reads rows of columns and no edge, so the time of a step should not grow.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from crossgcn.cli.options import available_cores
from crossgcn.data.datasets.drawn_graphs import large_graph
from research.benchmarks.growth import log_log_slope
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.hop_training import HopSize, hop_step, train_hops
from research.benchmarks.harness.peak_rss import peak_rss
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.rounds import Side, interleave
from research.pages.benchmarks import BenchmarkResult

MEMORY, TIME = "share of the memory allowed", "time of a step"
ALLOWED_BYTES, THREADS = 8 * 2**30, 1
CLASSES = 2


def measure(options: Options) -> Measurement:
    """Measure the memory on the largest graph, and the growth of time with the edges."""
    largest = HopSize(20_000, 200_000, 10) if options.quick else HopSize()
    return measure_sizes([largest.edges // 10, 3 * largest.edges // 10], largest, options)


def measure_sizes(fewer: list[int], largest: HopSize, options: Options) -> Measurement:
    """Measure the largest graph, and time the step on smaller ones.

    Args:
        fewer: Numbers of edges of the smaller graphs, ascending.
        largest: The largest graph.
    """
    found, edges = Measurement(), [*fewer, largest.edges]
    with TemporaryDirectory() as folder:
        graphs = [Path(folder) / f"graph-{number}" for number in edges]
        for graph, number in zip(graphs, edges, strict=True):
            _draw(graph, replace(largest, edges=number), options)
        options.show("memory", 0, 1)
        started = time.perf_counter()
        held = peak_rss(train_hops, str(graphs[-1]), str(Path(folder) / "run"), available_cores())
        seconds = time.perf_counter() - started
        found.results.append(BenchmarkResult(largest.name, MEMORY, 100 * held / ALLOWED_BYTES, "%"))
        found.extra["peak_bytes"] = {"ours": held}
        found.notes.append(
            f"{largest.name}: {held / 2**30:.2f} GiB at most and {seconds:.0f} s for columns, one "
            "epoch, selection, test and the start of the process"
        )
        sides: list[Any] = []
        for number, graph in zip(edges, graphs, strict=True):
            options.show("columns", len(sides), len(edges))
            step = hop_step(graph, Path(folder) / "columns")
            sides.append(Side(f"{number:,} edges", step, THREADS))
        timings = interleave("edges", sides, options.pace(TIME))
    found.timings += timings.values()
    medians = [timings[side.name].median for side in sides]
    slope = log_log_slope(edges, medians)
    found.results.append(BenchmarkResult("edges", TIME, slope, "slope"))
    times = (f"{side.name} {1000 * each:.3g} ms" for side, each in zip(sides, medians, strict=True))
    found.notes.append(f"median of a step: {'; '.join(times)}")
    return found


def _draw(folder: Path, size: HopSize, options: Options) -> None:
    large_graph(
        folder,
        size.nodes,
        size.edges,
        size.columns,
        CLASSES,
        options.seed,
        progress=lambda what, done, total: options.show(what, done, total or 0),
    )


if __name__ == "__main__":
    main("hops", measure)
