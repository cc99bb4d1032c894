"""One training step on the CPU: Cross-GCN of order 2 against PyG's GCN.

The models have two layers, hidden size 32 and dropout 0.5; there are 20 training nodes per class.
A step is forward, loss over the training nodes, backward and Adam. PyG's example, as it is and
compiled, and the naive layer use all cores. Our model and the peers of sparse products are timed
with one thread and with all; the faster of the two counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

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


def measure(options: Options) -> Measurement:
    """Time the step on every graph that is on this machine."""
    found = Measurement()
    for name in GRAPHS:
        if available(name) is None:
            found.notes.append(f"{name} is not on this machine: crossgcn data get {name}")
        else:
            measure_graph(load_dataset(name), options, found)
    return found


def measure_graph(data: Data, options: Options, found: Measurement) -> None:
    """Check and time one graph.

    Args:
        found: Measurement to which the results are added.
    """
    case, cores = data.name, available_cores()
    train = make_splits(data, num_splits=1, seed=options.seed)[0].train
    graph = prepare(data)
    options.show(f"{case}, checking", 0, 1)
    for peer in PEERS:
        with torch_threads(cores):
            found.checks += check_peer(case, peer, data, train, graph=graph)

    def step_of(name: str) -> Callable[[], object]:
        """Return the training step of a new model; sides share neither model nor optimiser."""
        order = OURS[name] if name in OURS else Peer(name).order
        model = build_ours(data, order, seed=options.seed)
        if name in OURS:
            return training_step(model, graph, data, train, seed=options.seed)
        return PeerTraining(name, model, data, train).step

    sides = []
    for name in (*OURS, *PEERS):
        for threads in sorted({1, cores}) if name in EITHER else [cores]:
            with torch_threads(threads):
                sides.append(Side(_side(name, threads), step_of(name), threads))
    timings = interleave(case, sides, options.pace(case))
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


def _side(name: str, threads: int) -> str:
    return f"{name}, {threads} thread{'s' * (threads > 1)}"


def _best(timings: Mapping[str, Timing], name: str) -> str:
    sides = [side for side in timings if side.startswith(f"{name},")]
    return min(sides, key=lambda side: timings[side].median)


if __name__ == "__main__":
    main("cpu_step", measure)
