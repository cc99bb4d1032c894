"""``crossgcn compare``: several models with the same training, paired over splits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from rich.text import Text

from crossgcn.cli.command import Answer, command, option, option_name
from crossgcn.cli.options import (
    MODEL,
    SETTINGS,
    TRAINING,
    DatasetArgument,
    RunOptions,
    SettingOptions,
    Settings,
    parse_names,
    parse_numbers,
)
from crossgcn.cli.output import duration
from crossgcn.cli.running import run_with_progress, show_progress, terminal
from crossgcn.cli.tables import EdgesArgument, TableOptions, is_table
from crossgcn.errors import BadInput
from crossgcn.experiments.candidates import CANDIDATES, DEFAULT_TRIALS, MOST_TRIALS
from crossgcn.models.catalogue import MODEL_OPTIONS, PRESETS, get_preset, settings_of_models
from crossgcn.training.config import RunConfig

_OF_ALL_CANDIDATES = {"bias", "hops", "label_features", "bags", "smoothing"}
"""Settings of models that may be given with tables."""

_NAMES = tuple(name for name in SETTINGS if name not in ("model", "num_layers"))


@command
def compare(
    dataset: DatasetArgument = None,
    edges: EdgesArgument = None,
    models: Annotated[
        str | None,
        option(
            f"Separated by commas: {', '.join(PRESETS)}. [default: gcn,cross-gcn] With tables: "
            f"{', '.join(CANDIDATES)}; or all. [default: all but ebm and ebm-hops]",
            metavar="NAMES",
            panel=MODEL,
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        option(
            "Model that the others are compared with. [default: the first; with tables the twin "
            "without crosses]",
            metavar="NAME",
            panel=MODEL,
        ),
    ] = None,
    num_layers: Annotated[
        str, option("Depths to compare at, such as 2 or 1,2.", panel=MODEL)
    ] = "2",
    tuning: Annotated[
        int,
        option(
            "With tables: trials per model (such as dropout and weight decay); in each split the "
            "best on the validation nodes counts.",
            metavar=f"1..{MOST_TRIALS}",
            panel=TRAINING,
        ),
    ] = DEFAULT_TRIALS,
    *,
    settings: Annotated[Settings, SettingOptions(_NAMES)],
    tables: TableOptions,
    run: RunOptions,
) -> Answer:
    """Train several models on the same splits and pair their results split by split.

    Every model gets the same training: epochs, weight decay, selection, seeds. --order and other
    details apply to the models that have them; at least one must.

    With tables of your own, crossgcn compare nodes.csv edges.csv --target COLUMN answers whether
    crosses help there, whether the graph helps, and what an exact explanation costs against a
    black box. Models from a constant to gradient boosting and graph attention get 10 splits and
    the same number of trials each; one is recommended.
    """
    names = None if models is None else parse_names(models, "--models")
    if is_table(dataset) and names == ["all"]:
        names = list(CANDIDATES)
    depths = list(dict.fromkeys(parse_numbers(num_layers, "--num-layers")))
    if is_table(dataset):
        if len(depths) > 1:
            raise BadInput("compare with tables takes one depth: give --num-layers one number")
        own = settings | {"num_layers": depths[0]}
        return _compare_on_tables(dataset, edges, tables, own, run, names, baseline, tuning)
    tables.load(dataset, edges, run.out)
    names = names or ["gcn", "cross-gcn"]
    return _compare_presets(dataset, settings, run, names, baseline, depths)


def _compare_presets(
    dataset: str | None,
    settings: Settings,
    run: RunOptions,
    names: list[str],
    baseline: str | None,
    depths: list[int],
) -> Answer:
    baseline = names[0] if baseline is None else baseline
    for name in (*names, baseline):
        get_preset(name)
    from crossgcn.workflows.compare import check_baseline

    check_baseline(baseline, names)
    configs = [
        RunConfig.create(dataset=dataset, model=name, num_layers=depth, **own)
        for depth in depths
        for name, own in settings_of_models(names, settings).items()
    ]

    started = time.perf_counter()
    all_runs, folder = run_with_progress(configs, run, name="compare", save_models=False)

    from crossgcn.reports.summaries import summarise_comparison
    from crossgcn.reports.terminal.tables import comparison_table, comparison_verdicts

    summary = summarise_comparison(all_runs, baseline)
    summary |= {"wall_seconds": time.perf_counter() - started, "out": str(folder)}
    verdicts = map(Text, comparison_verdicts(summary))
    return Answer(summary, [comparison_table(summary), "", *verdicts], folder)


def _compare_on_tables(
    nodes: str,
    edges: Path | None,
    tables: TableOptions,
    settings: Settings,
    run: RunOptions,
    names: list[str] | None,
    baseline: str | None,
    tuning: int,
) -> Answer:
    given = {
        name: value
        for name, value in settings.items()
        if value is not None and name != "num_layers"
    }
    tuned = {"dropout", "weight_decay", "repeats"} | (MODEL_OPTIONS - _OF_ALL_CANDIDATES)
    for name in given:
        if name in tuned:
            raise BadInput(
                f"{option_name(name)} cannot be given to compare with tables, which sets it for "
                "each model or tunes it: leave it out, or use crossgcn train"
            )
    if given.get("label_features") == "auto":
        raise BadInput("compare takes --label-features true or false; auto is for crossgcn train")
    from crossgcn.workflows.compare import check_baseline, compare_on_tables, table_experiment

    check_baseline(baseline, names or list(CANDIDATES))
    graph = tables.load(nodes, edges, run.out)
    assert graph is not None

    from crossgcn.reports.terminal.compare import candidates_table

    experiment = table_experiment(graph, names, tuning, settings)
    notes = terminal()
    count = len(experiment.splits)
    trials = f"{tuning} trial{'s' * (tuning > 1)}"
    words = f"{len(experiment.names)} models × {trials} × {count} split{'s' * (count > 1)}"

    untold = list(experiment.skipped)

    def tell(seconds: float, skipped: float) -> None:
        notes.print(f"{words}: about {duration(seconds)} more", markup=False, highlight=False)
        if untold:
            package = "pip install 'crossgcn[interpret]' and " * experiment.needs_package
            notes.print(
                f"left out: {' and '.join(untold)} would take about "
                f"{duration(skipped)}; {package}add them by --models all",
                markup=False,
                highlight=False,
            )
            untold.clear()

    name = f"{Path(nodes).stem}-compare"
    with show_progress(run, words, name, unit="runs") as (folder, work):
        summary, comparison = compare_on_tables(
            graph, experiment, baseline=baseline, out=folder, on_estimate=tell, **work
        )
    summary |= {"dataset": nodes, "out": str(folder)}
    recommended = comparison.of(comparison.recommended).train_options
    options = recommended or ("--model", "cross-hops")
    if settings["metric"] is not None:
        options = (*options, "--metric", settings["metric"])
    summary["next"] = tables.command("train", nodes, edges, *options)
    sentences = map(Text, summary["answer"])
    then = f"\nNext: {summary['next']}"
    return Answer(summary, [candidates_table(summary), "", *sentences, then], folder)
