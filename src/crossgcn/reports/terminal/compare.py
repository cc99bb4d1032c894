"""The results of ``train`` and ``compare`` at the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
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
    yield Text(f"{metric_title(metric)} on the validation nodes: {spread_text(metric, validation)}")
    for number, layer in enumerate(zip(*summary["trained_order_weights"], strict=True), 1):
        # The sign is arbitrary: flipping it with the sign of the projection changes nothing.
        means = [fmean(map(abs, weights)) for weights in zip(*layer, strict=True)]
        if len(means) > 1:
            shown = ", ".join(f"{mean:.2f}" for mean in means)
            yield f"layer {number}: order weights |α| = {shown}"
    if "path" in summary:
        yield from _chosen_columns(summary)
    for doubt in summary["doubts"]:
        yield Text(doubt, style="yellow")


def _chosen_columns(summary: Summary) -> Iterator[RenderableType]:
    """Yield how many columns each split chose, and the columns that most of them chose."""
    chosen, tried = summary["columns"], max(size for size, _ in chain(*summary["path"]))
    sizes = ", ".join(str(len(columns)) for columns in chosen)
    counts = Counter(chain.from_iterable(chosen))
    often = [name for name, times in counts.most_common() if 2 * times >= len(chosen)]
    yield Text(f"Columns chosen of {tried}, by split: {sizes} (the page draws why)")
    yield Text("Chosen by at least half of the splits: " + ", ".join(often))
    if most := max((len(pairs) for pairs in summary["crosses"] if pairs), default=0):
        yield Text(f"Pairs of them that are multiplied: at most {most} (--set crosses=N or all)")


def comparison_screen(summary: Summary) -> Iterator[RenderableType]:
    """Yield the result of ``compare``: models paired with the baseline, and the conclusions.

    For tables, glass boxes come first.
    """
    models, metric, rows = summary["models"], summary["metric"], []
    for model in models:
        row = {"model": model["model"]}
        if "num_layers" in model:
            row["layers"] = str(model["num_layers"])
        row[_head(summary, metric)] = spread_text(metric, model["mean"], model["sd"])
        row[f"gain over {summary['baseline']}"] = _gain_text(model, metric)
        if metric != "accuracy" and "test_accuracy" in model:
            row["accuracy in %"] = spread_text("accuracy", fmean(model["test_accuracy"]))
        row["seconds"] = f"{model['seconds']:.0f}"
        rows.append(row)
    name, *numbers = rows[0]
    glass_boxes = sum(model.get("glass_box", False) for model in models)
    yield Text(_title(summary), style="bold")
    cells = ([*row.values()] for row in rows)
    yield make_table(cells, [name], numbers, line_after=glass_boxes - 1)
    if 0 < glass_boxes < len(models):
        yield Text("Below the gap: black boxes.", style="dim")
    yield from map(Text, summary["answer"])


def _title(summary: Summary) -> str:
    """Return the dataset, the splits and the amount of training."""
    splits, runs, train = summary["num_splits"], summary.get("num_runs", 0), summary["train"]
    kind = "authors'" if summary["splits"] == "authors" else summary["splits"]
    words = count(splits, f"{kind} split")
    if runs > splits:
        words += f" × {runs // splits} seeds"
    if summary["splits"] == "stratified":
        share = "60 %" if train == "all" else f"{train} per class"
        words += f", {share} to train, 20 % to validate, 20 % to test"
    elif train == "all":
        words += ", all labelled nodes"
    elif summary["splits"] == "random":
        words += f", {train} per class"
    if "trials" in summary:
        words += f", best of {count(summary['trials'], 'trial')} by validation"
    else:
        words += f", {count(summary['epochs'], 'epoch')}"
    target = f" ({summary['target']})" if "target" in summary else ""
    return f"{summary['dataset']}{target}: {words}"


def _head(summary: Summary, metric: str) -> str:
    if metric == "average_precision" and "positive_class" in summary:
        return f"{metric_title(metric)} of {summary['positive_class']}"
    return metric_title(metric)


def _gain_text(model: Summary, metric: str) -> str:
    """Return a paired difference with its standard error; a dash for the baseline itself."""
    gain, error = model["paired_difference"], model["paired_se"]
    if gain is None:
        return "—"
    text = change_text(metric, gain)
    return text if error is None else f"{text} ± {change_text(metric, error).lstrip('+')}"
