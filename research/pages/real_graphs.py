"""Results of ``crossgcn compare`` on real tables, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossgcn.reports.format import markdown_table

Record = Mapping[str, Any]

_IN_PERCENT = ("roc_auc", "accuracy")


def real_graphs_markdown(records: Mapping[str, Record]) -> str:
    """Return one table: a row per graph, the models' test scores, and the gain of crosses.

    Args:
        records: What ``compare --json`` printed, by the title of the row.
    """
    if not records:
        return "Not measured yet."
    names = list(dict.fromkeys(m["model"] for r in records.values() for m in r["models"]))
    header = ["graph", "metric", *names, "crosses gain", "95 % interval", "crosses"]
    rows = []
    for title, record in records.items():
        metric = record["metric"]
        by_name = {model["model"]: model["test"][metric] for model in record["models"]}
        answer = record["answers"]["crosses"]
        low, high = (_number(bound, metric, sign=True) for bound in answer["interval"])
        rows.append(
            [
                title,
                metric,
                *(_spread(by_name[name], metric) if name in by_name else "—" for name in names),
                _number(answer["difference"], metric, sign=True),
                f"{low} to {high}",
                answer["verdict"],
            ]
        )
    splits = {record["num_splits"] for record in records.values()}
    commits = {str(record["commit"])[:7] for record in records.values()}
    num_splits = " or ".join(map(str, sorted(splits)))
    of_table = all("corrected_interval" in r["answers"]["crosses"] for r in records.values())
    interval = (
        "of the mean gain over splits of this table"
        if of_table
        else "corrected for splits that overlap"
    )
    note = (
        f"Mean ± sd over {num_splits} stratified splits (60 / 20 / 20 %), ROC-AUC and accuracy in "
        f"%. Settings are chosen on validation nodes, and the interval is {interval}. "
        f"Commit {', '.join(sorted(commits))}."
    )
    return f"{markdown_table(header, rows)}\n\n{note}"


def _spread(values: list[float], metric: str) -> str:
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1)
    return f"{_number(mean, metric)} ± {_number(variance**0.5, metric)}"


def _number(value: float, metric: str, *, sign: bool = False) -> str:
    scaled, digits = (100 * value, 1) if metric in _IN_PERCENT else (value, 3)
    return f"{scaled:+.{digits}f}" if sign else f"{scaled:.{digits}f}"
