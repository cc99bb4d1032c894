"""Tools of scikit-learn that predict without passing edges on."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import networkx as nx  # type: ignore[import-untyped]
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from architectures import one_thread  # noqa: F401
from classifier_cases import circles, small, weights
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch_geometric.data import Data, HeteroData
from torch_geometric.edge_index import EdgeIndex

from crossgcn import BadInput, CrossGCNClassifier, CrossGCNRegressor, TransductiveKFold

X, Y, EDGES = circles()
FRAME = pd.DataFrame(X, columns=list("abcd"))
GRAPH = Data(x=torch.from_numpy(X), edge_index=torch.from_numpy(EDGES))
NUMBERED = {"edge_index": EDGES, "node_index": np.arange(200)}


@pytest.fixture(autouse=True)
def routing() -> Any:
    with config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize(
    ("features", "params"),
    [(FRAME, NUMBERED), (X, {"edge_index": GRAPH}), (FRAME, {"edge_index": GRAPH})],
)
def test_folds_are_scored_among_their_neighbours(features: Any, params: dict[str, Any]) -> None:
    cv, quick = StratifiedKFold(2), small(num_layers=1, learning_rate=0.05)
    alone = cross_val_score(quick, X, Y, scoring="accuracy", cv=cv).mean()
    assert alone < 0.75
    for scoring in ("accuracy", None):
        scores = cross_val_score(quick, features, Y, scoring=scoring, cv=cv, params=params)
        assert scores.mean() > 0.95
    search = GridSearchCV(quick, {"epochs": [10, 20]}, scoring="f1_macro", cv=cv)
    assert search.fit(features, Y, **params).best_score_ > 0.95
    assert np.mean(search.predict(features) == Y) > 0.95
    if features is X:
        assert np.mean(search.predict(X[::7]) == Y[::7]) > 0.95


def test_folds_of_an_array_without_features_of_the_graph_are_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"all 100 rows of X are not known.*edge_index=Data\(x=X"):
        cross_val_score(small(epochs=2), X, Y, scoring="accuracy", cv=2, params=NUMBERED)


@pytest.mark.parametrize("features", [X, FRAME, sp.csr_array(X)], ids=["array", "frame", "sparse"])
def test_columns_are_changed_within_the_graph(features: Any) -> None:
    fitted = small(epochs=60).fit(features, Y, EDGES)
    if not sp.issparse(features):
        found = permutation_importance(fitted, features, Y, n_repeats=3, random_state=0)
        assert found.importances_mean[0] > 0.4
        average = partial_dependence(fitted, features, [0], grid_resolution=3)["average"]
        assert np.ptp(average) > 0.5
    changed = X.copy()
    changed[:, 1] = changed[::-1, 1]
    given: Any = changed
    if features is not X:
        given = FRAME.assign(b=changed[:, 1]) if features is FRAME else sp.csr_array(changed)
    np.testing.assert_allclose(
        fitted.predict_proba(given), fitted.predict_proba(given, EDGES), rtol=1e-9
    )


@pytest.mark.parametrize("tool", ["calibrated", "threshold"])
def test_tools_that_fit_and_predict_on_folds(tool: str) -> None:
    cv, settings = TransductiveKFold(2), {"epochs": 20, "num_layers": 1, "learning_rate": 0.05}
    made: Any = {
        "calibrated": lambda model: CalibratedClassifierCV(model, cv=cv),
        "threshold": lambda model: TunedThresholdClassifierCV(model, scoring="accuracy", cv=cv),
    }[tool]
    routed = made(small(**settings)).fit(X, Y, edge_index=GRAPH)
    assert np.mean(routed.predict(X) == Y) > 0.95
    with config_context(enable_metadata_routing=False):
        held = made(small(**settings, graph=GRAPH)).fit(X, Y)
    assert np.array_equal(held.predict_proba(X), routed.predict_proba(X))


@pytest.mark.parametrize("tool", ["bagging", "stacking", "voting"])
def test_ensembles(tool: str) -> None:
    pair = [("gcn", small(epochs=20, graph=GRAPH)), ("linear", LogisticRegression())]
    made = {
        "bagging": BaggingClassifier(small(epochs=20), n_estimators=3, random_state=0),
        "stacking": StackingClassifier(pair, cv=TransductiveKFold(3)),
        "voting": VotingClassifier(pair, voting="soft"),
    }[tool].fit(X, Y, **({"edge_index": EDGES} if tool == "bagging" else {}))
    assert np.mean(made.predict(X) == Y) > (0.85 if tool == "voting" else 0.95)


def test_a_fold_is_trained_with_the_whole_graph_and_without_its_labels() -> None:
    labels = np.where(np.arange(200) % 4 == 0, -1, Y)
    for features in (X, FRAME):
        predicted = np.full(200, -2)
        for train, test in TransductiveKFold(3).split(features, labels):
            assert (labels[test] >= 0).all() and len(train) + len(test) == 200
            hidden = labels.copy()
            hidden[test] = -1
            by_hand = small().fit(X, hidden, EDGES)
            rows = FRAME.iloc[train] if features is FRAME else X[train]
            fitted = small().fit(rows, labels[train], GRAPH)
            assert weights(fitted) == weights(by_hand)
            rest = FRAME.iloc[test] if features is FRAME else X[test]
            predicted[test] = fitted.predict(rest)
            assert np.array_equal(predicted[test], by_hand.predict(X)[test])
        assert set(np.flatnonzero(predicted == -2)) == set(np.flatnonzero(labels < 0))
    assert (
        sum(len(test) for _, test in TransductiveKFold(3).split(X, np.where(Y, 1.5, np.nan))) == 100
    )


def test_a_graph_with_other_features_than_x_is_refused() -> None:
    scaled = make_pipeline(StandardScaler(), small(epochs=1))
    with pytest.raises(BadInput, match=r"row 0 of X is none of the 200 nodes.*preprocessing"):
        scaled.fit(X, Y, edge_index=GRAPH)
    with pytest.raises(BadInput, match="X has 3 columns, but the features of the graph 4"):
        small().fit(X[:, :3], Y, GRAPH)
    twins = np.zeros((200, 4))
    with pytest.raises(BadInput, match="one of several with these features"):
        small().fit(twins[:50], Y[:50], Data(torch.zeros(200, 4), torch.from_numpy(EDGES)))


def test_a_pipeline_finds_its_rows_again() -> None:
    pipeline = make_pipeline(StandardScaler(), small()).fit(X, Y, edge_index=EDGES)
    rows = np.arange(0, 200, 3)
    assert np.mean(pipeline.predict(X[rows]) == Y[rows]) > 0.95
    named = make_pipeline(StandardScaler(), small()).set_output(transform="pandas")
    named.fit(FRAME, Y, edge_index=EDGES)
    assert named[-1].feature_names_in_.tolist() == list("abcd")
    assert np.array_equal(named.predict(FRAME.iloc[rows]), pipeline.predict(X[rows]))
    assert "CrossGCNClassifier" in pipeline._repr_html_()


def test_new_rows_are_not_taken_for_old_ones() -> None:
    fitted = small(epochs=2).fit(FRAME, Y, EDGES)
    fresh = pd.DataFrame(np.random.default_rng(5).normal(size=(200, 4)), columns=list("abcd"))
    with pytest.warns(UserWarning, match="all 200 rows of X are not known"):
        fitted.predict(fresh)
    with pytest.warns(UserWarning, match="all 50 rows of X are not known"):
        fitted.predict(fresh.iloc[::4])
    coarse = np.random.default_rng(1).integers(3, size=(200, 4)).astype(float)
    fitted = small(epochs=2).fit(coarse, Y, EDGES)  # many rows are alike
    with pytest.warns(UserWarning, match="all 7 rows of X are not known"):
        fitted.predict(coarse[:7])
    fitted.predict(coarse)


def test_rows_that_have_moved_are_not_taken_for_those_at_their_places() -> None:
    fitted = small(epochs=10).fit(FRAME, Y, EDGES)
    scores = fitted.predict_proba(FRAME, EDGES)
    kept = np.delete(np.arange(200), 140)
    moved = fitted.predict_proba(FRAME.iloc[kept].reset_index(drop=True))
    np.testing.assert_allclose(moved, scores[kept])
    rows = np.append(kept, 0)
    np.testing.assert_allclose(
        fitted.predict_proba(FRAME.iloc[rows].reset_index(drop=True)), scores[rows]
    )
    changed = FRAME.copy()
    changed.iloc[7] += 1.0
    np.testing.assert_allclose(
        fitted.predict_proba(changed), fitted.predict_proba(changed, EDGES), rtol=1e-9
    )
    mixed = pd.concat([FRAME[:120], FRAME[:60] + 1.0], ignore_index=True)
    with pytest.warns(UserWarning, match="60 of 180 rows of X are not known"):
        np.testing.assert_allclose(fitted.predict_proba(mixed)[:120], scores[:120])


@pytest.mark.parametrize("kind", ["array", "sparse"])
def test_rows_of_few_flags_are_not_known_by_them(kind: str) -> None:
    flags = (X > 1.0).astype(np.float32)
    given: Any = pd.DataFrame(flags, columns=list("abcd"))
    if kind == "sparse":
        given = sp.csr_array(flags)
    fitted = small(epochs=2).fit(given, Y, EDGES)
    few = np.flatnonzero(~flags.any(axis=1))[5:8]  # the features of the first rows
    others: list[Any] = [few, np.delete(np.arange(200), 140), np.roll(np.arange(200), 1)]
    for rows in others:
        moved = given[rows] if kind == "sparse" else given.iloc[rows].reset_index(drop=True)
        with pytest.warns(UserWarning, match=f"all {len(rows)} rows of X are not known"):
            fitted.predict(moved)


def test_a_column_that_is_sorted_or_repeats_does_not_identify_rows() -> None:
    for column in (
        *(np.arange(200) > 99, np.abs(np.arange(200) - 100) < 30, np.arange(200) / 200),
        *(np.arange(200) % 4, np.arange(200) % 60, np.arange(200) // 7 % 3),
    ):
        rows = np.column_stack([column, X[:, 1:]])
        fitted = small(epochs=2).fit(rows, Y, EDGES)
        with pytest.warns(UserWarning, match="all 200 rows of X are not known"):
            fitted.predict(np.column_stack([column, X[:, 1:] + 1]))


def test_a_node_index_has_an_entry_per_row() -> None:
    fitted = small(epochs=1).fit(X, Y, EDGES)
    with pytest.raises(BadInput, match=r"node_index is int64 \[2\]; give integers \[5\]"):
        fitted.predict(X[:5], node_index=[0, 1])
    repeated = fitted.predict_proba(X[[3, 3]], node_index=[3, 3])
    np.testing.assert_allclose(repeated, fitted.predict_proba(X)[[3, 3]])


def test_names_of_rows_are_trusted() -> None:
    names = [f"n{node}" for node in range(200)]
    named = FRAME.set_axis(names)
    pairs = pd.DataFrame({"from": [names[a] for a in EDGES[0]], "to": [names[b] for b in EDGES[1]]})
    old = np.arange(150)
    fitted = small().fit(named.iloc[old], Y[old], pairs)
    beside = fitted.predict_proba(named.iloc[150:])  # their edges lead to nodes of the fit
    together = small().fit(X[old], Y[old], EDGES, node_index=old)
    expected = together.predict_proba(X, EDGES, node_index=np.arange(200))[150:]
    np.testing.assert_allclose(beside, expected, rtol=1e-9)
    shuffled = named.iloc[old[::-1]] + 1
    np.testing.assert_allclose(
        fitted.predict_proba(shuffled)[::-1], fitted.predict_proba(named.iloc[old] + 1), rtol=1e-9
    )
    twice = pd.concat([named.iloc[:1], named.iloc[:1] + 3])
    apart = [fitted.predict_proba(named.iloc[:1] + add)[0] for add in (0, 3)]
    np.testing.assert_allclose(fitted.predict_proba(twice), apart, rtol=1e-9)
    with pytest.warns(UserWarning, match="1 of 2 rows"):
        fitted.predict(named.iloc[:2].rename({"n1": "new"}))


def test_edges_of_other_libraries() -> None:
    names = pd.Index([f"n{node}" for node in range(200)])
    network = nx.Graph()
    network.add_nodes_from(names)
    network.add_edges_from((names[a], names[b]) for a, b in EDGES.T)
    pairs = torch.from_numpy(EDGES)
    ones = torch.ones(EDGES.shape[1], dtype=torch.bool)
    expected = weights(small(epochs=5).fit(X, Y, EDGES))
    forms: list[tuple[Any, Any]] = [
        (X, Data(edge_index=pairs)),
        (X, EdgeIndex(pairs, sparse_size=(200, 200))),
        (X, torch.sparse_coo_tensor(pairs, ones, (200, 200)).coalesce()),
        (X, network),
        (FRAME.set_axis(names), network),
        (X, pd.DataFrame(EDGES.T, columns=["a", "b"])),
        (FRAME.set_axis(names), pd.DataFrame({"a": names[EDGES[0]], "b": names[EDGES[1]]})),
    ]
    for features, form in forms:
        assert weights(small(epochs=5).fit(features, Y, form)) == expected
    grid = nx.grid_2d_graph(10, 20)  # nodes are pairs
    places = pd.MultiIndex.from_tuples(list(grid))
    assert small(epochs=1).fit(FRAME.set_axis(places), Y, grid).n_edges_ == 2 * 370
    assert small(epochs=1).fit(X, Y, grid).n_edges_ == 2 * 370
    unique = np.unique(np.sort(EDGES, axis=0), axis=1)
    weight = np.linspace(0.5, 2, unique.shape[1])
    weighted = nx.Graph()
    weighted.add_nodes_from(range(200))
    weighted.add_weighted_edges_from(zip(*unique.tolist(), weight.tolist(), strict=True))
    expected = weights(small(epochs=5).fit(X, Y, unique, edge_weight=weight))
    table = pd.DataFrame(unique.T, columns=["a", "b"]).assign(weight=weight)
    parts = torch.from_numpy(unique), torch.from_numpy(weight)
    for form in (weighted, table, Data(edge_index=parts[0], edge_weight=parts[1])):
        assert weights(small(epochs=5).fit(X, Y, form)) == expected
    with pytest.raises(BadInput, match="a DataFrame holds its own weights"):
        small().fit(X, Y, table, edge_weight=weight)
    with pytest.raises(BadInput, match=r"edge_index has a node 'n.*give X as a data frame"):
        small().fit(X, Y, forms[-1][1])
    with pytest.raises(BadInput, match="edge_index has 201 nodes, but X has 200 rows"):
        network.add_node("one more")
        small().fit(X, Y, network)


def test_graphs_that_do_not_fit_the_rows_are_not_taken_for_others() -> None:
    pairs = torch.from_numpy(EDGES[:, (EDGES < 150).all(axis=0)].copy())
    for graph in (Data(edge_index=pairs, num_nodes=200), EdgeIndex(pairs, sparse_size=(200, 200))):
        with pytest.raises(BadInput, match="edge_index has 200 nodes, but X has 150 rows"):
            small().fit(X[:150], Y[:150], graph)
        assert small(epochs=1).fit(X[:150], Y[:150], pairs).n_edges_ > 0
    with pytest.raises(BadInput, match="HeteroData, with several kinds of nodes"):
        small().fit(X, Y, HeteroData())
    with pytest.raises(BadInput, match="no node at one end of row 1"):
        small().fit(FRAME, Y, pd.DataFrame({"a": [0, None], "b": [1, 2]}))
    texts = pd.DataFrame(EDGES.T.astype(str), columns=["a", "b"])
    with pytest.warns(UserWarning, match=r"joins two rows of X.*edge_index is '\d+'.*of X is 0"):
        assert small(epochs=1).fit(FRAME, Y, texts).n_edges_ == 0


def test_edges_that_cross_validation_has_cut_are_refused() -> None:
    table = pd.DataFrame(EDGES.T[:200], columns=["a", "b"])
    network = nx.empty_graph(200)
    network.add_edges_from(EDGES.T)
    settings: dict[str, Any] = {"cv": 3, "error_score": "raise"}
    for edges, message in ((table, "13[34] edges for as many rows"), (network, "networkx")):
        with pytest.raises(BadInput, match=message):
            cross_val_score(small(), FRAME, Y, params={"edge_index": edges}, **settings)
    scores = cross_val_score(small(graph=network, epochs=1), FRAME, Y, **settings)
    assert not np.isnan(scores).any()


def test_weights_of_rows_are_as_good_as_repeated_rows() -> None:
    def fit(rows: Any, **settings: Any) -> Any:
        model = small(dropout=0.0, num_layers=1, epochs=40)
        return model.fit(X[rows], Y[rows], **settings).predict_proba(X)

    times = np.arange(200) % 3
    repeated = fit(np.repeat(np.arange(200), times))
    weighted = fit(np.arange(200), sample_weight=times)
    np.testing.assert_allclose(weighted, repeated, atol=1e-3)
    assert not np.allclose(weighted, fit(np.arange(200)), atol=1e-2)
    hidden = np.where(times > 0, Y, -1)
    even = (times > 0).astype(float)
    assert weights(small().fit(X, hidden, EDGES)) == weights(
        small().fit(X, hidden, EDGES, sample_weight=None)
    )
    np.testing.assert_allclose(
        small().fit(X, Y, EDGES, sample_weight=even).predict_proba(X),
        small().fit(X, hidden, EDGES).predict_proba(X),
        atol=2e-3,
    )
    with pytest.raises(BadInput, match="sample_weight is zero for all labelled rows"):
        small().fit(X, np.where(Y == 0, -1, X[:, 0] > 0), sample_weight=1 - Y)


@pytest.mark.parametrize("model", ["cross-gcn", "cross-hops"])
def test_a_regressor_weighs_rows_and_keeps_its_graph(model: str, tmp_path: Path) -> None:
    truth = X[:, 0] + 2 * Y
    settings: dict[str, Any] = {"model": model, "epochs": 20, "learning_rate": 0.05, "dropout": 0.0}
    other = np.where(np.arange(200) % 4 == 0, -truth, truth)
    light = np.where(np.arange(200) % 4 == 0, 1e-3, 1.0)
    plain, weighted = (
        CrossGCNRegressor(**settings).fit(X, other, EDGES, sample_weight=weight)
        for weight in (None, light)
    )
    assert weighted.score(X, truth) > plain.score(X, truth)
    np.testing.assert_allclose(plain.predict(X[::5]), plain.predict(X, EDGES)[::5], rtol=1e-6)
    plain.save(tmp_path)
    loaded = CrossGCNRegressor.load(tmp_path)
    assert np.array_equal(loaded.predict(X[::5]), plain.predict(X[::5]))
    unknown = np.where(np.arange(200) % 2, truth, np.nan)
    folds = list(TransductiveKFold(4).split(X, unknown))
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(1, 200, 2))


def test_warm_start_continues() -> None:
    first = small(epochs=10, warm_start=True, dropout=0.0).fit(X, Y, EDGES)
    start = first.loss_curve_[-1]
    assert first.fit(X, Y, EDGES).loss_curve_[0] < start
    assert clone(first).fit(X, Y, EDGES).loss_curve_[0] > start
    with pytest.raises(BadInput, match="warm_start continues the previous fit"):
        first.fit(X[:, :3], Y, EDGES)
    with pytest.raises(BadInput, match="or the classes are others"):
        first.fit(X, Y + 1, EDGES)


def test_n_jobs_is_the_number_of_threads() -> None:
    before = torch.get_num_threads()
    one = small(n_jobs=1, epochs=3).fit(X, Y, EDGES)
    two = small(n_jobs=2, epochs=3).fit(X, Y, EDGES)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-4)
    assert torch.get_num_threads() == before


def test_a_saved_classifier_finds_its_rows_again(tmp_path: Path) -> None:
    named = FRAME.set_axis([f"n{node}" for node in range(200)])
    fitted = small(epochs=5).fit(named, Y, EDGES)
    fitted.save(tmp_path)
    loaded = CrossGCNClassifier.load(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (named, named.iloc[::7] + 1, named.to_numpy()):
            data = (
                rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows, columns=list("abcd"))
            )
            assert np.array_equal(loaded.predict_proba(data), fitted.predict_proba(data))
    small(epochs=1).fit(X, Y).save(tmp_path)
    assert not (tmp_path / "fitted_graph.npz").exists()


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
def test_clones_share_the_graph_and_its_features_may_be_sparse() -> None:
    graph = Data(x=torch.from_numpy(X).to_sparse_csr(), edge_index=GRAPH.edge_index)
    classifier = small(graph=graph, epochs=3).fit(X, Y)
    copied = clone(classifier)
    assert copied.graph is graph and not hasattr(copied, "model_")
    assert copied.get_params() == classifier.get_params()
    assert len(cross_val_score(classifier, X, Y, cv=TransductiveKFold(2))) == 2


def test_predictions_of_all_folds() -> None:
    params = {"edge_index": GRAPH}
    found = cross_val_predict(small(), X, Y, cv=TransductiveKFold(3), params=params)
    assert np.mean(found == Y) > 0.95
