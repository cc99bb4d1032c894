from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

from crossgcn.graph import PreparedGraph
from research.benchmarks.harness.roofline import (
    Ceilings,
    StepShape,
    Work,
    roofline_seconds,
    shape_of_step,
    step_work,
)

SHAPE = StepShape(
    inputs=50,
    hidden=20,
    targets=5,
    first_edges=200,
    second_edges=40,
    features=30,
    hidden_channels=8,
    classes=3,
    order=2,
)


def test_rows_and_edges_are_those_of_the_receptive_field(small_graph: Data) -> None:
    train = torch.tensor([3, 40, 77])
    shape = shape_of_step(
        small_graph.edge_index, 90, train, features=24, hidden_channels=8, classes=3, order=2
    )
    x, (first, second) = PreparedGraph(small_graph.x, small_graph.edge_index).view(train, 2)
    assert (shape.inputs, shape.hidden, shape.targets) == (x.shape[0], first.shape[0], 3)
    assert (shape.first_edges, shape.second_edges) == (first.nonzeros, second.nonzeros)


def test_products_count_two_operations_for_each_pair() -> None:
    operations = {part.name: part.operations for part in step_work(SHAPE, 4)}
    assert operations["project features"] == 2 * 50 * 30 * 16
    assert operations["gradient of first weights"] == 2 * 50 * 30 * 16
    assert sum(operations.values()) == 4 * 50 * 30 * 16 + 6 * 20 * 8 * 6


def test_edges_gather_a_row_each_forward_and_back() -> None:
    gathered = sum(part.gathered_bytes for part in step_work(SHAPE, 4))
    assert gathered == 2 * 4 * (200 * 8 + 40 * 3)


def test_without_crosses_no_projection_is_kept() -> None:
    parts = {part.name: part for part in step_work(replace(SHAPE, order=1), 4)}
    weights = 4 * 30 * 8
    assert parts["project features"].memory_bytes == 4 * 50 * (30 + 8) + weights
    assert parts["propagate hidden back"].memory_bytes == 4 * (20 + 50) * 8 + 8 * 200
    crossed = {part.name: part for part in step_work(SHAPE, 4)}
    assert crossed["project features"].memory_bytes == 4 * 50 * (30 + 3 * 8) + 2 * weights


def test_halving_the_bytes_of_values_leaves_edges_and_parameters() -> None:
    whole, half = (list(step_work(SHAPE, size)) for size in (4, 2))
    adam = next(part for part in half if part.name == "Adam")
    assert adam.memory_bytes == 28 * (16 * 30 + 6 * 8)
    for large, small in zip(whole, half, strict=True):
        assert large.memory_bytes / 2 <= small.memory_bytes <= large.memory_bytes


def test_a_part_takes_as_long_as_its_slowest_resource() -> None:
    ceilings = Ceilings(100.0, 10.0, 20.0)
    assert ceilings.seconds(Work("product", operations=300, memory_bytes=10)) == 3.0
    assert ceilings.seconds(Work("copy", operations=100, memory_bytes=50)) == 5.0
    assert ceilings.seconds(Work("gather", memory_bytes=10, gathered_bytes=80)) == 4.0
    parts = [Work("a", operations=300), Work("b", memory_bytes=50)]
    assert roofline_seconds(parts, ceilings) == pytest.approx(8.0)
