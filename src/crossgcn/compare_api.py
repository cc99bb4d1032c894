"""Compare models on tables and on known datasets."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crossgcn.data.tables.graph import TableGraph
from crossgcn.errors import BadInput
from crossgcn.experiments.answers import TableComparison
from crossgcn.experiments.candidates import CANDIDATES, table_defaults
from crossgcn.experiments.compare import TableExperiment
from crossgcn.experiments.experiment import Experiment
from crossgcn.models.catalogue import MODEL_OPTIONS, settings_of_models
from crossgcn.reports.summaries import summarise_candidates, summarise_comparison
from crossgcn.training.config import RunConfig
from crossgcn.training.metrics import positive_class
from crossgcn.training.records import describe_environment, write_summary

_OF_ALL_CANDIDATES = {"bias", "hops", "label_features", "bags"}
_TUNED = {"dropout", "weight_decay"} | (MODEL_OPTIONS - _OF_ALL_CANDIDATES)
"""Settings that each candidate has from its description or from a trial."""


def table_experiment(
    graph: TableGraph, models: Sequence[str] | None, tuning: int, settings: Mapping[str, Any]
) -> TableExperiment:
    """Return what ``compare`` trains on a user's tables.

    Args:
        models: Names of candidates; all that are installed by default.
        tuning: Trials per model.
        settings: Settings for every model; those that are ``None`` are left out.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    for name in given.keys() & _TUNED:
        raise BadInput(
            f"{name} cannot be given to compare with tables, which sets it for each model or "
            "tunes it: leave it out, or train one model with it"
        )
    return TableExperiment(
        graph.data,
        models,
        num_trials=tuning,
        defaults=table_defaults(graph, given.get("splits")),
        settings={**given, "dataset": graph.data.name},
    )


def compare_on_tables(
    graph: TableGraph,
    experiment: TableExperiment,
    *,
    baseline: str | None = None,
    threads: int = 1,
    **work: Any,
) -> tuple[dict[str, Any], TableComparison]:
    """Train all models; return the summary, as ``crossgcn compare --json`` prints it.

    ``baseline`` is the model that the others are paired with. The other arguments are those of
    :meth:`TableExperiment.run <crossgcn.experiments.compare.TableExperiment.run>`.
    """
    started, tuning = time.perf_counter(), experiment.num_trials
    comparison = experiment.run(threads=threads, **work)
    config, environment = experiment.experiment.configs[0], describe_environment()
    positive: dict[str, str] = {}
    if graph.data.num_classes == 2:
        positive["positive_class"] = graph.classes[positive_class(graph.data.y.numpy())]
    summary = {
        "dataset": graph.data.name,
        "target": graph.plan.target,
        "splits": config.splits,
        "num_splits": len(experiment.experiment.splits),
        "train": config.train,
        "seed": config.seed,
        "epochs": config.epochs,
        "trials": tuning,
        "tuned": {
            name: [dict(trial) for trial in CANDIDATES[name].trials[:tuning]]
            for name in experiment.names
        },
        **summarise_candidates(comparison, baseline),
        **positive,
        "left_out": experiment.skipped,
        "seconds": sum(result.seconds for result in comparison.results),
        "versions": environment["versions"],
        "threads": threads,
        "commit": environment["commit"],
        "wall_seconds": time.perf_counter() - started,
    }
    return summary, comparison


def compare(
    dataset: str,
    models: Sequence[str] = ("gcn", "cross-gcn"),
    *,
    baseline: str | None = None,
    out: Path | str | None = None,
    workers: int = 1,
    threads: int = 1,
    device: str = "cpu",
    on_epochs: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Train presets on the same splits of a dataset, and pair their results split by split.

    For tables of your own, use :meth:`from_tables(...).compare()
    <crossgcn.tables_api.TableModel.compare>`, which answers what helps there.

    Args:
        dataset: A known dataset, or a graph file.
        models: Names of presets.
        baseline: The one that the others are compared with; the first by default.
        out: Folder for the records and ``result.json``; finished runs in it are not repeated.
        workers: Number of processes.
        threads: Threads of each run.
        device: ``cpu``, ``cuda`` or ``auto``.
        on_epochs: Called with the epochs done and the epochs in total.
        **settings: Fields of :class:`~crossgcn.RunConfig`, for the models that have them.

    Returns:
        The summary that ``crossgcn compare --json`` prints.
    """
    started = time.perf_counter()
    baseline = models[0] if baseline is None else baseline
    check_baseline(baseline, models)
    folder = None if out is None else Path(out)
    configs = [
        RunConfig.create(dataset=dataset, model=name, **own)
        for name, own in settings_of_models(models, settings).items()
    ]
    runs = Experiment(configs).run(
        out=folder, workers=workers, threads=threads, device=device, on_epochs=on_epochs
    )
    summary = summarise_comparison(runs, baseline)
    summary["wall_seconds"] = time.perf_counter() - started
    return keep_summary(summary, folder)


def check_baseline(baseline: str | None, names: Sequence[str]) -> None:
    """Refuse a baseline that is none of the models."""
    if baseline is not None and baseline not in names:
        raise BadInput(
            f"--baseline {baseline} is not among --models {','.join(names)}: add it there"
        )


def keep_summary(summary: dict[str, Any], folder: Path | None) -> dict[str, Any]:
    """Write a summary to ``result.json`` in its folder, as the commands do."""
    if folder is not None:
        summary["out"] = str(folder)
        write_summary(folder, summary)
    return summary
