"""Columns of neighbourhoods of two Parquet tables in DuckDB, with its default memory and little.

The tables have numbers with missing values, categories, dates, isolated nodes, and edges with
weights, some of them repeated. Every value of every column must agree. Each side runs once, in a
process of its own. CPU time is user and system time of the process, including its start.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.drawn_tables import draw_tables
from benchmarks.harness import GIB, Check, Measurement, Options, ProcessCost, Result, crossgcn

TOLERANCE = 1e-6
LITTLE = 256
"""MiB; DuckDB does the rest on disk."""


def measure(options: Options) -> Measurement:
    """Measure DuckDB with its default memory and with little."""
    nodes, edges = (5_000, 50_000) if options.quick else (1_000_000, 20_000_000)
    options.show(f"tables of {nodes:,} nodes and {edges:,} edges")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [str(folder / f"{table}.parquet") for table in ("nodes", "edges")]
        tables = draw_tables(nodes, edges, options.seed)
        for table, path in zip(tables, paths, strict=True):
            table.to_parquet(path)
        case = f"{nodes:,} nodes, {len(tables[1]):,} edges"
        usual, little = folder / "usual.parquet", folder / "little.parquet"
        costs = [hops(*paths, str(usual)), hops(*paths, str(little), "--memory", str(LITTLE))]
        apart = difference(little, usual)
    slower = costs[1].cpu_seconds / costs[0].cpu_seconds
    return Measurement(
        results=[
            Result(case, "DuckDB, CPU time", costs[0].cpu_seconds, "s"),
            Result(case, "DuckDB, memory", costs[0].peak_bytes / GIB, "GiB"),
            Result(case, f"DuckDB, {LITTLE} MiB, over the default", slower),
        ],
        checks=[Check(case, "columns with little memory", apart, TOLERANCE).require()],
        notes=[f"{case}: DuckDB {_cost(costs[0])}; with {LITTLE} MiB {_cost(costs[1])}"],
    )


def hops(nodes: str, edges: str, out: str, *options: str) -> ProcessCost:
    """Run ``crossgcn hops`` on two tables."""
    return crossgcn("hops", nodes, edges, "--target", "buys", "--out", out, *options)


def difference(found: Path, expected: Path) -> float:
    """Return how far the columns of two files are apart, relative to 1; infinite if names differ.

    Rows are matched by their ids.
    """
    one, two = (
        pd.read_parquet(path).sort_values("id", ignore_index=True) for path in (found, expected)
    )
    if list(one.columns) != list(two.columns) or len(one) != len(two):
        return float("inf")
    numbers = one.select_dtypes("number").columns
    if not one["id"].equals(two["id"]) or not len(numbers):
        return float("inf")
    left, right = (table[numbers].to_numpy(np.float64) for table in (one, two))
    apart = np.abs(left - right) / np.maximum(np.abs(right), 1)
    return float(np.nan_to_num(apart, nan=0.0).max())


def _cost(cost: ProcessCost) -> str:
    return f"{cost.cpu_seconds:.3g} CPU s and {cost.peak_bytes / GIB:.2f} GiB at most"
