"""``crossgcn explain``: the terms of each class, by column, one term, or one node's score."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from crossgcn.cli.options import JSON, RUN, option
from crossgcn.cli.running import make_folder, print_answer, status
from crossgcn.errors import BadInput, unknown_name


def explain(
    run: Path = RUN,
    node: str | None = option(
        "Explain the score of this node, given by its id, its name (--name-column) or, without "
        "ids, its number from 0. [default: the terms of every class]",
        metavar="ID",
    ),
    term: list[str] | None = option(
        "Show all of one term: a column, and --term again for each it is crossed with."
    ),
    class_name: str | None = option(
        "Explain this class only. [default: all; for a node, the predicted class]",
        "--class",
        metavar="NAME",
    ),
    against: str | None = option("Explain why --class and not this class.", metavar="NAME"),
    top: int = option(
        "How many single columns, pairs and so on to list; for a node, how many terms to show "
        "(--json has all).",
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
    with status("reading the run"):
        import pandas as pd

        from crossgcn.data.files import write_table
        from crossgcn.experiments.run_folder import open_run, refuse_overwriting
        from crossgcn.explanation.api import explain as explain_model
        from crossgcn.reports import summaries
        from crossgcn.reports.terminal import explain as screens

        trained = open_run(run)
    file = None if out is None else make_folder(out) / "terms.csv"
    if file is not None:
        refuse_overwriting(run, file)
    contrast = _contrast(trained.saved.preprocess.classes, class_name, against)
    with status("explaining"):
        whole = explain_model(trained, contrast=contrast)
    summary = {
        "run": str(run),
        "model": trained.config.model,
        "classes": list(trained.saved.preprocess.classes),
        "unit": whole.unit,
        "purified": hasattr(whole, "average"),
    }
    output = whole.outputs.index(class_name) if class_name in whole.outputs else None
    if node is not None:
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
    if file is not None:  # The cells of all terms take long.
        write_table(file, to_frame().drop(columns="columns", errors="ignore"))
    print_answer(summary, parts, as_json)


def _contrast(classes: Any, class_name: str | None, against: str | None) -> tuple[str, str] | None:
    """Return the two classes whose scores are compared, if not each is explained by itself."""
    for name in (class_name, against):
        if name is not None and name not in classes:
            raise unknown_name("class", name, classes)
    if against is None:
        if class_name is None or len(classes) != 2:
            return None
        against = next(name for name in classes if name != class_name)
    if class_name is None or class_name == against:
        raise BadInput("--against names another class than --class: give both")
    return class_name, against
