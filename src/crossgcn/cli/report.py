"""``crossgcn report``: one HTML page about a run."""

from __future__ import annotations

from pathlib import Path

from crossgcn.cli.options import JSON, RUN, option
from crossgcn.cli.running import print_answer, status


def report(
    run: Path = RUN,
    out: Path | None = option("The page to write. [default: report.html in RUN]", metavar="FILE"),
    comparison: Path | None = option(
        "Folder written by crossgcn compare; the page shows its answer.", metavar="FOLDER"
    ),
    nodes: int = option(
        "Number of nodes to explain, mistakes first (default 400).", min=0, default=400
    ),
    as_json: bool = JSON,
) -> None:
    """Write one HTML file about a run: scores, mistakes, terms, nodes.

    The page needs no network and no other file.
    """
    path = run / "report.html" if out is None else out
    with status("reading the run"):
        from crossgcn.experiments.run_folder import open_run, refuse_overwriting
        from crossgcn.reports.page.render import write_report

        trained = open_run(run)
        refuse_overwriting(run, path)
    with status("explaining the model and nodes"):
        page = write_report(trained, path, comparison=comparison, nodes=nodes)
    shown, total, size = len(page["nodes"]["rows"]), page["sizes"]["nodes"], path.stat().st_size
    summary = {"out": str(path), "bytes": size, "nodes_shown": shown, "nodes": total}
    words = f"{path} written ({size / 1e6:.1f} MB, {shown:,} of {total:,} nodes)"
    print_answer(summary, [words, *filter(None, [page["unexplained"]])], as_json)
