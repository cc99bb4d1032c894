"""Many small models at once on a GPU: 20 splits of four hidden sizes on Citeseer.

Our models train as stacks for 500 epochs, with validation after each epoch; every round measures
the whole training. PyG's GCN trains one run after another on the same GPU. Each round times some
of its epochs for each hidden size and extrapolates.
"""

from __future__ import annotations

from torch_geometric.data import Data

from crossgcn.data import load_dataset, make_splits
from crossgcn.experiments.experiment import Experiment
from crossgcn.training.config import RunConfig
from research.benchmarks.harness.agreement import check_peer
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.ours import build_ours
from research.benchmarks.harness.peer_training import PeerTraining, matmul_precision
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.rounds import Side, interleave, ratio_of
from research.benchmarks.harness.scaling import added, multiplied

PEER = "PyG GCN"
HIDDEN = (16, 32, 64, 128)


def measure(options: Options) -> Measurement:
    """Time the stacks."""
    splits, epochs = (4, 50) if options.quick else (20, 500)
    return measure_stack(load_dataset("citeseer"), options, splits, epochs)


def measure_stack(data: Data, options: Options, num_splits: int, epochs: int) -> Measurement:
    """Time all runs of our models, and some epochs of the peer for each hidden size.

    Args:
        num_splits: Number of splits, one run each per hidden size.
        epochs: Epochs of each run.
    """
    case, device = f"E {', '.join(map(str, HIDDEN))}", options.device
    split = make_splits(data, num_splits=1, seed=options.seed)[0]
    found = Measurement()
    sides = []
    for hidden in HIDDEN:
        options.show(f"E {hidden}, checking", 0, 1)
        found.checks += check_peer(
            f"E {hidden}", PEER, data, split.train, hidden_channels=hidden, device=device
        )
        model = build_ours(data, 1, hidden_channels=hidden, seed=options.seed)
        peer = PeerTraining(PEER, model, data, split.train, split.validation, device=device)
        sides.append(Side(f"{PEER}, E {hidden}", peer.epoch))
    experiment = Experiment(
        [
            RunConfig(
                hidden_channels=hidden, num_splits=num_splits, epochs=epochs, seed=options.seed
            )
            for hidden in HIDDEN
        ],
        data,
    )
    ours = Side("ours", lambda: experiment.run(device=device), steps=1)
    with matmul_precision("fp32"):
        # The first run compiles kernels; compilation is not timed.
        ours.step()
        timings = interleave(case, [ours, *sides], options.pace("stack"))
    wholes = [multiplied(timings[side.name], num_splits * epochs) for side in sides]
    pair = {"ours": timings["ours"], PEER: added(case, PEER, wholes)}
    found.timings += [*timings.values(), pair[PEER]]
    found.results.append(ratio_of(pair, PEER, "ours"))
    found.notes += [
        f"ours was measured in full in every round: {num_splits * len(HIDDEN)} runs of {epochs} "
        f"epochs, {pair['ours'].median:.3g} s, kernels having been compiled before",
        f"{PEER} was not: some epochs of each size in every round were multiplied by "
        f"{num_splits * epochs:,} and added up, which makes {pair[PEER].median:,.0f} s",
    ]
    return found


if __name__ == "__main__":
    main("gpu_stack", measure)
