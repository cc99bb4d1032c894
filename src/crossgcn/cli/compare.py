"""``crossgcn compare``: several models with the same training, paired over splits."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from crossgcn.cli import options
from crossgcn.cli.options import (
    MODEL_OPTIONS,
    SETTINGS,
    RunOptions,
    SettingOptions,
    Settings,
    option_name,
    parse_names,
    parse_numbers,
    with_option_groups,
)
from crossgcn.cli.tables import EdgesArgument, TableOptions, is_table, table_defaults
from crossgcn.errors import BadInput
from crossgcn.experiments.candidates import CANDIDATES, DEFAULT_TRIALS, TRIALS
from crossgcn.models.catalogue import PRESETS, get_preset
from crossgcn.training.config import RunConfig

_NAMES = tuple(name for name in SETTINGS if name not in ("model", "num_layers"))


@with_option_groups
def compare(
    dataset: options.DatasetArgument = None,
    edges: EdgesArgument = None,
    models: Annotated[
        str | None,
        typer.Option(
            help=f"Separated by commas: {', '.join(PRESETS)}. \\[default: gcn,cross-gcn] "
            f"With tables: {', '.join(CANDIDATES)}. \\[default: all]",
            metavar="NAMES",
            rich_help_panel=options.MODEL,
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Model that the others are compared with. \\[default: the first; with tables the "
            "best one with neither crosses nor a perceptron]",
            metavar="NAME",
            rich_help_panel=options.MODEL,
        ),
    ] = None,
    num_layers: Annotated[
        str,
        typer.Option(help="Depths to compare at, such as 2 or 1,2.", rich_help_panel=options.MODEL),
    ] = "2",
    tuning: Annotated[
        int,
        typer.Option(
            help="With tables: trials per model (dropout and weight decay); in each split the "
            "best on the validation nodes counts.",
            metavar=f"1..{len(TRIALS)}",
            rich_help_panel="Training",
        ),
    ] = DEFAULT_TRIALS,
    *,
    settings: Annotated[Settings, SettingOptions(_NAMES)],
    tables: TableOptions,
    run: RunOptions,
) -> None:
    """Train several models on the same splits and pair their results split by split.

    Every model gets the same training: epochs, weight decay, selection, seeds. --order and other
    details apply to the models that have them; at least one must.

    With tables of your own, crossgcn compare nodes.csv edges.csv --target COLUMN answers whether
    crosses help there. It compares models from the majority class to products of three columns,
    each tuned by the same number of trials, and recommends one.
    """
    names = None if models is None else parse_names(models, "--models")
    depths = list(dict.fromkeys(parse_numbers(num_layers, "--num-layers")))
    if is_table(dataset):
        _compare_on_tables(dataset, edges, tables, settings, run, names, baseline, depths, tuning)
    else:
        tables.load(dataset, edges, run.out)
        names = names or ["gcn", "cross-gcn"]
        _compare_presets(dataset, settings, run, names, baseline, depths)


def _compare_presets(
    dataset: str | None,
    settings: Settings,
    run: RunOptions,
    names: list[str],
    baseline: str | None,
    depths: list[int],
) -> None:
    baseline = names[0] if baseline is None else baseline
    for name in (*names, baseline):
        get_preset(name)
    _check_baseline(baseline, names)
    refuse_unused(settings, names, PRESETS)

    from crossgcn.cli.running import finish, run_with_progress

    configs = [
        RunConfig.create(
            dataset=dataset, model=name, num_layers=depth, **settings_of(name, settings)
        )
        for depth in depths
        for name in names
    ]
    started = time.perf_counter()
    all_runs, folder = run_with_progress(configs, run, name="compare", save_models=False)

    from crossgcn.reports.summaries import summarise_comparison
    from crossgcn.reports.terminal.tables import comparison_table, comparison_verdicts
    from crossgcn.reproduction.items import paper_result

    summary = summarise_comparison(all_runs, baseline, paper_result)
    summary |= {"wall_seconds": time.perf_counter() - started, "out": str(folder)}

    def show(console: Console) -> None:
        console.print(comparison_table(summary), "")
        for sentence in comparison_verdicts(summary):
            console.print(sentence, highlight=False)

    finish(summary, folder, run.as_json, show)


def settings_of(model: str, settings: Settings) -> Settings:
    """Leave out the settings that a model does not have."""
    left_out = MODEL_OPTIONS - get_preset(model).options
    return {name: value for name, value in settings.items() if name not in left_out}


def refuse_unused(settings: Settings, names: Sequence[str], known: Iterable[str]) -> None:
    """Refuse an option that none of the models named has.

    Args:
        settings: The options.
        names: The models that are compared.
        known: The models that could be.
    """
    for option, value in settings.items():
        if value is None or option not in MODEL_OPTIONS:
            continue
        if any(option in get_preset(name).options for name in names):
            continue
        others = ", ".join(name for name in known if option in get_preset(name).options)
        raise BadInput(
            f"{option_name(option)} has no effect: {' and '.join(names)} "
            f"{'does' if len(names) == 1 else 'do'} not have it; leave it out, or add to --models "
            f"one that has it ({others})"
        )


def _compare_on_tables(
    nodes: str | None,
    edges: Path | None,
    tables: TableOptions,
    settings: Settings,
    run: RunOptions,
    names: list[str] | None,
    baseline: str | None,
    depths: list[int],
    tuning: int,
) -> None:
    tuned = {"dropout", "weight_decay", "repeats"} | (MODEL_OPTIONS - {"bias"})
    for option, value in settings.items():
        if value is not None and option in tuned:
            raise BadInput(
                f"{option_name(option)} cannot be given to compare with tables, which sets it for "
                "each model or tunes it: leave it out, or use crossgcn train"
            )
    if len(depths) > 1:
        raise BadInput("compare with tables takes one depth: give --num-layers one number")
    if baseline is not None:
        _check_baseline(baseline, names or list(CANDIDATES))

    graph = tables.load(nodes, edges, run.out)
    assert graph is not None and nodes is not None
    started = time.perf_counter()

    from crossgcn.cli.running import finish, show_progress
    from crossgcn.experiments.compare import TableExperiment
    from crossgcn.reports.terminal.compare import candidates_table, summarise_candidates
    from crossgcn.training.records import describe_environment

    given = {name: value for name, value in settings.items() if value is not None}
    experiment = TableExperiment(
        graph.data,
        names,
        num_trials=tuning,
        settings=table_defaults(graph, settings["splits"])
        | given
        | {"num_layers": depths[0], "dataset": graph.data.name},
    )
    count = len(experiment.splits)
    words = f"{len(experiment.names)} models × {tuning} trials × {count} split{'s' * (count > 1)}"
    with show_progress(run, words, f"{Path(nodes).stem}-compare") as (folder, work):
        comparison = experiment.run(out=folder, **work)
    config = experiment.experiment.configs[0]
    environment = describe_environment()
    summary = {
        "dataset": nodes,
        "target": tables.target,
        "splits": config.splits,
        "num_splits": count,
        "train": config.train,
        "seed": config.seed,
        "epochs": config.epochs,
        "trials": tuning,
        "tuned": [dict(trial) for trial in TRIALS[:tuning]],
        **summarise_candidates(comparison, baseline),
        "seconds": sum(result.seconds for result in comparison.results),
        "versions": environment["versions"],
        "threads": run.threads,
        "commit": environment["commit"],
        "wall_seconds": time.perf_counter() - started,
        "out": str(folder),
    }

    recommended = comparison.of(comparison.recommended).train_options
    if recommended is not None:
        summary["next"] = tables.command("train", nodes, edges, *recommended)

    def show(console: Console) -> None:
        console.print(candidates_table(summary), "")
        for sentence in summary["answer"]:
            console.print(sentence, highlight=False, markup=False)
        if "next" in summary:
            console.print(f"\nNext: {summary['next']}", highlight=False, markup=False)

    finish(summary, folder, run.as_json, show)


def _check_baseline(baseline: str, names: list[str]) -> None:
    if baseline not in names:
        raise BadInput(
            f"--baseline {baseline} is not among --models {','.join(names)}: add it there"
        )
