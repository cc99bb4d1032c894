"""One HTML page about a run, or about several side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from crossgcn.errors import BadInput
from crossgcn.experiments.run_folder import RunFolder
from crossgcn.explanation.columns import ColumnTerms
from crossgcn.explanation.layered import NotByColumn
from crossgcn.explanation.reading import NotASum
from crossgcn.explanation.run import explain_columns, explain_run
from crossgcn.reports.run_report.answers import read_comparison
from crossgcn.reports.run_report.collect import collect_run, collect_runs
from crossgcn.reports.run_report.page import RunReport, render_page, write_page, write_run_report

Tick = Callable[[int, int], None]


def write_report(
    trained: RunFolder,
    path: Path,
    *,
    comparison: Path | None = None,
    nodes: int = 400,
    crosses: int = 20,
    on_model: Tick | None = None,
    on_note: Callable[[str], None] = lambda _: None,
) -> RunReport:
    """Write scores, curves, mistakes, terms and single nodes of a run to one HTML file.

    Args:
        comparison: A folder written by ``compare``, to show its answer.
        nodes: How many nodes to explain one by one.
        crosses: How many crosses of two columns, and of three, for each score.
        on_model: Called with the models explained and their number, then likewise with nodes.
        on_note: Called with a sentence about what the page cannot show.
    """
    compared = None if comparison is None else read_comparison(comparison, trained)
    explained, unexplained = None, ""
    terms = _terms_of(trained, on_model)
    if terms is None:
        try:
            if trained.config.model == "mlp-hops" or trained.data.y.is_floating_point():
                raise NotASum(f"{trained.config.model} has no terms of columns")
            explained = explain_run(trained, top=crosses, on_model=on_model)
        except NotASum as reason:
            on_note(f"the page will show no crosses and no single nodes: {reason}")
            unexplained = (
                f"The scores of {trained.config.model} are not sums of products of features, so "
                "this page cannot list crosses or explain single nodes."
            )
    content = collect_run(
        trained,
        terms=terms,
        explained=explained,
        unexplained=unexplained,
        comparison=compared,
        num_terms=crosses,
        num_nodes=nodes,
        on_node=on_model or (lambda *_: None),
    )
    return write_run_report(path, content)


def write_side_by_side(runs: Sequence[RunFolder], path: Path) -> int:
    """Write a page with several runs side by side; return its size in bytes."""
    if len(runs) < 2:
        raise BadInput("--compare shows runs side by side: give at least two")
    html = render_page("side_by_side.html.j2", collect_runs(runs, [_terms_of(r) for r in runs]))
    write_page(path, html)
    return len(html.encode())


def _terms_of(trained: RunFolder, on_model: Tick | None = None) -> ColumnTerms | None:
    """Return the terms of a run, by column; ``None`` if it has none."""
    if trained.config.model == "mlp-hops":
        return None
    try:
        return explain_columns(trained, on_model=on_model)
    except (NotByColumn, NotASum):
        return None
