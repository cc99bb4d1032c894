"""``crossgcn explain``: the terms of each class by column, or one node's score as a sum."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from crossgcn.cli.command import Answer, RunArgument, command, option
from crossgcn.cli.running import make_folder, progress_bar, status
from crossgcn.errors import BadInput, unknown_name

if TYPE_CHECKING:
    from crossgcn.experiments.run_folder import RunFolder


class _Found(NamedTuple):
    """The answer, all its terms for ``--csv``, and the listed tables for ``--out``."""

    answer: Answer
    terms: Callable[[], Any]
    tables: Mapping[str, Any]


@command
def explain(
    run: RunArgument,
    node: Annotated[
        str | None,
        option(
            "Explain the score of this node, given by its id, its name (--name-column) or, without "
            "ids, its number from 0. "
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
    if csv is not None and (csv.is_dir() or not csv.parent.is_dir()):
        raise BadInput(f"{csv}: give the name of a file in an existing folder as --csv")
    with status("reading the run"):
        from crossgcn.data.tables.frames import write_table
        from crossgcn.experiments.run_folder import open_run

        trained = open_run(run)
    classes = trained.saved.preprocess.classes
    for name in (class_name, against):
        if name is not None and name not in classes:
            raise unknown_name("class", name, classes)
    if against is not None and class_name in (None, against):
        raise BadInput("--against names another class than --class: give both")
    if order is not None and node is not None:
        raise BadInput("--order chooses terms of whole classes: leave it out with --node")
    _check_order(trained, order)
    found = _find(trained, node, class_name, against, top, order, raw)
    tables: dict[Path, Any] = {} if csv is None else {csv: found.terms()}
    if out is not None:
        tables |= {make_folder(out) / name: frame for name, frame in found.tables.items()}
    for path, frame in tables.items():
        write_table(path, frame.drop(columns=["features", "columns"], errors="ignore"))
    return found.answer


def _find(
    trained: RunFolder,
    node: str | None,
    class_name: str | None,
    against: str | None,
    top: int,
    order: int | None,
    raw: bool,
) -> _Found:
    """Explain by columns; as trained for --raw, or where terms by column do not exist."""
    from crossgcn.explanation.layered import NotByColumn

    classes, why = trained.saved.preprocess.classes, ""
    contrast = None
    if class_name is not None and (against is not None or len(classes) == 2):
        first = classes.index(class_name)
        contrast = (first, 1 - first if against is None else classes.index(against))
    if not raw or trained.config.model == "cross-hops":
        try:
            if node is None:
                return _classes(trained, class_name, contrast, top, order, raw)
            return _node(trained, node, class_name, contrast, top, raw)
        except NotByColumn as reason:
            if contrast is not None and len(classes) > 2:
                raise
            why = str(reason)
    if order == 1:
        raise BadInput("--order 1: crosses as trained have at least two features; give 2 or more")
    if node is None:
        return _classes_as_trained(trained, class_name, top, order, why)
    return _node_as_trained(trained, node, class_name, top)


def _classes(
    trained: RunFolder,
    class_name: str | None,
    contrast: tuple[int, int] | None,
    top: int,
    order: int | None,
    raw: bool,
) -> _Found:
    from crossgcn.explanation.column_details import term_records, terms_frame
    from crossgcn.explanation.run import explain_columns, no_better_than_guessing
    from crossgcn.reports.terminal.explain import column_tables

    with progress_bar("explaining models") as show:
        terms = explain_columns(trained, raw=raw, contrast=contrast, on_model=show)
    outputs = {
        name: output
        for output, name in enumerate(terms.outputs)
        if contrast is not None or class_name in (None, name)
    }
    records = [row for each in outputs.values() for row in term_records(terms, each, top, order)]
    warning = no_better_than_guessing(trained)
    summary = _summary(trained, raw, terms.unit) | {
        "num_nodes": len(terms.nodes),
        "num_models": len(trained.runs),
        "average": {name: float(terms.average[each]) for name, each in outputs.items()},
        "by_number_of_columns": {name: terms.by_size(each) for name, each in outputs.items()},
        "unlisted": {str(size): count for size, count in terms.num_unlisted.items()},
        "unlisted_by_column": {
            name: terms.unlisted_columns(each) for name, each in outputs.items()
        },
        "warning": warning,
        "terms": records,
    }
    answer = Answer(summary, column_tables(terms, records, warning))
    return _Found(answer, terms.to_frame, {"terms.csv": terms_frame(records)})


def _node(
    trained: RunFolder,
    node: str,
    class_name: str | None,
    contrast: tuple[int, int] | None,
    top: int,
    raw: bool,
) -> _Found:
    from crossgcn.explanation.one_node import answer_node
    from crossgcn.explanation.run import run_explainer
    from crossgcn.reports.terminal.explain import column_node_tables

    place = trained.find(node)
    with status("explaining the model"):
        found = answer_node(run_explainer(trained, contrast=contrast), place, class_name, raw=raw)
    summary = _summary(trained, raw, found.total.unit) | {"node": node}
    summary |= found.to_json(top, trained.ids)
    shown = trained.shown
    answer = Answer(summary, column_node_tables(found, shown[place], shown, top))
    return _Found(answer, lambda: found.total.frame, {"terms.csv": found.total.frame})


def _summary(trained: RunFolder, raw: bool, unit: str | None = None) -> dict[str, Any]:
    return {
        "run": str(trained.folder),
        "model": trained.config.model,
        "classes": list(trained.saved.preprocess.classes),
        **({} if unit is None else {"unit": unit}),
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


def _classes_as_trained(
    trained: RunFolder, class_name: str | None, top: int, order: int | None, reason: str
) -> _Found:
    from crossgcn.explanation.run import explain_run
    from crossgcn.reports.terminal.explain import class_tables

    with progress_bar("explaining models") as show:
        explained = explain_run(trained, top=top, order=order, on_model=show)
    crosses, terms = explained.crosses, explained.terms
    if class_name is not None:
        crosses, terms = (frame[frame["class"] == class_name] for frame in (crosses, terms))
        explained = replace(explained, crosses=crosses, terms=terms)
    summary = _summary(trained, raw=True) | {
        "crosses": _records(crosses),
        "features": _records(terms),
        "num_models": explained.num_models,
        "completeness": explained.completeness,
        "complete": explained.complete,
    }
    answer = Answer(summary, class_tables(explained, min(top, 5), len(trained.ids), reason))
    return _Found(answer, lambda: crosses, {"crosses.csv": crosses, "features.csv": terms})


def _node_as_trained(trained: RunFolder, node: str, class_name: str | None, top: int) -> _Found:
    from crossgcn.explanation.node import explain_node
    from crossgcn.reports.terminal.explain import node_tables

    classes = trained.saved.preprocess.classes
    explanation = explain_node(
        trained.saved.model,
        trained.data,
        trained.find(node),
        target=None if class_name is None else classes.index(class_name),
        space=trained.saved.preprocess.space,
    )

    def named(frame: Any) -> Any:
        return frame.assign(source=[trained.ids[place] for place in frame["source"]])

    crosses = explanation.by_cross
    summary = {
        "run": str(trained.folder),
        "node": node,
        "class": classes[explanation.target],
        "logits": dict(zip(classes, explanation.logits.tolist(), strict=True)),
        "bias": explanation.bias,
        "left_out": explanation.left_out,
        "completeness": explanation.completeness,
        "crosses": _records(crosses.head(top)),
        "other_terms": float(crosses["contribution"].iloc[top:].sum()),
        "nodes": _records(named(explanation.by_node.head(top))),
    }
    tables = {"terms.csv": named(explanation.frame), "crosses.csv": crosses}
    answer = Answer(summary, node_tables(explanation, trained.shown, classes, top))
    return _Found(answer, lambda: crosses, tables)


def _records(frame: Any) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(frame.to_json(orient="records"))
    return records
