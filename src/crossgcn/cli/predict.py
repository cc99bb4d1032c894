"""``crossgcn predict``: classes of nodes, by a model that ``train`` saved."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from crossgcn.cli.options import JSON, RUN, argument, option
from crossgcn.cli.running import print_answer, status, terminal
from crossgcn.errors import BadInput


def predict(
    run: Path = RUN,
    nodes: Path | None = argument(
        "Table of new nodes with the columns of the training table; the target is not needed. "
        "[default: predict for the nodes of the training table]",
        "NODES",
    ),
    edges: Path | None = argument(
        "Table of their edges, to each other or to nodes of the training table.", "EDGES"
    ),
    out: Path = option(
        "The file to write: .csv or .parquet.", metavar="FILE", default=Path("predictions.csv")
    ),
    as_json: bool = JSON,
) -> None:
    """Write what is predicted for nodes: classes with probabilities, or numbers.

    For nodes of the training table, the truth and what each node was used for are written too.
    New nodes are predicted with their edges, without training again. Ids and classes are written
    as they are in your table.
    """
    for table in (nodes, edges):
        if table is not None and out.exists() and table.exists() and out.samefile(table):
            raise BadInput(f"--out {out} is one of the tables: give the name of another file")

    with status("reading the model"):
        from crossgcn.data.files import write_table
        from crossgcn.experiments.predict import predict_nodes
        from crossgcn.experiments.run_folder import open_run, refuse_overwriting

        refuse_overwriting(run, out)
        trained = open_run(run)
    with status("scoring"):
        predictions = predict_nodes(trained, nodes, edges)
    notes = [*map(str, predictions.unseen), *(f"warning: {note}" for note in predictions.notes)]
    if predictions.unused:
        words = ", ".join(predictions.unused)
        notes.insert(0, f"columns ignored, because the training table did not have them: {words}")
    for note in notes:
        terminal().print(note, markup=False)
    frame = predictions.frame
    write_table(out, frame)
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
        "warnings": list(predictions.notes),
        "columns": list(frame.columns),
        "unused_columns": list(predictions.unused),
        "unseen_values": [asdict(unseen) for unseen in predictions.unseen],
        "out": str(out),
    }
    form = "{:>10.4g}" if is_number else "{:>7,}"
    lines = [f"  {form.format(number)}  {name}" for name, number in counts.items()]
    print_answer(summary, [f"{len(frame):,} nodes written to {out}", *lines], as_json)
