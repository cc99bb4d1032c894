"""``crossgcn predict``: classes of nodes, by a model that ``train`` saved."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from crossgcn.cli.command import Answer, RunArgument, argument, command, option
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
    """Write the predicted classes and probabilities of nodes and, on request, their top crosses.

    New nodes are predicted with their edges, without training again. Text that a spreadsheet
    would run as a formula is escaped.
    """
    for table in (nodes, edges):
        if table is not None and out.exists() and table.exists() and out.samefile(table):
            raise BadInput(f"--out {out} is one of the tables: give the name of another file")
    from crossgcn.cli.running import status, terminal

    console = terminal()
    with status("reading the model"):
        from crossgcn.data.tables.export import write_table
        from crossgcn.experiments.predict import (
            predictions_frame,
            score_known_nodes,
            score_new_nodes,
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
        meant = "" if unseen.known is None else f" (did you mean {unseen.known!r}?)"
        console.print(
            f"column {unseen.column}: {unseen.count:,} values not seen in training, such as "
            f"{unseen.example!r}{meant}; they count as {unseen.column}=(other)",
            markup=False,
        )
    named = None
    if crosses and all(getattr(layer, "order", 1) == 1 for layer in trained.saved.model.layers):
        raise BadInput(
            f"{run}: a {trained.saved.preset} of order 1 has no crosses to name: leave out "
            "--crosses, or train with --order 2"
        )
    if crosses:
        with status("naming crosses"):
            named = _top_crosses(trained, scored, crosses)
    frame = predictions_frame(scored, trained.saved.preprocess.classes, named)
    write_table(out, frame)
    counts = {str(name): int(n) for name, n in frame["predicted"].value_counts().items()}
    summary = {
        "model": str(run),
        "nodes": len(frame),
        "predicted": counts,
        "columns": list(frame.columns),
        "unused_columns": list(scored.unused),
        "unseen_values": [asdict(unseen) for unseen in scored.unseen],
        "out": str(out),
    }
    lines = [f"  {number:>7,}  {name}" for name, number in counts.items()]
    return Answer(summary, [f"{len(frame):,} nodes written to {out}", *lines])


def _top_crosses(trained: RunFolder, scored: Scored, num: int) -> list[str]:
    """Return the top crosses of each node: ``gender=female & age=[20, 25) +1.24; ...``."""
    from crossgcn.explanation.node import NodeExplainer

    explainer = NodeExplainer(trained.saved.model, scored.data, trained.saved.preprocess.space)
    frame = explainer.top_crosses(scored.nodes.tolist(), num, min_order=2)
    words: dict[int, list[str]] = {}
    for row in frame[frame["kind"] == "term"].to_dict("records"):
        words.setdefault(row["node"], []).append(f"{row['cross']} {row['contribution']:+.3f}")
    return ["; ".join(words.get(node, [])) for node in scored.nodes.tolist()]
