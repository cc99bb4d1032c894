"""One training step with a million sparse features, compared with two embedding bags.

The model is a Cross-GCN of order 2. The graph has 100,000 nodes with 5 million entries, and all
nodes are training nodes. The peer is the same model in plain PyTorch: an ``EmbeddingBag`` per
order and Adam with its defaults. Both sides must have the same losses over several steps. On a
CPU, memory is the peak of a separate process that draws the graph and trains. On a GPU, memory is
the peak of allocated bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from crossgcn.cli.options import available_cores
from crossgcn.graph import PreparedGraph
from research.benchmarks.harness.agreement import Check
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.memory import peak_bytes
from research.benchmarks.harness.peak_rss import peak_rss
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.rounds import Side, interleave, quartiles, ratio_of, torch_threads
from research.benchmarks.harness.wide import (
    EmbeddingBags,
    WideSize,
    build,
    draw_wide,
    our_step,
    train_ours,
    train_peer,
)
from research.pages.benchmarks import BenchmarkResult

PEER, MEMORY, TIME = "two EmbeddingBags", "share of the memory allowed", "share of the time allowed"
ALLOWED_BYTES, ALLOWED_SECONDS = 4 * 2**30, 0.01
STEPS, SAME_LOSSES = 6, 1e-4


def measure(options: Options) -> Measurement:
    """Measure the case of the selected device."""
    size = WideSize() if options.device == "cpu" else WideSize(hidden=64)
    if options.quick:
        size = replace(size, nodes=10_000, features=100_000)
    return measure_size(size, options)


def measure_size(size: WideSize, options: Options) -> Measurement:
    """Check and time one size.

    Args:
        size: Sizes of the graph and the model.
    """
    found = Measurement()
    options.show("drawing", 0, 1)
    data = draw_wide(size, options.seed)
    graph = PreparedGraph(data.x, data.edge_index)
    used = int(data.x.col_indices().unique().numel())
    found.notes.append(
        f"{size.nodes:,} nodes, {data.x.values().numel():,} entries in {used:,} of "
        f"{size.features:,} columns, {data.edge_index.size(1):,} directed edges"
    )
    with torch_threads(available_cores()):
        found.checks.append(compare(size, graph, data.y, options).require())
        sides: dict[str, Callable[[], object]] = {
            "ours": our_step(size, graph, data.y, options.device),
            PEER: EmbeddingBags(build(size), graph, data.y, options.device).step,
            "ours, dropout 0.5": our_step(size, graph, data.y, options.device, dropout=0.5),
        }
        timings = interleave(
            size.name, [Side(*side) for side in sides.items()], options.pace(size.name)
        )
    found.timings += timings.values()
    found.results.append(ratio_of(timings, PEER, "ours"))
    times = (f"{side} {1000 * timing.median:.3g} ms" for side, timing in timings.items())
    found.notes.append(f"median of a step: {'; '.join(times)}")
    if options.device == "cuda":
        low, high = (100 * each / ALLOWED_SECONDS for each in quartiles(timings["ours"].seconds))
        share = 100 * timings["ours"].median / ALLOWED_SECONDS
        found.results.append(BenchmarkResult(size.name, TIME, share, "%", low=low, high=high))
    del sides
    measure_memory(size, graph, data.y, options, found)
    return found


def compare(size: WideSize, graph: PreparedGraph, y: Tensor, options: Options) -> Check:
    """Compare the losses of some steps by their largest relative difference."""
    ours = our_step(size, graph, y, options.device)
    peer = EmbeddingBags(build(size), graph, y, options.device)
    errors = []
    for number in range(STEPS):
        options.show("checking", number, STEPS)
        loss, expected = float(ours()), float(peer.step())
        errors.append(abs(loss - expected) / abs(expected))
    return Check(size.name, f"losses of {STEPS} steps, ours and {PEER}", max(errors), SAME_LOSSES)


def measure_memory(
    size: WideSize, graph: PreparedGraph, y: Tensor, options: Options, found: Measurement
) -> None:
    """Measure the peak memory of each side."""
    held: dict[str, int] = {}
    works: dict[str, Callable[[WideSize, int], object]] = {"ours": train_ours, PEER: train_peer}
    for number, (side, work) in enumerate(works.items()):
        options.show("memory", number, len(works))
        if options.device == "cpu":
            held[side] = peak_rss(work, size, options.seed)
        else:
            held[side] = peak_bytes(lambda: _few_steps(side, size, graph, y), "cuda")[1]  # noqa: B023
    if options.device == "cpu":
        share = 100 * held["ours"] / ALLOWED_BYTES
        found.results.append(BenchmarkResult(size.name, MEMORY, share, "%"))
    found.extra["peak_bytes"] = held
    shown = (f"{side} {value / 2**30:.2f} GiB" for side, value in held.items())
    found.notes.append(f"most memory held: {'; '.join(shown)}")


def _few_steps(side: str, size: WideSize, graph: PreparedGraph, y: Tensor) -> object:
    step: Callable[[], object]
    if side == "ours":
        step = our_step(size, graph, y, "cuda")
    else:
        step = EmbeddingBags(build(size), graph, y, "cuda").step
    for _ in range(3):
        step()
    return step


if __name__ == "__main__":
    main("wide_features", measure)
