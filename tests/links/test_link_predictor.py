from __future__ import annotations

from typing import cast

import pytest
import torch
from torch_geometric.data import Data

from crossgcn.errors import BadInput
from crossgcn.graph import PreparedGraph
from crossgcn.links.predictor import LinkPredictor, PairDecoder
from crossgcn.links.settings import Decoder, LinkSettings


@pytest.mark.parametrize("kind", ["dot", "hadamard"])
def test_a_score_is_the_sum_over_channels_and_so_is_its_gradient(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.randn(6, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    decoder = PairDecoder(cast(Decoder, kind), 4).double()
    if decoder.weight is not None:
        torch.nn.init.normal_(decoder.weight, generator=generator)
    pairs = torch.tensor([[0, 0, 2, 0], [1, 5, 3, 1]])
    weight = torch.ones(4, dtype=torch.float64) if decoder.weight is None else decoder.weight
    slow = torch.stack(
        [
            torch.stack([weight[c] * embeddings[a, c] * embeddings[b, c] for c in range(4)]).sum()
            for a, b in pairs.t().tolist()
        ]
    )
    fast = decoder(embeddings, pairs)
    torch.testing.assert_close(fast, slow)
    slope = torch.tensor([1.0, -2.0, 3.0, 0.5], dtype=torch.float64)
    wanted = [embeddings, *decoder.parameters()]
    for ours, theirs in zip(
        torch.autograd.grad(fast, wanted, slope),
        torch.autograd.grad(slow, wanted, slope),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(decoder(embeddings, pairs.flip(0)), fast)


def test_hadamard_starts_as_the_inner_product() -> None:
    embeddings, pairs = torch.randn(5, 3), torch.tensor([[0, 1], [2, 4]])
    dot, hadamard = PairDecoder("dot", 3), PairDecoder("hadamard", 3)
    torch.testing.assert_close(dot(embeddings, pairs), hadamard(embeddings, pairs))
    assert [p.numel() for p in hadamard.parameters()] == [3]


@pytest.mark.parametrize("preset", ["gcn", "cross-gcn", "gin", "mlp"])
def test_any_encoder_scores_pairs_of_its_embeddings(preset: str, small_graph: Data) -> None:
    settings = LinkSettings(embedding_channels=7)
    predictor = LinkPredictor(preset, 24, settings, hidden_channels=5).eval()
    graph = PreparedGraph(small_graph.x, small_graph.edge_index)
    edges = tuple(graph.edges(kind) for kind in predictor.encoder.propagations)
    embeddings = predictor.encoder(graph.x, edges)
    assert embeddings.shape == (90, 7)
    pairs = torch.tensor([[3, 8], [40, 9]])
    expected = (embeddings[pairs[0]] * embeddings[pairs[1]]).sum(dim=1)
    torch.testing.assert_close(predictor(graph.x, edges, pairs), expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"decoder": "dott"}, "unknown decoder 'dott': did you mean 'dot'"),
        ({"folds": 1}, "folds is 1; give at least 2"),
        ({"embedding_channels": 0}, "embedding_channels is 0; give at least 1"),
        ({"hits_at": (10, 0)}, "hits_at is 0; give at least 1"),
        ({"hits_at": (10, 10)}, r"hits_at is \[10, 10\]; give every rank once"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        LinkSettings(**settings)  # type: ignore[arg-type]
