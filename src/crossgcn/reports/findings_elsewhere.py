"""What other pages found, in a few lines, for the page that says what helps."""

from __future__ import annotations

from typing import Any

from crossgcn.reports.link_comparison import links_verdicts

__all__ = ["figure_in_brief", "links_in_brief"]


def links_in_brief(record: dict[str, Any] | None) -> str:
    """The verdicts of ``results/links.json``, graph by graph."""
    if record is None:
        return "Not measured yet."
    return "\n".join(
        f"- {summary['dataset']}, {summary['num_splits']} splits: {sentence}"
        for summary in record["datasets"]
        for sentence in links_verdicts(summary)
    )


def figure_in_brief(figure: str, words: str) -> str:
    """A figure where there is one.

    Args:
        figure: Its address; empty where there is none.
        words: What it shows.
    """
    return f"![{words}]({figure})" if figure else "Not measured yet."
