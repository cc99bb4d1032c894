from __future__ import annotations

import csv
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from crossgcn.experiments.experiment import RepeatedRuns
from crossgcn.reproduction.items import Item, Line, PaperValue, Row
from crossgcn.reproduction.plan import (
    ItemPlan,
    choose,
    collect_item,
    dataset_statistics,
    mean_curve,
    plan_item,
)
from crossgcn.training.config import RunConfig

ITEM = Item(
    name="sample",
    title="A sample",
    source="Table 9",
    kind="table",
    settings={"dataset": "citeseer", "model": "gcn"},
    columns=(Line(label="chosen", choose={"hidden_channels": (16, 32, 64)}),),
    rows=(Row(label="GCN", paper={"chosen": PaperValue(mean=70, sd=2)}),),
)
VALIDATION = {16: (0.5, 0.7), 32: (0.66, 0.64), 64: (0.6, 0.7)}


def runs_of(config: RunConfig, test: dict[int, float]) -> RepeatedRuns:
    width = config.hidden_channels
    records: list[dict[str, Any]] = [
        {
            "split": {"index": split, "train_sha256": str(split)},
            "validation_accuracy": value,
            "test_accuracy": test[width] + split / 10,
            "best_epoch": 10 * width + split,
            "environment": {"threads": 1, "versions": {"torch": "2.13"}},
        }
        for split, value in enumerate(VALIDATION[width])
    ]
    return RepeatedRuns(config, tuple(records))


@pytest.fixture
def plan() -> ItemPlan:
    return plan_item(ITEM, splits="random")


def never(config: RunConfig) -> Any:
    raise AssertionError("a table has no timings and no curves")


@pytest.mark.parametrize("test", [{16: 0.9, 32: 0.1, 64: 0.8}, {16: 0.1, 32: 0.9, 64: 0.2}])
def test_the_test_nodes_have_no_part_in_the_choice(plan: ItemPlan, test: dict[int, float]) -> None:
    """Widths 32 and 64 are equal on validation: the first of them is taken."""
    choice, runs = choose(plan.cells[0], lambda config: runs_of(config, test))
    assert choice.chosen == {"hidden_channels": 32}
    assert runs.test_accuracy == [test[32], test[32] + 0.1]


def test_a_cell_keeps_what_was_chosen_and_from_what(plan: ItemPlan) -> None:
    test = {16: 0.5, 32: 0.6, 64: 0.7}
    result = collect_item(plan, lambda config: runs_of(config, test), never, never)
    (cell,) = result.cells
    assert cell.settings["hidden_channels"] == 32
    assert cell.settings["model"] == "gcn"
    assert cell.best_epoch == (320, 321)
    assert [each.validation_accuracy for each in cell.candidates] == pytest.approx(
        [fmean(values) for values in VALIDATION.values()]
    )
    assert cell.paper is not None and cell.paper.mean == 70
    assert result.environment == {"threads": 1, "versions": {"torch": "2.13"}}


def test_runs_of_different_environments_name_them_all(plan: ItemPlan) -> None:
    def mixed(config: RunConfig) -> RepeatedRuns:
        runs = runs_of(config, {16: 0.5, 32: 0.6, 64: 0.7})
        runs.records[1]["environment"] = {"threads": 1, "versions": {"torch": "2.14"}}
        return runs

    result = collect_item(plan, mixed, never, never)
    assert result.environment == {"threads": 1, "versions": {"torch": ["2.13", "2.14"]}}


def test_a_mean_curve_is_the_mean_of_the_curves(tmp_path: Path) -> None:
    curves = [[(0.1, 0.2), (0.3, 0.5)], [(0.5, 0.4), (0.7, 0.6)], [(0.3, 0.1), (0.2, 0.3)]]
    for number, curve in enumerate(curves):
        (tmp_path / str(number)).mkdir()
        with (tmp_path / str(number) / "epochs.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["epoch", "train_score", "test_accuracy"])
            writer.writerows((epoch, *values) for epoch, values in enumerate(curve, 1))
    mean = mean_curve([tmp_path / str(number) for number in range(3)])
    assert mean.epoch == (1, 2)
    assert mean.train == pytest.approx([fmean([0.1, 0.5, 0.3]), fmean([0.3, 0.7, 0.2])])
    assert mean.test_sd == pytest.approx([stdev([0.2, 0.4, 0.1]), stdev([0.5, 0.6, 0.3])], abs=1e-6)


def test_citeseer_is_counted() -> None:
    assert dataset_statistics("citeseer") == {
        "nodes": 3327,
        "edges": 4552,
        "classes": 6,
        "features": 3703,
        "label rate": 0.036,
    }
