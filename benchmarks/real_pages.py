"""Tables, sentences and the picture of ``docs/real_graphs.md``, from the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.real_graphs import MODELS, NO_BREAK, Record, number, score
from benchmarks.records import markdown_table
from crossgcn import paired_difference

OURS, TWIN = "cross-hops-2", "cross-hops-1"
OTHERS = (
    TWIN,
    "cross-hops-3",
    "ebm",
    "boosting-hops",
    "lightgbm-hops",
    "perceptron-hops",
    "gcn",
    "gnn",
)
"""The models that ``cross-hops-2`` is paired with."""

WITHIN = {"r2": 0.006}
"""How far behind a black box is called close; 0.003 (0.3 points) of other metrics."""

_TEST_TO_TRAIN = {"10%": 8.0, "all": 1 / 3}
_OF_OFFICIAL_SPLITS = 0.5
_GLASS, _BLACK = "#1f5f8b", "#d0722b"


def results_markdown(records: Mapping[str, Record]) -> str:
    """Return the tables: against the best black box, against every model, time and calibration."""
    parts = (_close_table, _sentences, _pairs_table, _cost_table, _note)
    return "\n\n".join(part(records) for part in parts)


def draw_scores(records: Mapping[str, Record]) -> Figure:
    """Draw a panel per graph: a row per model, in the order of the models, and a dot per split."""
    rows = -(-len(records) // 3)
    names = [name for name in MODELS[1:] if any(name in _models(r) for r in records.values())]
    figure = Figure(figsize=(10, 0.6 + 2.5 * rows), layout="constrained")
    axes = figure.subplots(rows, 3, sharey=True, squeeze=False).ravel()
    for panel, (title, record) in zip(axes, records.items(), strict=False):
        models = _models(record)
        for row, name in enumerate(names):
            if name in models:
                values = models[name]["test"][record["metric"]]
                color = _GLASS if models[name]["glass_box"] else _BLACK
                panel.plot(values, [row] * len(values), "o", ms=3, alpha=0.5, mew=0, color=color)
                panel.plot([mean(values)], [row], "|", ms=9, mew=1.5, color=color)
        panel.set_title(title.removeprefix("facebook100/"))
        panel.set_yticks(range(len(names)), names)
        panel.grid(axis="y", linewidth=0.3)
        panel.set_xlabel({"roc_auc": "ROC-AUC", "r2": "R²"}.get(record["metric"], ""))
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    axes[0].invert_yaxis()
    for panel in axes[len(records) :]:
        panel.set_visible(False)
    return figure


def write_scores(path: Path, records: Mapping[str, Record]) -> None:
    """Draw the scores as a PNG file."""
    with rc_context({"font.size": 7, "axes.titlesize": 8}):
        draw_scores(records).savefig(path, dpi=110, metadata={"Software": None})


def _models(record: Record) -> dict[str, dict[str, Any]]:
    return {model["model"]: model for model in record["models"]}


def _difference(record: Record, ours: str, other: str, level: float) -> tuple[float, float, float]:
    """Return a mean difference and its interval, for a new table of the same kind."""
    models, metric = _models(record), record["metric"]
    share = _TEST_TO_TRAIN[record["train"] or "all"]
    if record["splits"] == "public":
        share = _OF_OFFICIAL_SPLITS
    scores = (models[name]["test"][metric] for name in (ours, other))
    found = paired_difference(*scores, test_to_train=share)
    low, high = found.interval(level) or (float("nan"), float("nan"))
    return found.mean, low, high


def _level(records: Mapping[str, Record], others: Sequence[str]) -> float:
    """Return the level of each interval at which all hold together in 95 of 100 tables."""
    count = sum(other in _models(each) for each in records.values() for other in others)
    return 1 - 0.05 / max(count, 1)


def _interval(found: tuple[float, float, float], metric: str) -> str:
    gain, low, high = (number(each, metric, sign=True) for each in found)
    cell = f"{gain} ({low} to {high})".translate(NO_BREAK)
    return f"**{cell}**" if found[1] > 0 or found[2] < 0 else cell


def _best(record: Record, *, glass_box: bool) -> dict[str, Any]:
    """Return the model of a kind that scores best on validation nodes."""
    models = [each for each in record["models"] if each["glass_box"] == glass_box]
    return max(models, key=lambda each: mean(each["validation_score"]))


def _close_table(records: Mapping[str, Record]) -> str:
    rows = []
    for title, record in records.items():
        metric = record["metric"]
        glass, black = (_best(record, glass_box=kind) for kind in (True, False))
        gap = mean(black["test"][metric]) - mean(glass["test"][metric])
        is_close = gap <= WITHIN.get(metric, 0.003)
        cells = [f"`{each['model']}` {score(each, record)}" for each in (glass, black)]
        behind = number(-gap, metric, sign=True)
        rows.append([title, *cells, behind, "yes" if is_close else "**no**"])
    header = ["graph, target", "best glass box", "best black box", "difference", "close"]
    return markdown_table(header, rows)


def _sentences(records: Mapping[str, Record]) -> str:
    """Say where crosses, neighbours and black boxes help, by intervals that hold together."""
    level = 1 - 0.05 / max(len(records), 1)
    found: dict[str, dict[str, list[str]]] = {}
    for title, record in records.items():
        own = [each for each in record["models"] if "own columns" in each["description"]]
        near = [each for each in record["models"] if each not in own]
        best = [max(each, key=lambda m: mean(m["validation_score"])) for each in (near, own)]
        pairs = {
            "Crosses (`cross-hops-2` against `cross-hops-1`)": (OURS, TWIN),
            "Neighbours (the best model that reads them against the best on own columns)": (
                *(each["model"] for each in best),
            ),
            "The best black box against the best glass box": (
                *(_best(record, glass_box=kind)["model"] for kind in (False, True)),
            ),
        }
        for question, (ours, other) in pairs.items():
            _, low, high = _difference(record, ours, other, level)
            answer = "better" if low > 0 else "worse" if high < 0 else "cannot be told"
            found.setdefault(question, {}).setdefault(answer, []).append(title)
    lines = []
    for question, answers in found.items():
        said = [f"{answer}: {'; '.join(answers[answer])}" for answer in sorted(answers)]
        lines.append(f"- {question}. {'. '.join(each[0].upper() + each[1:] for each in said)}.")
    return "\n".join(lines)


def _pairs_table(records: Mapping[str, Record]) -> str:
    others = [name for name in OTHERS if any(name in _models(r) for r in records.values())]
    level = _level(records, others)
    rows = []
    for title, record in records.items():
        cells = [
            _interval(_difference(record, OURS, name, level), record["metric"])
            if name in _models(record)
            else "—"
            for name in others
        ]
        rows.append([title, *cells])
    return markdown_table([f"`{OURS}` minus", *(f"`{name}`" for name in others)], rows)


def _cost_table(records: Mapping[str, Record]) -> str:
    rows = []
    for title, record in records.items():
        ours, black = _models(record)[OURS], _best(record, glass_box=False)
        errors = [mean(each["test"].get("calibration_error", [-1.0])) for each in (ours, black)]
        columns = [len(each) for each in ours.get("columns", [])]
        seconds = record.get("cpu_seconds") or sum(each["seconds"] for each in record["models"])
        rows.append(
            [
                title,
                *("—" if each < 0 else f"{each:.3f}" for each in errors),
                f"{median(columns):.0f}" if columns else "—",
                f"{seconds:.0f} s" if "cpu_seconds" in record else f"({seconds:.0f} s)",
            ]
        )
    header = ["graph, target", f"calibration error of `{OURS}`", "of the best black box"]
    return markdown_table([*header, "columns used", "time"], rows)


def _note(records: Mapping[str, Record]) -> str:
    """Say which commit measured each record, and which one those models that another measured."""
    measured: dict[str, list[str]] = {}
    for title, record in records.items():
        by_commit: dict[str, list[str]] = {}
        for model in record["models"]:
            commit = str(model.get("commit", record["commit"]))[:7]
            by_commit.setdefault(commit, []).append(model["model"])
        usual, *others = sorted(by_commit, key=lambda commit: -len(by_commit[commit]))
        measured.setdefault(usual, []).append(title)
        for commit in others:
            names = f"{title} ({', '.join(by_commit[commit])})"
            measured.setdefault(commit, []).append(names)
    lines = [f"{commit}: {'; '.join(words)}." for commit, words in measured.items()]
    return "Measured by commit " + "\nBy commit ".join(lines)
