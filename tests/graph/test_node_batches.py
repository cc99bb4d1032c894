"""Batches: exact where nothing is sampled, unbiased where it is, the same for any processes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from sampling_cases import KINDS, draw_edges, memory_graph, spread
from torch import Tensor
from torch_geometric.data import Data

from crossgcn import BadInput
from crossgcn.graph import PreparedGraph, SparseMatrix
from crossgcn.graph.sampling import batches as node_batches
from crossgcn.graph.sampling.batches import Batch, NodeBatches
from crossgcn.graph.sampling.source import GraphSource, MemoryGraph, source_of

MIXED: Any = ("symmetric", "gcn", "neighbours", "self-loops")


def batches_of(source: GraphSource, kinds: Any, fanouts: Any, **settings: Any) -> NodeBatches:
    settings = {"batch_size": 20, "nodes": torch.arange(60), **settings}
    return NodeBatches(source, settings.pop("nodes"), kinds, fanouts=fanouts, **settings)


def propagate(batch: Batch) -> Tensor:
    """What enters, along all blocks, in float64."""
    assert isinstance(batch.x, Tensor)
    reached = batch.x.double()
    for block in batch.blocks:
        reached = block @ reached
    return reached


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_without_fanouts_blocks_are_the_receptive_field(kind: Any, weighted: bool) -> None:
    x, edges, weight = draw_edges()
    prepared = PreparedGraph(x, edges, weight if weighted else None)
    for batch in batches_of(memory_graph(weighted=weighted), (kind, kind), None).epoch(3):
        assert isinstance(batch.x, Tensor)
        entered, blocks = prepared.view(batch.targets, (kind, kind))
        assert isinstance(entered, Tensor)
        columns = row_numbers(x, batch.x)
        assert sorted(columns) == sorted(row_numbers(x, entered))
        first, last = batch.blocks
        assert last.own is not None and torch.equal(
            last.own_rows(columns[: last.shape[1]]), batch.targets
        )
        middle = columns[: last.shape[1]]
        ours = spread(last, batch.targets, middle, 60)
        np.testing.assert_allclose(ours, whole_rows(prepared, kind, batch.targets), rtol=1e-5)
        ours = spread(first, middle, columns, 60)
        np.testing.assert_allclose(ours, whole_rows(prepared, kind, middle), rtol=1e-5)
        theirs = blocks[1] @ (blocks[0] @ entered)
        torch.testing.assert_close(last @ (first @ batch.x), theirs, rtol=1e-6, atol=1e-6)


def row_numbers(x: Tensor, rows: Tensor) -> Tensor:
    return torch.cat([(x == row).all(dim=1).nonzero().flatten() for row in rows])


def whole_rows(prepared: PreparedGraph, kind: Any, rows: Tensor) -> Any:
    return prepared.edges(kind).to_scipy().toarray()[rows.numpy()]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kinds", [*((kind,) for kind in KINDS), MIXED])
def test_sampled_sums_are_the_whole_graphs_on_average(kinds: Any, weighted: bool) -> None:
    source = memory_graph(weighted=weighted)
    rounds = 400
    exact = batches_of(source, kinds, None, batch_size=60, shuffle=False)
    wanted = propagate(next(exact.epoch(0)))
    fanouts = [3, 2, 4, 2][: len(kinds)]
    sampled = batches_of(source, kinds, fanouts, batch_size=60, shuffle=False)
    drawn = torch.stack([propagate(next(sampled.epoch(epoch))) for epoch in range(rounds)])
    error = drawn.std(dim=0) / rounds**0.5
    off = (drawn.mean(dim=0) - wanted).abs() / (error + 1e-5 * wanted.abs() + 1e-9)
    assert off.max() < 5.5
    assert (error > 0).float().mean() > 0.8


def test_a_node_counts_itself_exactly_and_draws_without_replacement() -> None:
    source = memory_graph()
    whole = next(batches_of(source, ("gcn",), None, batch_size=60, shuffle=False).epoch(0))
    drawn = next(batches_of(source, ("gcn",), [4], batch_size=60, shuffle=False).epoch(0))
    exact, sampled = (
        spread(batch.blocks[0], batch.targets, torch.arange(60), 60) for batch in (whole, drawn)
    )
    np.testing.assert_allclose(np.diag(sampled), np.diag(exact), rtol=1e-6)
    neighbours = (exact != 0).sum(axis=1) - 1
    kept = (sampled != 0).sum(axis=1) - 1
    np.testing.assert_array_equal(kept, np.minimum(neighbours, 4))
    scale = neighbours / np.maximum(kept, 1)
    others = (sampled != 0) & ~np.eye(60, dtype=bool)
    np.testing.assert_allclose(sampled[others], (exact * scale[:, None])[others], rtol=1e-5)


def drawn_by_node(block: SparseMatrix, x: Tensor, entered: Any) -> dict[int, set[int]]:
    """What was drawn for each node that has many neighbours, itself included."""
    columns = row_numbers(x, entered)[: block.shape[1]]
    offsets = memory_graph().offsets
    return {
        int(columns[row]): set(
            columns[block.columns[block.row_offsets[row] : block.row_offsets[row + 1]]].tolist()
        )
        for row in range(block.shape[0])
        if offsets[columns[row] + 1] - offsets[columns[row]] > 6
    }


def test_hops_and_batches_draw_independently_for_the_same_node() -> None:
    source = memory_graph()
    first, second = list(batches_of(source, ("gcn", "gcn"), [2, 2], batch_size=30).epoch(0))
    for left, right in (
        ((first, 0), (first, 1)),
        ((first, 0), (second, 0)),
    ):
        one, other = (
            drawn_by_node(batch.blocks[hop], draw_edges()[0], batch.x)
            for batch, hop in (left, right)
        )
        both = one.keys() & other.keys()
        same = sum(one[node] == other[node] for node in both)
        assert len(both) > 10 and same < len(both) / 3


def test_left_alone_drawn_edges_keep_their_weights() -> None:
    source = memory_graph()
    plain = next(batches_of(source, ("self-loops",), [2], rescaled=[False]).epoch(0))
    whole = next(batches_of(source, ("self-loops",), None).epoch(0))
    sums = [
        (batch.blocks[0] @ torch.ones(batch.blocks[0].shape[1], 1)).flatten().tolist()
        for batch in (plain, whole)
    ]
    assert all(few <= all_ + 1e-5 for few, all_ in zip(*sums, strict=True)) and sums[0] != sums[1]


@pytest.mark.parametrize("fanouts", [[3, 2], None])
@pytest.mark.parametrize("world_size", [2, 3, 7])
def test_any_number_of_processes_does_the_work_of_one(world_size: int, fanouts: Any) -> None:
    source = memory_graph()
    alone = batches_of(source, ("gcn", "gcn"), fanouts, seed=9)
    shared = [
        batches_of(source, ("gcn", "gcn"), fanouts, seed=9, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    for epoch in (0, 1):
        for whole, *parts in zip(
            alone.epoch(epoch), *(each.epoch(epoch) for each in shared), strict=True
        ):
            assert {part.num_targets_everywhere for part in parts} == {whole.targets.numel()}
            for name in ("targets", "labels"):
                joined = torch.cat([getattr(part, name) for part in parts])
                assert torch.equal(joined, getattr(whole, name))
            joined = torch.cat([propagate(part) for part in parts])
            torch.testing.assert_close(joined, propagate(whole), rtol=1e-12, atol=1e-12)


def test_an_epoch_goes_through_every_node_once_in_an_order_of_its_own() -> None:
    batches = batches_of(memory_graph(), ("gcn",), [2], batch_size=25)
    orders = [torch.cat([b.targets for b in batches.epoch(e)]).tolist() for e in range(2)]
    assert len(batches) == 3
    assert all(Counter(order) == Counter(range(60)) for order in orders)
    assert orders[0] != orders[1] != list(range(60))
    still = batches_of(memory_graph(), ("gcn",), [2], shuffle=False)
    assert torch.cat([b.targets for b in still.epoch(5)]).tolist() == list(range(60))


def test_threads_change_nothing_and_stop_when_nobody_looks(small_graph: Data) -> None:
    source = source_of(small_graph)
    settings: dict[str, Any] = {"batch_size": 7, "nodes": torch.arange(90), "seed": 3}
    alone = batches_of(source, ("gcn", "gcn"), [3, 3], **settings)
    ahead = batches_of(source, ("gcn", "gcn"), [3, 3], num_workers=3, **settings)
    for one, other in zip(alone.epoch(4), ahead.epoch(4), strict=True):
        for left, right in zip((one.x, *one.blocks), (other.x, *other.blocks), strict=True):
            assert isinstance(left, SparseMatrix) and isinstance(right, SparseMatrix)
            for name in ("row_offsets", "columns", "values"):
                assert torch.equal(getattr(left, name), getattr(right, name))
    started: Any = ahead.epoch(0)
    next(started)
    started.close()


def test_a_share_may_be_empty_and_no_propagation_needs_no_block() -> None:
    share = batches_of(memory_graph(), ("gcn", "gcn"), [2, 2], batch_size=1, rank=1, world_size=2)
    batch = next(share.epoch(0))
    assert batch.num_targets_everywhere == 1 and batch.targets.numel() == 0
    assert propagate(batch).shape == (0, 6)
    batch = next(batches_of(memory_graph(), (), None).epoch(0))
    assert batch.blocks == ()
    torch.testing.assert_close(propagate(batch).float(), memory_graph().features(batch.targets))
    assert list(batches_of(memory_graph(), (), None, nodes=torch.arange(0)).epoch(0)) == []


@pytest.mark.parametrize("entries", [0, 100, 1 << 18])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("world_size", [1, 3])
def test_rows_that_are_read_ahead_are_those_of_each_batch(
    entries: int, sparse: bool, world_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_batches, "_ENTRIES_AHEAD", entries)
    x, edges, _ = draw_edges()
    y = torch.arange(60) % 7
    source = MemoryGraph(x.to_sparse_csr() if sparse else x, edges, None, y)
    for rank in range(world_size):
        ours = batches_of(source, (), None, batch_size=7, rank=rank, world_size=world_size)
        pairs = zip(ours.epoch(2), ours.shares(2), strict=True)
        for batch, (targets, everywhere) in pairs:
            assert torch.equal(batch.targets, targets)
            assert batch.num_targets_everywhere == everywhere
            assert torch.equal(batch.labels, y[targets])
            rows = batch.x
            if isinstance(rows, SparseMatrix):
                rows = torch.from_numpy(rows.to_scipy().toarray())
            assert torch.equal(rows, x[targets])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kinds": ("gcn", "gcn")}, r"fanouts \[2\] are for 1 hops, but the model has 2"),
        ({"kinds": ("gnc",)}, "gcn"),
        ({"fanouts": [0]}, "at least 1, or -1 for all"),
        ({"batch_size": 0}, "batch_size must be at least 1; got 0"),
        ({"rank": 2, "world_size": 2}, "rank is from 0 to world_size - 1 = 1; got 2"),
        ({"nodes": torch.tensor([1, 2, 1])}, "a node occurs twice"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    settings = {"kinds": ("gcn",), "fanouts": [2], **settings}
    with pytest.raises(BadInput, match=message):
        batches_of(memory_graph(), settings.pop("kinds"), settings.pop("fanouts"), **settings)
