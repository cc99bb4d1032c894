"""From two CSV files to a report with three commands, each a separate process.

The tables are drawn: numbers with missing values, categories, dates, and a target that depends on
a product. Timed are ``check``, ``train`` over five splits on all cores, and
``report``, including the start of each process.
"""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.drawn_tables import draw_tables
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
        drawn = draw_tables(nodes, edges, options.seed, columns)
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
