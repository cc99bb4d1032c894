"""Effect of sampling on accuracy: mini-batch training paired with full-batch training.

Both sides share splits, seeds, initial weights, objective and selection rule, and both are
evaluated on whole neighbourhoods. A full-batch epoch is one step; a mini-batch epoch is a pass
over the training nodes. On the larger graph, full-batch training therefore gets more epochs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crossgcn.cli.options import available_cores
from crossgcn.data import available
from crossgcn.experiments.experiment import Experiment
from crossgcn.experiments.statistics import paired_difference
from crossgcn.training.config import RunConfig
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.record import Measurement
from research.pages.benchmarks import BenchmarkResult

WHAT = "accuracy, sampled − full batch"


@dataclass(frozen=True)
class Case:
    """A graph and its training settings.

    Attributes:
        dataset: Name or graph file.
        splits: Fields of :class:`~crossgcn.RunConfig` that define the splits and their number.
        epochs: Epochs of full-batch training.
        batches: Further fields for mini-batch training, including its epochs.
        quick: Overrides for a quick look: fewer splits and epochs.
    """

    dataset: str
    splits: dict[str, Any]
    epochs: int
    batches: dict[str, Any]
    quick: dict[str, Any]


CASES = (
    Case(
        "pubmed",
        {"splits": "authors"},
        500,
        {"batch_size": 20, "fanout": 25, "epochs": 200},
        {"num_splits": 3},
    ),
    Case(
        "reddit400k-shaped",
        {"splits": "public", "train": "all", "repeats": 3},
        150,
        {"batch_size": 512, "fanout": 50, "epochs": 12},
        {"repeats": 1},
    ),
)


def measure(options: Options) -> Measurement:
    """Train on both graphs."""
    return measure_cases(CASES, options)


def measure_cases(cases: tuple[Case, ...], options: Options) -> Measurement:
    """Train both ways on every graph that is on this machine.

    Args:
        cases: The graphs.
    """
    found = Measurement(extra={"test_accuracy": {}, "seconds": {}})
    for case in cases:
        if case.dataset in ("cora", "pubmed") and available(case.dataset) is None:
            found.notes.append(f"{case.dataset} is not here: crossgcn data get {case.dataset}")
            continue
        measure_case(case, options, found)
    found.notes.append("differences are means over runs, in points, with one standard error")
    return found


def measure_case(case: Case, options: Options, found: Measurement) -> None:
    """Train both ways on one graph, and pair the runs.

    Args:
        found: Measurement to which the results are added.
    """
    shared = {"dataset": case.dataset, "seed": options.seed, **case.splits}
    shared |= case.quick if options.quick else {}
    sides = {
        "full batch": RunConfig(**shared, epochs=case.epochs),
        "sampled": RunConfig(**shared, **case.batches),
    }
    accuracies, notes = {}, []
    for number, (side, config) in enumerate(sides.items()):
        what = f"{case.dataset}, {side}"

        def show(done: int, total: int, what: str = what) -> None:
            options.show(what, done, total)

        options.show(what, number, len(sides))
        (runs,) = Experiment([config]).run(workers=available_cores(), on_epochs=show)
        accuracies[side] = runs.test_accuracy
        seconds = sum(record["seconds"] for record in runs.records) / len(runs.records)
        mean = 100 * runs.summary.mean
        notes.append(f"{mean:.2f} % {side} ({config.epochs} epochs, {seconds:.3g} s a run)")
        found.extra["seconds"][what] = seconds
    found.extra["test_accuracy"][case.dataset] = accuracies
    paired = paired_difference(accuracies["sampled"], accuracies["full batch"])
    mean, error = 100 * paired.mean, 100 * (paired.standard_error or 0.0)
    found.results.append(
        BenchmarkResult(case.dataset, WHAT, mean, "points", low=mean - error, high=mean + error)
    )
    count = len(accuracies["sampled"])
    found.notes.append(f"{case.dataset}, {count} runs each: {', '.join(notes)}")


if __name__ == "__main__":
    main("sampled_accuracy", measure)
