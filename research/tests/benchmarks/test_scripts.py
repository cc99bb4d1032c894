"""The benchmark scripts on small graphs, including those for GPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from crossgcn.data.graph_file import save_graph
from research.benchmarks import (
    cpu_protocol,
    gpu_stack,
    gpu_step,
    growth,
    own_tables,
    precision,
    top_pairs,
)
from research.benchmarks.harness.command import Options
from research.benchmarks.harness.memory import peak_bytes
from research.benchmarks.harness.ours import build_ours
from research.benchmarks.harness.peer_training import PeerTraining
from research.benchmarks.harness.peers import Peer
from research.benchmarks.harness.record import Measurement
from research.benchmarks.harness.roofline import Ceilings
from research.benchmarks.harness.synthetic import GraphSize, draw_graph

pytestmark = pytest.mark.usefixtures("one_thread")
LOOK = Options(quick=True, rounds=2)


@pytest.fixture
def graph(small_graph: Data) -> Data:
    small_graph.roles = torch.tensor([[1] * 60 + [2] * 15 + [3] * 15])
    return small_graph


def test_a_gpu_step_is_set_against_its_peers_and_its_roofline(graph: Data) -> None:
    found = Measurement(extra={"roofline": [], "kernels": {}})
    graph.x = graph.x.to_dense()
    gpu_step.measure_case(graph, "fp32", 8, Ceilings(1e9, 1e9, 1e9), LOOK, found)
    results = {result.what: result for result in found.results}
    two, one = found.extra["roofline"]
    assert results["over our GCN"].aim == pytest.approx(two["seconds"] / one["seconds"])
    ours = next(timing for timing in found.timings if timing.side == "ours")
    share = 100 * two["seconds"] / ours.median
    assert results["share of the roofline"].value == pytest.approx(share)
    assert {result.case for result in found.results} == {"fp32, E 8"}
    assert len(found.checks) == 4 * (2 + 2) + (2 + 6)
    gcns = [results[name].value for name in (*Peer.NAMES, *Peer.COMPILED) if name in results]
    assert results[gpu_step.BEST].value in gcns


def test_compiled_peers_are_compiled_however_many_there_are(
    graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.x = graph.x.to_dense()
    compiled = []

    def count(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        compiled.append(module)
        return module.forward

    monkeypatch.setattr("research.benchmarks.harness.peer_training.BACKEND", count)
    for hidden in range(4, 16):
        ours = build_ours(graph, 1, hidden_channels=hidden)
        before = len(compiled)
        PeerTraining("compiled PyG GCN", ours, graph, torch.arange(60)).step()
        assert len(compiled) > before


def test_the_protocol_is_run_in_full_and_the_peers_epochs_are_multiplied(
    graph: Data, tmp_path: Path
) -> None:
    save_graph(tmp_path / "small.npz", graph)
    found = cpu_protocol.measure_protocol(str(tmp_path / "small.npz"), LOOK, 2, 3, peer_epochs=1)
    epoch = found.extra["peer_epoch_seconds"]
    ours, peer = found.timings
    assert peer.seconds == pytest.approx([2 * 3 * seconds for seconds in epoch])
    ratios = [slow / fast for slow, fast in zip(peer.seconds, ours.seconds, strict=True)]
    assert found.results[0].value == pytest.approx(sum(ratios) / 2)
    assert "multiplied by 6" in found.notes[1]


def test_stacks_are_set_against_the_sum_over_all_sizes(graph: Data) -> None:
    found = gpu_stack.measure_stack(graph, LOOK, num_splits=2, epochs=2)
    timings = {timing.side: timing for timing in found.timings}
    epochs = [timings[f"PyG GCN, E {hidden}"].seconds for hidden in gpu_stack.HIDDEN]
    whole = [4 * sum(each) for each in zip(*epochs, strict=True)]
    assert timings["PyG GCN"].seconds == pytest.approx(whole)
    assert found.results[0].case == "E 16, 32, 64, 128"


def test_the_error_of_a_gradient_in_float32_is_one_of_rounding(graph: Data) -> None:
    assert 0 < precision.gradient_error(graph, "fp32", "cpu") < 1e-4


def test_slopes_are_exponents() -> None:
    sizes = (1, 2, 4, 8)
    assert growth.log_log_slope(sizes, [3 * size for size in sizes]) == pytest.approx(1.0)
    assert growth.log_log_slope(sizes, [5 * size**2 for size in sizes]) == pytest.approx(2.0)


def test_growth_is_measured_in_time_and_memory() -> None:
    small = GraphSize(60, features=32, stored=4)
    wanted = [
        growth.Axis("E", "hidden size E", (8, 64), "hidden", small),
        growth.Axis("edges", "edges per node", (2, 8), "degree", small),
    ]
    found = growth.measure_axes(wanted, LOOK)
    assert [(result.case, result.what) for result in found.results] == [
        *(("E", "time"), ("E", "memory"), ("edges", "time"), ("edges", "memory"))
    ]
    hidden = found.extra["growth"][0]
    assert hidden["memory"][1] > hidden["memory"][0] > 0
    assert hidden["slopes"]["memory"] == found.results[1].value


def test_peak_memory_counts_what_torch_and_numpy_hold_at_once() -> None:
    def work() -> None:
        first = torch.empty(100_000)
        del first
        second, third = torch.empty(50_000), np.empty(30_000)
        del second, third

    peak_bytes(work, "cpu")
    _, most = peak_bytes(work, "cpu")
    assert most == pytest.approx(4 * 100_000 + 8 * 30_000, abs=10_000)


@pytest.mark.parametrize("stored", [0, 4])
def test_a_drawn_graph_has_the_sizes_asked_for(stored: int) -> None:
    data = draw_graph(GraphSize(500, degree=6, features=32, stored=stored), seed=0)
    assert data.x.shape == (500, 32)
    assert 0.9 * 6 < data.edge_index.size(1) / 500 <= 6
    if stored:
        assert data.x.values().numel() == 4 * 500
        assert (data.x.to_dense() != 0).sum(dim=1).max() == 4
    again = draw_graph(GraphSize(500, degree=6, features=32, stored=stored), seed=0)
    assert torch.equal(again.edge_index, data.edge_index)


def test_strongest_pairs_are_checked_and_held_to_the_time_allowed() -> None:
    small = [top_pairs.Case(60, 40, 6, words, 2.0) for words in top_pairs.KINDS]
    large = [top_pairs.Case(300, 100, 6, "Zipf", 4.0)]
    found = top_pairs.measure_cases(small, large, LOOK)
    assert len(found.checks) == 4
    shares = [result for result in found.results if result.what == top_pairs.ALLOWED]
    assert [result.case for result in shares] == [case.name for case in (*small, *large)]
    ours = next(timing for timing in found.timings if timing.case == large[0].name)
    assert shares[-1].value == pytest.approx(100 * ours.median / 4.0)


def test_the_way_from_tables_to_a_report_is_walked_as_a_user_does() -> None:
    options = Options(quick=True, rounds=1)
    found = own_tables.measure_way(300, 15, ("--epochs", "2", "--num-splits", "1"), options)
    assert found.results[0].case == "300 nodes, 1,500 edges, 15 columns"
    assert found.results[0].value == pytest.approx(100 * found.timings[0].median / 120)
    assert len(found.checks) == 3 and "1 splits" in found.notes[0]
