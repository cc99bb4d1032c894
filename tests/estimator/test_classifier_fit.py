from __future__ import annotations

import numpy as np
import pytest
import torch
from architectures import one_thread  # noqa: F401
from classifier_cases import scipy_features, small
from sklearn.exceptions import NotFittedError
from torch_geometric.data import Data

from crossgcn import RunConfig, train_full_batch
from crossgcn.data.splits import Split
from crossgcn.errors import WorkFailed
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
        train, validation = hold_out(everyone, small_graph.y.numpy(), fraction, 3)
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


def test_held_out_rows_are_of_every_class_in_proportion() -> None:
    rows = torch.tensor([2, 3, 5, 7, 11, 13, 17, 19, 23, 29])
    labels = np.array(["a"] * 6 + ["b"] * 4)
    train, held_out = hold_out(rows, labels, 0.5, seed=0)
    assert sorted([*train.tolist(), *held_out.tolist()]) == rows.tolist()
    assert [int((held_out <= 13).sum()), int((held_out > 13).sum())] == [3, 2]
    assert torch.equal(hold_out(rows, labels, 0.5, seed=0)[1], held_out)
    assert not torch.equal(hold_out(rows, labels, 0.5, seed=1)[1], held_out)
