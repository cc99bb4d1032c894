"""One training step on the CPU: Cross-GCN of order 2 against PyG's GCN.

The models have two layers, hidden size 32 and dropout 0.5; there are 20 training nodes per class.
A step is forward, loss over the training nodes, backward and Adam. PyG's example, as it is and
compiled, and the naive layer use all cores. Our model and the peers of sparse products are timed
with one thread and with all; the faster of the two counts.

Some are timed once more beside a process that keeps a core busy, as a shared machine does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from subprocess import Popen

from torch_geometric.data import Data

from crossgcn.cli.options import available_cores
from crossgcn.data import available, load_dataset, make_splits
from research.benchmarks.harness.agreement import check_peer
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.ours import build_ours, prepare, training_step
from research.benchmarks.harness.peer_training import PeerTraining
from research.benchmarks.harness.peers import Peer
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.rounds import Side, Timing, interleave, ratio_of, torch_threads

GRAPHS = ("cora", "citeseer", "pubmed")
OURS = {"ours": 2, "our GCN": 1}
"""Our models, by order."""

PEERS = (*Peer.NAMES, *Peer.COMPILED)
EITHER = (*OURS, "tuned PyG GCN", "sparse GCN")
"""Sides that are timed with one thread and with all threads; the faster time counts."""

SHARED = "PyG GCN, on a shared machine"
"""The ratio beside the process below, which keeps a core and the memory busy."""

OTHER_WORK = """
import os, sys
import numpy as np
source = np.ones(1 << 26, np.float32)
target = source.copy()
while os.getppid() == int(sys.argv[1]):
    target[:] = source
"""


def measure(options: Options) -> Measurement:
    """Time the step on every graph that is on this machine."""
    found = Measurement()
    for name in GRAPHS:
        if available(name) is None:
            found.notes.append(f"{name} is not on this machine: crossgcn data get {name}")
        else:
            measure_graph(load_dataset(name), options, found)
    if available("citeseer") is not None:
        measure_shared(load_dataset("citeseer"), options, found)
    return found


def measure_graph(data: Data, options: Options, found: Measurement) -> None:
    """Check and time one graph.

    Args:
        found: Measurement to which the results are added.
    """
    case = data.name
    train, graph = make_splits(data, num_splits=1, seed=options.seed)[0].train, prepare(data)
    options.show(f"{case}, checking", 0, 1)
    for peer in PEERS:
        with torch_threads(available_cores()):
            found.checks += check_peer(case, peer, data, train, graph=graph)
    timings = interleave(case, _sides((*OURS, *PEERS), data, options), options.pace(case))
    found.timings += timings.values()
    best = {name: _best(timings, name) for name in (*OURS, *PEERS)}
    ours = best["ours"]
    found.results += [ratio_of(timings, best[name], ours, what=name) for name in PEERS]
    found.results.append(ratio_of(timings, ours, best["our GCN"], what="over our GCN"))
    taken = "; ".join(
        f"{side} {1000 * timings[side].median:.3g} ms"
        for side in (best[name] for name in (*OURS, *PEERS))
    )
    found.notes.append(f"{case}, median of a step: {taken}")


def measure_shared(data: Data, options: Options, found: Measurement) -> None:
    """Time steps again while another process keeps a core and the memory busy."""
    case, sides = f"{data.name}, shared", _sides(("ours", "PyG GCN"), data, options)
    alone = interleave(case, sides, options.pace(f"{data.name}, alone"))
    with Popen([sys.executable, "-c", OTHER_WORK, str(os.getpid())]) as other:
        try:
            shared = interleave(case, sides, options.pace(case))
        finally:
            other.kill()
    found.timings += shared.values()
    best = (_best(shared, name) for name in ("PyG GCN", "ours"))
    found.results.append(ratio_of(shared, *best, what=SHARED))
    longer = "; ".join(
        f"{name} {1000 * both.median:.3g} ms, {both.median / alone[name].median:.2f} times as long "
        "as alone"
        for name, both in shared.items()
    )
    found.notes.append(f"{data.name}, beside a process that copies memory: {longer}")


def _sides(names: Iterable[str], data: Data, options: Options) -> list[Side]:
    """Return the sides of these names; they share neither model nor optimiser."""
    train, graph = make_splits(data, num_splits=1, seed=options.seed)[0].train, prepare(data)
    sides, cores = [], available_cores()
    for name in names:
        for threads in sorted({1, cores}) if name in EITHER else [cores]:
            with torch_threads(threads):
                order = OURS[name] if name in OURS else Peer(name).order
                model = build_ours(data, order, seed=options.seed)
                step: Callable[[], object]
                if name in OURS:
                    step = training_step(model, graph, data, train, seed=options.seed)
                else:
                    step = PeerTraining(name, model, data, train).step
                sides.append(Side(_side(name, threads), step, threads))
    return sides


def _side(name: str, threads: int) -> str:
    return f"{name}, {threads} thread{'s' * (threads > 1)}"


def _best(timings: Mapping[str, Timing], name: str) -> str:
    sides = [side for side in timings if side.startswith(f"{name},")]
    return min(sides, key=lambda side: timings[side].median)


if __name__ == "__main__":
    main("cpu_step", measure)
