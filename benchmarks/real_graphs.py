"""Every model on graphs of people and places: the records in ``results/real`` and their tables.

``python -m benchmarks.real_graphs [NAME…]`` runs ``crossgcn compare`` on each graph that is on this
machine, and writes what it prints with ``--json``. All of them take half an hour on two cores.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.harness import crossgcn
from benchmarks.records import markdown_table
from crossgcn import CrossGCNError

FOLDER = Path(__file__).parents[1] / "results" / "real"

COMPARISONS: dict[str, tuple[str, ...]] = {
    "facebook100-Amherst41": ("facebook100/Amherst41",),
    "facebook100-Haverford76": ("facebook100/Haverford76",),
    "facebook100-JohnsHopkins55": ("facebook100/JohnsHopkins55",),
    "tolokers-official": ("tolokers", "--splits", "public"),
    "tolokers": ("tolokers",),
    "twitch-DE": ("twitch/DE",),
    "us-county-democratic_share": ("us-county", "--target", "democratic_share"),
    "us-county": ("us-county",),
}
"""Arguments of ``crossgcn compare``, by the name of the record."""

BRIEF = (
    *("facebook100/Amherst41, gender", "facebook100/Haverford76, gender", "tolokers, banned"),
    *("twitch/DE, mature", "us-county, democratic_share"),
)
"""The rows of the README's table."""

Record = Mapping[str, Any]

_IN_PERCENT = ("roc_auc", "accuracy")
_NO_BREAK = str.maketrans({" ": "\N{NO-BREAK SPACE}", "-": "\N{NON-BREAKING HYPHEN}"})


def read_records(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the comparisons, by dataset and target."""
    records = [json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))]
    kinds = {"stratified": "", "public": " (official splits)"}
    return {
        f"{record['dataset']}{kinds[record['splits']]}, {record['target']}": record
        for record in records
    }


def scores_markdown(records: Mapping[str, Record]) -> str:
    """Return two tables: the test scores of the models, and what ``compare`` answered."""
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
            *(_gain(record, question) for question in ("crosses", "graph", "black_box")),
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
        f"validation nodes. Commit {', '.join(commits)}."
    )
    header = ["graph", "crosses", "neighbourhood", "black box", "recommended", "CPU time"]
    tables = markdown_table(["", *records], [metrics, *scores]), markdown_table(header, answers)
    return f"{tables[0]}\n\n{note}\n\n{tables[1]}"


def brief_markdown(records: Mapping[str, Record]) -> str:
    """Return five rows: the glass box, its twin without crosses and boosting; and a sentence."""
    names = ("cross-hops-2", "cross-hops-1", "boosting-hops", "boosting")
    rows, verdicts = [], []
    for title in BRIEF:
        record = records[title]
        verdicts.append(record["answers"]["crosses"]["verdict"])
        models = {model["model"]: model for model in record["models"]}
        scores = [_score(models.get(name), record) for name in names]
        row = [title.removeprefix("facebook100/"), *scores, verdicts[-1]]
        rows.append([cell.translate(_NO_BREAK) for cell in row])
    columns = ("table, target", "cross-hops", "without crosses", "boosting", "own columns")
    words = (
        f"Crosses help on {verdicts.count('helps')} of these {len(verdicts)} tables; "
        f"{verdicts.count('does not help')} × they do not, {verdicts.count('cannot tell')} × ten "
        "splits cannot tell."
    )
    return f"{markdown_table([*columns, 'crosses'], rows)}\n\n{words}"


def ebm_markdown(records: Mapping[str, Record]) -> str:
    """Return one table: explainable boosting on the same columns, and cross-hops."""
    rows = []
    for title, record in records.items():
        models = {model["model"]: model for model in record["models"]}
        ours, other = (models[name] for name in ("cross-hops-2", "ebm-hops"))
        fits = record["trials"] * record["num_splits"]
        seconds = other["seconds"] * record["threads"] / fits
        without = record.get("ignored")
        case = title + (f", without {', '.join(without)}" if without else "")
        scores = (_score(model, record) for model in (ours, other))
        rows.append(
            [case, record["metric"], str(record["num_splits"]), *scores, f"{seconds:.0f} s"]
        )
    columns = ("table, target", "metric", "splits", "cross-hops-2", "ebm-hops")
    return markdown_table([*columns, "an EBM's CPU time"], rows)


def _score(model: Record | None, record: Record) -> str:
    if model is None:
        return "—"
    values, metric = model["test"][record["metric"]], record["metric"]
    spread = stdev(values) if len(values) > 1 else 0.0
    return f"{_number(mean(values), metric)} ± {_number(spread, metric)}"


def _gain(record: Record, question: str) -> str:
    answer, metric = record["answers"][question], record["metric"]
    if answer is None:
        return "—"
    low, high = (_number(bound, metric, sign=True) for bound in answer["interval"])
    gain = _number(answer["difference"], metric, sign=True)
    return f"{answer['verdict']}: {gain} ({low} to {high})"


def _number(value: float, metric: str, *, sign: bool = False) -> str:
    scaled, digits = (100 * value, 1) if metric in _IN_PERCENT else (value, 3)
    return f"{scaled:+.{digits}f}" if sign else f"{scaled:.{digits}f}"


def main(names: list[str]) -> int:
    """Measure the comparisons of these names, or all."""
    for name in names or COMPARISONS:
        print(name, file=sys.stderr)
        try:
            answer = crossgcn("compare", *COMPARISONS[name], "--out", f"runs/{name}").answer
        except CrossGCNError as error:
            print(error, file=sys.stderr)
            continue
        text = json.dumps(answer, indent=1, ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
