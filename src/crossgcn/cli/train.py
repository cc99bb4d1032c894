"""``crossgcn train``: one model, by the paper's protocol or on a user's own tables."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossgcn.cli import options as o
from crossgcn.cli.output import print_answer, print_line
from crossgcn.cli.running import (
    be_quiet,
    check_work,
    load_experiment,
    progress_bar,
    results_folder,
)
from crossgcn.cli.tables import TableOptions, read_dataset
from crossgcn.data.datasets.catalogue import DATASET_NAMES
from crossgcn.experiments.candidates import configure_for_tables

if TYPE_CHECKING:
    from rich.console import RenderableType

    from crossgcn.data.tables.graph import TableGraph
    from crossgcn.experiments.experiment import RepeatedRuns


def train(
    dataset: str | None = o.DATASET,
    edges: Path | None = o.EDGES,
    *,
    tables: TableOptions,
    model: str | None = o.option("Preset (default cross-gcn; tables cross-hops).", metavar="NAME"),
    num_layers: int | None = o.option("Number of graph convolutions (default 2).", metavar="N"),
    order_weights: str | None = o.option(
        "fixed, learned, gated, ..., or a number per order.", metavar="NAME|N,..."
    ),
    training: o.TrainingOptions,
    config: Path | None = o.option(
        "TOML file with settings, or config.json of a run.", metavar="FILE"
    ),
    work: o.WorkOptions,
    as_json: bool = o.JSON,
    quiet: bool = o.QUIET,
) -> None:
    """Train one model on many splits and report its scores on test nodes.

    By default the paper's protocol; with tables of your own and --target COLUMN, cross-hops on 10
    stratified splits. crossgcn check --help lists more options for the columns of tables.
    """
    be_quiet(quiet)
    given = training.settings(model=model, num_layers=num_layers, order_weights=order_weights)
    how = check_work(work)
    found = read_dataset(dataset, edges, tables, config)
    graph = found.graph
    hop_file = getattr(graph, "path", None)
    if hop_file is not None and config is None and model in (None, "cross-hops"):
        given["hops"] = given["hops"] or graph.hops  # type: ignore[union-attr]
    chosen = configure_for_tables(graph, {"dataset": found.name, **given}, config_file=config)
    described = {
        "dataset": _absolute(chosen.dataset),
        "edges": None if found.edges is None else _absolute(found.edges),
        "tables": found.tables.given(),
        "settings": chosen.model_dump(mode="json", exclude={"dataset"}, exclude_none=True),
    }
    started = time.perf_counter()
    experiment = load_experiment([chosen], graph, work.device)
    with results_folder(work, f"{Path(chosen.dataset).stem}-{chosen.model}") as folder:
        from crossgcn.experiments.run_folder import choose_model
        from crossgcn.training.records import write_summary

        count = len(experiment.splits)
        words = f"{chosen.model} × {count} split{'s' * (count > 1)}"
        with progress_bar(words, "epochs") as show:
            (runs,) = experiment.run(
                out=folder, save_models=True, training=described, on_epochs=show, **how
            )
        ids, names = (None, None) if graph is None else (graph.ids, graph.names)
        choose_model(folder, experiment, ids, names, hop_file)
        summary = _summarise(runs, graph)
        summary |= {"wall_seconds": time.perf_counter() - started, "out": str(folder)}
        write_summary(folder, summary)
        print_answer(summary, _shown(summary, folder), as_json)
    if not as_json:
        print_line(f"\nWritten to {folder} (result.json, and a run.json for every run).")


def _summarise(runs: RepeatedRuns, graph: TableGraph | None) -> dict[str, Any]:
    from crossgcn.reports.summaries import summarise_training

    summary = summarise_training(runs)
    summary["finished"] = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    if graph is not None:
        summary["target"] = graph.plan.target
        summary["warnings"] = [problem.describe() for problem in graph.problems]
    return summary


def _shown(summary: dict[str, Any], folder: Path) -> Iterator[RenderableType]:
    from crossgcn.explanation.api import can_be_explained
    from crossgcn.reports.terminal.compare import order_weight_lines, training_table
    from crossgcn.training.saved_models import load_model

    yield training_table(summary)
    yield from ("", *order_weight_lines(summary))
    if can_be_explained(load_model(folder)):
        yield f"\nNext: {shlex.join(['crossgcn', 'explain', str(folder)])}"


def _absolute(dataset: str | Path) -> str:
    """Return the name of a known dataset, or the absolute path of a file."""
    path = Path(dataset)
    return str(path.resolve() if path.exists() and str(dataset) not in DATASET_NAMES else dataset)
