"""The results of ``train`` and ``compare`` at the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import fmean

from rich.console import RenderableType
from rich.text import Text

from crossgcn.experiments.statistics import summarise
from crossgcn.reports.format import (
    Summary,
    change_text,
    count,
    make_table,
    metric_title,
    spread_text,
)
from crossgcn.training.metrics import METRICS

_OF_PRESETS = ("epochs", "learning_rate", "weight_decay", "hidden_channels")
"""Settings in which presets differ, besides what their names say."""


def training_screen(summary: Summary) -> Iterator[RenderableType]:
    """Yield the result of ``train``: every metric of the test nodes, the selecting one first."""
    yield Text(f"{summary['model']} on {_title(summary)}", style="bold")
    rows = []
    for name, values in summary["test"].items():
        measured = summarise(values)
        rows.append([_head(summary, name), spread_text(name, measured.mean, measured.sd)])
    yield make_table(rows, ["on the test nodes"], ["mean ± sd"])
    metric = summary["metric"]
    validation = METRICS[metric].sign * fmean(summary["validation_score"])
    yield f"{metric_title(metric)} on the validation nodes: {spread_text(metric, validation)}"
    yield from order_weight_lines(summary)
    if "path" in summary:
        yield make_table(*_path_rows(summary))
        yield f"{_shown_columns(summary)}"
    for doubt in summary["doubts"]:
        yield Text(doubt, style="yellow")


def _path_rows(summary: Summary) -> tuple[list[list[str]], list[str], list[str]]:
    """Return a row for each number of columns that was tried, and the heads of the table."""
    metric, tried = summary["metric"], dict[int, list[float]]()
    for path in summary["path"]:
        for size, score in path:
            tried.setdefault(size, []).append(METRICS[metric].sign * score)
    chosen = [len(columns) for columns in summary["columns"]]
    rows = [
        [f"{size} columns", spread_text(metric, fmean(tried[size])), str(chosen.count(size))]
        for size in sorted(tried, reverse=True)
    ]
    return rows, ["on the validation nodes"], [metric_title(metric), "chosen in splits"]


def _shown_columns(summary: Summary) -> str:
    """Return the columns that were chosen in at least half of the splits, commonest first."""
    counts = Counter(name for columns in summary["columns"] for name in columns)
    often = [name for name, times in counts.most_common() if 2 * times >= len(summary["columns"])]
    return (
        "auto takes the fewest columns whose score is within one standard error of the best, at "
        "most 16.\nColumns that at least half of the splits read: " + ", ".join(often)
    )


def order_weight_lines(summary: Summary) -> Iterator[str]:
    """Yield the absolute order weights of each layer with crosses, averaged over runs.

    Signs carry no meaning: flipping the sign of an order weight and of its projection changes
    nothing.
    """
    layers = zip(*summary["trained_order_weights"], strict=True)
    for number, layer in enumerate(layers, 1):
        means = [fmean(map(abs, weights)) for weights in zip(*layer, strict=True)]
        if len(means) > 1:
            shown = ", ".join(f"{mean:.2f}" for mean in means)
            yield f"layer {number}: order weights |α| = {shown}"


def comparison_screen(summary: Summary) -> Iterator[RenderableType]:
    """Yield the result of ``compare``: models, each paired with the baseline, and what follows.

    Models of tables are sorted, glass boxes first.
    """
    models, metric = summary["models"], summary["metric"]
    has_layers = "num_layers" in models[0]
    has_accuracy = metric != "accuracy" and "test_accuracy" in models[0]
    heads = ["layers"] * has_layers
    heads += [_head(summary, metric), f"gain over {summary['baseline']}"]
    heads += ["accuracy in %"] * has_accuracy + ["seconds"]
    rows = []
    for model in models:
        row = [model["model"]]
        if has_layers:
            row.append(str(model["num_layers"]))
        row += [spread_text(metric, model["mean"], model["sd"]), _gain_text(model, metric)]
        if has_accuracy:
            row.append(spread_text("accuracy", fmean(model["test_accuracy"])))
        rows.append([*row, f"{model['seconds']:.0f}"])
    glass_boxes = sum(model.get("glass_box", False) for model in models)
    yield Text(_title(summary), style="bold")
    yield make_table(rows, ["model"], heads, line_after=glass_boxes - 1)
    if 0 < glass_boxes < len(models):
        yield Text("Below the line: black boxes.", style="dim")
    differing = [name for name in _OF_PRESETS if len({model.get(name) for model in models}) > 1]
    if differing:
        yield Text(f"The presets also differ in {', '.join(differing)} (--json).", style="dim")
    yield from map(Text, summary["answer"])


def _title(summary: Summary) -> str:
    """Return what was trained on which splits, how often."""
    splits, runs = summary["num_splits"], summary.get("num_runs")
    kind = "authors'" if summary["splits"] == "authors" else summary["splits"]
    parts = [count(splits, f"{kind} split")]
    if runs is not None and runs > splits:
        parts[0] += f" × {runs // splits} seeds"
    if summary["splits"] == "stratified":
        share = "60 %" if summary["train"] == "all" else f"{summary['train']} per class"
        parts.append(f"{share} to train, 20 % to validate, 20 % to test")
    elif summary["train"] == "all":
        parts.append("all labelled nodes")
    elif summary["splits"] == "random":
        parts.append(f"{summary['train']} per class")
    if "trials" in summary:
        parts.append(f"best of {count(summary['trials'], 'trial')} by validation")
    else:
        parts.append(count(summary["epochs"], "epoch"))
    target = f" ({summary['target']})" if "target" in summary else ""
    return f"{summary['dataset']}{target}: {', '.join(parts)}"


def _head(summary: Summary, metric: str) -> str:
    if metric == "average_precision" and "positive_class" in summary:
        return f"{metric_title(metric)} of {summary['positive_class']}"
    return metric_title(metric)


def _gain_text(model: Summary, metric: str) -> str:
    """Return a paired difference with its standard error; a dash for the baseline itself."""
    if model["paired_difference"] is None:
        return "—"
    difference = change_text(metric, model["paired_difference"])
    if model["paired_se"] is None:
        return difference
    return f"{difference} ± {change_text(metric, model['paired_se']).lstrip('+')}"
