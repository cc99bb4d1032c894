"""From two CSV files to a report with three commands, each a separate process.

The tables are drawn: numbers with missing values, categories, and a target that depends on a
product and on the neighbours. Timed are ``check``, ``train`` over five splits on all cores, and
``report``, including the start of each process.
"""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.harness import (
    Check,
    Measurement,
    Options,
    Result,
    Side,
    crossgcn,
    interleave,
    quartiles,
)

MOST_BYTES = 3_000_000
"""Largest size of a report."""


def measure(options: Options) -> Measurement:
    """Time the three commands, one after the other."""
    nodes, edges, columns = (600, 3_000, 15) if options.quick else (10_000, 50_000, 30)
    training = ("--epochs", "20") if options.quick else ()
    case = f"{nodes:,} nodes, {edges:,} edges, {columns} columns"
    answers: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder, numbers = Path(name), count()
        tables = [str(folder / f"{table}.csv") for table in ("nodes", "edges")]
        drawn = draw_tables(nodes, edges, columns, options.seed)
        for table, path in zip(drawn, tables, strict=True):
            table.to_csv(path, index=False)

        def go() -> None:
            run = str(folder / f"run-{next(numbers)}")
            checked = crossgcn("check", *tables, "--target", "buys").answer
            trained = crossgcn(
                *("train", *tables, "--target", "buys", "--num-splits", "5"),
                *(*training, "--out", run),
            ).answer
            reported = crossgcn("report", run).answer
            answers.append({"errors": checked["errors"], **reported, **trained})

        side = Side("check, train and report", go, steps=1)
        timing = interleave(case, [side], options.pace(case))[side.name]
    low, high = quartiles(timing.seconds)
    scores = {tuple(answer["test_accuracy"]) for answer in answers}
    size = max(answer["bytes"] for answer in answers)
    differing = "results that differ between rounds"
    return Measurement(
        results=[Result(case, "time", timing.median, "s", low, high)],
        timings=[timing],
        checks=[
            Check(case, "errors found in the tables", answers[0]["errors"], 0).require(),
            Check(case, differing, len(scores) - 1, 0).require(),
            Check(case, "bytes of a report beyond 3 MB", max(0, size - MOST_BYTES), 0).require(),
        ],
        notes=[
            f"check, train ({answers[0]['num_runs']} splits, {answers[0]['epochs']} epochs) and "
            f"report ({size / 1e6:.2f} MB)"
        ],
    )


def draw_tables(
    num_nodes: int, num_edges: int, num_columns: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw customers with numbers, categories and missing values, and who knows whom."""
    random = np.random.default_rng(seed)
    nodes = pd.DataFrame({"id": [f"c{number}" for number in range(num_nodes)]})
    cities = ["Porto", "Lyon", "Gent", "Turku"]
    for place in range(num_columns):
        if place % 3 == 2:
            nodes[f"place_{place}"] = random.choice(cities, num_nodes)
        else:
            values = random.normal(50, 15, num_nodes).round(1)
            nodes[f"spent_{place}"] = np.where(random.random(num_nodes) < 0.05, np.nan, values)
    ends = random.integers(num_nodes, size=(2, num_edges))
    first, second = (nodes[name].fillna(50) / 15 - 50 / 15 for name in ("spent_0", "spent_1"))
    score = (first * second + first).to_numpy() + random.normal(0, 0.5, num_nodes)
    neighbours = np.bincount(ends[0], score[ends[1]], num_nodes)
    degrees = np.bincount(ends[0], minlength=num_nodes).clip(1)
    buys = score + neighbours / degrees
    nodes["buys"] = np.where(buys > np.median(buys), "yes", "no")
    ids = nodes["id"].to_numpy()
    return nodes, pd.DataFrame({"source": ids[ends[0]], "target": ids[ends[1]]})
