"""The results of ``train`` and ``compare`` at the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from rich.console import Group, RenderableType
from rich.text import Text

from crossgcn.experiments.statistics import summarise
from crossgcn.reports.format import (
    Summary,
    change_text,
    count,
    metric_title,
    spread_text,
)
from crossgcn.reports.terminal.tables import make_table
from crossgcn.training.metrics import METRICS

_TRAINING = {
    "epochs": "epochs",
    "learning_rate": "rate",
    "weight_decay": "decay",
    "hidden_channels": "width",
}


def training_table(summary: Summary) -> Group:
    """Return the result of ``train``; for a user's own tables with every metric."""
    metric = summary["metric"]
    validation = fmean(summary["validation_score"])  # negated if it should shrink
    validation *= METRICS[metric].sign
    row = [
        *(summary["model"], str(summary["num_layers"])),
        spread_text(metric, summary["mean"], summary["sd"]),
        spread_text(metric, validation),
        f"{summary['seconds']:.0f}",
    ]
    table = make_table([row], ["model"], ["layers", "mean ± sd", "validation", "seconds"])
    parts = _titled(summary, table)
    if "target" in summary:
        parts += ["", _other_metrics(summary)]
    return Group(*parts)


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


def comparison_page(summary: Summary) -> Group:
    """Return the result of ``compare``: models, each paired with the baseline, and what follows.

    Models of tables are sorted, glass boxes first.
    """
    models = summary["models"]
    metric = models[0].get("metric") or summary["metric"]
    has_layers = "num_layers" in models[0]
    has_accuracy = metric != "accuracy" and "test_accuracy" in models[0]
    numbers = [_title(summary, metric), f"gain over {summary['baseline']}"]
    rows = []
    for model in models:
        row = [model["model"], spread_text(metric, model["mean"], model["sd"])]
        row.append(_gain_text(model, metric))
        if has_layers:
            row.insert(1, str(model["num_layers"]))
        if has_accuracy:
            row.append(spread_text("accuracy", fmean(model["test_accuracy"])))
        rows.append([*row, f"{model['seconds']:.0f}"])
    numbers = ["layers"] * has_layers + numbers + ["accuracy in %"] * has_accuracy + ["seconds"]
    last_glass_box = sum(model.get("glass_box", False) for model in models) - 1
    table = make_table(rows, ["model"], numbers, lines_after=[last_glass_box])
    parts = _titled(summary, table) if has_layers else [_trials(summary), table]
    parts += ["", *map(Text, summary["answer"])]
    return Group(*parts)


def _trials(summary: Summary) -> Text:
    words = (
        f"{summary['dataset']}, {summary['target']}: {count(summary['num_splits'], 'split')}, "
        f"best of {count(summary['trials'], 'trial')} on the validation nodes"
    )
    return Text(words, style="bold")


def _title(summary: Summary, metric: str) -> str:
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


def _other_metrics(summary: Summary) -> RenderableType:
    """Return the metrics besides the selecting one."""
    rows = []
    for name, values in summary["test"].items():
        if name == summary["metric"]:
            continue
        measured = summarise(values)
        rows.append([_title(summary, name), spread_text(name, measured.mean, measured.sd)])
    return make_table(rows, ["also on the test nodes"], ["mean ± sd"])


def _titled(summary: Summary, table: RenderableType) -> list[RenderableType]:
    models = summary.get("models", [summary])
    title = f"{summary['dataset']}: {', '.join(_protocol(summary, models))}"
    return [Text(title, style="bold"), table, Text(_notes(models), style="dim")]


def _protocol(summary: Summary, models: list[Summary]) -> Iterator[str]:
    """Yield what was measured, on which splits, how often."""
    splits, runs = summary["num_splits"], summary["num_runs"]
    seeds = runs // splits
    yield f"test {metric_title(models[0]['metric'])}"
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
    trained: dict[str, dict[str, None]] = {}
    for model in models:
        how = ", ".join(f"{word} {model[name]:g}" for name, word in _TRAINING.items())
        trained.setdefault(how, {})[model["model"]] = None
    seconds = "seconds: sum over all runs"
    if len(trained) == 1:
        return seconds
    each = (f"{', '.join(names)}: {how}" for how, names in trained.items())
    return f"trained differently ({'; '.join(each)}); {seconds}"
