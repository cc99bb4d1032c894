"""Tools of scikit-learn that predict without passing edges on, and how rows are known as nodes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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
from sklearn.ensemble import StackingClassifier, VotingClassifier
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

from crossgcn import BadInput, CrossGCNClassifier, CrossGCNRegressor

X, Y, EDGES = circles()
FRAME = pd.DataFrame(X, columns=list("abcd"))
NAMES = [f"n{node}" for node in range(200)]
GRAPH = Data(x=torch.from_numpy(X), edge_index=torch.from_numpy(EDGES))
QUICK: dict[str, Any] = {"num_layers": 1, "learning_rate": 0.05}


@pytest.fixture(autouse=True)
def routing() -> Any:
    with config_context(enable_metadata_routing=True):
        yield


def test_folds_are_scored_among_their_neighbours() -> None:
    cv, quick = StratifiedKFold(2), small(**QUICK)
    alone = cross_val_score(quick, X, Y, scoring="accuracy", cv=cv).mean()
    assert alone < 0.75
    params = {"edge_index": GRAPH}
    for scoring in ("accuracy", None):
        scores = cross_val_score(quick, FRAME, Y, scoring=scoring, cv=cv, params=params)
        assert scores.mean() > 0.95
    search = GridSearchCV(quick, {"epochs": [10, 20]}, scoring="f1_macro", cv=cv)
    assert search.fit(FRAME, Y, **params).best_score_ > 0.95
    assert np.mean(search.predict(FRAME.iloc[::7]) == Y[::7]) > 0.95
    found = cross_val_predict(small(), FRAME, Y, cv=StratifiedKFold(3), params=params)
    assert np.mean(found == Y) > 0.95
    with pytest.raises(BadInput, match=r"rows of X are not known .* data frame"):
        cross_val_score(quick, X, Y, cv=3, params=params, error_score="raise")


def test_a_fold_is_trained_with_the_whole_graph_and_without_its_labels() -> None:
    labelled = np.flatnonzero(np.arange(200) % 4)
    rows = FRAME.iloc[labelled]
    for train, test in StratifiedKFold(3).split(rows, Y[labelled]):
        hidden = np.full(200, -1)
        hidden[labelled[train]] = Y[labelled[train]]
        by_hand = small().fit(X, hidden, EDGES)
        fitted = small(graph=GRAPH).fit(rows.iloc[train], Y[labelled[train]])
        assert weights(fitted) == weights(by_hand)
        assert np.array_equal(fitted.predict(rows.iloc[test]), by_hand.predict(X)[labelled[test]])


@pytest.mark.parametrize("tool", ["calibrated", "threshold"])
def test_tools_that_fit_and_predict_on_folds(tool: str) -> None:
    cv = StratifiedKFold(2)
    made: Any = {
        "calibrated": lambda model: CalibratedClassifierCV(model, cv=cv),
        "threshold": lambda model: TunedThresholdClassifierCV(model, scoring="accuracy", cv=cv),
    }[tool]
    routed = made(small(epochs=20, **QUICK)).fit(FRAME, Y, edge_index=GRAPH)
    assert np.mean(routed.predict(FRAME) == Y) > 0.95
    with config_context(enable_metadata_routing=False):
        held = made(small(epochs=20, **QUICK, graph=GRAPH)).fit(FRAME, Y)
    assert np.array_equal(held.predict_proba(FRAME), routed.predict_proba(FRAME))


def test_ensembles() -> None:
    pair = [("gcn", small(epochs=20, graph=GRAPH)), ("linear", LogisticRegression())]
    stacked = StackingClassifier(pair, cv=StratifiedKFold(3)).fit(FRAME, Y)
    assert np.mean(stacked.predict(FRAME) == Y) > 0.95
    assert np.mean(VotingClassifier(pair, voting="soft").fit(FRAME, Y).predict(FRAME) == Y) > 0.85


def test_a_column_is_changed_within_the_graph() -> None:
    named = FRAME.rename_axis("node")
    fitted = small(epochs=60).fit(named, Y, EDGES)
    found = permutation_importance(fitted, named, Y, n_repeats=3, random_state=0)
    assert found.importances_mean[0] > 0.4
    average = partial_dependence(fitted, named, [0], grid_resolution=3)["average"]
    assert np.ptp(average) > 0.5
    changed = named.assign(b=X[::-1, 1])
    expected = fitted.predict_proba(changed, EDGES)
    np.testing.assert_allclose(fitted.predict_proba(changed), expected, rtol=1e-9)


@pytest.mark.parametrize("features", [X, FRAME, sp.csr_array(X)], ids=["array", "frame", "sparse"])
def test_rows_without_names_are_the_rows_of_the_fit_or_none(features: Any) -> None:
    fitted = small(epochs=5).fit(features, Y, EDGES)
    expected = fitted.predict_proba(features, EDGES)
    np.testing.assert_allclose(fitted.predict_proba(features), expected, rtol=1e-9)
    changed: Any = features.copy()
    if features is FRAME:
        changed.loc[199, "b"] += 1
    else:
        changed[199, 1] += 1
    with pytest.raises(BadInput, match=r"rows of X are not known .*X.rename_axis\('node'\)"):
        fitted.predict(changed)
    if features is not FRAME:
        with pytest.raises(BadInput, match="the 50 rows of X are not known"):
            fitted.predict(features[:50])


def test_rows_are_known_by_node_index_and_by_the_index() -> None:
    named = FRAME.set_axis(NAMES)
    fitted = small(epochs=5).fit(named, Y, EDGES)
    expected = fitted.predict_proba(named, EDGES)
    order = np.random.default_rng(1).permutation(200)[:80]
    for rows in (named.iloc[order], named.to_numpy()[order]):
        by_hand = None if isinstance(rows, pd.DataFrame) else [NAMES[row] for row in order]
        rows = rows if by_hand is None else pd.DataFrame(rows, columns=list("abcd"))
        np.testing.assert_allclose(fitted.predict_proba(rows, node_index=by_hand), expected[order])
    shifted = fitted.predict_proba(named.iloc[::-1] + 1)[::-1]
    np.testing.assert_allclose(shifted, fitted.predict_proba(named + 1), rtol=1e-9)
    with pytest.raises(BadInput, match="row 0 of X is node 'n0', as another row with other feat"):
        fitted.predict(pd.concat([named.iloc[:1], named.iloc[:1] + 3]))
    np.testing.assert_allclose(fitted.predict_proba(named.iloc[:50]), expected[:50])
    numbered = small(epochs=2).fit(FRAME, Y, EDGES)
    all_scores = numbered.predict_proba(FRAME)
    np.testing.assert_allclose(numbered.predict_proba(FRAME[:30]), all_scores[:30])
    np.testing.assert_allclose(numbered.predict_proba(FRAME[50:] + 0), all_scores[50:])


FRESH = pd.DataFrame(np.random.default_rng(5).normal(size=(200, 4)), columns=list("abcd"))
TRAPS: dict[str, Any] = {
    "new rows": FRESH,
    "some new rows": FRESH.iloc[:50],
    "new rows as an array": FRESH.to_numpy(),
    "rows of the fit, counted anew": FRAME.iloc[40:].reset_index(drop=True),
    "rows that have moved": FRAME.iloc[[*range(140), *range(141, 200), 140]].reset_index(drop=True),
    "rows of an array": X[::3],
    "more rows": pd.concat([FRAME, FRESH], ignore_index=True),
    "a sorted column alone is the same": FRESH.assign(a=FRAME["a"]),
    "names of other nodes": FRESH.set_axis(NAMES),
}


@pytest.mark.parametrize("name", TRAPS)
def test_rows_that_may_be_others_are_refused_with_the_remedy(name: str) -> None:
    fitted = small(epochs=1).fit(FRAME, Y, EDGES)
    rows = TRAPS[name]
    rows = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows, columns=list("abcd"))
    with pytest.raises(BadInput, match=r"(not known|none of the 200).*index of the fit.*node_ind"):
        fitted.predict(rows)
    assert len(fitted.predict(FRESH, EDGES)) == 200
    assert len(small(epochs=1).fit(FRAME, Y).predict(rows)) == len(rows)  # without edges


def test_a_pipeline_needs_the_index() -> None:
    named = make_pipeline(StandardScaler(), small(epochs=60)).set_output(transform="pandas")
    named.fit(FRAME, Y, edge_index=EDGES)
    assert named[-1].feature_names_in_.tolist() == list("abcd")
    assert np.mean(named.predict(FRAME.iloc[::3]) == Y[::3]) > 0.95
    assert "CrossGCNClassifier" in named._repr_html_()
    plain = make_pipeline(StandardScaler(), small(epochs=1)).fit(X, Y, edge_index=EDGES)
    assert len(plain.predict(X)) == 200
    with pytest.raises(BadInput, match=r"67 rows of X are not known.*set_output"):
        plain.predict(X[::3])


def test_a_graph_with_other_features_than_x_is_refused() -> None:
    scaled = make_pipeline(StandardScaler(), small(epochs=1))
    scaled.set_output(transform="pandas")
    with pytest.raises(BadInput, match=r"row 0 of X has other features than its node"):
        scaled.fit(FRAME.set_axis(range(1, 201)).iloc[:-1], Y[:-1], edge_index=GRAPH)
    with pytest.raises(BadInput, match="X has 3 columns, but the features of the graph 4"):
        small().fit(X[:, :3], Y, GRAPH)


def test_a_node_index_has_an_entry_per_row() -> None:
    fitted = small(epochs=1).fit(X, Y, EDGES)
    with pytest.raises(BadInput, match=r"node_index is int64 \[2\]; give integers \[5\]"):
        fitted.predict(X[:5], node_index=[0, 1])
    with pytest.raises(BadInput, match="row 1 of X is 500, which is none of the 200 nodes"):
        fitted.predict(X[:2], node_index=[0, 500])
    repeated = fitted.predict_proba(X[[3, 3]], node_index=[3, 3])
    np.testing.assert_allclose(repeated, fitted.predict_proba(X)[[3, 3]])


def test_graphs_that_fit_no_rows_are_refused() -> None:
    pairs = torch.from_numpy(EDGES)
    with pytest.raises(BadInput, match="the graph has 0 types of nodes; give one type"):
        small().fit(X, Y, HeteroData())
    with pytest.raises(BadInput, match="the model was fitted without edges"):
        small(epochs=1).fit(X, Y).predict(X, EDGES)
    with pytest.raises(BadInput, match="edge_index has 200 nodes, but X has 150 rows"):
        small().fit(X[:150], Y[:150], Data(edge_index=pairs, num_nodes=200))
    params = {"edge_index": Data(edge_index=pairs, num_nodes=200)}
    with pytest.raises(BadInput, match=r"200 nodes, but X has 133 rows; .* graph=Data"):
        cross_val_score(small(), FRAME, Y, cv=3, params=params, error_score="raise")


def test_weights_of_rows_are_as_good_as_repeated_rows() -> None:
    def fit(rows: Any, **settings: Any) -> Any:
        model = small(dropout=0.0, num_layers=1, epochs=40)
        return model.fit(X[rows], Y[rows], **settings).predict_proba(X)

    times = np.arange(200) % 3
    repeated = fit(np.repeat(np.arange(200), times))
    weighted = fit(np.arange(200), sample_weight=times)
    np.testing.assert_allclose(weighted, repeated, atol=1e-3)
    assert not np.allclose(weighted, fit(np.arange(200)), atol=1e-2)
    with pytest.raises(BadInput, match="the weight is zero for all labelled rows"):
        small().fit(X, np.where(Y == 0, -1, X[:, 0] > 0), sample_weight=1 - Y)


@pytest.mark.parametrize("model", ["cross-gcn", "cross-hops"])
def test_a_regressor_weighs_rows_and_keeps_its_graph(model: str, tmp_path: Path) -> None:
    truth = X[:, 0] + 2 * Y
    settings: dict[str, Any] = {"model": model, "epochs": 20, "learning_rate": 0.05, "dropout": 0.0}
    other = np.where(np.arange(200) % 4 == 0, -truth, truth)
    light = np.where(np.arange(200) % 4 == 0, 1e-3, 1.0)
    plain, weighted = (
        CrossGCNRegressor(**settings).fit(FRAME, other, EDGES, sample_weight=weight)
        for weight in (None, light)
    )
    assert weighted.score(FRAME, truth) > plain.score(FRAME, truth)
    some = FRAME.iloc[7::5]
    np.testing.assert_allclose(plain.predict(some), plain.predict(FRAME, EDGES)[7::5], rtol=1e-6)
    plain.save(tmp_path)
    loaded = CrossGCNRegressor.load(tmp_path)
    assert np.array_equal(loaded.predict(some), plain.predict(some))


def test_the_same_seed_in_two_threads_is_the_same_model() -> None:
    def fit(seed: int) -> bytes:
        return weights(small(epochs=3, random_state=seed).fit(X, Y, EDGES))

    alone = [fit(seed) for seed in range(6)]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(fit, range(6))) == alone


def test_a_saved_classifier_knows_its_rows(tmp_path: Path) -> None:
    named = FRAME.set_axis(NAMES)
    fitted = small(epochs=5).fit(named, Y, EDGES)
    fitted.save(tmp_path)
    loaded = CrossGCNClassifier.load(tmp_path)
    for rows in (named, named.iloc[::7] + 1):
        assert np.array_equal(loaded.predict_proba(rows), fitted.predict_proba(rows))
    small(epochs=1).fit(X, Y).save(tmp_path)
    assert not (tmp_path / "fitted_graph.npz").exists()


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
def test_clones_share_the_graph_and_its_features_may_be_sparse() -> None:
    graph = Data(x=torch.from_numpy(X).to_sparse_csr(), edge_index=GRAPH.edge_index)
    classifier = small(graph=graph, epochs=3).fit(X, Y)
    copied = clone(classifier)
    assert copied.graph is graph and not hasattr(copied, "model_")
    assert copied.get_params() == classifier.get_params()
    assert len(cross_val_score(classifier, FRAME, Y, cv=StratifiedKFold(2))) == 2
