"""``crossgcn explain``: the crosses that drive each class, or one node's score as a sum."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from crossgcn.cli.command import Answer, RunArgument, command, option
from crossgcn.errors import BadInput, unknown_name

if TYPE_CHECKING:
    from crossgcn.experiments.run_folder import RunFolder


@command
def explain(
    run: RunArgument,
    node: Annotated[
        str | None,
        option(
            "Explain the score of this node, given by its id or, without ids, its number from 0. "
            "[default: the strongest crosses of every class]",
            metavar="ID",
        ),
    ] = None,
    class_name: Annotated[
        str | None,
        option(
            "Explain this class only. [default: all; for a node, the predicted class]",
            "--class",
            metavar="NAME",
        ),
    ] = None,
    top: Annotated[int, option("How many crosses or terms to list.", min=1)] = 10,
    order: Annotated[
        int | None,
        option("Number of features of a cross, or of columns of a term. [default: all]", min=2),
    ] = None,
    raw: Annotated[
        bool,
        option(
            "Show the terms of cross-hops as trained, not purified: pairs include what "
            "their columns do alone."
        ),
    ] = False,
    out: Annotated[
        Path | None, option("Also write the tables here, as CSV.", metavar="DIR")
    ] = None,
) -> Answer:
    """List the crosses that drive each class, or the terms of one node's score, exactly.

    A score is a sum of single features and products of features of the node and its
    neighbourhood, so the listed terms and the rest add up to it. Terms of cross-hops are listed
    by column of the table.
    """
    from crossgcn.cli.running import status

    with status("reading the run"):
        from crossgcn.experiments.run_folder import open_run
        from crossgcn.explanation.explain import check_order

        trained = open_run(run)
    classes = trained.saved.preprocess.classes
    if class_name is not None and class_name not in classes:
        raise unknown_name("class", class_name, classes)
    if order is not None and node is not None:
        raise BadInput("--order chooses crosses of whole classes: leave it out with --node")
    if trained.config.model == "cross-hops":
        return _explain_columns(trained, node, class_name, top, order, raw, out)
    if raw:
        raise BadInput(
            f"--raw is for cross-hops; crosses of {trained.config.model} are always listed as "
            "trained: leave it out"
        )
    if order is not None:
        check_order("--order", trained.saved.model, order)
    if node is None:
        return _explain_classes(trained, class_name, top, order, out)
    return _explain_node(trained, node, class_name, top, out)


def _explain_classes(
    trained: RunFolder, class_name: str | None, top: int, order: int | None, out: Path | None
) -> Answer:
    from crossgcn.cli.running import progress_bar
    from crossgcn.explanation.run import explain_run
    from crossgcn.reports.terminal.explain import class_tables

    with progress_bar("explaining models") as show:
        explained = explain_run(trained, top=top, order=order, on_model=show)
    if class_name is not None:
        explained = replace(
            explained,
            crosses=explained.crosses[explained.crosses["class"] == class_name],
            terms=explained.terms[explained.terms["class"] == class_name],
        )
    _write(out, {"crosses.csv": explained.crosses, "features.csv": explained.terms})
    summary = {
        "run": str(trained.folder),
        "model": trained.config.model,
        "classes": list(trained.saved.preprocess.classes),
        "crosses": _records(explained.crosses),
        "features": _records(explained.terms),
        "num_models": explained.num_models,
        "completeness": explained.completeness,
        "complete": explained.complete,
    }
    return Answer(summary, class_tables(explained, min(top, 5), len(trained.ids)))


def _explain_node(
    trained: RunFolder, node: str, class_name: str | None, top: int, out: Path | None
) -> Answer:
    from crossgcn.explanation.node import explain_node
    from crossgcn.reports.terminal.explain import node_tables

    preprocess = trained.saved.preprocess
    classes = preprocess.classes
    explanation = explain_node(
        trained.saved.model,
        trained.data,
        trained.find(node),
        target=None if class_name is None else classes.index(class_name),
        space=preprocess.space,
    )

    def named(frame: Any) -> Any:
        return frame.assign(source=[trained.ids[place] for place in frame["source"]])

    if out is not None:
        tables = {"terms.csv": named(explanation.frame), "crosses.csv": explanation.by_cross}
        _write(out, tables)
    summary = {
        "run": str(trained.folder),
        "node": node,
        "class": classes[explanation.target],
        "logits": dict(zip(classes, explanation.logits.tolist(), strict=True)),
        "bias": explanation.bias,
        "left_out": explanation.left_out,
        "completeness": explanation.completeness,
        "crosses": _records(explanation.by_cross.head(top)),
        "other_terms": float(explanation.by_cross["contribution"].iloc[top:].sum()),
        "nodes": _records(named(explanation.by_node.head(top))),
    }
    return Answer(summary, node_tables(explanation, trained.ids, classes, top))


def _explain_columns(
    trained: RunFolder,
    node: str | None,
    class_name: str | None,
    top: int,
    order: int | None,
    raw: bool,
    out: Path | None,
) -> Answer:
    from crossgcn.cli.running import status
    from crossgcn.explanation.column_details import (
        node_sum,
        predicted_output,
        term_records,
        terms_frame,
    )
    from crossgcn.explanation.run import explain_columns
    from crossgcn.models.cross_hops import CrossHops
    from crossgcn.reports.terminal.explain import column_node_tables, column_tables

    classes = trained.saved.preprocess.classes
    model = trained.saved.model
    if order is not None and isinstance(model, CrossHops) and order > model.order:
        raise BadInput(
            f"--order {order}, but this model crosses at most {model.order} columns; ask for no "
            "more, or train a model of higher order"
        )
    place = None if node is None else trained.find(node)
    with status("explaining the model"):
        terms = explain_columns(trained, node=place, raw=raw)
    if class_name is not None and len(classes) == 2 and class_name == classes[0]:
        terms = terms.mirrored(class_name)
    summary = {
        "run": str(trained.folder),
        "model": trained.config.model,
        "classes": list(classes),
        "unit": terms.unit,
        "purified": not raw,
        "num_nodes": len(terms.nodes),
    }
    if place is not None:
        output = (
            predicted_output(terms, place)
            if class_name is None
            else terms.outputs.index(class_name)
        )
        explained = node_sum(terms, place, output)
        _write(out, {"terms.csv": explained.frame.drop(columns="columns")})
        return Answer(
            summary | {"node": node} | explained.to_json(top),
            column_node_tables(explained, str(node), top),
        )
    outputs = [
        output
        for output, name in enumerate(terms.outputs)
        if class_name is None or name == class_name
    ]
    records = [row for output in outputs for row in term_records(terms, output, top, order)]
    if out is not None:
        _write(out, {"terms.csv": terms_frame(records)})
    summary |= {
        "average": {terms.outputs[output]: float(terms.average[output]) for output in outputs},
        "terms": records,
    }
    return Answer(summary, column_tables(terms, records))


def _records(frame: Any) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(frame.to_json(orient="records"))
    return records


def _write(out: Path | None, frames: dict[str, Any]) -> None:
    if out is None:
        return
    from crossgcn.cli.running import make_folder
    from crossgcn.data.tables.export import write_table

    folder = make_folder(out)
    for name, frame in frames.items():
        write_table(folder / name, frame.drop(columns="features", errors="ignore"))
