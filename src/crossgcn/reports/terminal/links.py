"""The answer of ``links``: one JSON object, one table, a sentence for each model."""

from __future__ import annotations

from math import fsum
from typing import Any

from rich.console import Group
from rich.text import Text

from crossgcn.links.compare import LinkComparison, LinkResult
from crossgcn.reports.terminal.tables import number_columns, paired_cell, with_spread

Summary = dict[str, Any]

METRIC_WORDS = {"auc": "AUC", "ap": "AP", "mrr": "MRR"}
"""How metrics are written; Hits@K as it is."""


def summarise_links(comparison: LinkComparison) -> Summary:
    """Encoders and metrics, for ``--json`` and ``result.json``."""
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


def metric_cell(measured: Summary) -> str:
    """A metric in percent, with its spread over splits."""
    sd = measured["sd"]
    return with_spread(100 * measured["mean"], None if sd is None else 100 * sd)


def links_table(summary: Summary) -> Group:
    """All models as rows, and below each but the first its paired differences."""
    words = [METRIC_WORDS.get(metric, metric.capitalize()) for metric in summary["metrics"]]
    table = number_columns("model", *words, "parameters", "seconds")
    for model in summary["models"]:
        measured = [model["test"][metric] for metric in summary["metrics"]]
        cells = map(metric_cell, measured)
        count, seconds = f"{model['parameters']:,}", f"{model['seconds']:.0f}"
        table.add_row(model["name"], *cells, count, seconds)
        if model["name"] != summary["baseline"]:
            table.add_row(f"  paired to {summary['baseline']}", *map(paired_cell, measured))
    splits, negatives = summary["num_splits"], summary["negatives"]["test"]
    title = (
        f"{summary['dataset']}: links of {summary['edges']['test']:,} test edges against "
        f"{negatives:,} pairs that are none, in %, {splits} split{'s' * (splits > 1)}, "
        f"{summary['epochs']} epochs"
    )
    notes = "paired: mean difference ± its standard error; seconds: of all runs, added up"
    return Group(Text(title, style="bold"), table, Text(notes, style="dim"))


def links_verdicts(summary: Summary) -> list[str]:
    """What the paired intervals say, a sentence for each model but the baseline."""
    return [
        _verdict(model, summary)
        for model in summary["models"]
        if model["name"] != summary["baseline"] and summary["num_splits"] > 1
    ]


def _verdict(model: Summary, summary: Summary) -> str:
    better: list[str] = []
    worse: list[str] = []
    level: list[str] = []
    for metric in summary["metrics"]:
        low, high = model["test"][metric]["paired_interval"]
        found = better if low > 0 else worse if high < 0 else level
        found.append(METRIC_WORDS.get(metric, metric.capitalize()))
    parts = [
        f"{words} in {', '.join(found)}"
        for words, found in (
            (f"beats {summary['baseline']}", better),
            (f"falls behind {summary['baseline']}", worse),
            (f"cannot be told apart from {summary['baseline']}", level),
        )
        if found
    ]
    return f"{model['name']} {'; '.join(parts)} (95 % intervals of the paired differences)."
