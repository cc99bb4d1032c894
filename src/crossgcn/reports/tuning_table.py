"""What a person reads at the terminal at the end of a search."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Any

from rich.table import Table

from crossgcn.reports.number_columns import number_columns
from crossgcn.reports.tables import comparison_verdicts, paired_cell, with_spread

__all__ = ["settings_table", "tuning_notes", "tuning_table"]

Summary = dict[str, Any]


def tuning_table(summary: Summary) -> Table:
    """Each model with the trials it had and how its chosen settings did."""
    twin = summary["twin"]
    paired = [] if twin is None else [f"paired to {twin['model']}"]
    table = number_columns("model", "trials", "chosen", "validation", "test mean ± sd", *paired)
    for model in _models(summary):
        failed = f" ({model['failed_trials']} failed)" if model["failed_trials"] else ""
        sd = None if model["sd"] is None else 100 * model["sd"]
        table.add_row(
            model["model"],
            f"{model['num_trials']}{failed}",
            str(model["chosen_trial"]),
            f"{100 * fmean(model['validation_accuracy']):.1f}",
            with_spread(100 * model["mean"], sd),
            *([] if twin is None else ["—" if model is twin else paired_cell(summary)]),
        )
    return table


def settings_table(summary: Summary) -> Table:
    """The chosen settings, each beside what it was chosen from."""
    models = list(_models(summary))
    table = number_columns("setting", *(model["model"] for model in models))
    table.add_column("searched", overflow="fold")
    for name, searched in summary["space"].items():
        cells = (_shown(model["settings"].get(name)) for model in models)
        table.add_row(name, *cells, searched)
    return table


def tuning_notes(summary: Summary) -> list[str]:
    """What follows from the numbers, and what to keep in mind about them."""
    notes = []
    twin = summary["twin"]
    if twin is not None:
        notes += comparison_verdicts({"baseline": twin["model"], "models": [summary]})
    order = summary["settings"].get("order")
    if order is not None and max(order if isinstance(order, list | tuple) else [order]) == 1:
        notes.append("The search chose no crosses (order 1).")
    if any(model["test_reads"] > 1 for model in _models(summary)):
        notes.append(
            "Test nodes were read more than once in this folder: the search was continued after "
            "it had ended, and chose again. Its last test accuracy is a little less honest."
        )
    if summary["splits"] == "stratified":
        notes.append(
            "Test nodes were set apart before the search, and the saved model has seen none of "
            "them. Training again with best.toml on stratified splits deals all nodes out anew, "
            "and so tests on nodes that chose the settings: its accuracy would be too good."
        )
    return notes


def _models(summary: Summary) -> Iterator[Summary]:
    yield summary
    if summary["twin"] is not None:
        yield summary["twin"]


def _shown(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, float):
        return f"{value:.3g}"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
