"""Receptive fields are kept from one look to the next while they are small, features and all."""

from __future__ import annotations

import pytest
import torch

from crossgcn.graph.sampling.source import MemoryGraph
from crossgcn.models.catalogue import build_model
from crossgcn.training.batches import scoring as mini_batch_scoring
from crossgcn.training.batches.scoring import ExactScorer
from crossgcn.training.distributed import Processes


@pytest.mark.parametrize(("width", "kept"), [(8, True), (800, False)])
def test_wide_features_count_for_what_is_kept(
    width: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mini_batch_scoring, "_KEPT_BYTES", 30_000)
    edges = torch.stack([torch.arange(60), torch.arange(60).roll(1)])
    x = torch.randn(60, width, generator=torch.Generator().manual_seed(0))
    source = MemoryGraph(x, edges, y=torch.arange(60) % 3)
    model = build_model("gcn", width, 3, num_layers=2, hidden_channels=4, dropout=0.0)
    nodes = torch.arange(20)
    scorer = ExactScorer(model, source, nodes, torch.device("cpu"), "fp32", Processes())
    scorer.by_fields = True
    first = scorer()
    assert (scorer._kept is not None) == kept
    assert scorer() == first
