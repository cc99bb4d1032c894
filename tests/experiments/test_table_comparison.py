from __future__ import annotations

import json
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from crossgcn import TableChoices, load_tables
from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput
from crossgcn.experiments import compare as module
from crossgcn.experiments.answers import CandidateResult, TableComparison
from crossgcn.experiments.candidates import CANDIDATES
from crossgcn.experiments.compare import TableExperiment, table_experiment
from crossgcn.experiments.lightgbm_model import describe_extremes
from crossgcn.reports.summaries import summarise_candidates

SETTINGS: dict[str, Any] = {"splits": "stratified", "num_splits": 2, "epochs": 3, "bags": 2}
DEFAULT = [name for name in CANDIDATES if CANDIDATES[name].by_default and name != "ebm"]
BASE = [0.60, 0.62, 0.61, 0.63, 0.59]


def result(
    name: str,
    test: list[float],
    validation: list[float] | None = None,
    metric: str = "roc_auc",
) -> CandidateResult:
    return CandidateResult(name, metric, {metric: tuple(test)}, tuple(validation or test))


def measured(
    test: dict[str, list[float]], *, metric: str = "roc_auc", test_to_train: float = 1 / 3
) -> TableComparison:
    """Results as they might be; validation says the same as test."""
    sign = -1 if metric == "rmse" else 1
    results = [
        result(name, test[name], [sign * value for value in test[name]], metric)
        for name in CANDIDATES
        if name in test
    ]
    return TableComparison(tuple(results), test_to_train)


def shifted(by: float, wobble: float = 0.004) -> list[float]:
    return [value + by + (-1) ** place * wobble for place, value in enumerate(BASE)]


def planted(num_nodes: int = 240, *, shuffled: bool = False, number: bool = False) -> Data:
    """A ring-like graph whose target is the product of an own flag and the neighbours' mean."""
    draw = np.random.default_rng(5)
    own = draw.choice([-1.0, 1.0], num_nodes)
    group = draw.choice([-1.0, 1.0], num_nodes // 12).repeat(12)
    other = np.where(draw.random(num_nodes) < 0.9, group, -group)
    start = np.arange(num_nodes)
    offsets = draw.integers(1, 12, (4, num_nodes))
    end = start // 12 * 12 + (start + offsets) % 12
    edges = np.stack([np.tile(start, 4), end.ravel()])
    edges = np.concatenate([edges, edges[::-1]], axis=1)
    edges = np.unique(edges[:, edges[0] != edges[1]], axis=1)
    target = own * group
    if shuffled:
        target = draw.permutation(target)
    y = torch.from_numpy((target + 0.1 * draw.normal(size=num_nodes)).astype(np.float32))
    return Data(
        x=torch.from_numpy(np.stack([own, other], axis=1).astype(np.float32)),
        edge_index=torch.from_numpy(edges),
        y=y if number else (y > 0).long(),
        num_classes=1 if number else 2,
        name="planted",
    )


def test_a_clear_gain_over_the_twin_helps() -> None:
    comparison = measured(
        {"linear": shifted(-0.2), "cross-hops-1": BASE, "cross-hops-2": shifted(0.1)}
    )
    crosses, graph, last = summarise_candidates(comparison)["answer"]
    assert crosses.startswith("Crosses help. cross-hops-2 against cross-hops-1: +10.08 points")
    assert "95 % interval" in crosses and "5 splits" in crosses
    assert graph.startswith("The graph helps.")
    assert last.startswith("Recommended: cross-hops-2") and "an exact sum" in last


@pytest.mark.parametrize(
    ("gain", "wobble", "metric", "verdict", "order"),
    [
        (0.1, 0.004, "roc_auc", "helps", 2),
        (-0.1, 0.004, "rmse", "helps", 2),
        (0.023, 0.04, "roc_auc", "cannot tell", 2),  # between -1.6 and +6.2 points
        (-0.1, 0.001, "roc_auc", "does not help", 1),
        (0.001, 0.001, "roc_auc", "does not help", 1),  # too little to matter
    ],
)
def test_the_interval_of_the_gain_decides(
    gain: float, wobble: float, metric: str, verdict: str, order: int
) -> None:
    test = {"cross-hops-1": BASE, "cross-hops-2": shifted(gain, wobble)}
    comparison = measured(test, metric=metric)
    assert comparison.crosses is not None and comparison.crosses.verdict == verdict
    assert comparison.recommended == f"cross-hops-{order}"
    asks = "Cannot tell: more splits needed" in summarise_candidates(comparison)["answer"][0]
    assert asks == (verdict == "cannot tell")
    by_time = replace(comparison, protocol={"splits": "time"})
    words = summarise_candidates(by_time)["answer"][0]
    assert ("more trainings needed" in words) == asks and "on the one split by time" in words


NOISE = [0.53, 0.47, 0.52, 0.50, 0.54]
"""ROC-AUC of a model on a shuffled target; the corrected interval holds 0.5."""


def test_the_verdict_is_about_this_table_and_the_wider_interval_is_shown_beside_it() -> None:
    """A gain of 2 points whose corrected interval holds 0, as on facebook100/Amherst41."""
    comparison = measured({"cross-hops-1": BASE, "cross-hops-2": shifted(0.02, wobble=0.015)})
    summary = json.loads(json.dumps(summarise_candidates(comparison)))
    crosses = summary["answers"]["crosses"]
    (low, high), (corrected_low, corrected_high) = (
        crosses["interval"],
        crosses["corrected_interval"],
    )
    assert corrected_low < 0 < low < high < corrected_high
    assert crosses["verdict"] == "helps" and summary["recommended"] == "cross-hops-2"
    assert "splits of this table" in summary["answer"][0] and "new table" in summary["intervals"]


@pytest.mark.parametrize(("splits", "verdict"), [(5, "does not help"), (3, "cannot tell")])
def test_a_gain_helps_only_a_model_that_beats_a_constant(splits: int, verdict: str) -> None:
    """On a shuffled target one of two useless models can win in every split."""
    worse = [value - 0.03 for value in NOISE]
    comparison = measured(
        {
            "majority-or-mean": [0.5] * splits,
            "cross-hops-1": worse[:splits],
            "cross-hops-2": NOISE[:splits],
        }
    )
    assert comparison.crosses is not None and comparison.crosses.interval[0] > 0  # type: ignore[index]
    assert comparison.crosses.verdict == verdict
    (first, *_) = summarise_candidates(comparison)["answer"]
    assert "cross-hops-2 is not shown to beat a constant" in first


def test_the_constant_is_measured_even_if_it_is_not_shown() -> None:
    names = ["cross-hops-1", "cross-hops-2"]
    results = tuple(
        result(name, [value + by for value in NOISE])
        for name, by in zip(names, (-0.03, 0.0), strict=True)
    )
    constant = result("majority-or-mean", [0.5] * 5)
    crosses = TableComparison(results, 1 / 3, constant=constant).crosses
    assert crosses is not None and not crosses.beats_constant and crosses.verdict == "does not help"
    settings = SETTINGS | {"metric": "roc_auc"}
    trained = TableExperiment(planted(60), names, num_trials=1, settings=settings).run()
    assert [each.name for each in trained.results] == names
    assert trained.constant is not None and trained.constant.scores == (0.5, 0.5)


def test_crosses_that_help_are_recommended_although_the_gain_is_small() -> None:
    """As on us-county: less than half a point on validation, but in every split."""
    gain = shifted(0.004, wobble=0.001)
    comparison = measured({"cross-hops-1": BASE, "cross-hops-2": gain, "boosting": shifted(0.01)})
    assert comparison.crosses is not None and comparison.crosses.verdict == "helps"
    assert comparison.recommended == "cross-hops-2"


def test_crosses_that_do_not_help_are_not_recommended() -> None:
    test = {"cross-hops-1": BASE, "cross-hops-2": shifted(-0.01, 0.001)}
    results = tuple(
        result(name, test[name], [0.7 + place / 10] * 5) for place, name in enumerate(test)
    )
    comparison = TableComparison(results, 1 / 3)
    assert comparison.crosses is not None and comparison.crosses.verdict == "does not help"
    assert comparison.recommended == "cross-hops-1"


@pytest.mark.parametrize("name", ["boosting-hops", "lightgbm-hops", "gnn"])
def test_a_better_black_box_is_named_with_its_gain(name: str) -> None:
    comparison = measured({"linear": BASE, "cross-hops-2": shifted(0.1), name: shifted(0.15)})
    assert comparison.black_box is not None and comparison.black_box.verdict == "helps"
    assert comparison.recommended == "cross-hops-2"
    _, black_box, _, better = summarise_candidates(comparison)["answer"]
    assert black_box.startswith(
        f"A black box is better. {name} against cross-hops-2: +5.00 points of ROC-AUC"
    )
    assert "on test nodes +5.00 points of ROC-AUC; crossgcn train does not have it" in better


def test_only_what_train_has_is_recommended() -> None:
    same = dict.fromkeys(("cross-hops-1", "ebm-hops", "boosting-hops"), BASE)
    assert measured({**same, "majority-or-mean": [0.5] * 5}).recommended == "cross-hops-1"
    assert measured({"boosting": BASE, "perceptron": shifted(-0.1)}).recommended == "perceptron"


def test_the_best_model_with_crosses_is_paired_with_its_own_twin() -> None:
    test = {"linear": shifted(-0.2), "cross-own": shifted(-0.1), "cross-hops-1": BASE}
    crosses = measured({**test, "cross-hops-2": shifted(0.1)}).crosses
    assert crosses is not None
    assert (crosses.model, crosses.against) == ("cross-hops-2", "cross-hops-1")


def test_if_nothing_beats_the_constant_no_model_is_recommended() -> None:
    comparison = measured({"majority-or-mean": [0.5] * 5, "linear": NOISE, "cross-hops-2": NOISE})
    summary = summarise_candidates(comparison)
    assert summary["recommended"] == "majority-or-mean"
    assert summary["answer"][-1].startswith("Nothing beats the constant")


def test_no_graph_model_is_recommended_if_the_graph_does_not_help() -> None:
    """As on a table of aeroplanes: own crosses were better than all that read neighbours."""
    test = {"linear": BASE, "cross-own": shifted(0.02), "cross-hops-2": shifted(0.01)}
    comparison = measured(test)
    assert comparison.graph is not None and comparison.graph.verdict == "does not help"
    assert comparison.recommended == "cross-own"


def test_the_simplest_glass_box_within_one_standard_error_is_recommended() -> None:
    test = {"linear": BASE, "cross-own": shifted(0.001, wobble=0.01), "cross-hops-2": shifted(-0.1)}
    assert measured(test).recommended == "linear"


def test_without_edges_no_graph_model_is_trained_and_no_graph_question_is_asked() -> None:
    data = planted(60)
    data.edge_index = data.edge_index[:, :0]
    trained = TableExperiment(data, num_trials=1, settings=SETTINGS).run()
    assert {each.candidate.columns for each in trained.results} == {"none", "own"}
    assert trained.graph is None and trained.recommended in (
        "linear",
        "cross-own",
        "majority-or-mean",
    )
    with pytest.raises(BadInput, match="read neighbours, and there are no edges: gcn"):
        TableExperiment(data, ["linear", "gcn"], settings=SETTINGS)


def test_validation_chooses_whom_to_compare_and_test_decides() -> None:
    """The model that is luckiest on test nodes must not be picked for it."""
    twin = result("cross-hops-1", [0.6, 0.6, 0.61], [0.6] * 3)
    good = result("cross-hops-2", [0.6, 0.61, 0.6], [0.7] * 3)
    lucky = result("cross-hops-3", [0.9] * 3, [0.5] * 3)
    crosses = TableComparison((twin, good, lucky), 1 / 3).crosses
    assert crosses is not None and crosses.model == "cross-hops-2"
    assert crosses.verdict != "helps"


def run_hops(data: Data, *others: str, **settings: Any) -> TableComparison:
    names = ["majority-or-mean", "linear", "cross-hops-1", "cross-hops-2", *others]
    own = (
        SETTINGS
        | {"num_splits": 5, "epochs": 12, "patience": 6, "batch_size": 64, "learning_rate": 0.01}
        | settings
    )
    return TableExperiment(data, names, num_trials=1, settings=own).run()


def test_a_planted_cross_with_the_neighbourhood_helps() -> None:
    comparison = run_hops(planted())
    assert comparison.crosses is not None and comparison.crosses.verdict == "helps"
    assert comparison.graph is not None and comparison.graph.verdict == "helps"
    assert comparison.recommended == "cross-hops-2"


def test_crosses_do_not_help_with_a_shuffled_target() -> None:
    comparison = run_hops(planted(shuffled=True))
    assert comparison.crosses is not None and comparison.crosses.verdict != "helps"
    assert comparison.recommended == "majority-or-mean" and comparison.better is None


def test_a_number_is_predicted_too() -> None:
    comparison = run_hops(planted(number=True), "boosting-hops", epochs=40, patience=20)
    summary = json.loads(json.dumps(summarise_candidates(comparison)))
    assert (summary["task"], summary["metric"]) == ("regression", "r2")
    assert summary["answers"]["crosses"]["verdict"] == "helps"
    for model in summary["models"]:
        assert model["test"].keys() == {"r2", "rmse", "mae"} and "test_accuracy" not in model


def test_every_candidate_is_tuned_on_the_same_splits(small_graph: Data, tmp_path: Path) -> None:
    settings = SETTINGS | {"num_splits": 1}
    experiment = TableExperiment(small_graph, DEFAULT, num_trials=2, settings=settings)
    done: list[tuple[int, int]] = []
    comparison = experiment.run(out=tmp_path, on_epochs=lambda *count: done.append(count))
    assert [each.name for each in comparison.results] == DEFAULT
    assert comparison.test_to_train == pytest.approx(18 / 54)
    trials = {name: len(CANDIDATES[name].trials[:2]) for name in DEFAULT}
    num_runs = sum(trials.values())
    assert done == [(count, num_runs) for count in range(1, num_runs + 1)]
    splits = set()
    for name in DEFAULT:
        paths = sorted((tmp_path / name).rglob("run.json"))
        assert len(paths) == trials[name]
        for path in paths:
            record = json.loads(path.read_bytes())
            assert {"task", "metric", "validation_score", "test", "seconds"} <= record.keys()
            splits.add((record["split"]["train_sha256"], record["split"]["test_sha256"]))
    assert len(splits) == 1


def test_each_split_takes_the_trial_that_validates_best(small_graph: Data, tmp_path: Path) -> None:
    name = "boosting-hops"
    experiment = TableExperiment(small_graph, [name], num_trials=2, settings=SETTINGS)
    (only,) = experiment.run(out=tmp_path).results
    for split in range(2):
        paths = [tmp_path / name / f"trial-{t}" / f"split-0{split}" / "run.json" for t in range(2)]
        records = [json.loads(path.read_bytes()) for path in paths]
        best = max(range(2), key=lambda trial: records[trial]["validation_score"])
        assert only.trials[split] == best
        assert only.scores[split] == records[best]["test"]["accuracy"]


def test_no_estimator_reads_labels_of_other_nodes(tmp_path: Path) -> None:
    """Other labels of the test nodes change no validation score."""
    data, names = planted(), ["boosting-hops", "cross-hops-2"]
    scores = []
    for flip in (False, True):
        split = make_splits(data, "stratified", num_splits=1)[0]
        fixed = data.clone()
        for role in ("train", "validation", "test"):
            mask = torch.zeros(data.num_nodes, dtype=torch.bool)
            mask[getattr(split, role)] = True
            fixed[f"{'val' if role == 'validation' else role}_mask"] = mask
        if flip:
            fixed.y[split.test] = 1 - fixed.y[split.test]
        own = {"splits": "public", "epochs": 3, "bags": 2}
        results = TableExperiment(fixed, names, num_trials=1, settings=own).run().results
        scores.append([each.validation for each in results])
    assert scores[0] == scores[1]


def test_a_killed_comparison_goes_on(small_graph: Data, tmp_path: Path) -> None:
    names = ["cross-hops-2", "boosting"]
    first = TableExperiment(small_graph, names, num_trials=1, settings=SETTINGS).run(out=tmp_path)
    kept = tmp_path / "cross-hops-2" / "trial-0" / "split-00" / "run.json"
    before = kept.stat().st_mtime_ns
    victims = [tmp_path / name / "trial-0" / "split-01" / "run.json" for name in names]
    for victim in victims:
        victim.unlink()
    second = TableExperiment(small_graph, names, num_trials=1, settings=SETTINGS).run(out=tmp_path)
    assert [r.test for r in first.results] == [r.test for r in second.results]
    assert all(victim.exists() for victim in victims) and kept.stat().st_mtime_ns == before


def test_the_options_train_it_again(small_graph: Data) -> None:
    names = ["majority-or-mean", "linear", "cross-hops-3", "cross-gcn-2", "boosting"]
    settings = SETTINGS | {"num_layers": 3, "label_features": False, "learning_rate": 0.01}
    defaults = {"splits": "stratified", "tuning": 1}
    experiment = TableExperiment(
        small_graph, names, num_trials=1, defaults=defaults, settings=settings
    )
    options = {each.name: each.train_options for each in experiment.run().results}
    assert options["majority-or-mean"] is None and options["boosting"] is None
    given = ("--num-splits", "2")
    rest = ("--set", "label_features=false", "--set", "learning_rate=0.01", "--set", "tuning=1")
    hops = ("--bags", "2", "--epochs", "3", *given, *rest)
    alone = ("--model", "cross-hops", "--order", "1", "--hops", "0")
    assert options["linear"] == (*alone, *hops)
    assert options["cross-hops-3"] == ("--model", "cross-hops", "--order", "3", *hops)
    deep = ("--model", "cross-gcn", "--order", "2,1,1", "--num-layers", "3", "--dropout", "0")
    assert options["cross-gcn-2"] == (*deep, "--epochs", "3", *given, "--set", "weight_decay=0")


def test_the_metric_chooses_and_is_shown(small_graph: Data) -> None:
    names = ["majority-or-mean", "cross-hops-1", "cross-hops-2"]
    settings = SETTINGS | {"metric": "log_loss"}
    experiment = TableExperiment(small_graph, names, num_trials=1, settings=settings)
    summary = json.loads(json.dumps(summarise_candidates(experiment.run(), baseline=names[0])))
    assert (summary["metric"], summary["baseline"]) == ("log_loss", names[0])
    for model in summary["models"]:
        values = model["test"]["log_loss"]
        assert model["mean"] == pytest.approx(sum(values) / 2)
        assert all(value < 0 for value in model["validation_score"])
        assert len(model["test_accuracy"]) == 2
    assert [model["paired_difference"] is None for model in summary["models"]] == [
        True,
        False,
        False,
    ]


def test_ebm_is_left_out_or_refused_without_its_package(
    small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    experiment = TableExperiment(small_graph, settings=SETTINGS)
    assert experiment.missing == ["ebm", "ebm-hops", "lightgbm", "lightgbm-hops"]
    assert experiment.names == DEFAULT
    for name, extra in [("ebm", "ebm"), ("lightgbm-hops", "lightgbm")]:
        with pytest.raises(BadInput, match=rf"{name} needs.*pip install 'crossgcn\[{extra}\]'"):
            TableExperiment(small_graph, [name], settings=SETTINGS)


def test_ebm_gets_the_columns_and_settings(
    small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sklearn.tree import DecisionTreeClassifier

    seen: list[tuple[int, dict[str, Any]]] = []

    class Fake(DecisionTreeClassifier):  # type: ignore[misc]
        def __init__(self, **settings: Any) -> None:
            super().__init__(max_depth=2)
            self.given = settings

        def fit(self, x: Any, y: Any, sample_weight: Any = None) -> Any:
            seen.append((x.shape[1], self.given))
            return super().fit(x, y)

        def decision_function(self, x: Any) -> Any:
            return np.log(self.predict_proba(x) + 1e-3)

    glassbox = types.ModuleType("interpret.glassbox")
    glassbox.ExplainableBoostingClassifier = Fake  # type: ignore[attr-defined]
    glassbox.ExplainableBoostingRegressor = Fake  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "interpret", types.ModuleType("interpret"))
    monkeypatch.setitem(sys.modules, "interpret.glassbox", glassbox)
    monkeypatch.setattr(module, "find_spec", lambda name: name)
    experiment = TableExperiment(small_graph, ["ebm", "ebm-hops"], num_trials=1, settings=SETTINGS)
    own, _ = experiment.run().results
    assert own.candidate.glass_box and 0 < own.scores[0] <= 1
    widths = sorted({width for width, _ in seen})
    assert widths[0] == small_graph.x.size(1) and widths[1] > 3 * widths[0]
    assert all(settings["interactions"] == 0 for _, settings in seen)


def test_an_ebm_reads_categories_not_their_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of columns say the same, so the scores of a planted effect stay high."""
    interpret = pytest.importorskip("interpret.glassbox")
    seen: list[tuple[int, list[str]]] = []
    fit = interpret.ExplainableBoostingClassifier.fit

    def watch(self: Any, x: Any, y: Any, **more: Any) -> Any:
        seen.append((x.shape[1], self.feature_types))
        return fit(self, x, y, **more)

    monkeypatch.setattr(interpret.ExplainableBoostingClassifier, "fit", watch)
    draw = np.random.default_rng(0)
    color, size = draw.integers(0, 4, 300), draw.normal(size=300)
    nodes = pd.DataFrame({"id": range(300), "color": [f"c{each}" for each in color], "size": size})
    nodes["target"] = np.where((color < 2) == (draw.random(300) < 0.9), "yes", "no")
    graph = load_tables(nodes, None, TableChoices(target="target"))
    experiment = table_experiment(graph, ["ebm"], 1, None, {"num_splits": 2})
    (found,) = experiment.run().results
    assert min(found.scores) > 0.8
    width, kinds = seen[0]
    assert graph.data.x.size(1) > width == len(kinds) and kinds.count("nominal") == 2


@pytest.mark.parametrize("name", ["lightgbm-hops", "gnn"])
@pytest.mark.parametrize("number", [False, True])
def test_strong_opponents_find_a_planted_effect_and_none_in_noise(name: str, number: bool) -> None:
    settings = {"splits": "stratified", "num_splits": 2, "metric": "r2" if number else "roc_auc"}
    scores = []
    for shuffled in (False, True):
        data = planted(480, number=number, shuffled=shuffled)
        data.y = data.y.double() if number else data.y  # as numbers of tables are
        (found,) = TableExperiment(data, [name], settings=settings).run().results
        assert len(found.validation) == len(found.trials) == 2
        scores.append(np.mean(found.scores) - (0.0 if number else 0.5))
    assert scores[0] > 0.3 and abs(scores[1]) < 0.15


@pytest.mark.parametrize("protocol", ["60/20/20", "10/10/80", "time"])
def test_every_model_ends_at_chance_on_a_shuffled_target(protocol: str) -> None:
    """Every node has many neighbours of its group, so any leak of labels would show."""
    data = planted(1200, shuffled=True)
    settings: dict[str, Any] = {**SETTINGS, "epochs": 8, "patience": 4}
    if protocol == "10/10/80":
        settings["train"] = "10%"
    if protocol == "time":
        data.node_time = torch.from_numpy(np.random.default_rng(7).normal(size=1200))
        settings["splits"] = "time"
    found = TableExperiment(data, list(CANDIDATES), num_trials=1, settings=settings).run()
    gains = {each.name: np.mean(each.test["roc_auc"]) - 0.5 for each in found.results}
    assert max(gains.values()) < 0.1, gains


def test_extremes_and_page_rank_equal_slow_ones(small_graph: Data) -> None:
    x, (source, target) = small_graph.x.to_dense(), small_graph.edge_index
    found = describe_extremes(x, small_graph.edge_index)
    width, num_nodes = x.size(1), len(x)
    for node in range(num_nodes):
        near = x[source[target == node]] if (target == node).any() else x[[node]]
        expected = np.concatenate([near.max(0).values.numpy(), near.min(0).values.numpy()])
        np.testing.assert_array_equal(found[node, : 2 * width], expected)
    passed = np.zeros((num_nodes, num_nodes))
    np.add.at(passed, (target.numpy(), source.numpy()), 1.0)
    passed[:, passed.sum(0) == 0] = 1.0
    matrix = np.eye(num_nodes) - 0.85 * passed / passed.sum(0)
    expected = np.log(np.linalg.solve(matrix, np.full(num_nodes, 0.15)))
    np.testing.assert_allclose(found[:, -1], expected, atol=1e-3)


def test_unknown_names_budgets_and_metrics_are_refused(small_graph: Data) -> None:
    with pytest.raises(BadInput, match=r"unknown model 'gnc'.*did you mean 'gnn' or 'gcn'"):
        TableExperiment(small_graph, ["gnc"], settings=SETTINGS)
    with pytest.raises(BadInput, match=r"--tuning is 1 to 4 trials for each model; got 5"):
        TableExperiment(small_graph, num_trials=5, settings=SETTINGS)
    with pytest.raises(BadInput, match="does not fit a target of classes"):
        TableExperiment(small_graph, ["linear"], settings=SETTINGS | {"metric": "r2"})
