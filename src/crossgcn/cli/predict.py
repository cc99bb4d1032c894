"""``crossgcn predict``: classes of nodes, by a model that ``train`` saved."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.text import Text

from crossgcn.cli.options import JSON, RUN, argument, option
from crossgcn.cli.running import print_answer, status, terminal
from crossgcn.cli.tables import parse_edges
from crossgcn.errors import BadInput


def predict(
    run: Path = RUN,
    nodes: Path | None = argument(
        "Table of new nodes with the columns of the training table; the target is not needed. "
        "[default: predict for the nodes of the training table]",
        "NODES",
    ),
    edges: list[str] | None = argument(
        "Table of their edges, to each other or to nodes of the training table; of several "
        "relations, each with the name it had in training.",
        "[NAME=]EDGES",
    ),
    out: Path = option(
        "The file to write: .csv or .parquet.", metavar="FILE", default=Path("predictions.csv")
    ),
    interval: float | None = option(
        "Also write lower and upper, between which P % of the truths lie (50 to 99.9), or a set "
        "of classes that holds P % of them (empty: none is likely enough), if new nodes are from "
        "the same population as the validation nodes.",
        metavar="P",
    ),
    terms: int | None = option(
        "Also write the N largest terms of every row, with the row's values (cross-hops).",
        min=1,
        metavar="N",
    ),
    as_json: bool = JSON,
) -> None:
    """Write what is predicted for nodes: classes with probabilities, or numbers.

    For nodes of the training table, the truth and what each node was used for are written too.
    New nodes are predicted with their edges, without training again; if their table has the
    target, they are scored beside the test nodes. Ids and classes are written as in your table.
    """
    new_edges = parse_edges(edges)
    more = new_edges.values() if isinstance(new_edges, dict) else [new_edges]
    for table in (nodes, *more):
        if table is not None and out.exists() and table.exists() and out.samefile(table):
            raise BadInput(f"--out {out} is one of the tables: give the name of another file")

    with status("reading the model"):
        from crossgcn.data.files import write_table
        from crossgcn.experiments.predict import predict_nodes
        from crossgcn.experiments.run_folder import open_run, refuse_overwriting
        from crossgcn.reports.format import count, number_text
        from crossgcn.training.calibration import ASSUMPTION

        refuse_overwriting(run, out)
        trained = open_run(run)
    with status("scoring"):
        predictions = predict_nodes(trained, nodes, new_edges, interval=interval)
    frame = predictions.frame
    if terms is not None:
        with status("explaining"):
            import pandas as pd

            from crossgcn.explanation.api import list_largest_terms

            frame = pd.concat(
                [frame, list_largest_terms(trained, nodes, new_edges, top=terms)], axis=1
            )
    notes = [*map(str, predictions.unseen), *(f"warning: {note}" for note in predictions.notes)]
    if predictions.unused:
        words = ", ".join(predictions.unused)
        notes.insert(0, f"columns ignored, because the training table did not have them: {words}")
    for note in notes:
        terminal().print(note)
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
        "scored": predictions.scored,
        "out": str(out),
    }
    parts: list[Any] = [f"{count(len(frame), 'node')} written to {out}"]
    parts += [f"  {number_text(number):>10}  {name}" for name, number in counts.items()]
    if predictions.scored is not None:
        parts.append(scored_table(predictions.scored))
    if interval is not None:
        words, what = f"intervals hold {interval:g} % of the truths", "width"
        if is_number:
            sizes = frame["upper"] - frame["lower"]
        else:
            words, what = f"sets hold {interval:g} % of the truths", "number of classes"
            is_empty = frame["set"] == ""
            sizes = (frame["set"].str.count("; ") + 1).mask(is_empty, 0)
            if is_empty.any():
                words += f" ({count(int(is_empty.sum()), 'set')} empty: no class is likely enough)"
        mean = float(sizes.mean())
        parts.append(Text(f"{words}; their mean {what} is {number_text(mean)}. {ASSUMPTION}"))
        summary["interval"] = {"percent": interval, "mean_size": mean, "assumption": ASSUMPTION}
    print_answer(summary, parts, as_json)


def scored_table(scored: dict[str, Any]) -> Any:
    """Return the metrics of new nodes, beside those of the test nodes over the splits."""
    from crossgcn.experiments.statistics import summarise
    from crossgcn.reports.format import count, make_table, metric_title, spread_text

    rows = []
    for name, values in scored["test"].items():
        value, test = scored["metrics"][name], summarise(values)
        here = "" if value is None else spread_text(name, value)
        rows.append((metric_title(name), here, spread_text(name, test.mean, test.sd)))
    return make_table(rows, ("",), (count(scored["nodes"], "new node"), "test nodes"))
