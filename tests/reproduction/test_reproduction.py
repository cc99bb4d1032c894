from __future__ import annotations

from pathlib import Path

import pytest

from crossgcn.reproduction.items import Item, Line, Row
from crossgcn.reproduction.plan import ItemPlan, ItemResult, plan_item
from crossgcn.reproduction.run import Reproduction
from crossgcn.training.config import RunConfig
from crossgcn.training.pool import train_many
from crossgcn.training.trainer import JointTrainer, Run, shared_settings


def sample(name: str, *models: str) -> Item:
    rows = [{"label": model, "settings": {"model": model}} for model in models]
    panels = [{"label": str(n), "settings": {"train": n}} for n in (5, 10)]
    settings = {"dataset": "citeseer-cross", "num_layers": 1}
    return Item(
        name=name,
        title="A sample",
        source="Table 9",
        kind="table",
        settings=settings,
        panels=panels,
        rows=rows,
    )


def plans() -> list[ItemPlan]:
    items = (sample("one", "gcn", "mlp"), sample("two", "gcn", "cross-gcn"))
    return [plan_item(item, splits="random", num_splits=2, epochs=3) for item in items]


def test_what_two_items_share_is_trained_once(tmp_path: Path) -> None:
    work = Reproduction(plans(), tmp_path)
    assert work.num_runs == work.num_waiting == 3 * 2 * 2
    finished: list[str] = []

    def note(plan: ItemPlan, result: ItemResult) -> None:
        finished.append(result.item)

    one, two = work.run(on_item=note)
    assert finished == ["one", "two"]
    for panel in ("5", "10"):
        first, second = one.find(panel, "gcn", ""), two.find(panel, "gcn", "")
        assert first is not None and second is not None
        assert first.test_accuracy == second.test_accuracy
        assert len(first.test_accuracy) == 2


def test_each_run_is_on_the_splits_of_its_own_panel(tmp_path: Path) -> None:
    result = Reproduction(plans()[:1], tmp_path).run()[0]
    records = sorted(tmp_path.glob("records/citeseer-cross/gcn-1x32-*/split-00/run.json"))
    assert len(records) == 2
    few, many = result.find("5", "gcn", ""), result.find("10", "gcn", "")
    assert few is not None and many is not None
    assert (few.settings["train"], many.settings["train"]) == (5, 10)
    assert few.test_accuracy != many.test_accuracy


def test_a_second_time_nothing_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Reproduction(plans(), tmp_path).run()

    def refuse(*arguments: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(JointTrainer, "train", refuse)
    again = Reproduction(plans(), tmp_path)
    assert again.num_waiting == 0
    assert again.expected_seconds() == 0
    assert again.run() == before


def test_the_work_reported_adds_up_to_the_work_expected(tmp_path: Path) -> None:
    work = Reproduction(plans(), tmp_path)
    assert work.expected_seconds() > 0
    seen: list[tuple[int, int]] = []
    work.run(on_work=lambda done, total: seen.append((done, total)))
    assert len(seen) == 3 * 2 * 2 * 3
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_a_run_that_diverges_costs_its_cell_and_no_other(tmp_path: Path) -> None:
    item = sample("one", "gcn", "cross-gcn-release-fix")
    plan = plan_item(item, splits="random", num_splits=2, epochs=5, learning_rate=1e30)
    work = Reproduction([plan], tmp_path)
    (result,) = work.run()
    rows = {cell.row for cell in result.cells}
    failed = {line.split(",")[0] for line in result.failed}
    assert "cross-gcn-release-fix" in failed
    assert all("diverged" in line for line in result.failed)
    assert rows | failed == {"gcn", "cross-gcn-release-fix"}
    assert not rows & failed


def small_timing() -> ItemPlan:
    item = Item(
        name="times",
        title="Times",
        source="Table 9",
        kind="timing",
        settings={"dataset": "citeseer-cross", "splits": "public", "epochs": 2, "num_layers": 1},
        rows=(Row(label="GCN", settings={"model": "gcn"}),),
        columns=(Line(label="8", x=8, settings={"hidden_channels": 8}),),
    )
    return plan_item(item)


def test_a_timing_is_taken_once_on_the_same_machine_with_the_same_threads(tmp_path: Path) -> None:
    work = Reproduction([small_timing()], tmp_path)
    assert work.expected_seconds() > 0
    (first,) = work.run()
    again = Reproduction([small_timing()], tmp_path)
    assert again.expected_seconds() == 0
    assert again.run() == [first]
    (other,) = Reproduction([small_timing()], tmp_path, threads=2).run()
    assert other.cells[0].timing is not None and first.cells[0].timing is not None
    assert (first.cells[0].timing["threads"], other.cells[0].timing["threads"]) == (1, 2)


@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"mean": 1.0}'])
def test_a_file_that_is_no_timing_is_measured_again(tmp_path: Path, content: str) -> None:
    Reproduction([small_timing()], tmp_path).run()
    (path,) = tmp_path.glob("records/citeseer-cross/*.json")
    path.write_text(content)
    (result,) = Reproduction([small_timing()], tmp_path).run()
    assert result.cells[0].timing is not None
    assert len(result.cells[0].timing["seconds"]) == 2


def test_a_joint_trainer_trains_as_the_single_ones_do(tmp_path: Path) -> None:
    from crossgcn.experiments.experiment import Experiment

    configs = [
        RunConfig(dataset=name, model="gcn", num_layers=1, epochs=2, num_splits=1)
        for name in ("citeseer", "citeseer-cross")
    ]
    alone = [Experiment([config]).run()[0].records[0] for config in configs]
    joint = JointTrainer(
        {shared_settings(config): Experiment([config]).trainer() for config in configs}
    )
    seen: list[int] = []
    together = train_many(
        joint,
        [Run(config, 0) for config in configs],
        workers=1,
        on_record=lambda position, record: seen.append(position),
    )
    assert sorted(seen) == [0, 1]
    for one, other in zip(alone, together, strict=True):
        for name in ("dataset", "split", "test_accuracy", "validation_accuracy", "best_epoch"):
            assert one[name] == other[name]
