"""The tables a person reads at the terminal."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

__all__ = [
    "comparison_table",
    "comparison_verdicts",
    "datasets_table",
    "model_cells",
    "paired_cell",
    "training_table",
]

Summary = dict[str, Any]

_COUNTS = ("nodes", "edges", "features", "classes")


def training_table(summary: Summary) -> Table:
    """One model over its splits."""
    table = _model_table(summary, "validation", "α per layer, mean")
    validation = sum(summary["validation_accuracy"]) / len(summary["validation_accuracy"])
    table.add_row(*model_cells(summary), f"{100 * validation:.1f}", _alphas(summary))
    return table


def comparison_table(summary: Summary) -> Table:
    """Several models, with the paired difference to the baseline."""
    table = _model_table(summary, f"paired to {summary['baseline']}", "seconds")
    for model in summary["models"]:
        table.add_row(*model_cells(model), paired_cell(model), f"{model['seconds']:.0f}")
    return table


def comparison_verdicts(summary: Summary) -> list[str]:
    """What the paired differences say, a sentence for each model."""
    return [
        _verdict(model, summary)
        for model in summary["models"]
        if model["paired_interval"] is not None
    ]


def datasets_table(rows: list[Summary]) -> Table:
    """The known datasets and whether they are at hand."""
    table = Table(box=SIMPLE_HEAD)
    table.add_column("name", no_wrap=True)
    for column in _COUNTS:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("where", no_wrap=True)
    for row in rows:
        counts = (f"{row[column]:,}" for column in _COUNTS)
        table.add_row(row["name"], *counts, row["where"] or "not here")
    return table


def _model_table(summary: Summary, *columns: str) -> Table:
    splits = summary["num_splits"]
    parts = [f"test accuracy in %, {splits} {summary['splits']} split{'s' if splits > 1 else ''}"]
    if summary["train"] == "all":
        parts.append("all labelled nodes")
    elif summary["splits"] == "random":
        parts.append(f"{summary['train']} per class")
    parts.append(f"{summary['epochs']} epochs")
    title = f"{summary['dataset']}: {', '.join(parts)}"
    table = Table(
        title=escape(title),
        min_width=len(title),
        title_justify="left",
        title_style="bold",
        caption=_paper_note(summary),
        caption_justify="left",
        box=SIMPLE_HEAD,
    )
    table.add_column("model", no_wrap=True)
    table.add_column("layers", justify="right")
    table.add_column("mean ± sd", justify="right", no_wrap=True)
    table.add_column("paper", justify="right", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _paper_note(summary: Summary) -> str | None:
    """Where the paper's numbers are from, and which of them is not of the same model."""
    cited = [m for m in summary.get("models", [summary]) if m["paper"] is not None]
    if not cited:
        return None
    note = f"paper: its {cited[0]['paper']['source']}"
    if any(model["model"] == "cross-gcn" for model in cited):
        note += " (for cross-gcn, which is ours, the paper's Cross-GCN)"
    return note


def model_cells(model: Summary) -> tuple[str, str, str, str]:
    """Model, layers, our accuracy and the paper's, as any table of results starts."""
    paper = model["paper"]
    return (
        model["model"],
        str(model["num_layers"]),
        _with_spread(100 * model["mean"], None if model["sd"] is None else 100 * model["sd"]),
        "—" if paper is None else _with_spread(paper["mean"], paper["sd"]),
    )


def _with_spread(mean: float, sd: float | None) -> str:
    return f"{mean:.1f}" if sd is None else f"{mean:.1f} ± {sd:.1f}"


def paired_cell(model: Summary) -> str:
    """Paired difference to the baseline in points; a dash for the baseline itself."""
    if model["paired_difference"] is None:
        return "—"
    difference = f"{100 * model['paired_difference']:+z.2f}"
    if model["paired_se"] is None:
        return difference
    return f"{difference} ± {100 * model['paired_se']:.2f}"


def _alphas(summary: Summary) -> str:
    runs = summary["trained_order_weights"]
    if not runs or not runs[0]:
        return "—"
    layers = zip(*runs, strict=True)
    means = ([sum(values) / len(values) for values in zip(*layer, strict=True)] for layer in layers)
    return "  ".join("(" + ", ".join(f"{mean:.2f}" for mean in layer) + ")" for layer in means)


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
