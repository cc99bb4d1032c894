"""What other pages found, in a few lines, for the page that says what helps."""

from __future__ import annotations

from typing import Any

from crossgcn.evaluation.findings_search import SearchRecord
from crossgcn.reports.link_comparison import links_verdicts

__all__ = ["links_in_brief", "search_in_brief"]


def links_in_brief(record: dict[str, Any] | None) -> str:
    """The verdicts of ``results/links.json``, graph by graph."""
    if record is None:
        return "Not measured yet."
    return "\n".join(
        f"- {summary['dataset']}, {summary['num_splits']} splits: {sentence}"
        for summary in record["datasets"]
        for sentence in links_verdicts(summary)
    )


def search_in_brief(search: SearchRecord | None) -> str:
    """How many settings were tried on each graph, and whether each model had as many."""
    if search is None:
        return "Not searched yet."
    counts: dict[str, dict[str, int]] = {}
    for row in search.rows:
        here = counts.setdefault(row.dataset, {})
        here[row.model] = here.get(row.model, 0) + 1
    models = list(dict.fromkeys(row.model for row in search.rows))
    uneven = [
        f"{dataset} ({', '.join(f'{model} {here.get(model, 0)}' for model in models)})"
        for dataset, here in counts.items()
        if len({here.get(model, 0) for model in models}) > 1
    ]
    tried = ", ".join(f"{max(here.values())} on {dataset}" for dataset, here in counts.items())
    said = f"Settings tried, as many for both models of a graph: {tried}."
    if uneven:
        said = (
            f"Settings tried: {tried}, but **not as many for each model** on {', '.join(uneven)}."
        )
    failed = sum(row.validation_mean is None for row in search.rows)
    return said + (f" {failed} of {len(search.rows)} trainings diverged." if failed else "")
