"""``crossgcn train``: one model, the paper's protocol or a user's own tables."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from crossgcn.cli import options
from crossgcn.cli.option_groups import (
    EdgesArgument,
    ModelOptions,
    RunOptions,
    TableOptions,
    TrainingOptions,
    is_table,
    with_option_groups,
)
from crossgcn.errors import BadInput
from crossgcn.models.presets import get_preset

if TYPE_CHECKING:
    pass


@with_option_groups
def train(
    dataset: options.DatasetArgument = None,
    edges: EdgesArgument = None,
    model: options.ModelOption = None,
    num_layers: Annotated[
        int | None,
        typer.Option(help="Graph convolutions. \\[default: 2]", rich_help_panel=options.MODEL),
    ] = None,
    config: options.ConfigOption = None,
    *,
    details: ModelOptions,
    training: TrainingOptions,
    tables: TableOptions,
    run: RunOptions,
) -> None:
    """Train one model over many training splits and report its test accuracy.

    The defaults are the paper's protocol: 20 splits of 20 nodes per class, 500
    epochs, the epoch of best validation accuracy, test nodes read once after.

    With tables of your own, crossgcn train nodes.csv edges.csv --target COLUMN, they are
    5 stratified splits. The folder --out is what explain, predict and
    report take.
    """
    graph, defaults = tables.load(dataset, edges, out=run.out, splits=training.splits)

    from crossgcn.cli.running import finish, run_with_progress
    from crossgcn.training.checkpoints import load_model
    from crossgcn.training.config import RunConfig

    settings = RunConfig.create(
        config_file=config,
        defaults=defaults,
        dataset=dataset,
        model=model,
        num_layers=num_layers,
        **details.shared(),
        **details.variants(),
        **training.settings(),
    )
    if graph is not None:
        from crossgcn.cli.running import cross_in_first_layer

        settings = cross_in_first_layer(settings)
    elif is_table(settings.dataset):
        raise BadInput(
            f"{config}: {settings.dataset} is a table, and tables are given as arguments: crossgcn "
            f"train {settings.dataset} EDGES --target COLUMN --config {config}, without dataset "
            "in the file"
        )
    started = time.perf_counter()
    (runs,), folder = run_with_progress(
        [settings], run, name=settings.model, save_models=True, graph=graph
    )

    from crossgcn.explanation.reading import can_be_explained
    from crossgcn.reports.summaries import summarise_training
    from crossgcn.reports.terminal.tables import order_weight_lines, training_table

    summary = summarise_training(runs)
    summary |= {
        "finished": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "wall_seconds": time.perf_counter() - started,
        "out": str(folder),
    }
    if graph is not None:
        summary |= {
            "target": graph.plan.target,
            "warnings": [problem.describe() for problem in graph.problems],
        }

    def show(console: Console) -> None:
        console.print(training_table(summary), "", *order_weight_lines(summary), sep="\n")
        of_features = get_preset(settings.model).inputs == "features"
        if of_features and can_be_explained(load_model(folder)):
            words = f"\nNext: {shlex.join(['crossgcn', 'explain', str(folder)])}"
            console.print(words, highlight=False, markup=False)

    finish(summary, folder, run.as_json, show)
