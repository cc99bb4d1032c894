"""Import of a Parquet file of edges into a graph on disk, compared with pandas and SciPy in memory.

Both sides produce the same CSR rows; the benchmark compares every entry. Our rows are then on
disk, hashed and flushed; the rows of pandas and SciPy are in memory only. Memory is the peak of a
separate process, including the imported packages.
"""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path

import numpy as np

from research.benchmarks.harness.agreement import Check
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.edge_import import (
    draw_edges,
    import_in_memory,
    import_ours,
    start_only,
)
from research.benchmarks.harness.peak_rss import peak_rss
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.rounds import Side, interleave, ratio_of
from research.pages.benchmarks import BenchmarkResult

PEER = "pandas and SciPy"
MIB = 2**20


def measure(options: Options) -> Measurement:
    """Measure the import of one file."""
    return measure_file(200_000 if options.quick else 10_000_000, options)


def measure_file(num_edges: int, options: Options) -> Measurement:
    """Check both sides, and measure their time and memory.

    Args:
        num_edges: Number of edges; the graph has a tenth as many nodes.
    """
    num_nodes = num_edges // 10
    case = f"{num_edges:,} edges, {num_nodes:,} nodes"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "edges.parquet"
        options.show("drawing edges", 0, 1)
        draw_edges(path, num_edges, num_nodes, options.seed)
        names = (folder / f"graph-{number}" for number in count())
        ours, theirs = import_ours(path, next(names), num_nodes), import_in_memory(path, num_nodes)
        same = (
            np.array_equal(ours.offsets.numpy(), theirs.indptr),
            np.array_equal(ours.neighbours.numpy(), theirs.indices),
        )
        check = Check(case, f"arrays, ours and {PEER}", float(2 - sum(same)), 0.0).require()
        entries = ours.num_entries
        del ours, theirs
        sides = [
            Side("ours", lambda: import_ours(path, next(names), num_nodes), steps=1),
            Side(PEER, lambda: import_in_memory(path, num_nodes), steps=1),
        ]
        timings = interleave(case, sides, options.pace(case))
        options.show("memory", 0, 1)
        held = {
            "ours": peak_rss(import_ours, path, next(names), num_nodes),
            PEER: peak_rss(import_in_memory, path, num_nodes),
            "packages alone": peak_rss(start_only),
        }
    memory = held[PEER] / held["ours"]
    speeds = (f"{side} {num_edges / timing.median:,.0f}" for side, timing in timings.items())
    return Measurement(
        results=[
            ratio_of(timings, PEER, "ours", what=f"{PEER}, time"),
            BenchmarkResult(case, f"{PEER}, memory", memory, "×"),
        ],
        timings=list(timings.values()),
        checks=[check],
        notes=[
            f"{case}: edges per second: {'; '.join(speeds)}; {entries:,} entries written",
            f"{case}: most memory held: "
            + "; ".join(f"{side} {size / MIB:,.0f} MiB" for side, size in held.items()),
        ],
        extra={"peak_bytes": held},
    )


if __name__ == "__main__":
    main("graph_import", measure)
