"""The result of ``tune``: its JSON object, tables and notes, and the chosen settings as TOML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import accumulate
from math import inf
from pathlib import Path
from typing import Any

from rich.table import Table

from crossgcn.data.files import replacing
from crossgcn.experiments.tune.space import describe
from crossgcn.experiments.tune.tuning import TunedModel, TuningResult
from crossgcn.reports.format import (
    Summary,
    get_metric,
    grows,
    paired_text,
    score_text,
    validation_text,
)
from crossgcn.reports.summaries import (
    FindPaper,
    measured,
    no_paper,
    paired,
    summarise_training,
)
from crossgcn.reports.terminal.tables import comparison_verdicts, number_columns
from crossgcn.training.config import RunConfig


def summarise_tuning(result: TuningResult, find_paper: FindPaper = no_paper) -> Summary:
    """Return the tuned model, its twin, every trial of both, and their paired difference."""
    base = result.ours.search.base
    return {
        **summarise_training(result.ours.runs, find_paper),
        **{name: getattr(base, name) for name in ("dataset", "splits", "train")},
        **_model(result.ours),
        "twin": None if result.twin is None else _model(result.twin),
        **paired(result.difference),
        "seconds": result.ours.seconds + (result.twin.seconds if result.twin else 0.0),
    }


def write_config(path: Path, tuned: TunedModel, *, with_dataset: bool) -> None:
    """Write the chosen settings as a file for ``--config``.

    Leave the dataset out for tables, which are given as arguments.
    """
    score = tuned.chosen.score
    assert score is not None
    metric = get_metric(tuned.runs.metric)
    shown = metric.show(score if grows(tuned.runs.metric) else -score)
    words = (
        f"# {tuned.search.name}: trial {tuned.chosen.number} of {len(tuned.trials)}, chosen by "
        f"{metric.label} on the validation nodes ({shown}).\n"
    )
    if tuned.config.splits == "stratified":
        words += (
            "# Test nodes were set apart meanwhile. Training again deals all nodes out anew and\n"
            "# tests on nodes that chose the settings: its score is too good. Use the\n"
            f"# model in {tuned.folder.parent.name}/{tuned.folder.name}.\n"
        )
    with replacing(path) as file:
        file.write((words + config_as_toml(tuned.config, with_dataset=with_dataset)).encode())


def config_as_toml(config: RunConfig, *, with_dataset: bool = True) -> str:
    """Return the settings as :meth:`RunConfig.create` reads them, without those not set."""
    values = config.model_dump(mode="json", exclude_none=True)
    if not with_dataset:
        del values["dataset"]
    return "".join(f"{name} = {_as_toml(value)}\n" for name, value in values.items())


def _as_toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_as_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _model(tuned: TunedModel) -> Summary:
    space = tuned.search.space
    scores = [-inf if trial.score is None else trial.score for trial in tuned.trials]
    return {
        "model": tuned.search.name,
        "num_layers": tuned.config.num_layers,
        "settings": {name: getattr(tuned.config, name) for name in space},
        "space": {name: describe(distribution) for name, distribution in space.items()},
        "chosen_trial": tuned.chosen.number,
        "search_validation": tuned.chosen.score,
        **measured(tuned.runs),
        "test_reads": tuned.test_reads,
        "num_trials": len(tuned.trials),
        "failed_trials": sum(trial.failure is not None for trial in tuned.trials),
        "trials": [
            {
                "number": trial.number,
                "values": trial.values,
                "validation_score": trial.score,
                "failure": trial.failure,
            }
            for trial in tuned.trials
        ],
        "best_so_far": [None if best == -inf else best for best in accumulate(scores, max)],
        "folder": str(tuned.folder),
    }


def tuning_table(summary: Summary) -> Table:
    """Show each model with its number of trials and the scores of the chosen settings."""
    twin = summary["twin"]
    paired = [] if twin is None else [f"paired to {twin['model']}"]
    table = number_columns("model", "trials", "chosen", "validation", "test mean ± sd", *paired)
    table.title = get_metric(summary["metric"]).title
    for model in _models(summary):
        failed = f" ({model['failed_trials']} failed)" if model["failed_trials"] else ""
        table.add_row(
            model["model"],
            f"{model['num_trials']}{failed}",
            str(model["chosen_trial"]),
            validation_text(model),
            score_text(model),
            *([] if twin is None else ["—" if model is twin else paired_text(summary)]),
        )
    return table


def settings_table(summary: Summary) -> Table:
    """Show the chosen settings beside the space that was searched."""
    models = list(_models(summary))
    table = number_columns("setting", *(model["model"] for model in models))
    table.add_column("searched", overflow="fold")
    for name, searched in summary["space"].items():
        table.add_row(name, *(_shown(model["settings"].get(name)) for model in models), searched)
    return table


def tuning_notes(summary: Summary) -> list[str]:
    """Return what follows from the numbers, and what limits them."""
    notes = []
    twin = summary["twin"]
    if twin is not None:
        notes += comparison_verdicts({"baseline": twin["model"], "models": [summary]})
    order = summary["settings"].get("order")
    if order is not None and max(order if isinstance(order, list | tuple) else [order]) == 1:
        notes.append("The search chose no crosses (order 1).")
    if any(model["test_reads"] > 1 for model in _models(summary)):
        notes.append(
            "Test nodes were read more than once in this folder: the search was continued after "
            "it had ended, and chose again. Its last test score is a little less honest."
        )
    if summary["splits"] == "stratified":
        notes.append(
            "Test nodes were set apart before the search, and the saved model has seen none of "
            "them. Training again with best.toml on stratified splits deals all nodes out anew, "
            "and so tests on nodes that chose the settings: its score would be too good."
        )
    return notes


def _models(summary: Summary) -> Iterator[Summary]:
    yield summary
    if summary["twin"] is not None:
        yield summary["twin"]


def _shown(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, float):
        return f"{value:.3g}"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
