"""``crossgcn compare``: several models, same treatment, paired over splits."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.console import Console

from crossgcn.cli import options
from crossgcn.errors import BadInput
from crossgcn.models.presets import PRESETS, get_preset

__all__ = ["compare"]


def compare(
    dataset: options.DatasetArgument = None,
    models: Annotated[
        str,
        typer.Option(
            help=f"Separated by commas: {', '.join(PRESETS)}.",
            metavar="PRESETS",
            rich_help_panel=options.MODEL,
        ),
    ] = "gcn,cross-gcn",
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Which of them the others are measured against. \\[default: the first]",
            metavar="PRESET",
            rich_help_panel=options.MODEL,
        ),
    ] = None,
    num_layers: Annotated[
        str,
        typer.Option(help="Depths to compare at, such as 2 or 1,2.", rich_help_panel=options.MODEL),
    ] = "2",
    hidden_channels: options.HiddenOption = None,
    order: options.OrderOption = None,
    order_weights: options.OrderWeightsOption = None,
    first_order: options.FirstOrderOption = None,
    aggregate_first: options.AggregateFirstOption = None,
    bias: options.BiasOption = None,
    laplacian_weight: options.LaplacianWeightOption = None,
    dropout: options.DropoutOption = None,
    epochs: options.EpochsOption = None,
    learning_rate: options.LearningRateOption = None,
    weight_decay: options.WeightDecayOption = None,
    precision: options.PrecisionOption = None,
    splits: options.SplitsOption = None,
    num_splits: options.NumSplitsOption = None,
    train: options.TrainOption = None,
    repeats: options.RepeatsOption = None,
    seed: options.SeedOption = None,
    out: options.OutOption = None,
    resume: options.ResumeOption = False,
    workers: options.WorkersOption = None,
    threads: options.ThreadsOption = 1,
    device: options.DeviceOption = "auto",
    as_json: options.JsonOption = False,
) -> None:
    """Train several models on the same splits and pair their results split by split.

    Every model gets the same training: epochs, decay rule, selection, seeds.
    --order and the details of a model apply to those models that have them.
    """
    names = list(dict.fromkeys(name.strip() for name in models.split(",") if name.strip()))
    if not names:
        raise BadInput(
            f"--models takes names separated by commas, such as gcn,cross-gcn; got {models!r}"
        )
    baseline = names[0] if baseline is None else baseline
    for name in (*names, baseline):
        get_preset(name)
    if baseline not in names:
        raise BadInput(
            f"--baseline {baseline} is not among --models {','.join(names)}: add it there"
        )
    depths = list(dict.fromkeys(options.parse_numbers(num_layers, "--num-layers")))

    from crossgcn.cli.running import finish, run_with_progress
    from crossgcn.training.config import RunConfig

    variants: dict[str, Any] = {
        "order": options.parse_order(order),
        "order_weights": options.parse_order_weights(order_weights),
        "first_order": first_order,
        "aggregate_first": aggregate_first,
        "bias": bias,
        "laplacian_weight": laplacian_weight,
    }
    configs = [
        RunConfig.create(
            dataset=dataset,
            model=name,
            num_layers=depth,
            hidden_channels=hidden_channels,
            **{option: variants[option] for option in get_preset(name).options},
            dropout=dropout,
            epochs=epochs,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            precision=precision,
            splits=splits,
            num_splits=num_splits,
            train=options.parse_train(train),
            repeats=repeats,
            seed=seed,
        )
        for depth in depths
        for name in names
    ]
    started = time.perf_counter()
    all_runs, folder = run_with_progress(
        configs,
        out,
        name="compare",
        resume=resume,
        workers=workers,
        threads=threads,
        device=device,
        save_models=False,
    )

    from crossgcn.reports.summaries import summarise_comparison
    from crossgcn.reports.tables import comparison_table, comparison_verdicts

    summary = summarise_comparison(all_runs, baseline)
    summary |= {"wall_seconds": time.perf_counter() - started, "out": str(folder)}

    def show(console: Console) -> None:
        console.print(comparison_table(summary), "")
        for sentence in comparison_verdicts(summary):
            console.print(sentence, highlight=False)

    finish(summary, folder, as_json, show)
