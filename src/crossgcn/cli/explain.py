"""``crossgcn explain``: the terms of each class, by column, one term, or one node's score."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from crossgcn.cli.options import JSON, RUN, argument, option
from crossgcn.cli.running import make_folder, print_answer, status
from crossgcn.cli.tables import parse_edges
from crossgcn.errors import BadInput, unknown_name


def explain(
    run: Path = RUN,
    nodes: Path | None = argument(
        "Table of new nodes, as predict takes it, one of which is --node.", "NODES"
    ),
    edges: list[str] | None = argument(
        "Tables of their edges, as predict takes them.", "[NAME=]EDGES"
    ),
    node: str | None = option(
        "Explain the score of this node, given by its id, its name (--name-column) or, without "
        "ids, its number from 0. [default: the terms of every class]",
        metavar="ID",
    ),
    term: list[str] | None = option(
        "Show all of one term: a column, and --term again for each it is crossed with.",
        metavar="COLUMN",
    ),
    class_name: str | None = option(
        "Explain this class only. [default: all; for a node, the predicted class]",
        "--class",
        metavar="NAME",
    ),
    against: str | None = option(
        "Explain why --class and not this class. [default: for a node and another --class, the "
        "predicted class]",
        metavar="NAME",
    ),
    since: Path | None = option(
        "Explain what changed since this run: own values, neighbours' values, edges, or the model.",
        metavar="OLD",
    ),
    top: int = option(
        "How many single columns, pairs and so on to list; for a node, how many terms to show "
        "(--json has all).",
        metavar="N",
        min=1,
        default=10,
    ),
    out: Path | None = option("Also write all terms here, as terms.csv.", metavar="DIR"),
    as_json: bool = JSON,
) -> None:
    """List the terms that drive each class, by column, or the terms of one node's score, exactly.

    A score is a sum of terms: of single columns and of crosses, of the node itself and of its
    neighbourhood. A cross is what its columns do together, without what each does alone.
    """
    if node is not None and term:
        raise BadInput("give one of --node and --term")
    if since is not None and (term or nodes is not None):
        raise BadInput("--since compares two runs: leave out --term and tables")
    if nodes is not None and node is None:
        raise BadInput(f"{nodes}: give the id of one of its rows, too: --node ID")
    with status("reading the run"):
        import pandas as pd

        from crossgcn.data.files import write_table
        from crossgcn.experiments.run_folder import open_run, refuse_overwriting
        from crossgcn.explanation.api import explain as explain_model
        from crossgcn.explanation.difference import Difference
        from crossgcn.reports import summaries
        from crossgcn.reports.terminal import explain as screens

        trained = open_run(run)
    if out is not None:
        refuse_overwriting(run, make_folder(out) / "terms.csv")
    classes = list(trained.saved.preprocess.classes)
    for name in (class_name, against):
        if name is not None and name not in classes:
            raise unknown_name("class", name, classes)
    if len(classes) == 2 and class_name != against:
        class_name = class_name or next(name for name in classes if name != against)
        against = against or next(name for name in classes if name != class_name)
    if against is not None and (class_name == against or class_name is node is None):
        raise BadInput("--against names another class than --class: give both")
    asked = node is not None or against is not None
    contrast = (class_name, against) if asked and (class_name or against) else None
    with status("explaining"):
        found = explain_model(
            trained, nodes, parse_edges(edges), node=node, contrast=contrast, since=since
        )
        whole = found if node is None or since is not None else found.whole
    summary = {
        "run": str(run),
        "model": trained.config.model,
        "classes": classes,
        "unit": whole.unit,
        "against": whole.against,
        "purified": hasattr(whole, "average"),
    }
    output = whole.outputs.index(class_name) if class_name in whole.outputs else None
    if isinstance(whole, Difference):
        whole = whole if output is None else whole.only(output)
        summary |= {"since": str(since), **whole.to_json()}
        summary |= {} if node is None else {"node": node, "name": whole.nodes[0]}
        to_frame, parts = whole.to_frame, screens.change_screen(summary, top)
    elif node is not None:
        found = whole.node(node, output)
        summary |= {"node": node, "name": found.name, **found.to_json()}
        to_frame, parts = found.to_frame, screens.node_screen(summary, top)
    elif term:
        columns = [name for each in term for name in each.split(" × ")]
        summary |= summaries.summarise_term(whole, whole.term(*columns), output or 0)
        to_frame = partial(pd.DataFrame, summary["terms"][0]["cells"])
        parts = screens.term_screen(summary)
    else:
        summary |= summaries.summarise_terms(trained, whole, top, output)
        to_frame, parts = whole.to_frame, screens.terms_screen(summary)
    if out is not None:  # The cells of all terms take long.
        write_table(out / "terms.csv", to_frame().drop(columns="columns", errors="ignore"))
    print_answer(summary, parts, as_json)
