"""``crossgcn compare``: several models with the same training, paired over splits."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from rich.text import Text

from crossgcn.cli import options as o
from crossgcn.cli import tables as t
from crossgcn.cli.output import print_answer, print_line
from crossgcn.cli.running import (
    check_workers,
    load_experiment,
    progress_bar,
    results_folder,
    set_verbosity,
    terminal,
)
from crossgcn.errors import BadInput
from crossgcn.experiments.candidates import CANDIDATES, DEFAULT_TRIALS, MOST_TRIALS
from crossgcn.models.catalogue import MODEL_OPTIONS, get_preset, settings_of_models
from crossgcn.training.config import RunConfig

_OF_ALL_CANDIDATES = {"bias", "hops", "label_features", "bags"}
"""Settings of models that may be given with tables."""


def compare(
    dataset: o.DatasetArgument = None,
    edges: t.EdgesArgument = None,
    target: t.TargetOption = None,
    task: t.TaskOption = None,
    rare_classes: t.RareClassesOption = None,
    id_column: t.IdOption = None,
    name_column: t.NameOption = None,
    source_column: t.SourceOption = None,
    destination_column: t.DestinationOption = None,
    weight_column: t.WeightOption = None,
    split_column: t.SplitColumnOption = None,
    categorical: t.CategoricalOption = None,
    numeric: t.NumericOption = None,
    lists: t.ListsOption = None,
    ignore: t.IgnoreOption = None,
    missing: t.MissingOption = None,
    unknown_ids: t.UnknownIdsOption = None,
    relation: t.RelationOption = None,
    models: Annotated[
        str | None,
        o.option("Separated by commas (default gcn,cross-gcn).", metavar="NAMES"),
    ] = None,
    baseline: Annotated[
        str | None, o.option("What the others are compared with.", metavar="NAME")
    ] = None,
    num_layers: Annotated[
        str, o.option("Depths to compare at (default 2).", metavar="N,...")
    ] = "2",
    tuning: Annotated[
        int,
        o.option(
            f"With tables: trials per model (default {DEFAULT_TRIALS}).",
            metavar=f"1..{MOST_TRIALS}",
        ),
    ] = DEFAULT_TRIALS,
    order: o.OrderOption = None,
    hidden_channels: o.HiddenOption = None,
    hops: o.HopsOption = None,
    bags: o.BagsOption = None,
    dropout: o.DropoutOption = None,
    epochs: o.EpochsOption = None,
    patience: o.PatienceOption = None,
    metric: o.MetricOption = None,
    class_weight: o.ClassWeightOption = None,
    splits: o.SplitsOption = None,
    train: o.TrainOption = None,
    num_splits: o.NumSplitsOption = None,
    seed: o.SeedOption = None,
    set_: o.SetOption = None,
    settings: o.SettingsOption = False,
    out: o.OutOption = None,
    resume: o.ResumeOption = False,
    workers: o.WorkersOption = None,
    threads: o.ThreadsOption = 1,
    device: o.DeviceOption = "auto",
    as_json: o.JsonOption = False,
    quiet: o.QuietOption = False,
    verbose: o.VerboseOption = False,
) -> None:
    """Train several models on the same splits and pair their results split by split.

    With tables of your own and --target COLUMN: do crosses help, does the graph, and what does an
    exact explanation cost against a black box? crossgcn check --help lists more options for them.
    """
    set_verbosity(quiet, verbose)
    tables = t.TableOptions(
        target=target,
        task=task,
        rare_classes=rare_classes,
        id_column=id_column,
        name_column=name_column,
        source_column=source_column,
        destination_column=destination_column,
        weight_column=weight_column,
        split_column=split_column,
        categorical=categorical,
        numeric=numeric,
        lists=lists,
        ignore=ignore,
        missing=missing,
        unknown_ids=unknown_ids,
        relation=relation,
    )
    given = o.read_settings(
        set_,
        order=order,
        hidden_channels=hidden_channels,
        hops=hops,
        bags=bags,
        dropout=dropout,
        epochs=epochs,
        patience=patience,
        metric=metric,
        class_weight=class_weight,
        splits=splits,
        train=train,
        num_splits=num_splits,
        seed=seed,
    )
    names = None if models is None else o.parse_names(models, "--models")
    depths = list(dict.fromkeys(o.parse_numbers(num_layers, "--num-layers")))
    work = {"workers": check_workers(workers, threads), "threads": threads, "device": device}
    if t.is_table(dataset):
        if len(depths) > 1:
            raise BadInput("compare with tables takes one depth: give --num-layers one number")
        given["num_layers"] = depths[0]
        prepared = _tables(dataset, edges, tables, out, given, names, baseline, tuning)
    else:
        tables.refuse_unless_table(dataset, edges)
        prepared = _presets(dataset, given, names or ["gcn", "cross-gcn"], baseline, depths, device)
    words, unit, name, run = prepared
    started = time.perf_counter()
    with results_folder(out, resume, f"{name}-compare") as folder:
        from crossgcn.training.records import write_summary

        with progress_bar(words, unit) as show:
            summary, parts = run(out=folder, on_epochs=show, **work)
        summary |= {"wall_seconds": time.perf_counter() - started, "out": str(folder)}
        write_summary(folder, summary)
        print_answer(summary, parts, as_json)
    if not as_json:
        print_line(f"\nWritten to {folder} (result.json, and a run.json for every run).")


Prepared = tuple[str, str, str, Callable[..., tuple[dict[str, Any], list[Any]]]]
"""What the progress bar says and counts, the name of the work, and the work itself."""


def _presets(
    dataset: str | None,
    settings: o.Settings,
    names: list[str],
    baseline: str | None,
    depths: list[int],
    device: str,
) -> Prepared:
    """Prepare a comparison of presets."""
    baseline = names[0] if baseline is None else baseline
    for name in (*names, baseline):
        get_preset(name)
    from crossgcn.compare_api import check_baseline

    check_baseline(baseline, names)
    configs = [
        RunConfig.create(dataset=dataset, model=name, num_layers=depth, **own)
        for depth in depths
        for name, own in settings_of_models(names, settings).items()
    ]
    experiment = load_experiment(configs, None, device)

    def run(**work: Any) -> tuple[dict[str, Any], list[Any]]:
        from crossgcn.reports.summaries import summarise_comparison
        from crossgcn.reports.terminal.compare import comparison_table, comparison_verdicts

        summary = summarise_comparison(experiment.run(**work), baseline)
        verdicts = map(Text, comparison_verdicts(summary))
        return summary, [comparison_table(summary), "", *verdicts]

    words = configs[0].model if len(configs) == 1 else f"{len(configs)} models"
    words += _times(len(experiment.splits))
    return words, "epochs", Path(configs[0].dataset).stem, run


def _tables(
    nodes: str,
    edges: Path | None,
    tables: t.TableOptions,
    out: Path | None,
    settings: o.Settings,
    names: list[str] | None,
    baseline: str | None,
    tuning: int,
) -> Prepared:
    """Prepare a comparison of candidates on a user's tables."""
    tuned = {"dropout", "weight_decay"} | (MODEL_OPTIONS - _OF_ALL_CANDIDATES)
    for name in tuned:
        if settings.get(name) is not None:
            raise BadInput(
                f"{name} cannot be given to compare with tables, which sets it for each model or "
                "tunes it: leave it out, or use crossgcn train"
            )
    from crossgcn.compare_api import check_baseline, compare_on_tables, table_experiment

    names = list(CANDIDATES) if names == ["all"] else names
    check_baseline(baseline, names or list(CANDIDATES))
    graph = tables.load(nodes, edges, out)
    assert graph is not None
    experiment = table_experiment(graph, names, tuning, settings)
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
        from crossgcn.reports.terminal.compare import candidates_table

        summary, comparison = compare_on_tables(graph, experiment, baseline=baseline, **work)
        more = comparison.of(comparison.recommended).train_options or ("--model", "cross-hops")
        summary |= {"dataset": nodes, "next": tables.command("train", nodes, edges, *more)}
        sentences = map(Text, summary["answer"])
        return summary, [candidates_table(summary), "", *sentences, f"\nNext: {summary['next']}"]

    return words, "runs", Path(nodes).stem, run


def _times(splits: int) -> str:
    return f" × {splits} split{'s' * (splits > 1)}"
