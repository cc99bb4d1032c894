"""Render the results of link prediction as Markdown."""

from __future__ import annotations

from typing import Any

from crossgcn.reports.format import accuracy_text, get_metric, markdown_table, paired_text
from crossgcn.reports.terminal.links import links_verdicts


def links_markdown(record: dict[str, Any]) -> str:
    """Render one table and its verdicts for each dataset of ``results/links.json``."""
    return "\n\n".join(_dataset(summary) for summary in record["datasets"])


def _dataset(summary: dict[str, Any]) -> str:
    header = ["model", *(get_metric(m).label for m in summary["metrics"])]
    rows = []
    for model in summary["models"]:
        measured = [model["test"][metric] for metric in summary["metrics"]]
        rows.append([model["name"], *map(accuracy_text, measured)])
        if model["name"] != summary["baseline"]:
            rows.append([f"*paired to {summary['baseline']}*", *map(paired_text, measured)])
    edges, splits = summary["edges"], summary["num_splits"]
    words = (
        f"**{summary['dataset']}**: {edges['train']:,} edges to train, {edges['validation']:,} to "
        f"validate, {edges['test']:,} to test; {splits} split{'s' * (splits > 1)}, "
        f"{summary['epochs']} epochs"
    )
    return "\n\n".join([words, markdown_table(header, rows), *links_verdicts(summary)])
