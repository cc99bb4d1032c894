"""``crossgcn report``: one HTML page about a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from crossgcn.cli import options
from crossgcn.cli.running import work_progress
from crossgcn.errors import BadInput


def report(
    run: options.RunArgument,
    out: Annotated[
        Path | None,
        typer.Option(help="The page to write. \\[default: report.html in RUN]", metavar="FILE"),
    ] = None,
    comparison: Annotated[
        Path | None,
        typer.Option(
            help="A folder written by compare, to show its answer on the page.", metavar="FOLDER"
        ),
    ] = None,
    nodes: Annotated[
        int,
        typer.Option(help="How many nodes to explain one by one; mistakes come first.", min=0),
    ] = 400,
    crosses: Annotated[int, typer.Option(help="How many crosses per class.", min=1)] = 10,
    seed: options.UnusedSeedOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Write one HTML file about a run: scores, curves, calibration, crosses, nodes.

    The page needs no network and no other file, and is smaller than 3 MB.
    """
    path = run / "report.html" if out is None else out
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"{path}: give the name of a file in an existing folder as --out")
    terminal = Console(stderr=True)
    with terminal.status("reading the run"):
        from crossgcn.experiments.run_folder import open_run
        from crossgcn.explanation.reading import NotASum
        from crossgcn.explanation.run import explain_run
        from crossgcn.reports.run_report.collect import read_comparison, view_run
        from crossgcn.reports.run_report.page import write_run_report

        trained = open_run(run)
        compared = None if comparison is None else read_comparison(comparison)
    explained = None
    with work_progress(terminal) as progress:
        task = progress.add_task("explaining models", total=len(trained.runs))
        try:
            explained = explain_run(
                trained, top=crosses, on_model=lambda done, _: progress.update(task, completed=done)
            )
        except NotASum as reason:
            progress.stop()
            terminal.print(
                f"the page will show no crosses and no single nodes: {reason}", markup=False
            )
    with terminal.status("explaining nodes and drawing"):
        view = view_run(trained, explained, comparison=compared, num_nodes=nodes)
        written = write_run_report(path, view)
    if as_json:
        summary = {
            "out": str(path),
            "bytes": written.size,
            "nodes_shown": written.nodes,
            "nodes": written.num_nodes,
        }
        print(json.dumps(summary, ensure_ascii=False))
        return
    print(
        f"{path} written ({written.size / 1e6:.1f} MB, "
        f"{written.nodes:,} of {written.num_nodes:,} nodes)"
    )
