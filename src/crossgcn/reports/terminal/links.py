"""The result of ``links``: one JSON object, one table, a sentence for each model."""

from __future__ import annotations

from math import fsum
from typing import Any

from rich.console import Group
from rich.text import Text

from crossgcn.links.compare import LinkComparison, LinkResult
from crossgcn.reports.format import accuracy_text, count, paired_text
from crossgcn.reports.terminal.tables import number_columns

Summary = dict[str, Any]


def metric_name(metric: str) -> str:
    """Return a metric as it is written: ``AUC``, ``Hits@10``."""
    return metric.upper() if metric in ("auc", "ap", "mrr") else metric.capitalize()


def summarise_links(comparison: LinkComparison) -> Summary:
    """Return encoders and metrics, for ``--json`` and ``result.json``."""
    record = comparison.results[0].records[0]
    environment, split = record["environment"], record["split"]
    config = comparison.results[0].config
    return {
        "dataset": record["dataset"]["name"],
        "baseline": comparison.results[0].name,
        "num_splits": len(comparison.results[0].records),
        "edges": {name: split[name]["pairs"] for name in ("train", "validation", "test")},
        "negatives": {name: split[f"{name}_negatives"]["pairs"] for name in ("validation", "test")},
        **record["links"],
        "epochs": config.epochs,
        "learning_rate": config.learning_rate,
        "weight_decay": config.weight_decay,
        "seed": config.seed,
        "metrics": list(comparison.metrics),
        "models": [_model(comparison, result) for result in comparison.results],
        "seconds": fsum(result.seconds for result in comparison.results),
        "versions": environment["versions"],
        "threads": environment["threads"],
        "device": environment.get("gpu", "cpu"),
        "commit": environment["commit"],
    }


def _model(comparison: LinkComparison, result: LinkResult) -> Summary:
    settings = result.config.model_dump(mode="json", include=set(result.config.model_settings()))
    return {
        "name": result.name,
        "model": result.config.model,
        **{name: value for name, value in settings.items() if value is not None},
        "parameters": result.records[0]["parameters"],
        "best_epoch": [record["best_epoch"] for record in result.records],
        "validation_auc": [record["validation_auc"] for record in result.records],
        "test": {metric: _metric(comparison, result, metric) for metric in comparison.metrics},
        "seconds": result.seconds,
    }


def _metric(comparison: LinkComparison, result: LinkResult, metric: str) -> Summary:
    summary = result.summary(metric)
    itself = result is comparison.results[0]
    difference = comparison.difference(result, metric)
    return {
        "values": result.values(metric),
        "mean": summary.mean,
        "sd": summary.sd,
        "paired_difference": None if itself else difference.mean,
        "paired_se": None if itself else difference.standard_error,
        "paired_interval": None if itself else difference.interval(),
    }


def links_table(summary: Summary) -> Group:
    """Return all models as rows, with the paired differences below each but the first."""
    table = number_columns("model", *map(metric_name, summary["metrics"]), "parameters", "seconds")
    for model in summary["models"]:
        measured = [model["test"][metric] for metric in summary["metrics"]]
        parameters, seconds = f"{model['parameters']:,}", f"{model['seconds']:.0f}"
        table.add_row(model["name"], *map(accuracy_text, measured), parameters, seconds)
        if model["name"] != summary["baseline"]:
            table.add_row(f"  paired to {summary['baseline']}", *map(paired_text, measured))
    title = (
        f"{summary['dataset']}: links, {summary['edges']['test']:,} test edges against "
        f"{summary['negatives']['test']:,} negative pairs, in %, "
        f"{count(summary['num_splits'], 'split')}, {summary['epochs']} epochs"
    )
    notes = "paired: mean difference ± its standard error; seconds: sum over all runs"
    return Group(Text(title, style="bold"), table, Text(notes, style="dim"))


def links_verdicts(summary: Summary) -> list[str]:
    """Return what the paired intervals say, a sentence for each model but the baseline."""
    return [
        _verdict(model, summary)
        for model in summary["models"]
        if model["name"] != summary["baseline"] and summary["num_splits"] > 1
    ]


def _verdict(model: Summary, summary: Summary) -> str:
    found: dict[str, list[str]] = {"beats": [], "falls behind": [], "cannot be told apart from": []}
    for metric in summary["metrics"]:
        low, high = model["test"][metric]["paired_interval"]
        words = "beats" if low > 0 else "falls behind" if high < 0 else "cannot be told apart from"
        found[words].append(metric_name(metric))
    parts = [
        f"{words} {summary['baseline']} in {', '.join(metrics)}"
        for words, metrics in found.items()
        if metrics
    ]
    return f"{model['name']} {'; '.join(parts)} (95 % intervals of the paired differences)."
