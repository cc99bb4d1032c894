"""``crossgcn tune``: search a model's settings, and its twin's without crosses alike."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    from crossgcn.experiments.tune.tuning import TuningResult

_SEARCH = "Search"


@with_option_groups
def tune(
    dataset: options.DatasetArgument = None,
    edges: EdgesArgument = None,
    model: options.ModelOption = None,
    num_layers: Annotated[
        str | None,
        typer.Option(
            help="Graph convolutions: 2, or 1,2,3 to have one of them chosen. \\[default: 2]",
            rich_help_panel=options.MODEL,
        ),
    ] = None,
    trials: Annotated[
        int,
        typer.Option(help="Settings to try, and as many for the twin.", rich_help_panel=_SEARCH),
    ] = 30,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="Start no further trial after so many seconds; the twin has had as many.",
            metavar="SECONDS",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    search_splits: Annotated[
        int | None,
        typer.Option(
            help="Splits that a trial uses, the first ones: fewer are faster and chance counts "
            "for more. The chosen settings are trained on all. \\[default: all]",
            metavar="N",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(
            help="Hold a setting, as --dropout 0.5 and the other options do; may be repeated.",
            metavar="NAME=VALUE",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    space: Annotated[
        Path | None,
        typer.Option(
            help="A search space of your own, a TOML file: dropout = { low = 0.0, high = 0.8 }, "
            "weight_decay = { low = 1e-5, high = 1e-2, log = true }, hidden_channels = [16, 32]. "
            "\\[default: the model's]",
            metavar="FILE",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    twin: Annotated[
        bool,
        typer.Option(
            "--twin/--no-twin",
            help="Search for the same model without crosses too, and compare the two.",
            rich_help_panel=_SEARCH,
        ),
    ] = True,
    config: options.ConfigOption = None,
    *,
    details: ModelOptions,
    training: TrainingOptions,
    tables: TableOptions,
    run: RunOptions,
) -> None:
    """Search for the settings of best validation accuracy, then test them once.

    Every trial trains over the splits; no test node is read until the search is over. The
    same search, with as many trials, is done for the model without crosses, so that the
    difference is theirs. Needs the extra tune, which brings Optuna.

    The settings go to best.toml in --out, for crossgcn train --config, and the best model of
    the last training to chosen/, for predict and explain. A search that was stopped goes on
    with --resume, as if it had not been.

    With tables of your own, crossgcn tune nodes.csv edges.csv --target COLUMN, a fifth of the nodes
    is set apart to test, the same in all splits. Training again deals them out anew, so there use
    the saved model.
    """
    get_preset(model or "cross-gcn")
    graph, defaults = tables.load(dataset, edges, out=run.out, splits=training.splits)

    from crossgcn.experiments.tune.searches import make_searches
    from crossgcn.experiments.tune.tuning import Tuning

    given = {"dataset": dataset, "model": model, **details.shared(), **details.variants()}
    searches = make_searches(
        {**given, **training.settings()},
        fix=fix or [],
        depths=None if num_layers is None else options.parse_numbers(num_layers, "--num-layers"),
        config_file=config,
        defaults=defaults,
        space_file=space,
        twin=twin,
    )
    first = searches[0].base
    if graph is None and is_table(first.dataset):
        raise BadInput(
            f"{config}: {first.dataset} is a table, and tables are given as arguments: crossgcn "
            f"tune {first.dataset} EDGES --target COLUMN, without dataset in the file"
        )

    from crossgcn.cli.running import check_workers, finish, show_progress

    check_workers(run.workers, run.threads)
    own: dict[str, Any] = {}
    if graph is not None:
        from crossgcn.data.tables.graph import describe_encoding

        own = {"data": graph.data, "ids": graph.ids, "preprocess": describe_encoding(graph)}
    tuning = Tuning(
        *searches,
        search_splits=search_splits,
        first_layer_only=graph is not None,
        **own,
    )
    started = time.perf_counter()
    names = " and ".join(search.base.model for search in searches)
    count = tuning.search_splits
    words = f"{names}: {trials} trial{'s' * (trials > 1)} × {count} split{'s' * (count > 1)}"
    name = f"{Path(first.dataset).stem}-{first.model}-tune"
    with show_progress(run, words, name) as (folder, work):
        result = tuning.run(out=folder, trials=trials, timeout=timeout, **work)
    summary = _keep(result, folder, with_dataset=graph is None)
    summary |= {
        "search_splits": tuning.search_splits,
        "wall_seconds": time.perf_counter() - started,
        "out": str(folder),
    }
    if graph is not None:
        summary["target"] = graph.plan.target

    from crossgcn.reports.terminal.tune import settings_table, tuning_notes, tuning_table

    def show(console: Console) -> None:
        console.print(tuning_table(summary), settings_table(summary))
        for note in tuning_notes(summary):
            console.print(note, highlight=False)
        file = ("--config", str(folder / "best.toml"))
        if first.splits == "stratified":
            steps = _uses_of(result.ours.folder, first.model)
        elif graph is not None:
            steps = tables.command("train", str(dataset), edges, *file)
        else:
            steps = shlex.join(["crossgcn", "train", *file])
        picture = folder / "search.png"
        words = f"\nNext: {steps}\nThe search as a picture: {picture}"
        console.print(words, highlight=False, markup=False)

    finish(summary, folder, run.as_json, show)


def _uses_of(folder: Path, model: str) -> str:
    """What to type next with a saved model."""
    from crossgcn.explanation.reading import can_be_explained
    from crossgcn.training.checkpoints import load_model

    commands = ["predict"]
    if get_preset(model).inputs == "features" and can_be_explained(load_model(folder)):
        commands.append("explain")
    return " or ".join(shlex.join(["crossgcn", command, str(folder)]) for command in commands)


def _keep(result: TuningResult, folder: Path, *, with_dataset: bool) -> dict[str, Any]:
    """Write the chosen settings and the picture, and sum all of it up."""
    from crossgcn.reports.terminal.tune import summarise_tuning, write_config
    from crossgcn.reports.tuning_figure import write_tuning_figure

    write_config(folder / "best.toml", result.ours, with_dataset=with_dataset)
    if result.twin is not None:
        write_config(folder / "twin.toml", result.twin, with_dataset=with_dataset)
    write_tuning_figure(folder / "search.png", result)
    return summarise_tuning(result)
