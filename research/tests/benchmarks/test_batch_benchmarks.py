from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crossgcn.data.graph_file import save_graph
from crossgcn.data.stored.import_graph import store_graph
from crossgcn.errors import WorkFailed
from crossgcn.training.distributed import Processes
from research.benchmarks import ranks, sampled_accuracy
from research.benchmarks.harness.command import Options
from research.benchmarks.harness.rank_worker import Work, do_work
from research.benchmarks.harness.record import Measurement

pytestmark = pytest.mark.usefixtures("one_thread")
LOOK = Options(quick=True, rounds=3)


def test_a_worker_trains_on_the_same_batches_each_time(small_graph: Data, tmp_path: Path) -> None:
    store_graph(small_graph, tmp_path / "graph")
    work = Work(str(tmp_path / "graph"), 8, (4, 3), 8, 3, 0)
    first, second = (do_work(work, Processes()) for _ in range(2))
    assert first["loss"] == second["loss"] > 0
    assert first["targets"] == 24 and first["seconds"] > 0


def test_throughput_is_compared_within_rounds_and_losses_must_agree() -> None:
    work = Work("nowhere", 8, (4, 3), 8, 3, 0)
    seconds = {1: iter([2.0, 3.0, 4.0]), 2: iter([1.0, 2.0, 2.0])}
    asked: list[int] = []

    def run(given: Work, processes: int) -> dict[str, Any]:
        assert given == work
        asked.append(processes)
        return {"loss": 1.0 + 1e-6 * processes, "seconds": next(seconds[processes])}

    found = ranks.measure_ranks(work, "small", LOOK, run)
    assert asked == [1, 2, 2, 1, 1, 2]
    assert found.results[0].value == 2.0 and found.results[0].what == "one process"
    assert "1 process 8, 2 processes 12" in found.notes[0]
    with pytest.raises(WorkFailed, match="losses of 1 and 2 processes differ"):
        ranks.measure_ranks(work, "small", LOOK, lambda _, n: {"loss": n, "seconds": 1.0})


def test_sampled_training_is_paired_with_full_batches(small_graph: Data, tmp_path: Path) -> None:
    small_graph.roles = torch.tensor([[1] * 60 + [2] * 15 + [3] * 15])
    save_graph(tmp_path / "small.npz", small_graph)
    case = sampled_accuracy.Case(
        str(tmp_path / "small.npz"),
        {"splits": "public", "repeats": 2},
        5,
        {"batch_size": 16, "epochs": 2, "fanout": 3},
        {},
    )
    options = Options(quick=True, rounds=1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sampled_accuracy, "available_cores", lambda: 1)
        found: Measurement = sampled_accuracy.measure_cases((case,), options)
    accuracies = found.extra["test_accuracy"][case.dataset]
    apart = [a - b for a, b in zip(accuracies["sampled"], accuracies["full batch"], strict=True)]
    assert found.results[0].value == pytest.approx(100 * sum(apart) / 2)
    assert "full batch (5 epochs" in found.notes[0] and "sampled (2 epochs" in found.notes[0]
