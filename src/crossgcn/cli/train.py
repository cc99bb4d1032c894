"""``crossgcn train``: one model, the paper's protocol."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console

from crossgcn.cli import options
from crossgcn.models.presets import PRESETS

__all__ = ["train"]


def train(
    dataset: options.DatasetArgument = None,
    model: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(PRESETS)}. \\[default: cross-gcn]",
            metavar="PRESET",
            rich_help_panel=options.MODEL,
        ),
    ] = None,
    num_layers: Annotated[
        int | None,
        typer.Option(help="Graph convolutions. \\[default: 2]", rich_help_panel=options.MODEL),
    ] = None,
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
    config: options.ConfigOption = None,
    out: options.OutOption = None,
    resume: options.ResumeOption = False,
    workers: options.WorkersOption = None,
    threads: options.ThreadsOption = 1,
    device: options.DeviceOption = "auto",
    as_json: options.JsonOption = False,
) -> None:
    """Train one model over many training splits and report its test accuracy.

    The defaults are the paper's protocol: 20 splits of 20 nodes per class, 500
    epochs, the epoch of best validation accuracy, test nodes read once after.
    """
    from crossgcn.cli.running import finish, run_with_progress
    from crossgcn.training.config import RunConfig

    settings = RunConfig.create(
        config_file=config,
        dataset=dataset,
        model=model,
        num_layers=num_layers,
        hidden_channels=hidden_channels,
        order=options.parse_order(order),
        order_weights=options.parse_order_weights(order_weights),
        first_order=first_order,
        aggregate_first=aggregate_first,
        bias=bias,
        laplacian_weight=laplacian_weight,
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
    started = time.perf_counter()
    (runs,), folder = run_with_progress(
        [settings],
        out,
        name=settings.model,
        resume=resume,
        workers=workers,
        threads=threads,
        device=device,
        save_models=True,
    )

    from crossgcn.reports.summaries import summarise_training
    from crossgcn.reports.tables import order_weight_lines, training_table

    summary = summarise_training(runs)
    summary |= {"wall_seconds": time.perf_counter() - started, "out": str(folder)}

    def show(console: Console) -> None:
        console.print(training_table(summary), "", *order_weight_lines(summary), sep="\n")

    finish(summary, folder, as_json, show)
