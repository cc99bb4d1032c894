"""Several runs side by side, as content of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crossgcn.experiments.run_folder import RunFolder
from crossgcn.explanation.columns import ColumnTerms
from crossgcn.reports.format import shorten
from crossgcn.reports.run_report.answers import describe_metrics
from crossgcn.reports.run_report.terms import brief

_MOST_TERMS = 20


def collect_runs(runs: Sequence[RunFolder], terms: Sequence[ColumnTerms | None]) -> dict[str, Any]:
    """Collect metrics, settings that differ, and the importance of terms of several runs.

    Args:
        terms: Of each run; ``None`` if its scores are not sums of terms of columns.
    """
    names = _names(runs)
    settings = [_settings(run) for run in runs]
    keys = list(dict.fromkeys(key for each in settings for key in each))
    units = {shorten(each.unit) for each in terms if each is not None}
    same_data = len({run.chosen.record["dataset"]["sha256"] for run in runs}) == 1
    splits = [[one.record["split"] for one in run.runs] for run in runs]
    return {
        "runs": names,
        "metrics": [describe_metrics(run) for run in runs],
        "same_data": same_data,
        "same_splits": same_data and all(each == splits[0] for each in splits),
        "settings": [
            [shorten(key), [shorten(str(each.get(key, "—")), 200) for each in settings]]
            for key in keys
            if len({str(each.get(key)) for each in settings}) > 1
        ],
        "terms": _terms(terms, relative=len(units) > 1),
        "unit": "relative to the strongest term of the run" if len(units) > 1 else "".join(units),
    }


def _names(runs: Sequence[RunFolder]) -> list[str]:
    """Return the name of each folder, or its path where two are called the same."""
    names = [run.folder.resolve().name for run in runs]
    return [
        shorten(str(run.folder) if names.count(name) > 1 else name)
        for run, name in zip(runs, names, strict=True)
    ]


def _settings(run: RunFolder) -> dict[str, Any]:
    config = dict(run.chosen.record["config"])
    order = getattr(run.saved.model, "order", None)
    return {
        "model": config.pop("model"),
        "predicts": ", ".join(run.saved.preprocess.classes[:6]),
        **({} if order is None else {"order": order}),
        "parameters": f"{run.chosen.record['parameters']:,}",
        "splits in all": len(run.runs),
        **{key.replace("_", " "): value for key, value in config.items() if key != "order"},
    }


def _terms(explained: Sequence[ColumnTerms | None], relative: bool) -> list[dict[str, Any]]:
    """Return the terms that matter most in any run, with their importance in each."""
    found: dict[str, list[float | None]] = {}
    for place, terms in enumerate(explained):
        own = {} if terms is None else {t.name: float(t.importance.mean()) for t in terms.terms}
        strongest = max(own.values(), default=0.0) if relative else 1.0
        for name, importance in own.items():
            values = found.setdefault(name, [None] * len(explained))
            values[place] = importance / (strongest or 1.0)
    ranked = sorted(found, key=lambda name: -max(value or 0.0 for value in found[name]))
    return [
        {
            "name": shorten(name),
            "values": [None if value is None else brief(value) for value in found[name]],
        }
        for name in ranked[:_MOST_TERMS]
    ]
