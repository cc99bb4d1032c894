"""Training on a graph of millions of nodes at once, exactly, within a bound on memory.

Cross-GCN of order 2 in two layers on a drawn, heavy-tailed graph on disk, of which 60 in 100
nodes train. On a CPU the memory is the most that a process holds which opens the graph, makes
it ready, trains, selects and tests; on a GPU, the most that is allocated there. A GCN of PyG
that sends messages edge by edge is tried on the same GPU, to see whether it fits.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from crossgcn.data.datasets.drawn_graphs import large_graph
from crossgcn.data.stored import open_graph
from crossgcn.training.config import Precision
from crossgcn.training.device import PRECISIONS
from research.benchmarks.harness.agreement import SAME_VALUES, Check
from research.benchmarks.harness.big import (
    BigSize,
    EdgeByEdge,
    build,
    our_step,
    prepare,
    score_error,
    train_on_cpu,
)
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.memory import peak_bytes
from research.benchmarks.harness.peak_rss import peak_rss
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.rounds import Side, interleave, quartiles
from research.pages.benchmarks import BenchmarkResult

MEMORY, TIME = "share of the memory allowed", "share of the time allowed"
GIB = 2**30
CPU_SIZE, CPU_BYTES, CPU_EPOCHS = BigSize(1_000_000, 10_000_000, 32), 8 * GIB, 3
GPU_SIZE, GPU_BYTES, GPU_SECONDS = BigSize(2_450_000, 62_000_000, 256), 60 * GIB, 0.1
SMALL = BigSize(20_000, 200_000, 32)


def measure(options: Options) -> Measurement:
    """Measure the case of the device."""
    size = CPU_SIZE if options.device == "cpu" else GPU_SIZE
    size = SMALL if options.quick else size
    found = Measurement()
    with TemporaryDirectory() as folder:
        where = Path(folder) / "graph"
        stored = large_graph(
            where,
            size.nodes,
            size.edges,
            size.features,
            size.classes,
            options.seed,
            progress=lambda what, done, total: options.show(what, done, total or 0),
        )
        found.notes.append(
            f"{size.name}: {stored.num_edges:,} different ones; the most neighbours of a node "
            f"are {int(stored.offsets.diff().max()):,}"
        )
        if options.device == "cpu":
            measure_on_cpu(where, size, options, found)
        else:
            measure_on_gpu(where, size, options, found)
    return found


def measure_on_cpu(where: Path, size: BigSize, options: Options, found: Measurement) -> None:
    """Check, and measure the memory."""
    options.show("checking", 0, 1)
    stored, graph = prepare(where)
    step = our_step(build(size, dropout=0.0), graph, stored)
    check_scores(size.name, score_error(step, graph, stored), "fp32", found)
    timing = interleave(size.name, [Side("ours", step, steps=1)], options.pace(size.name))["ours"]
    found.timings.append(timing)
    found.notes.append(f"{size.name}: {timing.median:.2g} s a step")
    del step, graph
    options.show("memory", 0, 1)
    held = peak_rss(train_on_cpu, str(where), size.hidden, CPU_EPOCHS)
    found.results.append(BenchmarkResult(size.name, MEMORY, 100 * held / CPU_BYTES, "%"))
    found.extra["peak_bytes"] = {"ours": held}
    found.notes.append(f"{size.name}: {held / GIB:.2f} GiB at most")


def measure_on_gpu(where: Path, size: BigSize, options: Options, found: Measurement) -> None:
    """Check, time and measure the memory in each precision; then try PyG's way."""
    options.show("making it ready", 0, 1)
    stored, graph = prepare(where)
    found.extra["peak_bytes"] = {}
    for precision in PRECISIONS:
        case = f"{size.name}, {precision}"
        options.show(f"{case}, checking", 0, 1)
        bare = our_step(build(size, dropout=0.0), graph, stored, device="cuda", precision=precision)
        check_scores(case, score_error(bare, graph, stored), precision, found)
        del bare
        torch.cuda.empty_cache()

        def train(precision: Precision = precision) -> object:
            step = our_step(build(size), graph, stored, device="cuda", precision=precision)
            step()
            return step

        step, held = peak_bytes(train, "cuda")
        assert callable(step)
        timing = interleave(case, [Side("ours", step)], options.pace(case))["ours"]
        found.timings.append(timing)
        low, high = (100 * each / GPU_SECONDS for each in quartiles(timing.seconds))
        share = 100 * timing.median / GPU_SECONDS
        found.results.append(BenchmarkResult(case, TIME, share, "%", low=low, high=high))
        found.results.append(BenchmarkResult(case, MEMORY, 100 * held / GPU_BYTES, "%"))
        found.extra["peak_bytes"][case] = held
        found.notes.append(
            f"{case}: {1000 * timing.median:.1f} ms a step, {held / GIB:.1f} GiB at most"
        )
        del step
        torch.cuda.empty_cache()
    found.notes.append(f"{size.name}: {edge_by_edge(size, where, options)}")


def check_scores(case: str, error: float, precision: Precision, found: Measurement) -> None:
    """Keep how far the scores are from float64's, if that is near enough."""
    check = Check(case, "scores of 20 nodes, ours and float64's", error, SAME_VALUES[precision])
    found.checks.append(check.require())


def edge_by_edge(size: BigSize, where: Path, options: Options) -> str:
    """What becomes of PyG's GCN with a message per edge, in words."""
    options.show("PyG, edge by edge", 0, 1)
    try:
        peer = EdgeByEdge(size, open_graph(where), "cuda")
        _, held = peak_bytes(peer.step, "cuda")
    except torch.cuda.OutOfMemoryError:
        total = torch.cuda.get_device_properties(0).total_memory / GIB
        return f"PyG's GCNConv with COO edges runs out of {total:.0f} GiB"
    return f"PyG's GCNConv with COO edges holds {held / GIB:.1f} GiB at most"


if __name__ == "__main__":
    main("big_graph", measure)
