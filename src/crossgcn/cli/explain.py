"""``crossgcn explain``: the crosses that drive each class, or one node's score as a sum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from crossgcn.cli import options
from crossgcn.cli.running import answer_console, make_folder, work_progress
from crossgcn.errors import BadInput, unknown_name

if TYPE_CHECKING:
    from crossgcn.experiments.run_folder import RunFolder


def explain(
    run: options.RunArgument,
    node: Annotated[
        str | None,
        typer.Option(
            help="Explain the score of this node, given by its id or, without ids, its number from "
            "0. \\[default: the strongest crosses of every class]",
            metavar="ID",
        ),
    ] = None,
    class_name: Annotated[
        str | None,
        typer.Option(
            "--class",
            help="Explain this class only. \\[default: all; for a node, the predicted class]",
            metavar="NAME",
        ),
    ] = None,
    top: Annotated[int, typer.Option(help="How many crosses to list.", min=1)] = 10,
    order: Annotated[
        int | None,
        typer.Option(help="Number of features of a cross. \\[default: all orders from 2]", min=2),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write the tables here, as CSV.", metavar="DIR"),
    ] = None,
    seed: options.UnusedSeedOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """List the crosses that drive each class, or the terms of one node's score, exactly.

    A score is a sum of single features and products of features of the node and its
    neighbourhood, so the listed terms and the rest add up to it.
    """
    terminal = Console(stderr=True)
    with terminal.status("reading the run"):
        from crossgcn.experiments.run_folder import open_run
        from crossgcn.explanation.explain import check_order

        trained = open_run(run)
        classes = trained.saved.preprocess.classes
    if class_name is not None and class_name not in classes:
        raise unknown_name("class", class_name, classes)
    if order is not None and node is not None:
        raise BadInput("--order chooses crosses of whole classes: leave it out with --node")
    if order is not None:
        check_order("--order", trained.saved.model, order)
    if node is not None:
        _explain_node(trained, node, class_name, top, out, as_json)
    else:
        _explain_classes(trained, class_name, top, order, out, as_json)


def _explain_classes(
    trained: RunFolder,
    class_name: str | None,
    top: int,
    order: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    from dataclasses import replace

    from crossgcn.explanation.run import explain_run
    from crossgcn.reports.terminal.explain import class_tables

    with work_progress(Console(stderr=True)) as progress:
        task = progress.add_task("explaining models", total=len(trained.runs))
        explained = explain_run(
            trained,
            top=top,
            order=order,
            on_model=lambda done, _: progress.update(task, completed=done),
        )
    if class_name is not None:
        explained = replace(
            explained,
            crosses=explained.crosses[explained.crosses["class"] == class_name],
            terms=explained.terms[explained.terms["class"] == class_name],
        )
    _write(out, {"crosses.csv": explained.crosses, "features.csv": explained.terms})
    if as_json:
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
        print(json.dumps(summary, ensure_ascii=False))
        return
    console = answer_console()
    for part in class_tables(explained, min(top, 5), len(trained.ids)):
        console.print(part, highlight=False)


def _explain_node(
    trained: RunFolder,
    node: str,
    class_name: str | None,
    top: int,
    out: Path | None,
    as_json: bool,
) -> None:
    from crossgcn.explanation.node import explain_node
    from crossgcn.reports.terminal.explain import node_tables

    preprocess = trained.saved.preprocess
    target = None if class_name is None else preprocess.classes.index(class_name)
    explanation = explain_node(
        trained.saved.model,
        trained.data,
        trained.find(node),
        target=target,
        space=preprocess.space,
    )
    if out is not None:
        terms = explanation.frame.assign(
            source=[trained.ids[place] for place in explanation.frame["source"]]
        )
        _write(out, {"terms.csv": terms, "crosses.csv": explanation.by_cross})
    if as_json:
        summary = {
            "run": str(trained.folder),
            "node": node,
            "class": preprocess.classes[explanation.target],
            "logits": dict(zip(preprocess.classes, explanation.logits.tolist(), strict=True)),
            "bias": explanation.bias,
            "left_out": explanation.left_out,
            "completeness": explanation.completeness,
            "crosses": _records(explanation.by_cross.head(top)),
            "other_terms": float(explanation.by_cross["contribution"].iloc[top:].sum()),
            "nodes": _records(
                explanation.by_node.head(top).assign(
                    source=[trained.ids[n] for n in explanation.by_node["source"].head(top)]
                )
            ),
        }
        print(json.dumps(summary, ensure_ascii=False))
        return
    console = answer_console()
    for part in node_tables(explanation, trained.ids, preprocess.classes, top):
        console.print(part, highlight=False)


def _records(frame: Any) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(frame.to_json(orient="records"))
    return records


def _write(out: Path | None, frames: dict[str, Any]) -> None:
    if out is None:
        return
    from crossgcn.data.tables.export import write_table

    folder = make_folder(out)
    for name, frame in frames.items():
        write_table(folder / name, frame.drop(columns="features", errors="ignore"))
