"""``crossgcn train``: one model, by the paper's protocol or on a user's own tables."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any

from crossgcn.cli import options as o
from crossgcn.cli.running import finish, load_experiment, progress_bar, results_folder
from crossgcn.cli.tables import TableOptions, absolute_words, read_dataset
from crossgcn.data.datasets.catalogue import DATASET_NAMES
from crossgcn.experiments.candidates import configure_for_tables


def train(
    dataset: str | None = o.DATASET,
    edges: list[str] | None = o.EDGES,
    *,
    tables: TableOptions,
    model: str | None = o.option("Preset (default cross-gcn; tables cross-hops).", metavar="NAME"),
    num_layers: int | None = o.option("Number of graph convolutions (default 2).", metavar="N"),
    order_weights: str | None = o.option(
        "fixed, learned, gated, per-unit, or a number per order.", metavar="NAME|N,..."
    ),
    training: o.TrainingOptions,
    config: Path | None = o.option(
        "TOML file with settings, or config.json of a run.", metavar="FILE"
    ),
    work: o.WorkOptions,
    as_json: bool = o.JSON,
) -> None:
    """Train one model on many splits and report its scores on test nodes.

    By default, the protocol of the paper. With tables and --target COLUMN, cross-hops on 10
    stratified splits. crossgcn check --help lists more options for tables.
    """
    given = training.settings(model=model, num_layers=num_layers, order_weights=order_weights)
    found = read_dataset(dataset, edges, tables, config)
    graph, hop_table = found.graph, found.hop_table
    if hop_table is not None and config is None and model in (None, "cross-hops"):
        given["hops"] = hop_table.hops if given["hops"] is None else given["hops"]
    chosen = configure_for_tables(graph, {"dataset": found.name, **given}, config_file=config)
    described: dict[str, Any] = {
        "dataset": _absolute(chosen.dataset),
        "edges": absolute_words(found.edges),
        "tables": found.tables.given(),
        "settings": chosen.model_dump(mode="json", exclude={"dataset"}, exclude_none=True),
    }
    if found.tables.through:
        described["tables"]["through"] = absolute_words(found.tables.through)
    started = time.perf_counter()
    experiment = load_experiment([chosen], graph)
    with results_folder(work, f"{Path(chosen.dataset).stem}-{chosen.model}") as folder:
        from crossgcn.experiments.run_folder import choose_model
        from crossgcn.explanation.api import can_be_explained
        from crossgcn.reports.format import count
        from crossgcn.reports.summaries import summarise_training
        from crossgcn.reports.terminal.compare import training_screen
        from crossgcn.training.saved_models import load_model

        words = f"training {chosen.model} × {count(len(experiment.splits), 'split')}"
        with progress_bar(words, "epochs") as show:
            (runs,) = experiment.run(
                out=folder, save_models=True, training=described, on_epochs=show, **work.how()
            )
        ids, names = (None, None) if graph is None else (graph.ids, graph.names)
        hop_file = None if hop_table is None else hop_table.path
        choose_model(folder, experiment, ids, names, hop_file)
        summary = summarise_training(runs)
        summary["finished"] = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        if graph is not None:
            summary["target"] = graph.plan.target
            summary["warnings"] = [problem.describe() for problem in graph.problems]
        explain = shlex.join(["crossgcn", "explain", str(folder)])
        summary["next"] = explain if can_be_explained(load_model(folder)) else None
        finish(summary, training_screen, folder, started, as_json)


def _absolute(dataset: str | Path) -> str:
    """Return the name of a known dataset, or the absolute path of a file."""
    path = Path(dataset)
    return str(path.resolve() if path.exists() and str(dataset) not in DATASET_NAMES else dataset)
