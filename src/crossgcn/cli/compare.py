"""``crossgcn compare``: several models with the same training, paired over splits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from crossgcn.cli import options as o
from crossgcn.cli.running import finish, load_experiment, progress_bar, results_folder, terminal
from crossgcn.cli.tables import TableOptions, read_dataset
from crossgcn.errors import BadInput
from crossgcn.experiments.candidates import DEFAULT_TRIALS, MOST_TRIALS
from crossgcn.models.catalogue import get_preset, settings_of_models
from crossgcn.training.config import RunConfig


def compare(
    dataset: str | None = o.DATASET,
    edges: list[str] | None = o.EDGES,
    *,
    tables: TableOptions,
    models: str | None = o.option("Comma-separated (default gcn,cross-gcn).", metavar="NAMES"),
    baseline: str | None = o.option("Model to compare the others with.", metavar="NAME"),
    num_layers: str = o.option("Depths to compare at (default 2).", metavar="N,...", default="2"),
    tuning: int = o.option(
        f"With tables: trials per model (default {DEFAULT_TRIALS}).",
        metavar=f"1..{MOST_TRIALS}",
        default=DEFAULT_TRIALS,
    ),
    training: o.TrainingOptions,
    work: o.WorkOptions,
    as_json: bool = o.JSON,
) -> None:
    """Train several models on the same splits and pair their results split by split.

    With tables and --target COLUMN, the answer says whether crosses and the graph help, and whether
    a black box is better. crossgcn check --help lists more options for tables.
    """
    given = training.settings()
    names = None if models is None else o.parse_names(models, "--models")
    depths = [o.parse_value(depth) for depth in o.parse_names(num_layers, "--num-layers")]
    found = read_dataset(dataset, edges, tables)
    from crossgcn.experiments.compare import check_baseline, table_experiment
    from crossgcn.reports import summaries
    from crossgcn.reports.terminal.compare import comparison_screen

    if found.hop_table is not None:
        raise BadInput(
            f"{dataset} holds columns of crossgcn hops, which only crossgcn train reads; give the "
            "tables of nodes and of edges"
        )
    experiment: Any
    if found.graph is None:
        names = names or ["gcn", "cross-gcn"]
        baseline = baseline or names[0]
        of_models = settings_of_models(names, given)
        get_preset(baseline)
        check_baseline(baseline, names)
        configs = [
            RunConfig.create(dataset=found.name, model=name, num_layers=depth, **settings)
            for depth in depths
            for name, settings in of_models.items()
        ]
        experiment = load_experiment(configs)
        words, unit = f"training {len(experiment.configs)} models", "epochs"
    else:
        if len(depths) > 1:
            raise BadInput("compare takes one depth for tables: give --num-layers one number")
        given["num_layers"] = depths[0]
        experiment = table_experiment(found.graph, names, tuning, baseline, given)
        if experiment.missing and names is None:
            terminal().print("left out: ebm, which needs pip install 'crossgcn[ebm]'")
        words, unit = f"training {len(experiment.names)} models", "runs"
    started = time.perf_counter()
    with results_folder(work, f"{Path(found.name).stem}-compare") as folder:
        with progress_bar(words, unit) as show:
            result = experiment.run(out=folder, on_epochs=show, **work.how())
        if found.graph is None:
            summary = summaries.summarise_comparison(result, str(baseline)) | {"next": None}
        else:
            summary = summaries.summarise_candidates(result, baseline)
            more = result.of(summary["recommended"]).train_options or ("--model", "cross-hops")
            command = found.tables.command("train", found.name, found.edges, *more)
            summary |= {"dataset": found.name, "next": command}
        finish(summary, comparison_screen, folder, started, as_json)
