"""Training on the CPU: Cross-GCN of order 2 against PyG's GCN.

The models have two layers, hidden size 32 and dropout 0.5; there are 20 training nodes per class.
A step is forward, loss over the training nodes, backward and Adam. PyG's example, as it is and
compiled, and the naive layer use all cores. Our model and the peers of sparse products are timed
with one thread and with all; the faster of the two counts.

The whole protocol on Citeseer is a command, measured in full, against epochs of PyG's GCN that are
extrapolated. The memory of a million sparse features is the peak of a command, too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from benchmarks.harness import (
    GIB,
    Measurement,
    Options,
    Result,
    Side,
    Timing,
    available_cores,
    crossgcn,
    interleave,
    ratio_of,
    torch_threads,
)
from benchmarks.ours import build_ours, check_peer, training_step, weights_of
from benchmarks.peers import PEERS, PeerTraining, order_of
from crossgcn import PreparedGraph, WorkFailed, load_dataset, make_splits, save_graph
from crossgcn.data import available

GRAPHS = ("cora", "citeseer", "pubmed")
OURS = {"ours": 2, "our GCN": 1}
"""Our models, by order."""

EITHER = (*OURS, "tuned PyG GCN", "sparse GCN")
"""Sides that are timed with one thread and with all threads; the faster time counts."""

PYG = "PyG GCN"
PEER_EPOCHS = 20
"""Epochs of the peer that each round of the protocol times."""


@dataclass(frozen=True)
class WideSize:
    """Sizes of a graph with many sparse features.

    Attributes:
        nodes: Number of nodes.
        features: Number of features; most occur in few nodes and many in none.
        stored: Approximate number of nonzero features per node.
        degree: Approximate number of neighbours of a node.
    """

    nodes: int = 100_000
    features: int = 1_000_000
    stored: int = 51
    degree: int = 10


def measure(options: Options) -> Measurement:
    """Time steps on every graph that is on this machine, the protocol, and a wide graph."""
    found = Measurement()
    for name in GRAPHS:
        if available(name) is None:
            found.notes.append(f"{name} is not on this machine: crossgcn data get {name}")
        else:
            measure_graph(load_dataset(name), options, found)
    runs, epochs = (2, 50) if options.quick else (20, 500)
    measure_protocol("citeseer", runs, epochs, options, found)
    wide = WideSize(10_000, 100_000) if options.quick else WideSize()
    measure_wide(wide, options, found)
    return found


def measure_graph(data: Data, options: Options, found: Measurement) -> None:
    """Check and time one graph."""
    case, names = data.name, (*OURS, *PEERS)
    train = make_splits(data, num_splits=1, seed=options.seed)[0].train
    graph = PreparedGraph(data.x, data.edge_index)
    options.show(f"{case}, checking")
    for peer in PEERS:
        with torch_threads(available_cores()):
            found.checks += check_peer(case, peer, data, train, graph=graph)
    sides, cores = [], available_cores()
    for name in names:
        for threads in sorted({1, cores}) if name in EITHER else [cores]:
            with torch_threads(threads):
                order = OURS.get(name) or order_of(name)
                model = build_ours(data, order, seed=options.seed)
                step: Callable[[], object]
                if name in OURS:
                    step = training_step(model, graph, data.y, train, seed=options.seed)
                else:
                    step = PeerTraining(name, weights_of(model), data, train).step
                sides.append(Side(f"{name}, {threads} threads", step, threads))
    timings = interleave(case, sides, options.pace(case))
    best = {name: _fastest(timings, name) for name in names}
    found.timings += timings.values()
    found.results += [ratio_of(timings, best[name], best["ours"], what=name) for name in PEERS]
    found.results.append(ratio_of(timings, best["ours"], best["our GCN"], what="over our GCN"))


def measure_protocol(
    dataset: str, runs: int, epochs: int, options: Options, found: Measurement
) -> None:
    """Time all runs of our model, from the start of the command, and some epochs of the peer."""
    cores, data = available_cores(), load_dataset(dataset)
    split = make_splits(data, num_splits=1, seed=options.seed)[0]
    weights = weights_of(build_ours(data, 1, seed=options.seed))
    peer = PeerTraining(PYG, weights, data, split.train, split.validation)
    peer.epoch()
    settings = ("--num-splits", str(runs), "--epochs", str(epochs), "--seed", str(options.seed))
    with tempfile.TemporaryDirectory() as folder:

        def train() -> None:
            crossgcn("train", dataset, *settings, "--out", tempfile.mkdtemp(dir=folder) + "/run")

        steps = 2 if options.quick else PEER_EPOCHS
        sides = [Side("ours", train, steps=1), Side(PYG, peer.epoch, cores, steps=steps)]
        timings = interleave(f"{data.name}, {runs} runs", sides, options.pace("protocol"))
    one = timings[PYG]
    whole = replace(one, seconds=tuple(runs * epochs * each for each in one.seconds))
    found.timings += [timings["ours"], whole]
    found.results.append(ratio_of({**timings, PYG: whole}, PYG, "ours"))
    found.notes.append(
        f"{data.name}, {runs} runs of {epochs} epochs with validation: ours "
        f"{timings['ours'].median:.3g} s with the start of the command; {PYG} {one.median:.3g} s "
        f"an epoch, {whole.median:,.0f} s for all"
    )


def measure_wide(size: WideSize, options: Options, found: Measurement) -> None:
    """Measure the peak memory of a training on features that are many and sparse."""
    options.show("a million sparse features")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.npz"
        save_graph(path, draw_wide(size, options.seed))
        cost = crossgcn(
            *("train", str(path), "--model", "cross-gcn", "--order", "2"),
            *("--hidden-channels", "16", "--splits", "stratified", "--num-splits", "1"),
            *("--epochs", "5", "--out", f"{folder}/run"),
        )
    if len(cost.answer["test_accuracy"]) != 1:
        raise WorkFailed("the training on sparse features has no result")
    found.results.append(
        Result("a million sparse features", "memory", cost.peak_bytes / GIB, "GiB")
    )
    found.notes.append(
        f"{size.nodes:,} nodes with {size.stored} of {size.features:,} words each, E 16, 5 epochs: "
        f"{cost.seconds:.3g} s and {cost.peak_bytes / GIB:.2f} GiB at most"
    )


def draw_wide(size: WideSize, seed: int) -> Data:
    """Draw words by Zipf's law shifted by ten ranks, in columns and along edges drawn at random."""
    random = np.random.default_rng(seed)
    ends = np.cumsum(1.0 / (np.arange(size.features) + 10.0))
    places = random.random((size.nodes, size.stored)) + np.arange(size.stored)
    ranks = np.searchsorted(ends, places.ravel() * (ends[-1] / size.stored))
    words = random.permutation(size.features)[ranks.clip(max=size.features - 1)]
    words = np.sort(words.reshape(size.nodes, size.stored), axis=1)
    is_new = np.diff(words, axis=1, prepend=-1) > 0
    offsets = np.concatenate([[0], is_new.sum(axis=1).cumsum()])
    values = random.random(int(offsets[-1]), dtype=np.float32)
    links = random.integers(size.nodes, size=(2, size.nodes * size.degree // 2))
    rows, columns, entries = map(torch.from_numpy, (offsets, words[is_new], values))
    shape = (size.nodes, size.features)
    return Data(
        x=torch.sparse_csr_tensor(rows, columns, entries, shape, check_invariants=False),
        edge_index=to_undirected(torch.from_numpy(links), num_nodes=size.nodes),
        y=torch.from_numpy(random.integers(8, size=size.nodes)),
        num_classes=8,
        name="wide",
    )


def _fastest(timings: Mapping[str, Timing], name: str) -> str:
    sides = [side for side in timings if side.startswith(f"{name},")]
    return min(sides, key=lambda side: timings[side].median)
