"""Results of ``crossgcn compare`` on real tables, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossgcn.reports.format import markdown_table

Record = Mapping[str, Any]

_IN_PERCENT = ("roc_auc", "accuracy")
_NO_BREAK = str.maketrans({" ": "\N{NO-BREAK SPACE}", "-": "\N{NON-BREAKING HYPHEN}"})


def real_graphs_markdown(records: Mapping[str, Record]) -> str:
    """Return two tables: the test scores of the models, and what ``compare`` answered.

    Args:
        records: What ``compare --json`` printed, by the name of the graph and the target.
    """
    if not records:
        return "Not measured yet."
    names = [m["model"] for m in max((r["models"] for r in records.values()), key=len)]
    by_name = {
        title: {model["model"]: model for model in record["models"]}
        for title, record in records.items()
    }
    scores = [
        [f"`{name}`", *(_score(by_name[title].get(name), r) for title, r in records.items())]
        for name in names
    ]
    metrics = ["metric", *(record["metric"] for record in records.values())]
    answers = [
        [
            title,
            _gain(record, "crosses"),
            _gain(record, "graph"),
            _gain(record, "black_box"),
            f"`{record['recommended']}`",
            f"{sum(model['seconds'] for model in record['models']):.0f} s",
        ]
        for title, record in records.items()
    ]
    commits = sorted({str(record["commit"])[:7] for record in records.values()})
    splits = " or ".join(map(str, sorted({r["num_splits"] for r in records.values()})))
    note = (
        f"Mean ± sd on the test nodes of {splits} splits, stratified (60 / 20 / 20 %) but for the "
        "official ones; ROC-AUC in %. The settings of every model, two per split, are chosen on "
        "validation nodes. "
        f"Commit {', '.join(commits)}."
    )
    header = ["graph", "crosses", "neighbourhood", "black box", "recommended", "CPU time"]
    return "\n\n".join(
        [
            markdown_table(["", *records], [metrics, *scores]),
            note,
            markdown_table(header, answers),
        ]
    )


def real_graphs_in_brief(records: Mapping[str, Record]) -> str:
    """Return one table: the glass box, its twin without crosses and boosting, on each graph.

    Official splits are left out: one row per table and target.
    """
    names = ("cross-hops-2", "cross-hops-1", "boosting-hops", "boosting")
    rows = []
    for title, record in records.items():
        if record["splits"] != "stratified":
            continue
        models = {model["model"]: model for model in record["models"]}
        scores = [_score(models.get(name), record) for name in names]
        row = [title.removeprefix("facebook100/"), *scores, record["answers"]["crosses"]["verdict"]]
        rows.append([cell.translate(_NO_BREAK) for cell in row])
    header = [
        "table, target",
        "cross-hops",
        "without crosses",
        "boosting",
        "own columns",
        "crosses",
    ]
    return markdown_table(header, rows)


def against_ebm_markdown(records: Mapping[str, Record]) -> str:
    """Return one table: explainable boosting on the same columns, and cross-hops.

    Args:
        records: As in :func:`real_graphs_markdown`; those without ``ebm-hops`` are left out.
    """
    rows = []
    for title, record in records.items():
        models = {model["model"]: model for model in record["models"]}
        if "ebm-hops" not in models:
            continue
        ours, other = (models[name] for name in ("cross-hops-2", "ebm-hops"))
        fits = record["trials"] * record["num_splits"]
        seconds = other["seconds"] * record["threads"] / fits
        without = record.get("ignored")
        rows.append(
            [
                title + (f", without {', '.join(without)}" if without else ""),
                record["metric"],
                str(record["num_splits"]),
                _score(ours, record),
                _score(other, record),
                f"{seconds:.0f} s",
            ]
        )
    header = ["table, target", "metric", "splits", "cross-hops-2", "ebm-hops", "an EBM's CPU time"]
    return markdown_table(header, rows)


def _score(model: Record | None, record: Record) -> str:
    return "—" if model is None else _spread(model["test"][record["metric"]], record["metric"])


def _gain(record: Record, question: str) -> str:
    answer, metric = record["answers"][question], record["metric"]
    if answer is None:
        return "—"
    low, high = (_number(bound, metric, sign=True) for bound in answer["interval"])
    gain = _number(answer["difference"], metric, sign=True)
    return f"{answer['verdict']}: {gain} ({low} to {high})"


def _spread(values: list[float], metric: str) -> str:
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1)
    return f"{_number(mean, metric)} ± {_number(variance**0.5, metric)}"


def _number(value: float, metric: str, *, sign: bool = False) -> str:
    scaled, digits = (100 * value, 1) if metric in _IN_PERCENT else (value, 3)
    return f"{scaled:+.{digits}f}" if sign else f"{scaled:.{digits}f}"
