"""The result of ``links``: one JSON object, one table, a sentence for each model."""

from __future__ import annotations

from math import fsum

from rich.console import Group
from rich.text import Text

from crossgcn.links.compare import LinkComparison, LinkResult
from crossgcn.reports.format import (
    Summary,
    accuracy_text,
    count,
    get_metric,
    paired_text,
    relation,
)
from crossgcn.reports.summaries import mean_and_sd, paired, where_run
from crossgcn.reports.terminal.tables import number_columns


def summarise_links(comparison: LinkComparison) -> Summary:
    """Return encoders and metrics, for ``--json`` and ``result.json``."""
    first = comparison.results[0]
    record, config = first.records[0], first.config
    split = record["split"]
    return {
        "dataset": record["dataset"]["name"],
        "baseline": first.name,
        "num_splits": len(first.records),
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
        **where_run(record["environment"]),
    }


def _model(comparison: LinkComparison, result: LinkResult) -> Summary:
    def measured(metric: str) -> Summary:
        values = result.values(metric)
        itself = result is comparison.results[0]
        difference = None if itself else comparison.difference(result, metric)
        return {"values": values, **mean_and_sd(values), **paired(difference)}

    return {
        "name": result.name,
        "model": result.config.model,
        **result.config.model_dump(
            mode="json", include=set(result.config.model_settings()), exclude_none=True
        ),
        "parameters": result.records[0]["parameters"],
        "best_epoch": [record["best_epoch"] for record in result.records],
        "validation_auc": [record["validation_auc"] for record in result.records],
        "test": {metric: measured(metric) for metric in comparison.metrics},
        "seconds": result.seconds,
    }


def links_table(summary: Summary) -> Group:
    """Return all models as rows, with the paired differences below each but the first."""
    labels = [get_metric(metric).label for metric in summary["metrics"]]
    table = number_columns("model", *labels, "parameters", "seconds")
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
    sentences = []
    for model in summary["models"]:
        if model["name"] == summary["baseline"] or summary["num_splits"] == 1:
            continue
        found: dict[str, list[str]] = {}
        for metric in summary["metrics"]:
            words = relation(model["test"][metric]["paired_interval"])
            found.setdefault(words, []).append(get_metric(metric).label)
        parts = [
            f"{words} {summary['baseline']} in {', '.join(found[words])}"
            for words in ("beats", "falls behind", "cannot be told apart from")
            if words in found
        ]
        said = "; ".join(parts)
        sentences.append(f"{model['name']} {said} (95 % intervals of the paired differences).")
    return sentences
