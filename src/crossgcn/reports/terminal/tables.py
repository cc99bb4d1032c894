"""Tables at the terminal: their shared look, and the tables of ``train``, ``compare``, ``data``."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from crossgcn.experiments.statistics import summarise
from crossgcn.reports.format import (
    Summary,
    count,
    get_metric,
    interval_text,
    paired_text,
    relation,
    score_text,
    validation_text,
)

MODEL_COLUMNS = ("model", "layers", "mean ± sd")
"""The columns of :func:`model_cells`."""

_COUNTS = ("nodes", "edges", "features", "classes")
_TRAINING = {
    "epochs": "epochs",
    "learning_rate": "rate",
    "weight_decay": "decay",
    "hidden_channels": "width",
}


def text_columns(*names: str) -> Table:
    """Return an empty table; its columns fold in a narrow terminal, so nothing is cut off."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def number_columns(name: str, *numbers: str) -> Table:
    """Return an empty table with one column of names and columns of numbers."""
    table = text_columns(name)
    for number in numbers:
        table.add_column(number, justify="right", overflow="fold")
    return table


def training_table(summary: Summary) -> Group:
    """Return the result of ``train``; for a user's own tables with every metric."""
    table = number_columns(*MODEL_COLUMNS, "validation", "seconds")
    last = validation_text(summary), f"{summary['seconds']:.0f}"
    table.add_row(*model_cells(summary), *last)
    if "target" not in summary:
        return _titled(summary, table)
    return Group(_titled(summary, table), "", metrics_table(summary))


def metrics_table(summary: Summary) -> Table:
    """Return the metrics besides the selecting one."""
    others = [name for name in summary["test"] if name != summary["metric"]]
    table = number_columns("also on the test nodes", "mean ± sd")
    for name in others:
        metric, values = get_metric(name), summarise(summary["test"][name])
        title = metric.title
        if name == "average_precision" and "positive_class" in summary:
            title += f" of {summary['positive_class']}"
        table.add_row(title, metric.spread(values.mean, values.sd))
    return table


def order_weight_lines(summary: Summary) -> list[str]:
    """Return the absolute order weights of each layer with crosses, averaged over runs.

    Signs carry no meaning: flipping the sign of an order weight and of its projection changes
    nothing.
    """
    layers = zip(*summary["trained_order_weights"], strict=True)
    means = ([fmean(map(abs, weights)) for weights in zip(*layer, strict=True)] for layer in layers)
    return [
        f"layer {number}: order weights |α| = {', '.join(f'{mean:.2f}' for mean in layer)}"
        for number, layer in enumerate(means, 1)
        if len(layer) > 1
    ]


def comparison_table(summary: Summary) -> Group:
    """Return the result of ``compare``: several models, each paired with the baseline."""
    paired = f"paired to {summary['baseline']}"
    table = number_columns(*MODEL_COLUMNS, paired, "seconds")
    for model in summary["models"]:
        table.add_row(*model_cells(model), paired_text(model), f"{model['seconds']:.0f}")
    return _titled(summary, table)


def comparison_verdicts(summary: Summary) -> list[str]:
    """Return a sentence for each model whose paired difference has an interval."""
    sentences = []
    for model in summary["models"]:
        interval = model["paired_interval"]
        if interval is None:
            continue
        name = f"{model['model']} ({count(model['num_layers'], 'layer')})"
        metric = model.get("metric", "accuracy")
        shown = get_metric(metric)
        difference = f"{shown.change(model['paired_difference'])} {shown.unit}"
        measured = f"{difference}, {interval_text(interval, metric)}"
        words = f"{name} {relation(interval, metric)} {summary['baseline']}"
        sentences.append(f"{words}: {measured}.")
    return sentences


def datasets_table(rows: list[Summary]) -> Table:
    """Return the known datasets, and where they are on this machine."""
    table = number_columns("name", *_COUNTS)
    table.add_column("where", overflow="fold")
    for row in rows:
        counts = (f"{row[column]:,}" for column in _COUNTS)
        table.add_row(row["name"], *counts, row["where"] or "not here")
    return table


def real_datasets_table(rows: list[Summary]) -> Table:
    """Return the known datasets of tables, what is predicted, and their terms of use."""
    table = number_columns("tables", "nodes", "edges", "columns")
    for name in ("target", "terms of use", "where"):
        table.add_column(name, overflow="fold")
    for row in rows:
        counts = (f"{row[column]:,}" for column in ("nodes", "edges", "columns"))
        words = row["target"], row["terms"], row["where"] or "not here"
        table.add_row(row["name"], *counts, *words)
    return table


def model_cells(model: Summary) -> tuple[str, str, str]:
    """Return model, layers and score, the first columns of result tables."""
    return model["model"], str(model["num_layers"]), score_text(model)


def _titled(summary: Summary, table: Table) -> Group:
    models = summary.get("models", [summary])
    title = f"{summary['dataset']}: {', '.join(_protocol(summary, models))}"
    return Group(Text(title, style="bold"), table, Text(_notes(models), style="dim"))


def _protocol(summary: Summary, models: list[Summary]) -> Iterator[str]:
    """Yield what was measured, on which splits, how often."""
    splits, runs = summary["num_splits"], summary["num_runs"]
    seeds = runs // splits
    yield f"test {get_metric(models[0]['metric']).title}"
    kind = "authors'" if summary["splits"] == "authors" else summary["splits"]
    counted = count(splits, f"{kind} split")
    yield counted if seeds == 1 else f"{counted} × {seeds} seeds"
    if summary["splits"] == "stratified":
        share = "60 %" if summary["train"] == "all" else f"{summary['train']} per class"
        yield f"{share} to train, 20 % to validate, 20 % to test"
    elif summary["train"] == "all":
        yield "all labelled nodes"
    elif summary["splits"] == "random":
        yield f"{summary['train']} per class"
    yield f"{' or '.join(sorted({str(model['epochs']) for model in models}))} epochs"


def _notes(models: list[Summary]) -> str:
    """Return notes on the columns."""
    notes = []
    trained: dict[str, dict[str, None]] = {}
    for model in models:
        how = ", ".join(f"{word} {model[name]:g}" for name, word in _TRAINING.items())
        trained.setdefault(how, {})[model["model"]] = None
    if len(trained) > 1:
        each = (f"{', '.join(names)}: {how}" for how, names in trained.items())
        notes.append(f"trained differently ({'; '.join(each)})")
    notes.append("seconds: sum over all runs")
    return "; ".join(notes)
