"""Cost of reduced precision on a GPU: accuracy over 20 splits, and error of the gradients.

Accuracy is the test accuracy of `cross-gcn` under the full protocol; each precision is paired
with fp32, split by split. The gradient error is the largest over all weights at the start of
training, against float64, without dropout and with nonzero order weights.
"""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.data import Data

from crossgcn.data import available, load_dataset, make_splits
from crossgcn.experiments.experiment import Experiment, RepeatedRuns
from crossgcn.experiments.statistics import paired_difference
from crossgcn.training.config import Precision, RunConfig
from crossgcn.training.device import PRECISIONS
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.gradients import first_gradients, gradient_errors, peer_gradients
from research.benchmarks.harness.ours import build_ours, prepare, raise_crosses, training_step
from research.benchmarks.harness.peer_training import PeerTraining, matmul_precision
from research.benchmarks.harness.record import Measurement
from research.pages.benchmarks import BenchmarkResult

GRAPHS = ("cora", "citeseer", "pubmed")


def measure(options: Options) -> Measurement:
    """Train on every graph that is on this machine, in every precision."""
    found = Measurement(extra={"test_accuracy": {}})
    for name in GRAPHS:
        if available(name) is None:
            found.notes.append(f"{name} is not on this machine: crossgcn data get {name}")
            continue
        data = load_dataset(name)
        for precision in PRECISIONS:
            error = gradient_error(data, precision, options.device)
            found.results.append(
                BenchmarkResult(name, f"gradient, {precision}", error, "relative error")
            )
        measure_accuracy(name, options, found)
    found.notes.append("differences are means over splits, in points, with one standard error")
    return found


def measure_accuracy(name: str, options: Options, found: Measurement) -> None:
    """Run the protocol in every precision and pair the accuracies.

    Args:
        name: Name of the graph.
        found: Measurement to which the results are added.
    """
    runs: dict[Precision, RepeatedRuns] = {}
    for number, precision in enumerate(PRECISIONS):
        options.show(f"{name}, {precision}", number, len(PRECISIONS))
        short: dict[str, Any] = {"num_splits": 4, "epochs": 100} if options.quick else {}
        config = RunConfig(dataset=name, seed=options.seed, precision=precision, **short)
        (runs[precision],) = Experiment([config]).run(device=options.device)
    found.extra["test_accuracy"][name] = {each: runs[each].test_accuracy for each in PRECISIONS}
    means = ", ".join(f"{100 * runs[each].summary.mean:.2f} in {each}" for each in PRECISIONS)
    found.notes.append(f"{name}: mean test accuracy in percent {means}")
    for precision in PRECISIONS[1:]:
        paired = paired_difference(runs[precision].test_accuracy, runs["fp32"].test_accuracy)
        mean, error = 100 * paired.mean, 100 * (paired.standard_error or 0.0)
        what = f"accuracy, {precision} − fp32"
        found.results.append(
            BenchmarkResult(name, what, mean, "points", low=mean - error, high=mean + error)
        )


def gradient_error(data: Data, precision: Precision, device: str) -> float:
    """Return the largest error of a weight's gradient in one step, against float64.

    Args:
        precision: Precision of the step.
        device: Device of the step.
    """
    train = make_splits(data, num_splits=1)[0].train
    ours = build_ours(data, 2, dropout=0.0)
    raise_crosses(ours)
    with matmul_precision(precision):
        step = training_step(
            ours,
            prepare(data),
            data,
            train,
            device=device,
            precision=precision,
            weight_decay=0.0,
        )
        step()
    gradients = first_gradients(step, ours)
    exact = data.clone()
    exact.x = data.x.to(torch.float64)
    _, reference = peer_gradients(PeerTraining("naive Cross-GCN", ours.double(), exact, train))
    errors = gradient_errors(gradients, reference)
    return max(error for what, error in errors.items() if not what.startswith("alpha"))


if __name__ == "__main__":
    main("precision", measure)
