"""``crossgcn compare``: several models, same treatment, paired over splits."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

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
from crossgcn.experiments.candidates import CANDIDATES, DEFAULT_TRIALS, TRIALS
from crossgcn.models.presets import PRESETS, get_preset


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
            help="Which of them the others are measured against. \\[default: the first; with "
            "tables the best with neither crosses nor a perceptron]",
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
            help="With tables: trials for each model (dropout and weight decay), of which "
            "validation picks one in each split.",
            metavar=f"1..{len(TRIALS)}",
            rich_help_panel="Training",
        ),
    ] = DEFAULT_TRIALS,
    *,
    details: ModelOptions,
    training: TrainingOptions,
    tables: TableOptions,
    run: RunOptions,
) -> None:
    """Train several models on the same splits and pair their results split by split.

    Every model gets the same training: epochs, decay rule, selection, seeds.
    --order and the details of a model apply to those models that have them; one must.

    With tables of your own, crossgcn compare nodes.csv edges.csv --target COLUMN, the answer is
    whether crosses help there: models from the majority class to products of three columns,
    each tuned by as many trials, and a recommendation.
    """
    names = None if models is None else _names(models)
    depths = list(dict.fromkeys(options.parse_numbers(num_layers, "--num-layers")))
    if is_table(dataset):
        assert dataset is not None
        _compare_on_tables(
            dataset, edges, tables, details, training, run, names, baseline, depths, tuning
        )
    else:
        tables.refuse(dataset, edges)
        _compare_presets(
            dataset, details, training, run, names or ["gcn", "cross-gcn"], baseline, depths
        )


def _compare_presets(
    dataset: str | None,
    details: ModelOptions,
    training: TrainingOptions,
    run: RunOptions,
    names: list[str],
    baseline: str | None,
    depths: list[int],
) -> None:
    baseline = names[0] if baseline is None else baseline
    for name in (*names, baseline):
        get_preset(name)
    _check_baseline(baseline, names)
    variants = details.variants()
    refuse_unused(variants, names, PRESETS)

    from crossgcn.cli.running import finish, run_with_progress
    from crossgcn.training.config import RunConfig

    configs = [
        RunConfig.create(
            dataset=dataset,
            model=name,
            num_layers=depth,
            **{option: variants[option] for option in get_preset(name).options},
            **details.shared(),
            **training.settings(),
        )
        for depth in depths
        for name in names
    ]
    started = time.perf_counter()
    all_runs, folder = run_with_progress(configs, run, name="compare", save_models=False)

    from crossgcn.reports.summaries import summarise_comparison
    from crossgcn.reports.terminal.tables import comparison_table, comparison_verdicts

    summary = summarise_comparison(all_runs, baseline)
    summary |= {"wall_seconds": time.perf_counter() - started, "out": str(folder)}

    def show(console: Console) -> None:
        console.print(comparison_table(summary), "")
        for sentence in comparison_verdicts(summary):
            console.print(sentence, highlight=False)

    finish(summary, folder, run.as_json, show)


def refuse_unused(variants: Mapping[str, Any], names: Sequence[str], known: Iterable[str]) -> None:
    """Refuse an option that would change nothing, for none of the models named has it.

    Args:
        variants: What only some models have; ``None`` means not given.
        names: The models that are compared.
        known: Those that could be.
    """
    for option, value in variants.items():
        if value is None or any(option in get_preset(name).options for name in names):
            continue
        others = ", ".join(name for name in known if option in get_preset(name).options)
        raise BadInput(
            f"--{option.replace('_', '-')} would change nothing, for {' and '.join(names)} "
            f"{'has' if len(names) == 1 else 'have'} no such setting: leave it out, or add to "
            f"--models one that has it ({others})"
        )


def _compare_on_tables(
    nodes: str,
    edges: Path | None,
    tables: TableOptions,
    details: ModelOptions,
    training: TrainingOptions,
    run: RunOptions,
    names: list[str] | None,
    baseline: str | None,
    depths: list[int],
    tuning: int,
) -> None:
    refused = {"dropout": details.dropout, "weight_decay": training.weight_decay}
    refused |= {"repeats": training.repeats}
    refused |= {name: value for name, value in details.variants().items() if name != "bias"}
    for option, value in refused.items():
        if value is not None:
            raise BadInput(
                f"--{option.replace('_', '-')} is not for compare with tables, where every model "
                "has its own and is tuned alike: leave it out, or use crossgcn train"
            )
    if len(depths) > 1:
        raise BadInput("compare with tables takes one depth: give --num-layers one number")
    if baseline is not None:
        _check_baseline(baseline, names or list(CANDIDATES))

    from crossgcn.cli.running import finish, load_user_tables, show_progress, table_defaults

    graph = load_user_tables(nodes, edges, tables, run.out)
    started = time.perf_counter()

    from crossgcn.experiments.compare import TableExperiment
    from crossgcn.reports.terminal.compare import candidates_table, summarise_candidates
    from crossgcn.training.records import describe_environment

    given = {**details.shared(), "bias": details.bias, **training.settings()}
    settings = table_defaults(graph, training.splits) | {
        k: v for k, v in given.items() if v is not None
    }
    experiment = TableExperiment(
        graph.data,
        names,
        num_trials=tuning,
        settings=settings | {"num_layers": depths[0], "dataset": graph.data.name},
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


def _names(models: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in models.split(",") if name.strip()))
    if not names:
        raise BadInput(
            f"--models takes names separated by commas, such as gcn,cross-gcn; got {models!r}"
        )
    return names


def _check_baseline(baseline: str, names: list[str]) -> None:
    if baseline not in names:
        raise BadInput(
            f"--baseline {baseline} is not among --models {','.join(names)}: add it there"
        )
