"""Neighbourhood columns and training of cross-hops on a graph of millions of edges.

The graph is synthetic and stored on disk. Memory is the peak of a process that opens the graph,
computes the nodes' own columns and the means of two hops, trains for one epoch, selects and tests.
The time of a step is that of one batch, on graphs with the same nodes and a growing number of
edges. Training reads rows of columns and no edge, so the time of a step should not grow. The time
of the columns alone is that of a larger graph on all cores.

The other results are CPU times on one thread: a step against one of a perceptron of equal size in
plain PyTorch, and a whole training of eight bags, selection and test included, against gradient
boosting on the same columns; for a million rows they are trained once each. The scores of both are
in the notes.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch_geometric.data import Data

from crossgcn.cli.options import available_cores
from crossgcn.data import available, load_dataset
from crossgcn.data.datasets.generated import large_graph
from crossgcn.data.stored.open import open_graph
from crossgcn.graph.hops import HopColumns
from crossgcn.graph.sampling.source import source_of
from research.benchmarks.growth import log_log_slope
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.hop_training import (
    HopFits,
    HopSize,
    hop_step,
    perceptron_step,
    train_hops,
)
from research.benchmarks.harness.peak_rss import peak_rss
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.rounds import Side, interleave, ratio_of, torch_threads
from research.pages.benchmarks import BenchmarkResult

MEMORY, TIME = "share of the memory allowed", "time of a step"
COLUMNS = "columns, share of the time allowed"
ALLOWED_BYTES, ALLOWED_SECONDS, THREADS = 8 * 2**30, 60.0, 1
CLASSES = 2
BOOSTING, PERCEPTRON = "training, over boosting", "step, over a perceptron"
GRAPHS = ("us-county", "tolokers", "facebook100/Amherst41")
MANY_ROWS = 100_000
"""With more, a training takes minutes: it is timed once, without a trial."""


def measure(options: Options) -> Measurement:
    """Measure the memory on the largest graph, and the growth of time with the edges."""
    largest = HopSize(20_000, 200_000, 10) if options.quick else HopSize()
    found = measure_sizes([largest.edges // 10, 3 * largest.edges // 10], largest, options)
    size = HopSize(40_000, 400_000, 10) if options.quick else HopSize(2_450_000, 62_000_000)
    measure_columns(size, options, found)
    for name in GRAPHS[:1] if options.quick else GRAPHS:
        if available(name) is None:
            found.notes.append(f"{name} is not on this machine: crossgcn data get {name}")
        else:
            measure_fits(load_dataset(name), options, found)
    measure_fits(draw_rows(20_000 if options.quick else 1_000_000), options, found)
    return found


def draw_rows(num_nodes: int, seed: int = 0) -> Data:
    """Draw a graph of ten columns, two classes and four edges per node."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_nodes, 10, generator=generator)
    edges = torch.randint(num_nodes, (2, 2 * num_nodes), generator=generator)
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    noise = torch.randn(num_nodes, generator=generator)
    y = (x[:, 0] * x[:, 1] + x[:, 2] + 0.5 * noise > 0).long()
    return Data(x=x, edge_index=edges, y=y, name=f"{num_nodes:,} rows")


def measure_fits(data: Data, options: Options, found: Measurement) -> None:
    """Time a training against boosting, and a step against a perceptron, in CPU seconds."""
    case, fits = data.name, HopFits(data)
    scores: dict[str, float] = {}

    def ours() -> None:
        scores["ours"] = fits.ours()

    def boosting() -> None:
        scores["boosting"] = fits.boosting()

    sides = [Side("ours", ours, THREADS, steps=1), Side("boosting", boosting, THREADS, steps=1)]
    pace = replace(options.pace(case), clock=time.process_time)
    if data.num_nodes > MANY_ROWS:
        pace = replace(pace, rounds=1)
    with threadpool_limits(THREADS), torch_threads(THREADS):
        if data.num_nodes <= MANY_ROWS:
            fits.ours()  # compiles and imports
        timings = interleave(case, sides, pace)
        found.timings += timings.values()
        found.results.append(ratio_of(timings, "ours", "boosting", what=BOOSTING))
        if data.y.dtype == torch.long:
            model, batch, step = fits.step()
            others = [
                Side("step", step, THREADS),
                Side("perceptron", perceptron_step(batch, model), THREADS),
            ]
            steps = interleave(case, others, pace)
            found.timings += steps.values()
            found.results.append(ratio_of(steps, "step", "perceptron", what=PERCEPTRON))
    found.notes.append(
        f"{case}, {fits.columns.shape[1]} columns: ours {timings['ours'].median:.3g} s and test "
        f"{fits.metric} {scores['ours']:.3f}; boosting {timings['boosting'].median:.3g} s and "
        f"{scores['boosting']:.3f}"
    )


def measure_columns(size: HopSize, options: Options, found: Measurement) -> None:
    """Time the columns of two hops on all cores, from a graph folder."""
    with TemporaryDirectory() as folder, torch_threads(available_cores()):
        graph = Path(folder) / "graph"
        _draw(graph, size, options)
        options.show("columns", 0, 1)
        source, started = source_of(open_graph(graph)), time.perf_counter()
        HopColumns(source, folder=Path(folder))
        seconds = time.perf_counter() - started
    share = 100 * seconds / ALLOWED_SECONDS
    found.results.append(BenchmarkResult(size.name, COLUMNS, share, "%"))
    found.notes.append(f"{size.name}: {seconds:.3g} s for the columns of two hops")


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
