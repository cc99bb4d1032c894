"""The benchmarks by name.

This module does not import torch, so that ``crossgcn bench --help`` can list them quickly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class BenchmarkEntry:
    """A benchmark: its module in this folder, the device it needs, and its summary."""

    script: str
    device: Literal["cpu", "cuda"]
    title: str


BENCHMARKS: Mapping[str, BenchmarkEntry] = {
    "cpu-step": BenchmarkEntry("cpu_step", "cpu", "one training step on the CPU"),
    "cpu-protocol": BenchmarkEntry(
        "cpu_protocol", "cpu", "the whole 20-split protocol on Citeseer, on the CPU"
    ),
    "growth": BenchmarkEntry(
        "growth", "cpu", "time and memory of a step as the problem grows, on the CPU"
    ),
    "top-pairs": BenchmarkEntry(
        "top_pairs", "cpu", "the exact strongest pairs of every class, without enumerating all"
    ),
    "peers": BenchmarkEntry(
        "peers", "cpu", "other feature-crossing modules in the place of the cross transform"
    ),
    "wide-features": BenchmarkEntry(
        "wide_features", "cpu", "one training step in a million sparse features"
    ),
    "big-graph": BenchmarkEntry(
        "big_graph", "cpu", "a million nodes and ten million edges at once, on the CPU"
    ),
    "hops": BenchmarkEntry(
        "hops", "cpu", "columns of neighbourhoods of ten million edges, and training on their rows"
    ),
    "engines": BenchmarkEntry(
        "engines", "cpu", "the same columns by DuckDB, by Spark and from a graph folder"
    ),
    "sampler": BenchmarkEntry(
        "sampler", "cpu", "batches with sampled neighbours, from a graph on disk"
    ),
    "graph-import": BenchmarkEntry(
        "graph_import", "cpu", "edges of a Parquet file made into a graph on disk"
    ),
    "ranks": BenchmarkEntry(
        "ranks", "cpu", "training in batches in two processes of one thread, against one"
    ),
    "sampled-accuracy": BenchmarkEntry(
        "sampled_accuracy", "cpu", "what sampling neighbours costs in accuracy"
    ),
    "gpu-step": BenchmarkEntry("gpu_step", "cuda", "one training step on a GPU, and its roofline"),
    "gpu-stack": BenchmarkEntry(
        "gpu_stack", "cuda", "20 splits of four hidden sizes on Citeseer as stacks on a GPU"
    ),
    "gpu-growth": BenchmarkEntry(
        "growth", "cuda", "time and memory of a step as the problem grows, on a GPU"
    ),
    "gpu-wide-features": BenchmarkEntry(
        "wide_features", "cuda", "one training step in a million sparse features, on a GPU"
    ),
    "gpu-big-graph": BenchmarkEntry(
        "big_graph", "cuda", "2.45 million nodes and 62 million edges at once, on a GPU"
    ),
    "gpu-hops": BenchmarkEntry(
        "gpu_hops",
        "cuda",
        "columns of 62 million edges, and training on ten million rows, on a GPU",
    ),
    "precision": BenchmarkEntry("precision", "cuda", "what tf32 and bf16 cost in accuracy"),
    "own-tables": BenchmarkEntry(
        "own_tables", "cpu", "from two CSV files to a report, in three commands"
    ),
}
"""Benchmarks in the order in which they run and are shown."""
