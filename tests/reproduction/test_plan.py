from __future__ import annotations

from pathlib import Path

import pytest

from crossgcn.errors import BadInput
from crossgcn.reproduction.items import read_item
from crossgcn.reproduction.plan import config_name, plan_item
from crossgcn.training.config import RunConfig


@pytest.fixture(autouse=True)
def machine_without_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CROSSGCN_DATA", raising=False)
    monkeypatch.setattr("crossgcn.data.datasets.registry.cache_folder", lambda: tmp_path / "cache")


def test_what_is_not_on_the_machine_is_skipped_in_one_line_each() -> None:
    plan = plan_item(read_item("citation"))
    assert {planned.cell.column for planned in plan.cells} == {"Citeseer"}
    assert len(plan.skipped) == 2
    for name, line in zip(("cora", "pubmed"), plan.skipped, strict=True):
        assert line.startswith(f"{name} is not on this machine")
        assert f"crossgcn data get {name}" in line
        assert "\n" not in line


def test_random_splits_stand_in_where_the_authors_are_not() -> None:
    plan = plan_item(read_item("citation"))
    assert plan.splits == {"citeseer": "random"}
    assert {config.splits for config in plan.configs()} == {"random"}


def test_the_authors_splits_are_not_replaced_when_asked_for() -> None:
    plan = plan_item(read_item("citeseer-cross"), splits="authors")
    assert not plan.cells
    assert "splits/citeseer.npz" in plan.skipped[0]


def test_a_full_run_is_the_papers_protocol() -> None:
    plan = plan_item(read_item("hidden-size"))
    assert not plan.shortened
    assert {(config.epochs, config.num_splits) for config in plan.configs()} == {(500, 20)}


def test_quick_says_what_it_leaves_out() -> None:
    item = read_item("citation")
    full, quick = plan_item(item), plan_item(item, quick=True)
    assert len(list(quick.configs())) < len(list(full.configs()))
    assert any("of 20 training sets" in line for line in quick.shortened)
    assert any("of 500 epochs" in line for line in quick.shortened)
    assert any(line.startswith("hidden_channels chosen from") for line in quick.shortened)
    columns = {planned.cell.column for planned in plan_item(read_item("alpha"), quick=True).cells}
    assert columns == set(read_item("alpha").quick.columns or ())
    timing = plan_item(read_item("training-time"), quick=True)
    assert "3 of 50 epochs" in timing.shortened


def test_settings_asked_for_are_told_apart_from_the_papers() -> None:
    plan = plan_item(read_item("alpha"), epochs=7, num_splits=2)
    assert plan.shortened == ("2 of 20 training sets", "7 of 500 epochs")
    assert {(config.epochs, config.num_splits) for config in plan.configs()} == {(7, 2)}


def test_more_than_the_paper_is_not_less() -> None:
    plan = plan_item(read_item("alpha"), epochs=1000, num_splits=25, splits="random")
    assert not plan.shortened
    timing = plan_item(read_item("training-time"), epochs=500)
    assert not timing.shortened
    assert {planned.choices[0].config.epochs for planned in timing.cells} == {50}


def test_a_mistaken_data_folder_is_no_reason_for_other_splits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CROSSGCN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(BadInput, match="nowhere"):
        plan_item(read_item("alpha"))


def test_a_broken_file_of_splits_is_no_reason_for_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CROSSGCN_DATA", str(tmp_path))
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits" / "citeseer.npz").write_bytes(b"x")
    with pytest.raises(BadInput, match="SHA-256"):
        plan_item(read_item("alpha"))


def test_counting_needs_no_splits() -> None:
    plan = plan_item(read_item("datasets"), splits="authors")
    rows = {planned.cell.row for planned in plan.cells}
    assert rows == {"Citeseer", "Reddit400K", "Citeseer-Cross"}


def test_only_the_datasets_asked_for() -> None:
    plan = plan_item(read_item("dropout"), datasets=["citeseer"])
    assert {config.dataset for config in plan.configs()} == {"citeseer"}
    assert plan.skipped == ("cora: not among --datasets", "pubmed: not among --datasets")
    with pytest.raises(BadInput, match="citeseer"):
        plan_item(read_item("dropout"), datasets=["citeser"])


def test_deep_walk_without_gensim_is_skipped_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crossgcn.reproduction.plan.find_spec", lambda name: None)
    plan = plan_item(read_item("citation"))
    assert "DeepWalk" not in {planned.cell.row for planned in plan.cells}
    assert any("pip install 'crossgcn[deepwalk]'" in line for line in plan.skipped)


def test_configurations_have_one_folder_each() -> None:
    config = RunConfig(model="gcn")
    assert config_name(config) == config_name(RunConfig(model="gcn", num_splits=3))
    others = [
        RunConfig(model="gcn", dropout=0.4),
        RunConfig(model="gcn", hidden_channels=16),
        RunConfig(model="gcn", epochs=499),
        RunConfig(model="gcn", seed=1),
        RunConfig(model="gcn", train="all"),
        RunConfig(model="gcn", splits="authors"),
    ]
    assert len({config_name(other) for other in (config, *others)}) == 7
    assert config_name(config).startswith("gcn-2x32-")


def test_items_share_what_they_have_in_common() -> None:
    """Figure 3 needs no run that Table 3 does not need already, but for none."""
    table = {config_name(config) for config in plan_item(read_item("citeseer-cross")).configs()}
    figure = {config_name(config) for config in plan_item(read_item("hidden-size")).configs()}
    assert figure < table
