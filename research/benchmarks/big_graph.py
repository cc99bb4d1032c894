"""Exact full-batch training on a graph of millions of nodes, within a memory limit.

The model is a two-layer Cross-GCN of order 2. The graph is synthetic, heavy-tailed and stored on
disk; 60 % of the nodes are training nodes. On a CPU, memory is the peak of a process that opens
the graph, preprocesses it, trains, selects and tests. On a GPU, memory is the peak of allocated
bytes. The benchmark also tries PyG's GCN with one message per edge on the same GPU, to see
whether it fits.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from crossgcn.data.datasets.generated import large_graph
from crossgcn.data.stored.open import open_graph
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
CHECK = "verification of the graph folder, share of one step"
GIB = 2**30
CPU_SIZE, CPU_BYTES, CPU_EPOCHS = BigSize(1_000_000, 10_000_000, 32), 8 * GIB, 3
GPU_SIZE, GPU_BYTES, GPU_SECONDS = BigSize(2_450_000, 62_000_000, 256), 60 * GIB, 0.1
SMALL = BigSize(20_000, 200_000, 32)


def measure(options: Options) -> Measurement:
    """Measure the case of the selected device."""
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
    """Check the scores, then measure time and memory on the CPU."""
    options.show("checking", 0, 1)
    stored, graph = prepare(where)
    step = our_step(build(size, dropout=0.0), graph, stored)
    check_scores(size.name, score_error(step, graph, stored), "fp32", found)
    timing = interleave(size.name, [Side("ours", step, steps=1)], options.pace(size.name))["ours"]
    found.timings.append(timing)
    found.notes.append(f"{size.name}: {timing.median:.2g} s a step")
    # A process verifies each block once, when it first reads it; here all blocks at once.
    stored = open_graph(where)
    started = time.perf_counter()
    stored.check()
    share = 100 * (time.perf_counter() - started) / timing.median
    found.results.append(BenchmarkResult(size.name, CHECK, share, "%"))
    del step, graph
    options.show("memory", 0, 1)
    held = peak_rss(train_on_cpu, str(where), size.hidden, CPU_EPOCHS)
    found.results.append(BenchmarkResult(size.name, MEMORY, 100 * held / CPU_BYTES, "%"))
    found.extra["peak_bytes"] = {"ours": held}
    found.notes.append(f"{size.name}: {held / GIB:.2f} GiB at most")


def measure_on_gpu(where: Path, size: BigSize, options: Options, found: Measurement) -> None:
    """Check the scores and measure each precision, then try PyG's GCN."""
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
    """Record the error of the scores against float64; fail if it exceeds the tolerance."""
    check = Check(case, "scores of 20 nodes, ours and float64's", error, SAME_VALUES[precision])
    found.checks.append(check.require())


def edge_by_edge(size: BigSize, where: Path, options: Options) -> str:
    """Try PyG's GCN with one message per edge and describe the outcome."""
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
