"""What was tried to score better, judged on validation nodes of several graphs.

``python -m benchmarks real --graph tried`` makes the record. The training nodes of a split are
split again, so that its validation nodes judge and its test nodes are never read.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Any

from benchmarks.ours import numbers_as, score_validation_nodes
from benchmarks.real_graphs import COMPARISONS, Record, number
from benchmarks.records import describe_environment, markdown_table
from crossgcn import load_real, paired_difference

GRAPHS = ("us-county", "us-county-democratic_share", "tolokers", "facebook100-Haverford76")
NUM_SPLITS = 4

USUAL = "as it is"
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    USUAL: {},
    "8 ranges of each number instead of 4": {},
    "linear splines instead of ranges": {},
    "order 3": {"order": 3},
    "32 pairs of columns instead of 24": {"crosses": 32},
    "16 bags instead of 8": {"bags": 16},
    "all columns": {"columns": "all"},
}
"""Settings of each variant."""


def measure_tried() -> dict[str, Any]:
    """Train every variant on every graph, and return the scores of its validation nodes."""
    scores: dict[str, dict[str, list[float]]] = {}
    metrics = {}
    for name in GRAPHS:
        dataset, *option = COMPARISONS[name]
        scores[name] = {}
        for variant, settings in VARIANTS.items():
            with numbers_as(variant):
                graph = load_real(dataset, option[1] if option else None)
            metrics[name], scores[name][variant] = score_validation_nodes(
                graph, settings, NUM_SPLITS
            )
    environment = describe_environment()
    about = {key: environment[key] for key in ("versions", "threads", "commit")}
    return {"record": "tried", **about, "num_splits": NUM_SPLITS, "metrics": metrics} | {
        "scores": scores
    }


def tried_markdown(record: Record) -> str:
    """Return one table: what each variant gains over the usual model, with its standard error."""
    rows = []
    for variant in list(VARIANTS)[1:]:
        cells = [variant]
        for name in GRAPHS:
            scores, metric = record["scores"][name], record["metrics"][name]
            gain = paired_difference(scores[variant], scores[USUAL])
            error = number(gain.standard_error or 0.0, metric)
            cells.append(f"{number(gain.mean, metric, sign=True)} ± {error}")
        rows.append(cells)
    usual = [
        number(mean(record["scores"][name][USUAL]), record["metrics"][name]) for name in GRAPHS
    ]
    return markdown_table(["tried", *GRAPHS], [[USUAL, *usual], *rows])
