"""Columns of neighbourhoods of two Parquet tables: in DuckDB, in Spark, and from a graph folder.

The tables have numbers with missing values, categories, dates, isolated nodes, and edges with
weights, some of them repeated. ``crossgcn hops`` computes the columns in DuckDB, once with its
default memory and once with less memory than the tables take, and in a Spark cluster of a master
and two workers. The other side is ``crossgcn data import`` and the columns that the first training
computes. The benchmark compares every value of every column.

Each side runs once, in a process of its own. CPU time is user and system time of the process and
its children, including its start. Of Spark these are the driver, master, workers and executors.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq

from crossgcn.cli.options import available_cores
from crossgcn.data.stored.open import open_graph
from crossgcn.errors import WorkFailed
from crossgcn.workflows.hops import ENGINE_MEMORY
from research.benchmarks.harness.agreement import Check
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.engine_hops import (
    draw_tables,
    largest_difference,
    start_only,
    store_from_folder,
    store_in_duckdb,
    store_in_spark,
)
from research.benchmarks.harness.peak_rss import ProcessCost, cost_of
from research.benchmarks.harness.record import Measurement
from research.pages.benchmarks import BenchmarkResult

CPU_TIME, MEMORY = (f"DuckDB over a graph folder, {each}" for each in ("CPU time", "memory"))
TOLERANCE = 1e-6
THREADS = 2
MIB, GIB = 2**20, 2**30


@dataclass(frozen=True)
class EngineSize:
    """Sizes of the tables.

    Attributes:
        nodes: Rows of the table of nodes.
        edges: Edges drawn; the table has a twentieth more, given again with other weights.
        small_memory: Bytes for DuckDB in its second run; 0 for no such run.
    """

    nodes: int
    edges: int
    small_memory: int = 0


def measure(options: Options) -> Measurement:
    """Measure DuckDB on large tables, and Spark on smaller ones."""
    large = EngineSize(200_000, 5_000_000, 128 * MIB)
    small = EngineSize(20_000, 80_000)
    if options.quick:
        large, small = EngineSize(5_000, 50_000, 32 * MIB), EngineSize(1_000, 4_000)
    found = Measurement()
    measure_duckdb(large, options, found)
    if find_spec("pyspark") and shutil.which("java"):
        measure_spark(small, options, found)
    else:
        found.notes.append("Spark was not measured: it needs Java and 'crossgcn[spark]'")
    names = [name for name in ("duckdb", "ibis-framework", "pyspark") if _is_installed(name)]
    found.extra["engine_versions"] = {name: version(name) for name in names}
    return found


def measure_duckdb(size: EngineSize, options: Options, found: Measurement) -> None:
    """Measure DuckDB with its default memory and with little, and a graph folder."""
    threads = min(THREADS, available_cores())
    with TemporaryDirectory() as name:
        sides = _Sides(Path(name), size, options, found)
        ours = sides.run("graph folder", store_from_folder, threads)
        theirs = sides.run("DuckDB", store_in_duckdb, ENGINE_MEMORY, threads, Path(name, "usual"))
        note = (
            f"DuckDB, {sides.case}: {_cost(theirs)}; `data import` and the columns of its folder: "
            f"{_cost(ours)}; at most {sides.apart['DuckDB']:.1e} apart"
        )
        if size.small_memory:
            note += f"; {_measure_little(sides, size.small_memory, threads, Path(name, 'little'))}"
    found.notes += [note, f"The packages alone take {_cost(cost_of(start_only))}"]
    found.results += [
        BenchmarkResult(sides.case, CPU_TIME, theirs.cpu_seconds / ours.cpu_seconds),
        BenchmarkResult(sides.case, MEMORY, theirs.peak_bytes / ours.peak_bytes),
    ]


def _measure_little(sides: _Sides, memory: int, threads: int, scratch: Path) -> str:
    """Run DuckDB with little memory, and say how that went; it may fail, but not differ."""
    side = f"DuckDB, {memory // MIB} MiB"
    words = f"with {memory // MIB} MiB for tables of {sides.table_bytes / MIB:,.0f} MiB, DuckDB"
    try:
        cost = sides.compute(side, store_in_duckdb, memory, threads, scratch)
    except WorkFailed as error:
        return f"{words} failed: {str(error).partition(': give it more')[0]}"
    apart = sides.compare(side)
    spilled = f"spilled {cost.answer / MIB:,.0f} MiB to disk" if cost.answer else "spilled nothing"
    return f"{words} {spilled} and took {_cost(cost)}, at most {apart:.1e} apart"


def measure_spark(size: EngineSize, options: Options, found: Measurement) -> None:
    """Measure Spark, with DuckDB and a graph folder beside it."""
    threads = min(THREADS, available_cores())
    with TemporaryDirectory() as name:
        sides = _Sides(Path(name), size, options, found)
        ours = sides.run("graph folder", store_from_folder, threads)
        duckdb = sides.run("DuckDB", store_in_duckdb, ENGINE_MEMORY, threads, Path(name, "usual"))
        (Path(name) / "cluster").mkdir()
        spark = sides.run("Spark", store_in_spark, Path(name) / "cluster")
    largest = max(spark.peak_bytes, spark.child_bytes)
    found.notes.append(
        f"Spark, a master and two workers of one core, {sides.case}: {spark.cpu_seconds:.3g} CPU s "
        f"with the start of the cluster, the largest process {largest / GIB:.2f} GiB; "
        f"DuckDB {duckdb.cpu_seconds:.3g} CPU s, a graph folder {ours.cpu_seconds:.3g} CPU s; at "
        f"most {sides.apart['Spark']:.1e} apart"
    )
    found.results.append(
        BenchmarkResult(
            sides.case, "Spark over DuckDB, CPU time", spark.cpu_seconds / duckdb.cpu_seconds
        )
    )


class _Sides:
    """Sides that make the same columns of two tables, each in a process of its own.

    Args:
        folder: For the tables, which are drawn here, and for the graph folders.
        size: Of the tables.
        found: Gets the cost and the check of every side. The first side is the reference.
    """

    def __init__(
        self, folder: Path, size: EngineSize, options: Options, found: Measurement
    ) -> None:
        self._folder, self._show, self._found = folder, options.show, found
        self._stored: dict[str, Path] = {}
        self.case, self.apart = "", dict[str, float]()
        options.show("drawing tables", 0, 1)
        self._tables = [str(folder / f"{name}.parquet") for name in ("nodes", "edges")]
        drawn = draw_tables(size.nodes, size.edges, options.seed)
        for table, path in zip(drawn, self._tables, strict=True):
            table.to_parquet(path)
        self.table_bytes = sum(pq.read_table(path).nbytes for path in self._tables)
        self._rows = [len(table) for table in drawn]

    def run(self, side: str, work: Callable[..., object], *more: Any) -> ProcessCost:
        """Run one side, and require the columns of the first; see :meth:`compute`."""
        cost = self.compute(side, work, *more)
        self.compare(side)
        return cost

    def compute(self, side: str, work: Callable[..., object], *more: Any) -> ProcessCost:
        """Run one side.

        Args:
            work: Receives the tables, the graph folder to write, and ``more``.
        """
        self._show(side, 0, 1)
        out = self._folder / f"columns-{len(self._stored)}"
        cost = cost_of(work, *self._tables, out, *more)
        self._stored[side] = out
        nodes, edges = self._rows
        features = open_graph(out).num_features
        self.case = f"{nodes:,} nodes, {edges:,} edges, {features} encoded columns"
        costs = self._found.extra.setdefault("costs", [])
        costs.append({"case": self.case, "side": side, **cost._asdict()})
        return cost

    def compare(self, side: str) -> float:
        """Return how far the columns of a side are from those of the first.

        Raises:
            WorkFailed: If they are further apart than rounding explains.
        """
        first = next(iter(self._stored.values()))
        self.apart[side] = largest_difference(self._stored[side], first)
        check = Check(self.case, f"columns of {side}", self.apart[side], TOLERANCE).require()
        self._found.checks.append(check)
        return check.error


def _cost(cost: ProcessCost) -> str:
    return f"{cost.cpu_seconds:.3g} CPU s and {cost.peak_bytes / GIB:.2f} GiB at most"


def _is_installed(package: str) -> bool:
    return find_spec({"ibis-framework": "ibis"}.get(package, package)) is not None


if __name__ == "__main__":
    main("engines", measure)
