from __future__ import annotations

import numpy as np
import pytest
import torch
from architectures import one_thread  # noqa: F401
from classifier_cases import scipy_features, small
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from torch_geometric.data import Data

from crossgcn import RunConfig, train_full_batch
from crossgcn.data.splits import Split
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.estimator.labels import hold_out
from crossgcn.graph import PreparedGraph
from crossgcn.models.catalogue import build_model


@pytest.mark.parametrize("model", ["cross-gcn", "gin"])
@pytest.mark.parametrize("fraction", [0.3, None])
def test_it_is_trained_as_every_model_here(
    small_graph: Data, model: str, fraction: float | None
) -> None:
    classifier = small(model=model, validation_fraction=fraction, dropout=0.4, random_state=3)
    classifier.fit(scipy_features(small_graph), small_graph.y.numpy(), small_graph.edge_index)
    everyone = torch.arange(90)
    train, validation = everyone, everyone
    if fraction is not None:
        train, validation = hold_out(small_graph.y, fraction, 3)
    torch.manual_seed(3)
    order = (2, 1) if model == "cross-gcn" else None
    twin = build_model(model, 24, 3, hidden_channels=8, dropout=0.4, bias=True, order=order)
    result = train_full_batch(
        twin,
        PreparedGraph(small_graph.x, small_graph.edge_index),
        small_graph.y,
        Split(train, validation, validation),
        RunConfig(epochs=30),
        seed=3,
    )
    assert classifier.loss_curve_ == [epoch.train_loss for epoch in result.history]
    if fraction is None:  # the steps are the same; the last epoch is kept
        assert classifier.n_iter_ == classifier.best_epoch_ == 30
        assert classifier.validation_rows_ is None and classifier.validation_scores_ is None
        return
    assert all(map(torch.equal, classifier.model_.state_dict().values(), result.state.values()))
    assert classifier.best_epoch_ == result.best_epoch
    assert classifier.validation_scores_ == [e.validation_score for e in result.history]
    assert classifier.validation_rows_ is not None
    assert classifier.validation_rows_.tolist() == validation.tolist()


@pytest.mark.parametrize("validation_fraction", [None, 0.2])
def test_divergence_says_what_to_do(validation_fraction: float | None) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3)) * 1e17
    classifier = small(validation_fraction=validation_fraction, learning_rate=1e15)
    with pytest.raises(WorkFailed, match=r"diverged: .* in epoch \d+; .*StandardScaler in a Pipe"):
        classifier.fit(X, [0, 1] * 20)
    with pytest.raises(NotFittedError):
        classifier.predict(X)


@given(st.lists(st.integers(-1, 3), min_size=4, max_size=60), st.floats(0.01, 0.99))
def test_held_out_rows_are_of_every_class_in_proportion(labels: list[int], share: float) -> None:
    y = torch.tensor([*labels, 0, 1])
    try:
        kept, held = hold_out(y, share, 0)
    except BadInput:
        assert all(round(share * count) == 0 or count == 1 for count in _counts(y) if count)
        return
    assert sorted([*kept.tolist(), *held.tolist()]) == torch.nonzero(y >= 0).flatten().tolist()
    for label, count in enumerate(_counts(y)):
        drawn = int((y[held] == label).sum())
        assert drawn == (min(round(share * count), count - 1) if count else 0)


def _counts(y: torch.Tensor) -> list[int]:
    return torch.bincount(y[y >= 0]).tolist()
