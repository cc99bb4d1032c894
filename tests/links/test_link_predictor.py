from __future__ import annotations

from itertools import permutations
from statistics import fmean
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score
from torch_geometric.data import Data

from crossgcn.errors import BadInput
from crossgcn.graph import PreparedGraph
from crossgcn.links.settings import Decoder, LinkSettings
from crossgcn.links.training import (
    LinkPredictor,
    PairDecoder,
    area_under_curve,
    link_metrics,
    metric_names,
)


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


HITS = (1, 2, 3, 5)
scores = st.lists(st.integers(-2, 2).map(float), min_size=1, max_size=5)


def by_breaking_ties(positives: list[float], negatives: list[float]) -> dict[str, float]:
    """The obvious way: each positive put in every order with the negatives it is level with."""
    ranks: list[list[int]] = []
    for positive in positives:
        above = sum(negative > positive for negative in negatives)
        level = sum(negative == positive for negative in negatives)
        orders = permutations(["positive", *(f"negative {i}" for i in range(level))])
        ranks.append([above + order.index("positive") + 1 for order in orders])
    count = len(negatives)

    def mean(value: list[list[float]]) -> float:
        return fmean(fmean(of_one) for of_one in value)

    return {
        "auc": mean([[(count + 1 - rank) / count for rank in of_one] for of_one in ranks]),
        **{f"hits@{k}": mean([[float(rank <= k) for rank in one] for one in ranks]) for k in HITS},
        "mrr": mean([[1 / rank for rank in of_one] for of_one in ranks]),
    }


@given(scores, scores)
def test_ties_are_broken_in_nobodys_favour(positives: list[float], negatives: list[float]) -> None:
    found = link_metrics(np.array(positives), np.array(negatives), HITS)
    for name, value in by_breaking_ties(positives, negatives).items():
        assert found[name] == pytest.approx(value, abs=1e-12), name


@given(scores, scores)
def test_scikit_learn_agrees(positives: list[float], negatives: list[float]) -> None:
    labels = [1] * len(positives) + [0] * len(negatives)
    found = link_metrics(np.array(positives), np.array(negatives), HITS)
    assert found["auc"] == pytest.approx(roc_auc_score(labels, positives + negatives))
    assert found["ap"] == pytest.approx(average_precision_score(labels, positives + negatives))


def test_scores_without_ties_have_the_ranks_that_one_can_count() -> None:
    found = link_metrics(np.array([0.9, 0.5, 0.1]), np.array([0.8, 0.7, 0.3, 0.2]), (1, 3))
    assert found["mrr"] == pytest.approx((1 + 1 / 3 + 1 / 5) / 3)
    assert found["hits@1"] == pytest.approx(1 / 3)
    assert found["hits@3"] == pytest.approx(2 / 3)
    assert found["auc"] == pytest.approx((4 + 2 + 0) / 12)


@pytest.mark.parametrize("num_negatives", [1, 100, 455])
def test_a_constant_scorer_gets_what_a_guesser_gets(num_negatives: int) -> None:
    constant = link_metrics(np.zeros(30), np.zeros(num_negatives), (1,))
    ranks = np.arange(1, num_negatives + 2)
    assert constant["auc"] == 0.5
    assert constant["mrr"] == pytest.approx((1 / ranks).mean())
    assert constant["hits@1"] == pytest.approx(1 / len(ranks))


def test_guesses_average_to_the_constant_scorer() -> None:
    generator = np.random.default_rng(0)
    drawn = [link_metrics(generator.random(200), generator.random(50), (10,)) for _ in range(400)]
    constant = link_metrics(np.zeros(200), np.zeros(50), (10,))
    for name in ("auc", "hits@10", "mrr"):
        assert fmean(found[name] for found in drawn) == pytest.approx(constant[name], rel=0.02)


def test_a_perfect_scorer_gets_one_and_a_perverse_one_the_least_there_is() -> None:
    high, low = np.array([3.0, 4.0]), np.array([1.0, 2.0, 0.0])
    assert set(link_metrics(high, low, (1, 3)).values()) == {1.0}
    worst = link_metrics(low, high, (1, 2))
    assert worst["auc"] == worst["hits@2"] == 0.0
    assert worst["mrr"] == pytest.approx(1 / 3)


def test_selection_and_test_mean_the_same_by_auc() -> None:
    positives, negatives = np.array([0.5, 0.1], np.float32), np.array([0.3], np.float32)
    assert area_under_curve(positives, negatives) == 0.5
    assert link_metrics(positives, negatives, ())["auc"] == 0.5


def test_names_are_those_of_the_metrics_in_their_order() -> None:
    assert tuple(link_metrics(np.ones(2), np.zeros(9), (5, 2))) == metric_names((5, 2))
