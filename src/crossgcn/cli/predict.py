"""``crossgcn predict``: classes of nodes, by a model that ``train`` saved."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from crossgcn.cli.options import JsonOption, QuietOption, RunArgument, argument, option
from crossgcn.cli.output import print_answer
from crossgcn.cli.running import set_verbosity, status, terminal
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    from crossgcn.experiments.run_folder import RunFolder


def predict(
    run: RunArgument,
    nodes: Annotated[
        Path | None,
        argument(
            "Table of new nodes with the columns of the training table; the target is not needed. "
            "[default: predict for the nodes of the training table]",
            "NODES",
        ),
    ] = None,
    edges: Annotated[
        Path | None,
        argument("Table of their edges, to each other or to nodes of the training table.", "EDGES"),
    ] = None,
    out: Annotated[Path, option("The file to write: .csv or .parquet.", metavar="FILE")] = Path(
        "predictions.csv"
    ),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write what is predicted for nodes: classes with probabilities, or numbers.

    For nodes of the training table, the truth and what each node was used for are written too.
    New nodes are predicted with their edges, without training again. Ids and classes are written
    as they are in your table.
    """
    set_verbosity(quiet)
    for table in (nodes, edges):
        if table is not None and out.exists() and table.exists() and out.samefile(table):
            raise BadInput(f"--out {out} is one of the tables: give the name of another file")

    console = terminal()
    with status("reading the model"):
        from crossgcn.data.tables.write import write_table
        from crossgcn.experiments.predict import (
            predict_nodes,
            score_without_edges,
        )
        from crossgcn.experiments.run_folder import open_run, refuse_overwriting

        refuse_overwriting(run, out)
        trained = open_run(run)
    with status("scoring"):
        predictions = predict_nodes(trained, nodes, edges)
    if predictions.unused:
        words = ", ".join(predictions.unused)
        console.print(
            f"columns ignored, because the training table did not have them: {words}", markup=False
        )
    for unseen in predictions.unseen:
        console.print(str(unseen), markup=False)
    warnings = list(predictions.notes)
    for note in predictions.notes:
        console.print(f"warning: {note}", markup=False)
    if nodes is not None and edges is None and trained.data.edge_index.size(1):
        with_edges, without = score_without_edges(trained)
        warnings.append(_missing_edges(trained, with_edges, without))
        console.print(f"warning: {warnings[-1]}", markup=False)
    frame = predictions.frame
    write_table(out, frame, verbatim=(frame.columns[0], "true", "predicted"))
    predicted = frame["predicted"]
    is_number = trained.data.y.is_floating_point()
    if is_number:
        counts = {str(name): float(n) for name, n in predicted.agg(["min", "mean", "max"]).items()}
    else:
        counts = {str(name): int(n) for name, n in predicted.value_counts().items()}
    summary = {
        "model": str(run),
        "nodes": len(frame),
        "predicted": counts,
        "warnings": warnings,
        "columns": list(frame.columns),
        "unused_columns": list(predictions.unused),
        "unseen_values": [asdict(unseen) for unseen in predictions.unseen],
        "out": str(out),
    }
    form = "{:>10.4g}" if is_number else "{:>7,}"
    lines = [f"  {form.format(number)}  {name}" for name, number in counts.items()]
    print_answer(summary, [f"{len(frame):,} nodes written to {out}", *lines], as_json)


def _missing_edges(trained: RunFolder, with_edges: float, without: float) -> str:
    """Say what is lost without edges."""
    from crossgcn.reports.format import metric_text
    from crossgcn.training.metrics import METRICS

    name: str = trained.chosen.record["metric"]
    return (
        "the model was trained with edges, and none are given: the new nodes are judged by their "
        "own columns alone. On the test nodes of the training table, "
        f"{METRICS[name].title} is {metric_text(name, without)} without edges and "
        f"{metric_text(name, with_edges)} "
        "with them. Give a table of edges after that of the nodes"
    )
