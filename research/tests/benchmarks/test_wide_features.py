from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
import torch

from crossgcn.errors import WorkFailed
from crossgcn.graph import PreparedGraph
from research.benchmarks import wide_features
from research.benchmarks.harness.command import Options
from research.benchmarks.harness.peak_rss import peak_rss
from research.benchmarks.harness.wide import EmbeddingBags, WideSize, build, draw_wide

pytestmark = pytest.mark.usefixtures("one_thread")
LOOK = Options(quick=True, rounds=2)
SMALL = WideSize(nodes=300, features=6_000, stored=12, hidden=4)


def test_words_are_distinct_sparse_and_many_never_occur() -> None:
    x = draw_wide(SMALL, seed=1).x
    lengths = x.crow_indices().diff()
    assert lengths.max() <= 12 and lengths.double().mean() > 11
    columns, rows = x.col_indices(), torch.arange(300).repeat_interleave(lengths)
    assert len({*zip(rows.tolist(), columns.tolist(), strict=True)}) == columns.numel()
    counts = np.bincount(columns, minlength=6_000)
    assert (counts == 0).mean() > 0.3 and counts.max() > 10


def test_both_sides_are_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"train_ours": 2**30, "train_peer": 3 * 2**30}

    def count(work: Any, *arguments: object) -> int:
        work(*arguments)
        return held[work.__name__]

    monkeypatch.setattr(wide_features, "peak_rss", count)
    monkeypatch.setattr(wide_features, "available_cores", lambda: 1)
    found = wide_features.measure_size(SMALL, LOOK)
    (check,) = found.checks
    assert check.error < 1e-5
    results = {result.what: result for result in found.results}
    assert results["share of the memory allowed"].value == pytest.approx(25.0)
    medians = {timing.side: timing.median for timing in found.timings}
    assert set(medians) == {"ours", "two EmbeddingBags", "ours, dropout 0.5"}
    assert found.extra["peak_bytes"] == {"ours": 2**30, "two EmbeddingBags": 3 * 2**30}


def test_another_model_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    data = draw_wide(SMALL, seed=1)
    graph = PreparedGraph(data.x, data.edge_index)

    class Shifted(EmbeddingBags):
        def forward(self) -> torch.Tensor:
            return super().forward() + 0.1 * torch.arange(8)

    monkeypatch.setattr(wide_features, "EmbeddingBags", Shifted)
    with pytest.raises(WorkFailed, match="losses of 6 steps"):
        wide_features.compare(SMALL, graph, data.y, LOOK).require()


def test_the_peers_weights_are_copies() -> None:
    data = draw_wide(SMALL, seed=1)
    model = build(SMALL)
    before = [weight.detach().clone() for weight in model.parameters()]
    EmbeddingBags(model, PreparedGraph(data.x, data.edge_index), data.y).step()
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))


def test_the_memory_of_a_process_of_its_own_is_counted() -> None:
    assert 2**27 < peak_rss(operator.mul, b"x", 2**27) < 2**27 + 2**28
