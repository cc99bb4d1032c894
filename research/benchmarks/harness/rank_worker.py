"""A worker process of the benchmark ``ranks.py``; ``torchrun`` starts it."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from itertools import islice

import torch

from crossgcn.data.stored.open import open_graph
from crossgcn.graph.sampling.batches import NodeBatches
from crossgcn.graph.sampling.source import source_of
from crossgcn.models.catalogue import build_model
from crossgcn.training.batches.step import MiniBatchStep
from crossgcn.training.config import RunConfig
from crossgcn.training.distributed import Processes, joined_processes
from crossgcn.training.launch import find_launch

__all__ = ["Work", "do_work"]

WARM_UP = 2


@dataclass(frozen=True)
class Work:
    """The timed work, the same for any number of processes.

    Attributes:
        folder: Folder of the graph.
        batch_size: Target nodes of a step, over all processes.
        fanouts: Neighbours drawn in each hop.
        hidden: Hidden channels.
        steps: Number of timed steps.
        seed: Seed of weights, batches and sampling.
    """

    folder: str
    batch_size: int
    fanouts: tuple[int, ...]
    hidden: int
    steps: int
    seed: int


def do_work(work: Work, processes: Processes) -> dict[str, float]:
    """Train without dropout to compare losses, then train with dropout against the clock.

    Args:
        processes: Process group that shares the work.

    Returns:
        ``seconds`` of the timed steps, ``targets`` in them, and the ``loss`` of the first part.
    """
    source = source_of(open_graph(work.folder))
    nodes = torch.nonzero(source.labels >= 0).flatten()
    classes = int(source.labels.max()) + 1
    result = {"targets": float(work.steps * work.batch_size)}
    for dropout in (0.0, 0.5):
        torch.manual_seed(work.seed)
        model = build_model(
            "cross-gcn", source.num_features, classes, hidden_channels=work.hidden, dropout=dropout
        )
        batches = NodeBatches(
            source,
            nodes,
            model.propagations,
            fanouts=work.fanouts,
            batch_size=work.batch_size,
            seed=work.seed,
            rank=processes.rank,
            world_size=processes.world_size,
        )
        step = MiniBatchStep(model, batches, RunConfig(), seed=work.seed, processes=processes)
        epoch = batches.epoch(1)
        for batch in islice(epoch, WARM_UP):
            step.train_on(batch)
        if dropout == 0.0:
            total = processes.add_up(step.totals)[0]
            result["loss"] = float(total) / (WARM_UP * work.batch_size)
            continue
        processes.add_up(step.totals)  # waits for all processes
        started = time.perf_counter()
        for batch in islice(epoch, work.steps):
            step.train_on(batch)
        processes.add_up(step.totals)
        result["seconds"] = time.perf_counter() - started
    return result


def main() -> None:
    """Run the work given as JSON in the first argument, and print the result."""
    given = json.loads(sys.argv[1])
    work = Work(**given | {"fanouts": tuple(given["fanouts"])})
    torch.set_num_threads(1)
    launch = find_launch()
    assert launch is not None, "torchrun starts this"
    with joined_processes(launch, torch.device("cpu")) as group:
        result = do_work(work, group)
    if launch.rank == 0:
        print(json.dumps(asdict(work) | result))


if __name__ == "__main__":
    sys.path.pop(0)  # remove this file's folder: its modules would shadow others
    main()
