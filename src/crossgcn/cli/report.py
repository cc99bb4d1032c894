"""``crossgcn report``: one HTML page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from crossgcn.cli.command import Answer, RunArgument, command, option
from crossgcn.cli.running import progress_bar, status, terminal
from crossgcn.errors import BadInput


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
    path = run / "report.html" if out is None else out
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"{path}: give the name of a file in an existing folder as --out")
    with status("reading the run"):
        from crossgcn.experiments.run_folder import open_run
        from crossgcn.workflows.report import write_report

        trained = open_run(run)
    with progress_bar("explaining models and nodes") as show:
        page = write_report(
            trained,
            path,
            comparison=comparison,
            nodes=nodes,
            crosses=crosses,
            on_model=show,
            on_note=lambda words: terminal().print(words, markup=False),
        )
    summary = {
        "out": str(path),
        "bytes": page.size,
        "nodes_shown": page.nodes,
        "nodes": page.num_nodes,
    }
    shown = f"{page.size / 1e6:.1f} MB, {page.nodes:,} of {page.num_nodes:,} nodes"
    return Answer(summary, [f"{path} written ({shown})"])
