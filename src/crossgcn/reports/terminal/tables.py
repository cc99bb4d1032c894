"""The tables a person reads at the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text


def number_columns(name: str, *numbers: str) -> Table:
    """A column of names and columns of numbers, which fold when room is short: nothing is cut."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(name, overflow="fold")
    for number in numbers:
        table.add_column(number, justify="right", overflow="fold")
    return table


Summary = dict[str, Any]

MODEL_COLUMNS = ("model", "layers", "mean ± sd", "paper")
"""What the cells of :func:`model_cells` are."""

_COUNTS = ("nodes", "edges", "features", "classes")


def training_table(summary: Summary) -> Group:
    """One model over its splits; on a user's tables, of which no paper knows, without the paper."""
    shown = len(MODEL_COLUMNS) - ("target" in summary)
    table = number_columns(*MODEL_COLUMNS[:shown], "validation", "seconds")
    validation = f"{100 * fmean(summary['validation_accuracy']):.1f}"
    table.add_row(*model_cells(summary)[:shown], validation, f"{summary['seconds']:.0f}")
    return _titled(summary, table)


def order_weight_lines(summary: Summary) -> list[str]:
    """The sizes of the order weights of each layer that crosses, averaged over runs.

    Their signs are chance: turning that of an order's weight and that of its projection
    changes nothing.
    """
    layers = zip(*summary["trained_order_weights"], strict=True)
    means = ([fmean(map(abs, weights)) for weights in zip(*layer, strict=True)] for layer in layers)
    return [
        f"layer {number}: order weights |α| = {', '.join(f'{mean:.2f}' for mean in layer)}"
        for number, layer in enumerate(means, 1)
        if len(layer) > 1
    ]


def comparison_table(summary: Summary) -> Group:
    """Several models, with the paired difference to the baseline."""
    table = number_columns(*MODEL_COLUMNS, f"paired to {summary['baseline']}", "seconds")
    for model in summary["models"]:
        table.add_row(*model_cells(model), paired_cell(model), f"{model['seconds']:.0f}")
    return _titled(summary, table)


def comparison_verdicts(summary: Summary) -> list[str]:
    """What the paired differences say, a sentence for each model."""
    return [
        _verdict(model, summary)
        for model in summary["models"]
        if model["paired_interval"] is not None
    ]


def datasets_table(rows: list[Summary]) -> Table:
    """The known datasets and whether they are at hand."""
    table = number_columns("name", *_COUNTS)
    table.add_column("where", overflow="fold")
    for row in rows:
        counts = (f"{row[column]:,}" for column in _COUNTS)
        table.add_row(row["name"], *counts, row["where"] or "not here")
    return table


def _titled(summary: Summary, table: Table) -> Group:
    title = f"{summary['dataset']}: {', '.join(_protocol(summary))}"
    return Group(Text(title, style="bold"), table, Text(_notes(summary), style="dim"))


def _protocol(summary: Summary) -> Iterator[str]:
    """What was measured, on what, how often."""
    splits, runs = summary["num_splits"], summary["num_runs"]
    seeds = runs // splits
    yield "test accuracy in %"
    whose = "authors'" if summary["splits"] == "authors" else summary["splits"]
    counted = f"{splits} {whose} split{'s' if splits > 1 else ''}"
    yield counted if seeds == 1 else f"{counted} × {seeds} seeds"
    if summary["splits"] == "stratified":
        share = "60 %" if summary["train"] == "all" else f"{summary['train']} per class"
        yield f"{share} to train, 20 % to validate, 20 % to test"
    elif summary["train"] == "all":
        yield "all labelled nodes"
    elif summary["splits"] == "random":
        yield f"{summary['train']} per class"
    epochs = sorted({str(model.get("epochs", summary["epochs"])) for model in _models(summary)})
    yield f"{' or '.join(epochs)} epochs"


def _notes(summary: Summary) -> str:
    """What a reader may ask about the columns."""
    notes = []
    cited = [m for m in _models(summary) if m["paper"] is not None]
    if cited:
        notes.append(f"paper: its {cited[0]['paper']['source']}")
    if any(model["model"] == "cross-gcn" for model in cited):
        notes.append("for cross-gcn, which is ours, the paper's Cross-GCN")
    treatments: dict[str, list[str]] = {}
    for model in _models(summary):
        names = treatments.setdefault(_treatment(model), [])
        if model["model"] not in names:
            names.append(model["model"])
    if len(treatments) > 1:
        each = (f"{', '.join(names)}: {how}" for how, names in treatments.items())
        notes.append(f"not treated alike ({'; '.join(each)})")
    notes.append("seconds: of all runs, added up")
    return "; ".join(notes)


def _models(summary: Summary) -> list[Summary]:
    """The models compared, or the one trained."""
    models: list[Summary] = summary.get("models", [summary])
    return models


def _treatment(model: Summary) -> str:
    """How a model was trained, in words; older records do not say."""
    words = {
        "epochs": "epochs",
        "learning_rate": "rate",
        "weight_decay": "decay",
        "hidden_channels": "width",
    }
    return ", ".join(f"{word} {model[name]:g}" for name, word in words.items() if name in model)


def model_cells(model: Summary) -> tuple[str, str, str, str]:
    """Model, layers, our accuracy and the paper's, as any table of results starts."""
    paper = model["paper"]
    return (
        model["model"],
        str(model["num_layers"]),
        with_spread(100 * model["mean"], None if model["sd"] is None else 100 * model["sd"]),
        "—" if paper is None else with_spread(paper["mean"], paper["sd"]),
    )


def with_spread(mean: float, sd: float | None) -> str:
    """A mean with its standard deviation, where it has one."""
    return f"{mean:.1f}" if sd is None else f"{mean:.1f} ± {sd:.1f}"


def paired_cell(model: Summary) -> str:
    """Paired difference to the baseline in points; a dash for the baseline itself."""
    if model["paired_difference"] is None:
        return "—"
    difference = f"{100 * model['paired_difference']:+z.2f}"
    if model["paired_se"] is None:
        return difference
    return f"{difference} ± {100 * model['paired_se']:.2f}"


def _verdict(model: Summary, summary: Summary) -> str:
    """Whether the 95 % interval of the paired difference holds zero."""
    low, high = (100 * bound for bound in model["paired_interval"])
    depth = model["num_layers"]
    name = f"{model['model']} ({depth} layer{'s' if depth > 1 else ''})"
    points = f"{100 * model['paired_difference']:+z.2f} points"
    spread = f"{points}, 95 % interval {low:+z.2f} to {high:+z.2f}"
    if low > 0:
        return f"{name} beats {summary['baseline']}: {spread}."
    if high < 0:
        return f"{name} falls behind {summary['baseline']}: {spread}."
    return f"{name} and {summary['baseline']} cannot be told apart: {spread}."
