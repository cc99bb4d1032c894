from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from crossgcn.data.splits import make_splits
from crossgcn.errors import BadInput
from crossgcn.experiments.candidates import CANDIDATES, TRIALS
from crossgcn.experiments.compare import (
    CandidateResult,
    TableComparison,
    TableExperiment,
    majority_accuracy,
)
from crossgcn.models.catalogue import first_layer_crosses
from crossgcn.reports.terminal.compare import answer, summarise_candidates

SETTINGS: dict[str, Any] = {
    "splits": "stratified",
    "num_splits": 2,
    "epochs": 5,
    "bias": True,
    "hidden_channels": 6,
}


def measured(test: dict[str, list[float]], *, test_to_train: float = 1 / 3) -> TableComparison:
    """Results as they might be; validation says the same as test."""
    results = [
        CandidateResult(name, tuple(test[name]), tuple(test[name]), (0,), 1, None, 0.0)
        for name in CANDIDATES
        if name in test
    ]
    return TableComparison(tuple(results), test_to_train)


BASE = [0.60, 0.62, 0.61, 0.63, 0.59]


def shifted(by: float, wobble: float = 0.004) -> list[float]:
    return [value + by + (-1) ** place * wobble for place, value in enumerate(BASE)]


def test_a_clear_gain_over_the_best_plain_model_is_a_yes() -> None:
    comparison = measured(
        {
            "majority": [0.3] * 5,
            "gcn": BASE,
            "cross-gcn-1": shifted(-0.02),
            "cross-gcn-2": shifted(0.1),
        }
    )
    assert comparison.crosses_help is True
    assert comparison.recommended == "cross-gcn-2"
    first, *_, last = answer(comparison)
    assert first.startswith("Crosses help here. cross-gcn-2 against gcn, the best with neither")
    assert "+10.1 points (95 % interval" in first and "paired over 5 splits" in first
    assert last.startswith("Recommended: cross-gcn-2")


def test_a_gain_within_chance_is_a_no_and_the_simpler_model_is_recommended() -> None:
    comparison = measured({"gcn": BASE, "cross-gcn-2": shifted(0.005, wobble=0.02)})
    assert comparison.crosses_help is False
    assert comparison.recommended == "gcn"
    first, last = answer(comparison)
    assert first.startswith("Crosses do not help here, as far as these splits can tell.")
    assert "the simplest that the best by validation, cross-gcn-2, does not beat" in last


def test_a_loss_is_called_one() -> None:
    comparison = measured({"gcn": BASE, "cross-gcn-2": shifted(-0.1)})
    assert answer(comparison)[0].startswith("Crosses do not help here, they make it worse.")


def test_a_simpler_model_that_is_better_on_test_nodes_is_recommended() -> None:
    """Though validation preferred the other."""
    plain = CandidateResult("gcn", (0.9, 0.91, 0.9), (0.6,) * 3, (0,), 1, None, 0.0)
    ours = CandidateResult("cross-gcn-2", (0.8, 0.8, 0.81), (0.7,) * 3, (0,), 1, None, 0.0)
    assert TableComparison((plain, ours), 1 / 3).recommended == "gcn"


def test_a_gain_of_almost_nothing_shows_its_digits() -> None:
    comparison = measured({"gcn": BASE, "cross-gcn-2": [value + 1e-4 for value in BASE]})
    assert "+0.010 points" in answer(comparison)[0]


def test_overlapping_splits_need_a_larger_gain_than_independent_ones() -> None:
    test = {"gcn": BASE, "cross-gcn-2": shifted(0.02, wobble=0.015)}
    assert measured(test, test_to_train=0.0).crosses_help is True
    assert measured(test, test_to_train=1 / 3).crosses_help is False


def test_one_split_gives_no_verdict() -> None:
    comparison = measured({"gcn": [0.5], "cross-gcn-2": [0.9]})
    assert comparison.crosses_help is None
    assert "One split cannot tell" in answer(comparison)[0]
    assert "one split cannot tell it from simpler ones" in answer(comparison)[-1]


def test_a_better_perceptron_is_owned_up_to() -> None:
    comparison = measured({"gcn": BASE, "mlp": shifted(0.2), "cross-gcn-2": shifted(0.1)})
    assert comparison.crosses_help is True
    assert comparison.recommended == "mlp"
    assert "A perceptron instead of crosses (mlp) does better" in answer(comparison)[1]


def test_validation_chooses_whom_to_compare_and_test_decides() -> None:
    """The model that is luckiest on test nodes must not be picked for it."""
    lucky = CandidateResult("cross-gcn-3", (0.9,) * 3, (0.5,) * 3, (0,), 1, None, 0.0)
    good = CandidateResult("cross-gcn-2", (0.6, 0.61, 0.6), (0.7,) * 3, (0,), 1, None, 0.0)
    plain = CandidateResult("gcn", (0.6, 0.6, 0.61), (0.6,) * 3, (0,), 1, None, 0.0)
    comparison = TableComparison((plain, good, lucky), 1 / 3)
    assert comparison.best("crosses") == "cross-gcn-2"
    assert comparison.crosses_help is False


def test_every_candidate_is_trained_alike(small_graph: Data, tmp_path: Path) -> None:
    experiment = TableExperiment(small_graph, num_trials=2, settings=SETTINGS)
    comparison = experiment.run(out=tmp_path)
    assert [result.name for result in comparison.results] == list(CANDIDATES)
    assert comparison.test_to_train == pytest.approx(18 / 54)
    records = [json.loads(path.read_bytes()) for path in sorted(tmp_path.rglob("run.json"))]
    assert len(records) == (len(CANDIDATES) - 1) * 2 * 2
    treatments = {
        (r["config"]["epochs"], r["config"]["learning_rate"], r["config"]["bias"]) for r in records
    }
    assert len(treatments) == 1
    for model in {path.parent.parent.parent for path in tmp_path.rglob("run.json")}:
        tried = {
            (record["config"]["dropout"], record["config"]["weight_decay"])
            for record in (json.loads(path.read_bytes()) for path in model.rglob("run.json"))
        }
        assert tried == {(trial["dropout"], trial["weight_decay"]) for trial in TRIALS[:2]}


def test_each_split_takes_the_trial_that_validates_best(small_graph: Data, tmp_path: Path) -> None:
    experiment = TableExperiment(small_graph, ["gcn"], num_trials=4, settings=SETTINGS)
    (result,) = experiment.run(out=tmp_path).results
    for split in range(2):
        records = [
            json.loads(
                (tmp_path / "gcn" / f"trial-{trial}" / f"split-0{split}" / "run.json").read_bytes()
            )
            for trial in range(4)
        ]
        best = max(range(4), key=lambda trial: records[trial]["validation_accuracy"])
        assert result.trials[split] == best
        assert result.test_accuracy[split] == records[best]["test_accuracy"]


def test_sizes_are_matched_to_ours(small_graph: Data) -> None:
    experiment = TableExperiment(
        small_graph, settings=SETTINGS | {"hidden_channels": 32, "epochs": 1, "num_splits": 1}
    )
    comparison = experiment.run()
    ours = comparison.of("cross-gcn-2").parameters
    for name in ("gcn", "mlp", "gin"):
        assert comparison.of(name).parameters == pytest.approx(ours, rel=0.05)
    assert comparison.of("cross-gcn-1").parameters < ours < comparison.of("cross-gcn-3").parameters


def test_wide_models_are_matched_too(small_graph: Data) -> None:
    wide = SETTINGS | {"hidden_channels": 5000, "epochs": 1, "num_splits": 1}
    experiment = TableExperiment(small_graph, ["gcn", "cross-gcn-2"], settings=wide)
    gcn, _, ours, _ = experiment.experiment.configs
    assert gcn.hidden_channels == pytest.approx(51 / 28 * ours.hidden_channels, rel=0.05)


def test_the_options_train_it_again(small_graph: Data) -> None:
    experiment = TableExperiment(
        small_graph, ["majority", "logistic-regression", "gin", "cross-gcn-3"], settings=SETTINGS
    )
    options = {result.name: result.train_options for result in experiment.run().results}
    assert options["majority"] is None
    assert options["logistic-regression"] is not None
    assert options["logistic-regression"][:4] == ("--model", "mlp", "--num-layers", "1")
    assert options["gin"] is not None and "--transform-first" in options["gin"]
    assert options["cross-gcn-3"] is not None and "3,1" in options["cross-gcn-3"]


def test_the_majority_class_is_that_of_the_training_nodes() -> None:
    y = torch.tensor([0, 0, 1, 1, 1, 1, 0])
    assert majority_accuracy(y, torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5, 6])) == 0.25


def test_the_majority_class_alone_needs_no_training(small_graph: Data) -> None:
    experiment = TableExperiment(small_graph, ["majority"], settings=SETTINGS)
    (result,) = experiment.run().results
    split = make_splits(small_graph, "stratified", num_splits=2)[0]
    assert result.test_accuracy[0] == majority_accuracy(small_graph.y, split.train, split.test)


def test_a_killed_comparison_goes_on(small_graph: Data, tmp_path: Path) -> None:
    whole = TableExperiment(small_graph, ["gcn", "cross-gcn-2"], num_trials=1, settings=SETTINGS)
    first = whole.run(out=tmp_path)
    victim = tmp_path / "cross-gcn-2" / "trial-0" / "split-01" / "run.json"
    victim.unlink()
    again = TableExperiment(small_graph, ["gcn", "cross-gcn-2"], num_trials=1, settings=SETTINGS)
    second = again.run(out=tmp_path)
    assert [r.test_accuracy for r in first.results] == [r.test_accuracy for r in second.results]
    assert victim.exists()


def test_the_summary_carries_the_contract(small_graph: Data) -> None:
    experiment = TableExperiment(small_graph, ["majority", "gcn", "cross-gcn-2"], settings=SETTINGS)
    summary = json.loads(json.dumps(summarise_candidates(experiment.run(), baseline="majority")))
    assert summary["baseline"] == "majority"
    assert [model["paired_difference"] is None for model in summary["models"]] == [
        True,
        False,
        False,
    ]
    for model in summary["models"]:
        assert len(model["test_accuracy"]) == 2 and {"mean", "sd", "paired_se"} <= model.keys()
    assert summary["crosses_help"] in (True, False)


def test_only_the_first_layer_crosses() -> None:
    assert first_layer_crosses(3, 1) == (3,)
    assert first_layer_crosses(2, 3) == (2, 1, 1)


def test_unknown_names_and_budgets_are_refused(small_graph: Data) -> None:
    with pytest.raises(BadInput, match=r"unknown model 'gnc'.*did you mean 'gin' or 'gcn'"):
        TableExperiment(small_graph, ["gnc"], settings=SETTINGS)
    with pytest.raises(BadInput, match=r"--tuning is 1 to 4 trials for each model; got 5"):
        TableExperiment(small_graph, num_trials=5, settings=SETTINGS)
