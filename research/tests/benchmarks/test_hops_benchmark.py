from __future__ import annotations

import pytest
import torch

from crossgcn.errors import WorkFailed
from crossgcn.graph.hops import HopColumns
from crossgcn.graph.sampling.source import GraphSource
from research.benchmarks import gpu_hops
from research.benchmarks.harness.command import Options
from research.benchmarks.harness.hop_training import HopSize
from research.benchmarks.harness.record import Measurement
from research.benchmarks.hops import (
    ALLOWED_SECONDS,
    BOOSTING,
    COLUMNS,
    MEMORY,
    PERCEPTRON,
    TIME,
    draw_rows,
    measure_columns,
    measure_fits,
    measure_sizes,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def test_memory_and_growth_with_the_edges_are_measured() -> None:
    found = measure_sizes([2_000], HopSize(1_000, 6_000, 4), Options(quick=True, rounds=1))
    memory, slope = found.results
    assert (memory.case, memory.what) == ("1,000 nodes, 6,000 edges, 4 columns", MEMORY)
    assert memory.value == pytest.approx(100 * found.extra["peak_bytes"]["ours"] / 2**33)
    assert (slope.what, slope.unit) == (TIME, "slope")
    assert [timing.side for timing in found.timings] == ["2,000 edges", "6,000 edges"]


def test_the_time_of_columns_is_a_share_of_what_is_allowed() -> None:
    found = Measurement()
    measure_columns(HopSize(1_000, 6_000, 4), Options(quick=True, rounds=1), found)
    (result,) = found.results
    assert (result.case, result.what) == ("1,000 nodes, 6,000 edges, 4 columns", COLUMNS)
    (seconds,) = (float(note.split(": ")[1].split()[0]) for note in found.notes)
    assert result.value == pytest.approx(100 * seconds / ALLOWED_SECONDS, rel=0.01)


def test_training_and_a_step_are_set_against_boosting_and_a_perceptron() -> None:
    found, data = Measurement(), draw_rows(2_000)
    measure_fits(data, Options(quick=True, rounds=1), found)
    assert [(result.case, result.what) for result in found.results] == [
        ("2,000 rows", BOOSTING),
        ("2,000 rows", PERCEPTRON),
    ]
    times = {timing.side: timing.median for timing in found.timings}
    assert found.results[0].value == pytest.approx(times["ours"] / times["boosting"])
    assert "31 columns" in found.notes[0]


def test_columns_and_training_of_a_gpu_are_timed_on_any_device() -> None:
    found, look = Measurement(), Options(quick=True, rounds=2)
    gpu_hops.measure_columns(HopSize(500, 2_000, 3), look, found)
    gpu_hops.measure_training(gpu_hops.RowSize(2_000, 4, 3, 256), look, found)
    assert [result.what for result in found.results] == [gpu_hops.COLUMNS, gpu_hops.TRAINING]
    assert all(result.value > 0 for result in found.results)
    assert found.checks[0].error <= gpu_hops.SAME_COLUMNS
    assert "2,000 rows, 9 columns, 3 epochs" in found.notes[1]


def test_another_column_on_the_device_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(graph: GraphSource, device: torch.device | None = None) -> HopColumns:
        columns = HopColumns(graph, device=device)
        if device is not None:
            assert isinstance(columns.without_labels, torch.Tensor)
            columns.without_labels += 0.1
        return columns

    monkeypatch.setattr(gpu_hops, "HopColumns", other)
    with pytest.raises(WorkFailed, match="columns of the CPU"):
        gpu_hops.measure_columns(HopSize(500, 2_000, 3), Options(quick=True), Measurement())
