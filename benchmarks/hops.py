"""Columns of neighbourhoods of millions of edges, and training of cross-hops on their rows.

On a CPU: the commands ``hops`` (in DuckDB) and ``train`` on drawn tables, with their peak memory;
the columns of a larger graph in memory, on all cores; and ``compare`` of cross-hops with eight
bags against gradient boosting on the same columns and splits, one thread each.

On a GPU: the columns of a graph that lies in the machine's memory, and a training of eight bags on
rows that are drawn there, because its time does not depend on what they hold. It includes
validation after every epoch and a test at the end.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from benchmarks.drawn_tables import draw_tables
from benchmarks.harness import (
    GIB,
    Check,
    Measurement,
    Options,
    ProcessCost,
    Result,
    available_cores,
    crossgcn,
    relative_error,
    torch_threads,
)
from benchmarks.ours import hop_columns, train_on_rows
from crossgcn import Split
from crossgcn.data import available

GRAPHS = ("us-county", "tolokers", "facebook100/Amherst41")
SAME_COLUMNS = 1e-5


@dataclass(frozen=True)
class HopSize:
    """Sizes of a graph: nodes, edges drawn, and columns per node."""

    nodes: int
    edges: int
    columns: int = 50

    @property
    def name(self) -> str:
        """Return the name of the case."""
        return f"{self.nodes:,} nodes, {self.edges:,} edges, {self.columns} columns"


def measure(options: Options) -> Measurement:
    """Measure what the device of the options can do."""
    found = Measurement()
    size = HopSize(40_000, 400_000, 10) if options.quick else HopSize(2_450_000, 62_000_000)
    measure_columns(size, options, found)
    if options.device == "cuda":
        torch.cuda.empty_cache()
        rows, epochs = (40_000, 2) if options.quick else (10_000_000, 20)
        measure_rows(rows, 201, epochs, options, found)
        return found
    size = HopSize(5_000, 50_000, 10) if options.quick else HopSize(1_000_000, 10_000_000)
    measure_commands(size, options, found)
    for name in GRAPHS[:1] if options.quick else GRAPHS:
        if available(name) is None:
            found.notes.append(f"{name} is not on this machine: crossgcn data get {name}")
        else:
            measure_boosting(name, (name,), options, found)
    rows = 20_000 if options.quick else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        tables = draw_rows(rows, options.seed)
        paths = [f"{folder}/{table}.parquet" for table in ("nodes", "edges")]
        for table, path in zip(tables, paths, strict=True):
            table.to_parquet(path)
        measure_boosting(f"{rows:,} rows", (*paths, "--target", "label"), options, found)
    return found


def measure_columns(size: HopSize, options: Options, found: Measurement) -> None:
    """Time the columns of two hops; those of a GPU are compared with the CPU's on a small graph."""
    device = options.device
    with torch_threads(available_cores()):
        if device == "cuda":
            small = draw_graph(HopSize(5_000, 50_000, 10), options.seed)
            error = relative_error(hop_columns(*small, device), hop_columns(*small, "cpu"))
            check = Check(size.name, "columns of GPU and CPU", error, SAME_COLUMNS)
            found.checks.append(check.require())
        graph = draw_graph(size, options.seed)
        options.show("columns of a graph in memory")
        seconds = []
        for _ in range(3 if device == "cuda" else 1):
            started = time.perf_counter()
            columns = hop_columns(*graph, device)
            if device == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - started)
            del columns
    found.results.append(Result(size.name, "columns", max(seconds), "s"))


def measure_rows(
    rows: int, columns: int, epochs: int, options: Options, found: Measurement
) -> None:
    """Time a whole training of eight bags on rows that lie on the device."""
    options.show("training on rows")
    generator = torch.Generator(options.device).manual_seed(options.seed)
    x = torch.randn(rows, columns, generator=generator, device=options.device)
    noise = torch.randn(rows, generator=generator, device=options.device)
    y = (x[:, 0] * x[:, 1] + x[:, 2] + 0.5 * noise > 0).long().cpu()
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(options.seed))
    few = rows // 50
    split = Split(order[2 * few :].sort().values, order[:few], order[few : 2 * few])
    torch.cuda.synchronize()
    started = time.perf_counter()
    accuracy = train_on_rows(x, y, split, epochs=epochs, device=options.device, seed=options.seed)
    torch.cuda.synchronize()
    case = f"{rows:,} rows, {columns} columns, {epochs} epochs"
    found.results.append(Result(case, "training", time.perf_counter() - started, "s"))
    found.notes.append(f"{case}, 8 bags in batches of 8,192 rows: test accuracy {accuracy:.3f}")


def measure_commands(size: HopSize, options: Options, found: Measurement) -> None:
    """Compute columns in DuckDB, and train on the Parquet file for one epoch."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options.show("drawing tables")
        tables = draw_tables(size.nodes, size.edges, options.seed, size.columns)
        paths = [str(folder / f"{table}.parquet") for table in ("nodes", "edges")]
        for table, path in zip(tables, paths, strict=True):
            table.to_parquet(path)
        del tables
        options.show("hops")
        out = str(folder / "columns.parquet")
        hops = crossgcn("hops", *paths, "--target", "buys", "--out", out)
        options.show("train")
        settings = ("--epochs", "1", "--num-splits", "1", "--out", str(folder / "run"))
        train = crossgcn("train", out, *settings, threads=available_cores())
    peak = max(hops.peak_bytes, train.peak_bytes)
    found.results.append(Result(size.name, "memory", peak / GIB, "GiB"))
    found.notes.append(
        f"{size.name}: `hops` in DuckDB {_cost(hops)}; `train` of one epoch on its file, with "
        f"selection and test, {_cost(train)}"
    )


def measure_boosting(
    case: str, arguments: tuple[str, ...], options: Options, found: Measurement
) -> None:
    """Compare cross-hops with boosting, one trial each, run by run in turns."""
    options.show(f"{case}, against boosting")
    splits = "1" if options.quick or "rows" in case else "3"
    with tempfile.TemporaryDirectory() as folder:
        answer = crossgcn(
            *("compare", *arguments, "--models", "cross-hops-2,boosting-hops", "--tuning", "1"),
            *("--num-splits", splits, "--workers", "1", "--out", f"{folder}/compare"),
        ).answer
    ours, boosting = (
        next(model for model in answer["models"] if model["model"] == name)
        for name in ("cross-hops-2", "boosting-hops")
    )
    ratio = ours["seconds"] / boosting["seconds"]
    found.results.append(Result(case, "training, over boosting", ratio))
    found.notes.append(
        f"{case}, {answer['num_splits']} splits: ours {ours['seconds']:.3g} s and test "
        f"{answer['metric']} {ours['mean']:.3f}; boosting {boosting['seconds']:.3g} s and "
        f"{boosting['mean']:.3f}"
    )


def draw_graph(size: HopSize, seed: int) -> tuple[Tensor, Tensor]:
    """Draw features, and undirected edges without repetition."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(size.nodes, (2, size.edges), generator=generator)
    keys = torch.cat([ends[0] * size.nodes + ends[1], ends[1] * size.nodes + ends[0]])
    keys = torch.unique(keys)
    x = torch.randn(size.nodes, size.columns, generator=generator)
    return x, torch.stack([keys // size.nodes, keys % size.nodes])


def draw_rows(num_nodes: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw a table of ten numbers and two classes, and two edges per node."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(num_nodes, 10)).astype(np.float32)
    score = x[:, 0] * x[:, 1] + x[:, 2] + 0.5 * random.normal(size=num_nodes)
    nodes = pd.DataFrame(x, columns=[f"x{number}" for number in range(10)])
    nodes.insert(0, "id", np.arange(num_nodes))
    nodes["label"] = np.where(score > 0, "yes", "no")
    ends = random.integers(num_nodes, size=(2, 2 * num_nodes))
    return nodes, pd.DataFrame({"source": ends[0], "target": ends[1]})


def _cost(cost: ProcessCost) -> str:
    return f"{cost.seconds:.3g} s and {cost.peak_bytes / GIB:.2f} GiB at most"
