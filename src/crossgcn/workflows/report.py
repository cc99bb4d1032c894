"""One HTML page about a run."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from crossgcn.experiments.run_folder import RunFolder
from crossgcn.explanation.reading import NotASum
from crossgcn.explanation.run import explain_run
from crossgcn.models.catalogue import get_preset
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
        trained: The run.
        path: The page.
        comparison: A folder written by ``compare``, to show its answer.
        nodes: How many nodes to explain one by one.
        crosses: How many crosses per class.
        on_model: Called with the models explained and their number.
        on_note: Called with a sentence about what the page cannot show.
    """
    compared = None if comparison is None else read_comparison(comparison)
    explained, unexplained = None, _not_explained_yet(trained)
    if not unexplained:
        try:
            explained = explain_run(trained, top=crosses, on_model=on_model)
        except NotASum as reason:
            on_note(f"the page will show no crosses and no single nodes: {reason}")
            unexplained = (
                f"The scores of {trained.config.model} are not sums of products of features, so "
                "this page cannot list crosses or explain single nodes."
            )
    view = view_run(
        trained, explained, unexplained=unexplained, comparison=compared, num_nodes=nodes
    )
    return write_run_report(path, view)


def _not_explained_yet(trained: RunFolder) -> str:
    """Return why this page does not explain a model, as a sentence; empty if it does."""
    if get_preset(trained.config.model).inputs == "hops":
        if trained.config.model != "cross-hops":
            return f"The scores of {trained.config.model} are not sums of named terms."
        command = shlex.join(["crossgcn", "explain", str(trained.folder)])
        return f"This page does not list the terms of cross-hops: {command} does."
    if trained.data.y.is_floating_point():
        return "This page does not list the crosses of models that predict numbers."
    return ""
