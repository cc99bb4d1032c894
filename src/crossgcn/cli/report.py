"""``crossgcn report``: one HTML page about a run, or about several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from crossgcn.cli.command import Answer, argument, command, option
from crossgcn.cli.running import progress_bar, status, terminal
from crossgcn.errors import BadInput


@command
def report(
    run: Annotated[
        list[Path],
        argument("Folder written by crossgcn train; several with --compare.", "RUN..."),
    ],
    out: Annotated[
        Path | None,
        option(
            "The page to write. [default: report.html, or runs.html with --compare, in RUN]",
            metavar="FILE",
        ),
    ] = None,
    compare: Annotated[bool, option("Show several runs side by side.", "--compare")] = False,
    comparison: Annotated[
        Path | None,
        option("A folder written by compare, to show its answer on the page.", metavar="FOLDER"),
    ] = None,
    nodes: Annotated[
        int, option("How many nodes to explain one by one; mistakes come first.", min=0)
    ] = 400,
    crosses: Annotated[
        int, option("How many crosses for each score; three times as many columns.", min=1)
    ] = 20,
) -> Answer:
    """Write one HTML file about a run: scores, mistakes, terms, nodes.

    The page needs no network and no other file, and is smaller than 3 MB.
    """
    path = run[0] / ("runs.html" if compare else "report.html") if out is None else out
    for folder in run:
        if not folder.is_dir():
            raise BadInput(f"{folder} is no folder; give one that crossgcn train wrote")
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"{path}: give the name of a file in an existing folder as --out")
    if len(run) > 1 and not compare:
        raise BadInput(f"{len(run)} runs are given: add --compare to show them side by side")
    with status("reading the run"):
        from crossgcn.experiments.run_folder import open_run
        from crossgcn.workflows.report import write_report, write_side_by_side

        trained = [open_run(each) for each in run]
    if compare:
        with status("explaining models"):
            size = write_side_by_side(trained, path)
        summary = {"out": str(path), "bytes": size, "runs": len(run)}
        return Answer(summary, [f"{path} written ({size / 1e6:.1f} MB, {len(run)} runs)"])
    with progress_bar("explaining models and nodes") as show:
        page = write_report(
            trained[0],
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
