"""Neighbourhood columns and training of cross-hops on a GPU, each within a time limit.

The graph of the columns is drawn at random and lies in the machine's memory; the time is from
there to the finished columns on the GPU. The rows of the training are drawn on the GPU, because
its time does not depend on what they hold. Eight bags are trained as one stack, with validation
after every epoch and a test at the end.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from crossgcn.data.splits import Split
from crossgcn.graph.hops import HopColumns, HopPlan, HopSource, Scale
from crossgcn.graph.sampling.source import GraphSource
from crossgcn.models.catalogue import build_model
from crossgcn.training.batches.train import train_in_batches
from crossgcn.training.config import RunConfig
from crossgcn.training.selection import Diverged
from crossgcn.workflows.table_settings import hop_settings
from research.benchmarks.harness.agreement import Check
from research.benchmarks.harness.command import Options, main
from research.benchmarks.harness.gradients import apart
from research.benchmarks.harness.hop_training import BAGS, HopSize
from research.benchmarks.harness.record import Measurement
from research.pages.benchmarks import BenchmarkResult

COLUMNS, TRAINING = "columns, share of the time allowed", "training, share of the time allowed"
COLUMN_SECONDS, TRAINING_SECONDS = 2.0, 60.0
SAME_COLUMNS = 1e-5


@dataclass(frozen=True)
class RowSize:
    """Sizes of a training: rows, own columns of one hop, epochs and rows of a batch."""

    rows: int = 10_000_000
    features: int = 100
    epochs: int = 20
    batch_size: int = 8192

    @property
    def plan(self) -> HopPlan:
        """Return the columns."""
        return HopPlan(self.features, hops=1)

    @property
    def name(self) -> str:
        """Return the name of the case."""
        return f"{self.rows:,} rows, {self.plan.num_columns} columns, {self.epochs} epochs"


class RandomGraph(GraphSource):
    """An undirected graph whose nodes have random numbers as features."""

    def __init__(self, size: HopSize, seed: int, device: str) -> None:
        generator = torch.Generator(device).manual_seed(seed)
        ends = torch.randint(size.nodes, (2, size.edges), generator=generator, device=device)
        keys = torch.cat([ends[0] * size.nodes + ends[1], ends[1] * size.nodes + ends[0]])
        keys = torch.unique(keys)
        counts = torch.bincount(keys // size.nodes, minlength=size.nodes)
        offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).cpu()
        neighbours = (keys % size.nodes).int().cpu()
        super().__init__(offsets, neighbours, num_features=size.columns)
        shape = (size.nodes, size.columns)
        self.x = torch.randn(shape, generator=generator, device=device).cpu()

    def features(self, nodes: torch.Tensor) -> torch.Tensor:
        """Return the features of some nodes."""
        return self.x.index_select(0, nodes)


def measure(options: Options) -> Measurement:
    """Measure both."""
    found = Measurement()
    size = HopSize(40_000, 400_000, 10) if options.quick else HopSize(2_450_000, 62_000_000)
    measure_columns(size, options, found)
    if options.device == "cuda":
        torch.cuda.empty_cache()
    rows = RowSize(40_000, 10, 2, 1024) if options.quick else RowSize()
    measure_training(rows, options, found)
    return found


def measure_columns(size: HopSize, options: Options, found: Measurement) -> None:
    """Time the columns of two hops, and compare those of a smaller graph with the CPU's."""
    device = torch.device(options.device)
    small = RandomGraph(HopSize(5_000, 50_000, 10), options.seed, options.device)
    both = (HopColumns(small, device=where).without_labels for where in (device, None))
    error = apart(*(columns.to("cpu") for columns in both))  # type: ignore[arg-type]
    found.checks.append(Check(size.name, "columns of the CPU", error, SAME_COLUMNS).require())
    options.show("columns", 0, options.rounds)
    graph = RandomGraph(size, options.seed, options.device)
    seconds = []
    for done in range(min(3, options.rounds)):
        _wait(options)
        started = time.perf_counter()
        HopColumns(graph, device=device)
        _wait(options)
        seconds.append(time.perf_counter() - started)
        options.show("columns", done + 1, options.rounds)
    slowest = max(seconds)
    share = 100 * slowest / COLUMN_SECONDS
    found.results.append(BenchmarkResult(size.name, COLUMNS, share, "%"))
    spent = ", ".join(f"{each:.3g}" for each in seconds)
    found.notes.append(f"{size.name}: {spent} s for the columns of two hops, one after the other")


def measure_training(size: RowSize, options: Options, found: Measurement) -> None:
    """Time a whole training of eight bags."""
    options.show("training", 0, 1)
    source = draw_rows(size, options)
    order = torch.randperm(size.rows, generator=torch.Generator().manual_seed(options.seed))
    few = size.rows // 50
    split = Split(order[2 * few :].sort().values, order[:few], order[few : 2 * few])
    config = RunConfig.create(
        model="cross-hops",
        hops=size.plan.hops,
        label_features=False,
        bags=BAGS,
        epochs=size.epochs,
        batch_size=size.batch_size,
        instead=hop_settings(size.features),
    )
    settings = config.model_settings()
    torch.manual_seed(options.seed)
    model = build_model(config.model, size.features, 2, **settings)
    _wait(options)
    started = time.perf_counter()
    result = train_in_batches(
        model, source, split, config, seed=options.seed, device=options.device
    )
    _wait(options)
    seconds = time.perf_counter() - started
    if isinstance(result, Diverged):
        raise result
    share = 100 * seconds / TRAINING_SECONDS
    found.results.append(BenchmarkResult(size.name, TRAINING, share, "%"))
    found.notes.append(
        f"{size.name}: {seconds:.3g} s in batches of {size.batch_size:,} rows, {BAGS} bags as one "
        f"stack, validation on {few:,} rows after every epoch and a test on as many included; "
        f"accuracy on the test rows {result.test_accuracy:.3f}"
    )


def draw_rows(size: RowSize, options: Options) -> HopSource:
    """Draw standardised columns on the device; the class depends on a product of two."""
    generator = torch.Generator(options.device).manual_seed(options.seed)
    shape = (size.rows, size.plan.num_columns)
    columns = torch.randn(shape, generator=generator, device=options.device)
    noise = torch.randn(size.rows, generator=generator, device=options.device)
    y = (columns[:, 0] * columns[:, 1] + columns[:, 2] + 0.5 * noise > 0).long().cpu()
    same = Scale(torch.zeros(shape[1]), torch.ones(shape[1]))
    return HopSource([columns], same, y)


def _wait(options: Options) -> None:
    if options.device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main("gpu_hops", measure)
