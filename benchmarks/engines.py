"""Columns of neighbourhoods of two Parquet tables: in DuckDB and in a Spark cluster.

The tables have numbers with missing values, categories, dates, isolated nodes, and edges with
weights, some of them repeated. ``crossgcn hops`` computes the columns in DuckDB with its default
memory, in DuckDB with little, and, where Java and PySpark are installed,
in a cluster of a master and two workers. Every value of every column must agree.

Each side runs once, in a process of its own. CPU time is user and system time of the process and
its children, including its start. Of Spark these are the driver, master, workers and executors.
"""

from __future__ import annotations

import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.drawn_tables import draw_tables
from benchmarks.harness import (
    GIB,
    Check,
    Measurement,
    Options,
    ProcessCost,
    Result,
    cost_of,
    crossgcn,
)
from benchmarks.spark_cluster import spark_cluster

TOLERANCE = 1e-6
LITTLE = 256
"""MiB; DuckDB does the rest on disk."""


def measure(options: Options) -> Measurement:
    """Measure DuckDB on large tables, and Spark on smaller ones."""
    large, small = (1_000_000, 20_000_000), (20_000, 80_000)
    if options.quick:
        large, small = (5_000, 50_000), (1_000, 4_000)
    found = Measurement()
    measure_duckdb(*large, options, found)
    if find_spec("pyspark") and shutil.which("java"):
        measure_spark(*small, options, found)
    else:
        found.notes.append("Spark was not measured: it needs Java and 'crossgcn[spark]'")
    return found


def measure_duckdb(nodes: int, edges: int, options: Options, found: Measurement) -> None:
    """Measure DuckDB with its default memory and with little."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case, tables = _write_tables(folder, nodes, edges, options)
        usual, little = folder / "usual.parquet", folder / "little.parquet"
        costs = [hops(*tables, str(usual)), hops(*tables, str(little), "--memory", str(LITTLE))]
        check = Check(case, "columns with little memory", difference(little, usual), TOLERANCE)
        found.checks.append(check.require())
    found.results += [
        Result(case, "DuckDB, CPU time", costs[0].cpu_seconds, "s"),
        Result(case, "DuckDB, memory", costs[0].peak_bytes / GIB, "GiB"),
        Result(case, f"DuckDB, {LITTLE} MiB, over the default", _ratio(costs[1], costs[0])),
    ]
    found.notes.append(f"{case}: DuckDB {_cost(costs[0])}; with {LITTLE} MiB {_cost(costs[1])}")


def measure_spark(nodes: int, edges: int, options: Options, found: Measurement) -> None:
    """Measure Spark, with DuckDB beside it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case, tables = _write_tables(folder, nodes, edges, options)
        duckdb, spark = folder / "duckdb.parquet", folder / "spark.parquet"
        cluster = folder / "cluster"
        cluster.mkdir()
        costs = [cost_of(hops_in_spark, tables, str(spark), cluster), hops(*tables, str(duckdb))]
        check = Check(case, "columns of Spark and DuckDB", difference(spark, duckdb), TOLERANCE)
        found.checks.append(check.require())
    found.results.append(Result(case, "Spark over DuckDB, CPU time", _ratio(*costs)))
    found.notes.append(
        f"Spark, a master and two workers of one core, with the start of the cluster: "
        f"{_cost(costs[0])}; DuckDB {_cost(costs[1])}"
    )


def hops(nodes: str, edges: str, out: str, *options: str) -> ProcessCost:
    """Run ``crossgcn hops`` on two tables."""
    return crossgcn("hops", nodes, edges, "--target", "buys", "--out", out, *options)


def hops_in_spark(tables: tuple[str, str], out: str, folder: Path) -> None:
    """Start a cluster, compute the columns there, and end the cluster."""
    with spark_cluster(folder) as server:
        nodes, edges = (f"{server}::{path}" for path in tables)
        crossgcn("hops", nodes, edges, "--target", "buys", "--out", out)


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


def _write_tables(
    folder: Path, nodes: int, edges: int, options: Options
) -> tuple[str, tuple[str, str]]:
    options.show(f"tables of {nodes:,} nodes and {edges:,} edges")
    paths = str(folder / "nodes.parquet"), str(folder / "edges.parquet")
    tables = draw_tables(nodes, edges, options.seed)
    for table, path in zip(tables, paths, strict=True):
        table.to_parquet(path)
    return f"{nodes:,} nodes, {len(tables[1]):,} edges", paths


def _ratio(slow: ProcessCost, fast: ProcessCost) -> float:
    return slow.cpu_seconds / fast.cpu_seconds


def _cost(cost: ProcessCost) -> str:
    return f"{cost.cpu_seconds:.3g} CPU s and {cost.peak_bytes / GIB:.2f} GiB at most"
