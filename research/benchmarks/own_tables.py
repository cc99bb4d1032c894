"""From two CSV files to a report with three commands, each a separate process.

The tables are those of the example shop: 10,000 customers, 50,000 edges, 30 columns. Timed are
``check``, ``train`` over five splits on all cores, and ``report``, including the start of each
process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from crossgcn.data.datasets.shop import make_shop, write_shop
from crossgcn.reports.run_report.page import MOST_BYTES
from research.benchmarks.harness.agreement import Check
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.rounds import Side, interleave, quartiles
from research.pages.benchmarks import BenchmarkResult

ALLOWED_SECONDS = 120.0
ALLOWED = "share of the time allowed"


def measure(options: Options) -> Measurement:
    """Time the three commands."""
    nodes, columns, more = (600, 15, ("--epochs", "20")) if options.quick else (10_000, 30, ())
    return measure_way(nodes, columns, more, options)


def measure_way(
    num_nodes: int, num_columns: int, training: Sequence[str], options: Options
) -> Measurement:
    """Time the three commands one after the other.

    Args:
        num_nodes: Customers of the shop.
        num_columns: Columns of the customer table.
        training: Further options of ``train``.
    """
    shop = make_shop(num_nodes, num_columns=num_columns, seed=options.seed)
    case = f"{num_nodes:,} nodes, {len(shop.edges):,} edges, {num_columns} columns"
    rounds: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_shop(folder / "shop", shop, "csv")
        tables = [str(folder / "shop" / table) for table in ("nodes.csv", "edges.csv")]
        numbers = count()

        def go() -> None:
            run = str(folder / f"run-{next(numbers)}")
            checked = _run("check", *tables, "--target", "buys")
            trained = _run("train", *tables, "--target", "buys", *training, "--out", run)
            rounds.append({"errors": checked["errors"], **_run("report", run), **trained})

        timing = interleave(case, [Side("three commands", go, steps=1)], options.pace(case))
    ours = timing["three commands"]
    low, high = (100 * seconds / ALLOWED_SECONDS for seconds in quartiles(ours.seconds))
    share = 100 * ours.median / ALLOWED_SECONDS
    accuracies = {tuple(found["test_accuracy"]) for found in rounds}
    size = max(found["bytes"] for found in rounds)
    return Measurement(
        results=[BenchmarkResult(case, ALLOWED, share, "%", low=low, high=high)],
        timings=list(timing.values()),
        checks=[
            Check(case, "errors found in the tables", float(rounds[0]["errors"]), 0.0).require(),
            Check(case, "results that differ between rounds", len(accuracies) - 1, 0.0).require(),
            Check(
                case, "bytes of the report beyond 3 MB", max(0, size - MOST_BYTES), 0.0
            ).require(),
        ],
        notes=[
            f"{ours.median:.3g} s of {ALLOWED_SECONDS:g} s allowed, for check, train "
            f"({rounds[0]['num_runs']} splits, {rounds[0]['epochs']} epochs) and report "
            f"({size / 1e6:.2f} MB, {rounds[0]['nodes_shown']} nodes explained)",
        ],
    )


def _run(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "crossgcn", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


if __name__ == "__main__":
    main("own_tables", measure)
