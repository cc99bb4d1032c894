from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.graph import canonical_graph
from crossgcn.errors import WorkFailed
from crossgcn.graph import SparseMatrix
from crossgcn.links.edge_splits import EdgeSplit, find_pairs, make_edge_splits, message_edges
from crossgcn.links.settings import LinkSettings
from crossgcn.links.training import LinkBatches, LinkPredictor, area_under_curve, train_links
from crossgcn.models.node_classifier import calibrate
from crossgcn.training.config import RunConfig

Pairs = set[tuple[int, int]]
FOLDS = 4


@pytest.fixture
def data(small_graph: Data) -> Data:
    """With a self-loop, which is no link and always carries."""
    loop = torch.tensor([[7], [7]])
    edges = torch.cat([small_graph.edge_index, loop], dim=1)
    return canonical_graph(Data(**{**small_graph.to_dict(), "edge_index": edges}))


@pytest.fixture
def split(data: Data) -> EdgeSplit:
    return make_edge_splits(data, num_splits=1, test_share=0.2, validation_share=0.1)[0]


def as_set(pairs: Tensor) -> Pairs:
    return {(min(a, b), max(a, b)) for a, b in pairs.t().tolist()}


def edges_in(adjacency: SparseMatrix) -> Pairs:
    """Which different nodes exchange messages, in either direction."""
    matrix = adjacency.to_scipy().tocoo()
    rows, columns = (ends.tolist() for ends in matrix.coords)
    return {(min(a, b), max(a, b)) for a, b in zip(rows, columns, strict=True) if a != b}


def make_predictor(seed: int = 0, preset: str = "cross-gcn", **settings: Any) -> LinkPredictor:
    torch.manual_seed(seed)
    return LinkPredictor(preset, 24, LinkSettings(embedding_channels=8), **settings)


def train(
    data: Data, split: EdgeSplit, predictor: LinkPredictor, *, seed: int = 0, **changes: Any
) -> SimpleNamespace:
    steps = LinkBatches(data, split, predictor.encoder.propagations, folds=FOLDS, seed=seed)
    config = RunConfig(**{"epochs": 9, "weight_decay": 0.0} | changes)
    x = SparseMatrix.from_torch(data.x)
    found, history = train_links(predictor, x, steps, split, config, seed=seed, hits_at=(5,))
    return SimpleNamespace(**found, history=history)


class Seen:
    """What a predictor was shown and asked, call by call."""

    def __init__(self, predictor: LinkPredictor) -> None:
        self.calls: list[tuple[bool, Pairs, Pairs]] = []
        self._edges: Pairs = set()
        predictor.encoder.register_forward_pre_hook(self._look_at_edges)
        predictor.decoder.register_forward_pre_hook(self._look_at_pairs)

    def _look_at_edges(self, module: torch.nn.Module, given: tuple[Any, ...]) -> None:
        adjacencies: Sequence[SparseMatrix] = given[1]
        self._edges = set().union(*map(edges_in, adjacencies))

    def _look_at_pairs(self, module: torch.nn.Module, given: tuple[Any, ...]) -> None:
        self.calls.append((module.training, self._edges, as_set(given[1])))


@pytest.mark.parametrize("preset", ["gcn", "cross-gcn", "gin"])
def test_no_step_shows_an_edge_that_it_asks_for(data: Data, split: EdgeSplit, preset: str) -> None:
    """Nor one of validation or test; and no pair that those will score is ever asked for."""
    predictor = make_predictor(preset=preset)
    seen = Seen(predictor)
    train(data, split, predictor, epochs=2 * FOLDS + 1)
    training = as_set(split.train)
    sealed = set().union(*(as_set(p) for name, p in vars(split).items() if name != "train"))
    steps = [(shown, asked) for in_training, shown, asked in seen.calls if in_training]
    assert len(steps) == 2 * FOLDS + 1
    for shown, asked in steps:
        assert not shown & asked
        assert shown <= training
        assert not asked & sealed
        assert shown | (asked & training) == training
        assert len(asked & training) == len(asked - training) > 0
    asked_in_turn = [asked & training for _, asked in steps]
    assert set().union(*asked_in_turn[:FOLDS]) == training
    assert asked_in_turn[:FOLDS] == asked_in_turn[FOLDS : 2 * FOLDS]
    assert steps[0][1] - training != steps[FOLDS][1] - training


def test_held_out_pairs_are_scored_from_training_edges_and_test_pairs_once(
    data: Data, split: EdgeSplit
) -> None:
    predictor = make_predictor()
    seen = Seen(predictor)
    train(data, split, predictor)
    *validations, test = [call[1:] for call in seen.calls if not call[0]]
    for shown, asked in validations:
        assert shown == as_set(split.train)
        assert asked == as_set(split.validation) | as_set(split.validation_negatives)
    assert len(validations) == 9
    assert test == (as_set(split.train), as_set(split.test) | as_set(split.test_negatives))


def test_a_graph_that_never_had_the_held_out_edges_gives_the_same_weights(
    data: Data, split: EdgeSplit
) -> None:
    edge_index, _ = message_edges(data, split.train)
    bare = canonical_graph(Data(**{**data.to_dict(), "edge_index": edge_index}))
    assert find_pairs(bare).size(1) < find_pairs(data).size(1)
    predictors = make_predictor(), make_predictor()
    ours, theirs = map(train, (data, bare), (split, split), predictors)
    assert ours.history == theirs.history and ours.test == theirs.test
    states = (predictor.state_dict() for predictor in predictors)
    for ours_after, theirs_after in zip(*(state.values() for state in states), strict=True):
        assert torch.equal(ours_after, theirs_after)


def test_other_test_pairs_change_nothing_but_the_test_metrics(data: Data, split: EdgeSplit) -> None:
    """Swapped, they have the other label; training that looked at either would differ."""
    swapped = EdgeSplit(
        split.train,
        split.validation,
        split.test_negatives,
        split.validation_negatives,
        split.test,
    )
    ours, theirs = (train(data, one, make_predictor()) for one in (split, swapped))
    assert ours.history == theirs.history
    assert ours.test["auc"] == pytest.approx(1 - theirs.test["auc"])


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(
    data: Data, split: EdgeSplit
) -> None:
    first, again, other = (
        train(data, split, make_predictor(), seed=seed, weight_decay=1e-3) for seed in (3, 3, 4)
    )
    assert first.history == again.history and first.test == again.test
    assert first.history != other.history


def test_nodes_left_out_at_random_are_decided_by_the_seed(data: Data, split: EdgeSplit) -> None:
    """By torch's generator they would differ, though nothing else does."""
    results = []
    for elsewhere in (1, 2):
        predictor = make_predictor(aggr="random-propagation")
        torch.manual_seed(elsewhere)
        results.append(train(data, split, predictor))
    assert results[0].history == results[1].history and results[0].test == results[1].test
    other = train(data, split, make_predictor(aggr="random-propagation"), seed=1)
    assert other.history != results[0].history


def test_unit_scaling_is_measured_on_the_message_graph_before_training(
    data: Data, split: EdgeSplit
) -> None:
    plain, unit, by_hand = (make_predictor(scaling=name) for name in ("none", "unit", "unit"))
    x = SparseMatrix.from_torch(data.x)
    steps = LinkBatches(data, split, by_hand.encoder.propagations, folds=FOLDS, seed=0)
    calibrate(by_hand.encoder, x, steps.all_edges)
    results = [train(data, split, predictor) for predictor in (plain, unit, by_hand)]
    assert unit.encoder.is_calibrated
    assert results[1].history == results[2].history
    assert results[1].history[0]["train_loss"] != results[0].history[0]["train_loss"]
    huge = canonical_graph(Data(**{**data.to_dict(), "x": data.x * 1e6}))
    scaled = train(huge, split, make_predictor(scaling="unit"))
    assert scaled.history[0]["train_loss"] == pytest.approx(
        results[1].history[0]["train_loss"], rel=0.01
    )


def test_the_first_best_epoch_is_kept_and_its_weights_are_its_own(
    data: Data, split: EdgeSplit
) -> None:
    """Weights that went on changing after they were kept would not give its score again."""
    predictor = make_predictor()
    result = train(data, split, predictor, epochs=40, learning_rate=0.05)
    aucs = [epoch["validation_auc"] for epoch in result.history]
    assert len(aucs) == 40
    assert result.best_epoch == int(np.argmax(aucs)) + 1 < 40
    assert result.validation_auc == max(aucs)
    x = SparseMatrix.from_torch(data.x)
    steps = LinkBatches(data, split, predictor.encoder.propagations, folds=FOLDS, seed=0)
    with torch.no_grad():
        scores = [
            predictor.eval()(x, steps.all_edges, pairs).numpy()
            for pairs in (split.validation, split.validation_negatives)
        ]
    assert area_under_curve(*scores) == result.validation_auc


def test_features_that_tell_who_is_linked_are_learnt(data: Data, split: EdgeSplit) -> None:
    predictor = make_predictor(hidden_channels=16, dropout=0.0)
    result = train(data, split, predictor, epochs=60)
    assert result.history[-1]["train_loss"] < 0.9 * result.history[0]["train_loss"]
    assert result.test["auc"] > 0.6


def test_learned_order_weights_are_decayed_with_the_matrices(data: Data, split: EdgeSplit) -> None:
    norms = []
    for decay in (0.0, 1.0):
        predictor = make_predictor(preset="cross-gcn-release")
        train(data, split, predictor, weight_decay=decay, epochs=10)
        norms.append(sum(float(p.detach().square().sum()) for p in predictor.parameters()))
    assert norms[1] < norms[0]


def test_training_that_diverges_says_when_and_what_to_try(data: Data, split: EdgeSplit) -> None:
    with pytest.raises(WorkFailed, match=r"loss became .* in epoch \d+; try a lower --learning"):
        train(data, split, make_predictor(), learning_rate=1e30)
