"""``crossgcn compare``: several models with the same training, paired over splits."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crossgcn.cli import options as o
from crossgcn.cli.output import print_answer, print_line
from crossgcn.cli.running import (
    be_quiet,
    check_work,
    load_experiment,
    progress_bar,
    results_folder,
    terminal,
)
from crossgcn.cli.tables import Dataset, TableOptions, read_dataset
from crossgcn.errors import BadInput
from crossgcn.experiments.candidates import CANDIDATES, DEFAULT_TRIALS, MOST_TRIALS
from crossgcn.models.catalogue import get_preset, settings_of_models
from crossgcn.training.config import RunConfig

if TYPE_CHECKING:
    from crossgcn.data.tables.graph import TableGraph


def compare(
    dataset: str | None = o.DATASET,
    edges: Path | None = o.EDGES,
    *,
    tables: TableOptions,
    models: str | None = o.option("Separated by commas (default gcn,cross-gcn).", metavar="NAMES"),
    baseline: str | None = o.option("What the others are compared with.", metavar="NAME"),
    num_layers: str = o.option("Depths to compare at (default 2).", metavar="N,...", default="2"),
    tuning: int = o.option(
        f"With tables: trials per model (default {DEFAULT_TRIALS}).",
        metavar=f"1..{MOST_TRIALS}",
        default=DEFAULT_TRIALS,
    ),
    training: o.TrainingOptions,
    work: o.WorkOptions,
    as_json: bool = o.JSON,
    quiet: bool = o.QUIET,
) -> None:
    """Train several models on the same splits and pair their results split by split.

    With tables of your own and --target COLUMN: do crosses help, does the graph, and what does an
    exact explanation cost against a black box? crossgcn check --help lists more options for them.
    """
    be_quiet(quiet)
    given, how = training.settings(), check_work(work)
    names = None if models is None else o.parse_names(models, "--models")
    depths = o.parse_numbers(num_layers, "--num-layers")
    from crossgcn.graph.hop_file import is_hop_file  # imports torch

    if is_hop_file(dataset):
        raise BadInput(
            f"{dataset} holds columns of crossgcn hops, for crossgcn train alone; give the tables "
            "of nodes and of edges"
        )
    found = read_dataset(dataset, edges, tables)
    if found.graph is None:
        prepared = _presets(found.name, given, names, baseline, depths, work.device)
    else:
        if len(depths) > 1:
            raise BadInput("compare with tables takes one depth: give --num-layers one number")
        given["num_layers"] = depths[0]
        prepared = _candidates(found, found.graph, given, names, baseline, tuning)
    started = time.perf_counter()
    with results_folder(work, f"{prepared.name}-compare") as folder:
        from crossgcn.training.records import write_summary

        with progress_bar(prepared.words, prepared.unit) as show:
            summary, parts = prepared.run(out=folder, on_epochs=show, **how)
        summary |= {"wall_seconds": time.perf_counter() - started, "out": str(folder)}
        write_summary(folder, summary)
        print_answer(summary, parts, as_json)
    if not as_json:
        print_line(f"\nWritten to {folder} (result.json, and a run.json for every run).")


class _Prepared(NamedTuple):
    """A comparison of which everything is checked.

    Attributes:
        name: Of the dataset, for the folder of the results.
        words: What the progress bar says.
        unit: What it counts.
        run: Trains; returns the summary, and what is printed of it.
    """

    name: str
    words: str
    unit: str
    run: Callable[..., tuple[dict[str, Any], list[Any]]]


def _presets(
    dataset: str | None,
    settings: dict[str, Any],
    names: list[str] | None,
    baseline: str | None,
    depths: list[int],
    device: str,
) -> _Prepared:
    """Prepare a comparison of presets."""
    names = names or ["gcn", "cross-gcn"]
    baseline = names[0] if baseline is None else baseline
    for name in (*names, baseline):
        get_preset(name)
    from crossgcn.experiments.compare import check_baseline

    check_baseline(baseline, names)
    configs = [
        RunConfig.create(dataset=dataset, model=name, num_layers=depth, **of_model)
        for depth in depths
        for name, of_model in settings_of_models(names, settings).items()
    ]
    experiment = load_experiment(configs, None, device)

    def run(**work: Any) -> tuple[dict[str, Any], list[Any]]:
        from crossgcn.reports.summaries import summarise_comparison
        from crossgcn.reports.terminal.compare import comparison_page

        summary = summarise_comparison(experiment.run(**work), baseline)
        return summary, [comparison_page(summary)]

    words = f"{len(configs)} models{_times(len(experiment.splits))}"
    return _Prepared(Path(configs[0].dataset).stem, words, "epochs", run)


def _candidates(
    found: Dataset,
    graph: TableGraph,
    settings: dict[str, Any],
    names: list[str] | None,
    baseline: str | None,
    tuning: int,
) -> _Prepared:
    """Prepare a comparison of candidates on a user's tables."""
    from crossgcn.experiments.compare import table_experiment

    names = list(CANDIDATES) if names == ["all"] else names
    experiment = table_experiment(graph, names, tuning, baseline, settings)
    words = f"{len(experiment.names)} models × {tuning} trial{'s' * (tuning > 1)}"
    words += _times(len(experiment.experiment.splits))
    if experiment.skipped:
        package = "pip install 'crossgcn[ebm]' and " * experiment.needs_package
        terminal().print(
            f"left out, because they take long: {' and '.join(experiment.skipped)}; {package}"
            "add them by --models all",
            markup=False,
            highlight=False,
        )

    def run(**work: Any) -> tuple[dict[str, Any], list[Any]]:
        from crossgcn.reports.summaries import summarise_candidates
        from crossgcn.reports.terminal.compare import comparison_page

        comparison = experiment.run(**work)
        summary = summarise_candidates(comparison, baseline)
        more = comparison.of(comparison.recommended).train_options or ("--model", "cross-hops")
        summary["dataset"] = found.name
        summary["next"] = found.tables.command("train", str(found.name), found.edges, *more)
        return summary, [comparison_page(summary), f"\nNext: {summary['next']}"]

    return _Prepared(Path(str(found.name)).stem, words, "runs", run)


def _times(splits: int) -> str:
    return f" × {splits} split{'s' * (splits > 1)}"
