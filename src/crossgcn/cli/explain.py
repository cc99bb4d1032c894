"""``crossgcn explain``: the terms of each class by column, or one node's score as a sum."""

from __future__ import annotations

import json
from collections.abc import Callable
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
            "[default: the terms of every class]",
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
    against: Annotated[
        str | None,
        option("Explain why --class and not this class.", metavar="NAME"),
    ] = None,
    top: Annotated[
        int,
        option(
            "How many single columns and how many crosses to list; for a node, how many terms.",
            min=1,
        ),
    ] = 10,
    order: Annotated[
        int | None, option("Number of columns of a term. [default: all]", min=1)
    ] = None,
    raw: Annotated[
        bool,
        option(
            "Show the terms as trained, not purified: pairs include what their columns do alone."
        ),
    ] = False,
    csv: Annotated[
        Path | None, option("Also write all terms to this CSV file.", metavar="FILE")
    ] = None,
    out: Annotated[
        Path | None, option("Also write the listed tables here, as CSV.", metavar="DIR")
    ] = None,
) -> Answer:
    """List the terms that drive each class, by column, or the terms of one node's score, exactly.

    A score is a sum of terms: of single columns and of crosses, of the node itself and of its
    neighbourhood. A cross is what its columns do together, without what each does alone.
    """
    from crossgcn.cli.running import status

    with status("reading the run"):
        from crossgcn.experiments.run_folder import open_run
        from crossgcn.explanation.layered import NotByColumn

        trained = open_run(run)
    classes = trained.saved.preprocess.classes
    for name in (class_name, against):
        if name is not None and name not in classes:
            raise unknown_name("class", name, classes)
    if against is not None and class_name in (None, against):
        raise BadInput("--against names another class than --class: give both")
    if order is not None and node is not None:
        raise BadInput("--order chooses terms of whole classes: leave it out with --node")
    is_hops = trained.config.model == "cross-hops"
    if raw and not is_hops:
        return _explain_trained(trained, node, class_name, top, order, csv, out, "")
    contrast = None
    if class_name is not None and (against is not None or len(classes) == 2):
        first = classes.index(class_name)
        contrast = (first, 1 - first if against is None else classes.index(against))
    _check_order(trained, order)
    try:
        if node is None:
            return _explain_classes(trained, class_name, contrast, top, order, raw, csv, out)
        return _explain_node(trained, node, class_name, contrast, top, raw, csv, out)
    except NotByColumn as reason:
        if contrast is not None and len(classes) > 2:
            raise
        return _explain_trained(trained, node, class_name, top, order, csv, out, str(reason))


def _explain_classes(
    trained: RunFolder,
    class_name: str | None,
    contrast: tuple[int, int] | None,
    top: int,
    order: int | None,
    raw: bool,
    csv: Path | None,
    out: Path | None,
) -> Answer:
    from crossgcn.cli.running import progress_bar
    from crossgcn.explanation.column_details import term_records, terms_frame
    from crossgcn.explanation.run import explain_columns, no_better_than_guessing
    from crossgcn.reports.terminal.explain import column_tables

    with progress_bar("explaining models") as show:
        terms = explain_columns(trained, raw=raw, contrast=contrast, on_model=show)
    outputs = [
        output
        for output, name in enumerate(terms.outputs)
        if contrast is not None or class_name in (None, name)
    ]
    records = [row for output in outputs for row in term_records(terms, output, top, order)]
    _write_csv(csv, lambda: terms.to_frame())
    _write(out, {"terms.csv": terms_frame(records)})
    warning = no_better_than_guessing(trained)
    summary = _summary(trained, terms.unit, raw) | {
        "num_nodes": len(terms.nodes),
        "num_models": len(trained.runs),
        "average": {terms.outputs[output]: float(terms.average[output]) for output in outputs},
        "by_number_of_columns": {
            terms.outputs[output]: terms.by_size(output) for output in outputs
        },
        "unlisted": {str(size): count for size, count in terms.num_unlisted.items()},
        "unlisted_by_column": {
            terms.outputs[output]: terms.unlisted_columns(output) for output in outputs
        },
        "warning": warning,
        "terms": records,
    }
    return Answer(summary, column_tables(terms, records, warning))


def _explain_node(
    trained: RunFolder,
    node: str,
    class_name: str | None,
    contrast: tuple[int, int] | None,
    top: int,
    raw: bool,
    csv: Path | None,
    out: Path | None,
) -> Answer:
    from crossgcn.cli.running import status
    from crossgcn.explanation.one_node import answer_node
    from crossgcn.explanation.run import run_explainer
    from crossgcn.reports.terminal.explain import column_node_tables

    place = trained.find(node)
    with status("explaining the model"):
        answer = answer_node(run_explainer(trained, contrast=contrast), place, class_name, raw=raw)
    _write_csv(csv, lambda: answer.total.frame)
    _write(out, {"terms.csv": answer.total.frame})
    summary = _summary(trained, answer.total.unit, raw) | {"node": node}
    return Answer(
        summary | answer.to_json(top, trained.ids),
        column_node_tables(answer, node, trained.ids, top),
    )


def _summary(trained: RunFolder, unit: str, raw: bool) -> dict[str, Any]:
    return {
        "run": str(trained.folder),
        "model": trained.config.model,
        "classes": list(trained.saved.preprocess.classes),
        "unit": unit,
        "purified": not raw,
    }


def _check_order(trained: RunFolder, order: int | None) -> None:
    from crossgcn.explanation.explain import check_order
    from crossgcn.models.cross_hops import CrossHops

    model = trained.saved.model
    if order in (None, 1):
        return
    if not isinstance(model, CrossHops):
        check_order("--order", model, order)
    elif order > model.order:
        raise BadInput(
            f"--order {order}, but this model crosses at most {model.order} columns; ask for no "
            "more, or train a model of higher order"
        )


def _explain_trained(
    trained: RunFolder,
    node: str | None,
    class_name: str | None,
    top: int,
    order: int | None,
    csv: Path | None,
    out: Path | None,
    reason: str,
) -> Answer:
    """List products of features as trained: for --raw, or because terms by column do not exist."""
    if order == 1:
        raise BadInput("--order 1: crosses as trained have at least two features; give 2 or more")
    _check_order(trained, order)
    if node is None:
        return _classes_as_trained(trained, class_name, top, order, csv, out, reason)
    return _node_as_trained(trained, node, class_name, top, csv, out)


def _classes_as_trained(
    trained: RunFolder,
    class_name: str | None,
    top: int,
    order: int | None,
    csv: Path | None,
    out: Path | None,
    reason: str,
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
    _write_csv(csv, lambda: explained.crosses)
    _write(out, {"crosses.csv": explained.crosses, "features.csv": explained.terms})
    summary = {
        "run": str(trained.folder),
        "model": trained.config.model,
        "classes": list(trained.saved.preprocess.classes),
        "purified": False,
        "crosses": _records(explained.crosses),
        "features": _records(explained.terms),
        "num_models": explained.num_models,
        "completeness": explained.completeness,
        "complete": explained.complete,
    }
    return Answer(summary, class_tables(explained, min(top, 5), len(trained.ids), reason))


def _node_as_trained(
    trained: RunFolder,
    node: str,
    class_name: str | None,
    top: int,
    csv: Path | None,
    out: Path | None,
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

    _write_csv(csv, lambda: explanation.by_cross)
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


def _records(frame: Any) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(frame.to_json(orient="records"))
    return records


def _write_csv(path: Path | None, make: Callable[[], Any]) -> None:
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"{path}: give the name of a file in an existing folder as --csv")
    _write_table(path, make())


def _write(out: Path | None, frames: dict[str, Any]) -> None:
    if out is None:
        return
    from crossgcn.cli.running import make_folder

    folder = make_folder(out)
    for name, frame in frames.items():
        _write_table(folder / name, frame)


def _write_table(path: Path, frame: Any) -> None:
    from crossgcn.data.tables.export import write_table

    write_table(path, frame.drop(columns=["features", "columns"], errors="ignore"))
