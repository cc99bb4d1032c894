"""One HTML page about a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from crossgcn.experiments.run_folder import RunFolder
from crossgcn.explanation.reading import NotASum
from crossgcn.explanation.run import explain_columns, explain_run
from crossgcn.reports.run_report.collect import read_comparison, view_run
from crossgcn.reports.run_report.page import RunReport, write_run_report


def write_report(
    trained: RunFolder,
    path: Path,
    *,
    comparison: Path | None = None,
    nodes: int = 400,
    crosses: int = 10,
    on_model: Callable[[int, int], None] | None = None,
    on_note: Callable[[str], None] = lambda _: None,
) -> RunReport:
    """Write scores, curves, mistakes, crosses and single nodes of a run to one HTML file.

    Args:
        comparison: A folder written by ``compare``, to show its answer.
        nodes: How many nodes to explain one by one.
        crosses: How many crosses per class.
        on_model: Called with the models explained and their number.
        on_note: Called with a sentence about what the page cannot show.
    """
    compared = None if comparison is None else read_comparison(comparison, trained)
    explained, terms, unexplained = None, None, _why_unexplained(trained)
    if trained.config.model == "cross-hops":
        terms = explain_columns(trained)
    elif not unexplained:
        try:
            explained = explain_run(trained, top=crosses, on_model=on_model)
        except NotASum as reason:
            on_note(f"the page will show no crosses and no single nodes: {reason}")
            unexplained = (
                f"The scores of {trained.config.model} are not sums of products of features, so "
                "this page cannot list crosses or explain single nodes."
            )
    view = view_run(
        trained,
        explained,
        terms=terms,
        num_terms=crosses,
        unexplained=unexplained,
        comparison=compared,
        num_nodes=nodes,
    )
    return write_run_report(path, view)


def _why_unexplained(trained: RunFolder) -> str:
    """Return why this page does not explain a model, as a sentence; empty if it does."""
    if trained.config.model == "mlp-hops":
        return f"The scores of {trained.config.model} are not sums of named terms."
    if trained.data.y.is_floating_point():
        return "This page does not list the crosses of models that predict numbers."
    return ""
