from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pandas as pd
import pytest
import torch
from architectures import one_thread  # noqa: F401
from classifier_cases import scipy_features
from shop_tables import make_shop
from sklearn.base import clone
from torch_geometric.data import Data

from crossgcn.data.graph_file import save_graph
from crossgcn.data.tables.graph import load_tables
from crossgcn.data.tables.plan import TableChoices
from crossgcn.estimator.estimators import CrossGCNClassifier
from crossgcn.experiments.predict import class_scores
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.checkpoints import load_model

HISTORY = ("n_iter_", "best_epoch_", "loss_curve_", "validation_scores_", "validation_rows_")


def test_a_model_trained_on_the_command_line_is_a_classifier(
    small_graph: Data, tmp_path: Path, crossgcn: Callable[..., CompletedProcess[str]]
) -> None:
    save_graph(tmp_path / "small.npz", small_graph)
    options = ("--splits", "public", "--epochs", 20, "--hidden-channels", 8, "--workers", 1)
    done = crossgcn("train", "small.npz", *options, "--out", "run")
    assert done.returncode == 0, done.stderr
    folder = next(Path("run").glob("*/*/model.safetensors")).parent
    loaded = CrossGCNClassifier.load(folder)
    X, edges = scipy_features(small_graph), small_graph.edge_index
    model: NodeClassifier = load_model(folder)
    with torch.no_grad():
        expected = model(small_graph.x, edges).argmax(dim=1)
    assert loaded.predict(X, edges).tolist() == [str(int(label)) for label in expected]
    assert (loaded.order, loaded.hidden_channels, loaded.bias) == (2, 8, None)
    assert not any(hasattr(loaded, name) for name in HISTORY)
    whole = CrossGCNClassifier.load("run")  # knows its graph
    assert whole.predict(X).tolist() == whole.predict(X, edges).tolist()
    assert whole.predict(X[5:9]).tolist() == whole.predict(X)[5:9].tolist()
    with pytest.warns(UserWarning, match="give edge_index"):
        loaded.predict(X)
    anew = clone(loaded).set_params(epochs=1).fit(X, small_graph.y.numpy(), edges)
    shapes = [value.shape for value in loaded.model_.state_dict().values()]
    assert [value.shape for value in anew.model_.state_dict().values()] == shapes


def test_a_model_of_tables_is_a_classifier_of_encoded_tables(
    tmp_path: Path, crossgcn: Callable[..., CompletedProcess[str]]
) -> None:
    shop = make_shop(300)
    shop.nodes.to_csv("nodes.csv", index=False)
    shop.edges.to_csv("edges.csv", index=False)
    options = ("--target", "buys", "--epochs", 20, "--num-splits", 1, "--workers", 1)
    done = crossgcn(
        "train", "nodes.csv", "edges.csv", "--model", "cross-gcn", *options, "--out", "run"
    )
    assert done.returncode == 0, done.stderr
    graph = load_tables("nodes.csv", "edges.csv", TableChoices(target="buys"))
    scores = class_scores(load_model("run"), graph.data)
    expected = [graph.classes[label] for label in scores.argmax(dim=1)]
    assert len(set(expected)) > 1
    loaded = CrossGCNClassifier.load("run")
    assert loaded.classes_.tolist() == list(graph.classes)
    assert loaded.predict(graph.matrix, graph.data.edge_index).tolist() == expected
    probabilities = loaded.predict_proba(graph.matrix, graph.data.edge_index)
    np.testing.assert_allclose(probabilities, scores.softmax(dim=1), atol=1e-12)
    assert loaded.predict(graph.matrix).tolist() == expected
    by_id = pd.DataFrame(graph.matrix[:9].toarray(), index=graph.ids[:9])
    assert loaded.predict(by_id).tolist() == expected[:9]
    assert loaded.order is None
    assert not any(hasattr(loaded, name) for name in HISTORY)
    loaded.save(tmp_path / "again")
    again = CrossGCNClassifier.load(tmp_path / "again")
    assert vars(again).keys() == vars(loaded).keys()
    assert again.predict(graph.matrix).tolist() == expected


def test_a_model_of_hops_knows_the_labels_that_it_was_trained_with(
    crossgcn: Callable[..., CompletedProcess[str]],
) -> None:
    shop = make_shop(300)
    shop.nodes.to_csv("nodes.csv", index=False)
    shop.edges.to_csv("edges.csv", index=False)
    options = ("--target", "buys", "--epochs", 3, "--bags", 2, "--num-splits", 1, "--workers", 1)
    done = crossgcn("train", "nodes.csv", "edges.csv", *options, "--out", "run")
    assert done.returncode == 0, done.stderr
    assert crossgcn("predict", "run", "--out", "predicted.csv").returncode == 0
    matrix = load_tables("nodes.csv", "edges.csv", TableChoices(target="buys")).matrix
    found = CrossGCNClassifier.load("run").predict_proba(matrix)
    wanted = pd.read_csv("predicted.csv").filter(like="probability").to_numpy()
    np.testing.assert_allclose(np.sort(found, 1)[:, -1], wanted.max(axis=1), atol=1e-4)
