"""The whole protocol on the CPU: 20 splits of Citeseer, 500 epochs, validation after each.

Every round times all runs of our model, spread over all cores, from the start of the first run to
the last test accuracy. The 10,000 epochs of PyG's GCN would take most of an hour, so each round
times a few of its epochs and extrapolates. An epoch of PyG's GCN is a training step and a
validation pass over the whole graph.
"""

from __future__ import annotations

from crossgcn.cli.options import available_cores
from crossgcn.data import load_dataset, make_splits
from crossgcn.experiments.experiment import Experiment
from crossgcn.training.config import RunConfig
from research.benchmarks.harness.agreement import check_peer
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.ours import build_ours
from research.benchmarks.harness.peer_training import PeerTraining
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.rounds import Side, interleave, ratio_of
from research.benchmarks.harness.scaling import multiplied

PEER = "PyG GCN"


def measure(options: Options) -> Measurement:
    """Time the protocol."""
    splits, epochs, peer_epochs = (4, 250, 3) if options.quick else (20, 500, 20)
    return measure_protocol("citeseer", options, splits, epochs, peer_epochs)


def measure_protocol(
    dataset: str, options: Options, num_splits: int, epochs: int, peer_epochs: int
) -> Measurement:
    """Time all runs of our model, and some epochs of the peer.

    Args:
        dataset: Name or graph file.
        num_splits: Number of splits, one run each.
        epochs: Epochs of each run.
        peer_epochs: Epochs of the peer that each round times.
    """
    cores = available_cores()
    data = load_dataset(dataset)
    split = make_splits(data, num_splits=1, seed=options.seed)[0]
    options.show("checking", 0, 1)
    checks = check_peer(data.name, PEER, data, split.train)
    config = RunConfig(dataset=dataset, num_splits=num_splits, epochs=epochs, seed=options.seed)
    experiment = Experiment([config])
    model = build_ours(data, 1, seed=options.seed)
    peer = PeerTraining(PEER, model, data, split.train, split.validation)
    peer.epoch()
    timings = interleave(
        data.name,
        [
            Side("ours", lambda: experiment.run(workers=cores, threads=1), steps=1),
            Side(PEER, peer.epoch, cores, steps=peer_epochs),
        ],
        options.pace("protocol"),
    )
    whole = {**timings, PEER: multiplied(timings[PEER], num_splits * epochs)}
    return Measurement(
        results=[ratio_of(whole, PEER, "ours")],
        timings=list(whole.values()),
        checks=checks,
        notes=[
            f"ours ({cores} processes) was measured in full in every round: {num_splits} runs of "
            f"{epochs} epochs, {whole['ours'].median:.3g} s, the start of the processes included",
            f"{PEER} was not: {peer_epochs} epochs a round, {timings[PEER].median:.3g} s each "
            f"({cores} threads), were multiplied by {num_splits * epochs:,}, which makes "
            f"{whole[PEER].median:,.0f} s",
        ],
        extra={"peer_epoch_seconds": list(timings[PEER].seconds)},
    )


if __name__ == "__main__":
    main("cpu_protocol", measure)
