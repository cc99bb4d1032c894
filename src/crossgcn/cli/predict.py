"""``crossgcn predict``: classes of nodes, by a model that ``train`` saved."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from crossgcn.cli.command import Answer, RunArgument, argument, command, option
from crossgcn.cli.running import status, terminal
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    from crossgcn.experiments.predict import Scored
    from crossgcn.experiments.run_folder import RunFolder


@command
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
    crosses: Annotated[
        int, option("Number of strongest crosses to add for each node.", min=0, max=50)
    ] = 0,
) -> Answer:
    """Write what is predicted for nodes: classes with probabilities, or numbers.

    For nodes of the training table, the truth and what each node was used for are written too.
    New nodes are predicted with their edges, without training again. Text that a spreadsheet
    would run as a formula is escaped.
    """
    for table in (nodes, edges):
        if table is not None and out.exists() and table.exists() and out.samefile(table):
            raise BadInput(f"--out {out} is one of the tables: give the name of another file")

    console = terminal()
    with status("reading the model"):
        from crossgcn.data.tables.frames import write_table
        from crossgcn.experiments.predict import (
            predictions_frame,
            score_known_nodes,
            score_new_nodes,
            score_without_edges,
        )
        from crossgcn.experiments.run_folder import open_run

        trained = open_run(run, load=nodes is not None or crosses > 0)
    with status("scoring"):
        if nodes is None:
            scored = score_known_nodes(trained)
        else:
            scored = score_new_nodes(trained, nodes, edges)
    if scored.unused:
        words = ", ".join(scored.unused)
        console.print(
            f"columns ignored, because the training table did not have them: {words}", markup=False
        )
    for unseen in scored.unseen:
        console.print(str(unseen), markup=False)
    warnings = []
    if nodes is not None and edges is None and trained.data.edge_index.size(1):
        with_edges, without = score_without_edges(trained)
        warnings.append(_missing_edges(trained, with_edges, without))
        console.print(f"warning: {warnings[0]}", markup=False)
    named = None
    if crosses and trained.saved.preset == "mlp-hops":
        raise BadInput(
            f"{run}: the scores of mlp-hops are not sums of named terms: leave out --crosses, or "
            "train cross-hops"
        )
    if crosses and all(getattr(layer, "order", 1) == 1 for layer in trained.saved.model.layers):
        raise BadInput(
            f"{run}: a {trained.saved.preset} of order 1 has no crosses to name: leave out "
            "--crosses, or train with --order 2"
        )
    if crosses:
        with status("naming crosses"):
            of_columns = trained.saved.preset == "cross-hops"
            name = _top_terms if of_columns else _top_crosses
            named = name(trained, scored, crosses)
    frame = predictions_frame(scored, trained.saved.preprocess.classes, named)
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
        "warnings": warnings,
        "columns": list(frame.columns),
        "unused_columns": list(scored.unused),
        "unseen_values": [asdict(unseen) for unseen in scored.unseen],
        "out": str(out),
    }
    form = "{:>10.4g}" if is_number else "{:>7,}"
    lines = [f"  {form.format(number)}  {name}" for name, number in counts.items()]
    return Answer(summary, [f"{len(frame):,} nodes written to {out}", *lines])


def _missing_edges(trained: RunFolder, with_edges: float, without: float) -> str:
    """Say what is lost without edges."""
    from crossgcn.reports.format import get_metric

    metric = get_metric(trained.chosen.record["metric"])
    return (
        "the model was trained with edges, and none are given: the new nodes are judged by their "
        "own columns alone. On the test nodes of the training table, "
        f"{metric.label} is {metric.show(without)} without edges and {metric.show(with_edges)} "
        "with them. Give a table of edges after that of the nodes"
    )


def _top_terms(trained: RunFolder, scored: Scored, num: int) -> list[str]:
    """Return the top crosses of each node in columns: ``income × neighbours: income +0.31; ...``.

    They add to the score of the predicted class, or to the number.
    """
    from crossgcn.explanation.run import explain_columns
    from crossgcn.reports.run_report.nodes import steps_of_terms

    terms = explain_columns(replace(trained, data=scored.data, runs=(trained.chosen,)))
    places, labels = scored.nodes.tolist(), scored.scores.argmax(dim=1).tolist()
    one_score = len(terms.outputs) == 1
    outputs = {place: 0 if one_score else k for place, k in zip(places, labels, strict=True)}
    steps = dict(steps_of_terms(terms, outputs, top=num, least_columns=2))
    if len(steps) < len(outputs):
        raise BadInput(
            f"{trained.folder}: the graph is too large to name the crosses of all its "
            f"{len(scored.data.y):,} nodes; leave out --crosses, and name those of one node with "
            f"crossgcn explain {trained.folder} --node ID"
        )
    against = terms.unit == "log-odds"  # one score, that of the second of two classes
    signs = [-1.0 if against and label == 0 else 1.0 for label in labels]
    return [
        "; ".join(f"{name} {sign * amount:+.3g}" for name, _, amount in steps[place].largest)
        for place, sign in zip(places, signs, strict=True)
    ]


def _top_crosses(trained: RunFolder, scored: Scored, num: int) -> list[str]:
    """Return the top crosses of each node: ``gender=female & age=[20, 25) +1.24; ...``."""
    from crossgcn.explanation.node import NodeExplainer

    explainer = NodeExplainer(trained.saved.model, scored.data, trained.saved.preprocess.space)
    frame = explainer.top_crosses(scored.nodes.tolist(), num, min_order=2)
    words: dict[int, list[str]] = {}
    for row in frame[frame["kind"] == "term"].to_dict("records"):
        words.setdefault(row["node"], []).append(f"{row['cross']} {row['contribution']:+.3f}")
    return ["; ".join(words.get(node, [])) for node in scored.nodes.tolist()]
