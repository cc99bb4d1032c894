"""Collect the contents of the page of a run, as one JSON object."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import cast

import numpy as np
import pandas as pd
from scipy.special import softmax
from torch_geometric.utils import remove_self_loops, to_undirected

from crossgcn.data.files import read_hashed_json
from crossgcn.data.graph import is_labelled
from crossgcn.data.relations import relations_of
from crossgcn.data.tables.graph import read_encoding
from crossgcn.errors import BadInput
from crossgcn.experiments.experiment import RepeatedRuns
from crossgcn.experiments.predict import score_nodes
from crossgcn.experiments.run_folder import FinishedRun, RunFolder
from crossgcn.experiments.statistics import summarise
from crossgcn.explanation.terms import Explanation
from crossgcn.reports.format import Summary, metric_text, spread_text, to_page_json
from crossgcn.reports.page.explain import (
    collect_nodes,
    collect_terms,
    explain_for_page,
    strongest_terms,
)
from crossgcn.reports.page.performance import measure_classes, measure_coverage, measure_numbers
from crossgcn.reports.summaries import summarise_training
from crossgcn.training.metrics import METRICS
from crossgcn.training.records import RECORD, RESULT

_MOST_POINTS = 120
"""Epochs of a learning curve that are drawn."""
_SIMPLER = ("linear", "boosting", "boosting-hops")


def collect_run(run: RunFolder, *, comparison: Path | None = None, num_nodes: int = 400) -> Summary:
    """Collect the contents of the page of a run.

    Args:
        comparison: A folder written by ``compare``.
        num_nodes: How many nodes are explained one by one.
    """
    compared = None if comparison is None else _read_comparison(comparison, run)
    result = _read_result(run.folder)
    summary = summarise_training(RepeatedRuns(run.config, tuple(one.record for one in run.runs)))
    preprocess, y = run.saved.preprocess, run.data.y.numpy()
    plan = None if preprocess.encoding is None else read_encoding(preprocess)[1]
    target = (plan and plan.target) or "class"
    whole, unexplained = explain_for_page(run, target)
    terms = whole if isinstance(whole, Explanation) else None
    sources, targets = run.data.edge_index
    pairs = to_undirected(remove_self_loops(run.data.edge_index)[0], num_nodes=len(y))
    degree = np.bincount(pairs[0].numpy(), minlength=len(y))
    scored = [[each.numpy() for each in score_nodes(run, one)] for one in run.runs]
    scores = [each for each, _ in scored]
    splits = [run.split_of(one) for one in run.runs]
    tests = [split.test.numpy() for split in splits]
    if run.data.y.is_floating_point():
        known = y[is_labelled(run.data.y).numpy()]
        classes, ends, guess = [], [known.min(), known.max()], "rmse"
        scores = [each[:, 0] for each in scores]
        performance = measure_numbers(y, scores, tests, degree)
    else:
        classes, ends, guess = list(preprocess.classes), None, "accuracy"
        scores = [softmax(each, axis=1) for each in scores]
        performance = measure_classes(y, scores, tests, classes, degree)
    performance["coverage"] = measure_coverage(y, scored, splits)
    sign = METRICS[summary["metric"]].sign
    constant = fmean(one.record["constant_test"][guess] for one in run.runs)
    metrics = {name: _over_splits(name, values) for name, values in summary["test"].items()}
    for metric in metrics.values():
        metric["text"] += "\u00a0%" if metric["percent"] else ""
    content = {
        "title": path.name if (path := Path(run.config.dataset)).suffix else str(path),
        "target": target,
        "classes": classes,
        "range": ends,
        "relations": [each.name for each in relations_of(run.data)],
        "sizes": {
            "nodes": len(run.ids),
            # An undirected edge is stored in both directions.
            "edges": len(sources) if run.data.get("directed") else int((sources <= targets).sum()),
            "columns": len(set(preprocess.space.fields))
            if preprocess.space
            else run.data.x.size(1),
        },
        "model": run.config.model,
        "shown_split": run.chosen.record["split"]["index"] + 1,
        "metrics": list(metrics.values()),
        "guess": {**metrics[guess], "constant": metric_text(guess, constant)},
        "comparison": compared,
        "training": [_curve(one) for one in run.runs],
        "path": [
            {"chosen": len(columns), "tried": [[size, sign * score] for size, score in tried]}
            for columns, tried in zip(
                summary.get("columns", []), summary.get("path", []), strict=False
            )
        ],
        "facts": {
            **summary,
            **summary["versions"],
            "finished": result.get("finished", "at an unknown time"),
        },
        "columns": [[each.name, each.kind, each.reason] for each in (plan.columns if plan else ())],
        "warnings": result.get("warnings", []),
        "unexplained": unexplained,
        "five": [] if terms is None else strongest_terms(terms),
        "terms": None if whole is None else collect_terms(run, whole),
        "performance": performance,
        "nodes": collect_nodes(run, terms, scores[run.runs.index(run.chosen)], degree, num_nodes),
    }
    return cast(Summary, to_page_json(content))


def _read_comparison(folder: Path, run: RunFolder) -> Summary:
    """Read the result of ``compare`` from its folder, and refuse the result for another graph."""
    path = folder / RESULT
    result = read_hashed_json(path, "give the folder that crossgcn compare made", "compare again")
    if "answers" not in result:
        raise BadInput(
            f"{path}: is not a comparison on tables; make one with crossgcn compare NODES EDGES "
            "--target COLUMN --out"
        )
    for record in [*folder.rglob(RECORD)][:1]:
        compared = read_hashed_json(record, "give the whole folder", "compare again")["dataset"]
        if compared["sha256"] != run.chosen.record["dataset"]["sha256"]:
            raise BadInput(
                f"{path}: compares models on another graph, target or choice of columns "
                f"({result['dataset']}, {result['target']}) than {run.folder}: give the comparison "
                "of the same tables with the same options"
            )
    metric, kept = result["metric"], ("description", "glass_box", "parameters")
    models = {
        model["model"]: {
            "name": model["model"],
            **{name: model[name] for name in kept},
            **_over_splits(metric, model["test"][metric]),
        }
        for model in result["models"]
    }
    simpler = [name for name in (result["recommended"], *_SIMPLER) if name in models]
    return {
        "metric": METRICS[metric].title,
        "percent": METRICS[metric].shown == "percent",
        "models": list(models.values()),
        "simpler": "; ".join(f"{name} {models[name]['text']}" for name in dict.fromkeys(simpler)),
        "sentences": result["answer"],
    }


def _over_splits(name: str, values: list[float]) -> Summary:
    """Return a metric's values by split, and their mean and standard deviation as text."""
    metric, measured = METRICS[name], summarise(values)
    return {
        "label": metric.title,
        "percent": metric.shown == "percent",
        "values": values,
        "text": spread_text(name, measured.mean, measured.sd),
    }


def _curve(run: FinishedRun) -> Summary:
    """Read some points of a learning curve; scores that were recorded negated are negated again."""
    curve, chosen = pd.DataFrame(run.curve()), run.record["best_epoch"]
    curve["validation_score"] *= METRICS[run.record["metric"]].sign
    step = len(curve) // _MOST_POINTS + 1
    kept = curve[(curve.index % step == 0) | (curve["epoch"] == chosen)]
    names = ["epoch", "train_loss", "validation_loss", "validation_score"]
    return {
        "split": run.record["split"]["index"] + 1,
        "chosen": chosen,
        **kept[names].to_dict("list"),
    }


def _read_result(folder: Path) -> Summary:
    """Return the result that ``train`` printed; empty if training was stopped."""
    path = folder / RESULT
    if not path.exists():
        return {}
    again = "remove it, or write it again with the same crossgcn train command and --resume"
    return read_hashed_json(path, again, again)
