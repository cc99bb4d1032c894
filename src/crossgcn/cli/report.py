"""``crossgcn report``: one HTML page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from crossgcn.cli.command import Answer, RunArgument, command, option
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    from crossgcn.experiments.run_folder import RunFolder


@command
def report(
    run: RunArgument,
    out: Annotated[
        Path | None, option("The page to write. [default: report.html in RUN]", metavar="FILE")
    ] = None,
    comparison: Annotated[
        Path | None,
        option("A folder written by compare, to show its answer on the page.", metavar="FOLDER"),
    ] = None,
    nodes: Annotated[
        int, option("How many nodes to explain one by one; mistakes come first.", min=0)
    ] = 400,
    crosses: Annotated[int, option("How many crosses or terms per class.", min=1)] = 10,
) -> Answer:
    """Write one HTML file about a run: scores, curves, mistakes, crosses, nodes.

    The page needs no network and no other file, and is smaller than 3 MB.
    """
    from crossgcn.cli.running import progress_bar, status, terminal

    path = run / "report.html" if out is None else out
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"{path}: give the name of a file in an existing folder as --out")
    with status("reading the run"):
        from crossgcn.experiments.run_folder import open_run
        from crossgcn.explanation.reading import NotASum
        from crossgcn.explanation.run import explain_columns, explain_run
        from crossgcn.reports.run_report.collect import read_comparison, view_run
        from crossgcn.reports.run_report.page import write_run_report

        trained = open_run(run)
        compared = None if comparison is None else read_comparison(comparison, trained)
    explained, terms, unexplained = None, None, _why_unexplained(trained)
    if trained.config.model == "cross-hops":
        with status("explaining the model"):
            terms = explain_columns(trained)
    elif not unexplained:
        try:
            with progress_bar("explaining models") as show:
                explained = explain_run(trained, top=crosses, on_model=show)
        except NotASum as reason:
            words = f"the page will show no crosses and no single nodes: {reason}"
            terminal().print(words, markup=False)
            unexplained = (
                f"The scores of {trained.config.model} are not sums of products of features, so "
                "this page cannot list crosses or explain single nodes."
            )
    with status("explaining nodes and drawing"):
        view = view_run(
            trained,
            explained,
            terms=terms,
            num_terms=crosses,
            unexplained=unexplained,
            comparison=compared,
            num_nodes=nodes,
        )
        page = write_run_report(path, view)
    summary = {
        "out": str(path),
        "bytes": page.size,
        "nodes_shown": page.nodes,
        "nodes": page.num_nodes,
    }
    shown = f"{page.size / 1e6:.1f} MB, {page.nodes:,} of {page.num_nodes:,} nodes"
    return Answer(summary, [f"{path} written ({shown})"])


def _why_unexplained(trained: RunFolder) -> str:
    """Return why this page does not explain a model, as a sentence; empty if it does."""
    if trained.config.model == "mlp-hops":
        return f"The scores of {trained.config.model} are not sums of named terms."
    if trained.data.y.is_floating_point():
        return "This page does not list the crosses of models that predict numbers."
    return ""
