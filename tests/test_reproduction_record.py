"""What the kept reproduction must show, and what the README concludes from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossgcn.reproduction import ITEM_NAMES
from crossgcn.reproduction.items import read_item
from crossgcn.reproduction.plan import ItemResult, read_item_result
from crossgcn.reproduction.verdicts import evaluate_claims, judge_cell, measured

RECORDS = Path(__file__).parents[1] / "results" / "paper"


def kept(name: str) -> ItemResult:
    return read_item_result(RECORDS / f"{name}.json")


def percent(result: ItemResult, panel: str, row: str, column: str) -> float:
    cell = result.find(panel, row, column)
    ours = None if cell is None else measured(cell)
    assert ours is not None
    return ours.mean


@pytest.mark.parametrize("name", ITEM_NAMES)
def test_every_cell_was_run_on_all_twenty_splits(name: str) -> None:
    item, result = read_item(name), kept(name)
    run = {(cell.panel, cell.row, cell.column): cell for cell in result.cells}
    assert run.keys() == {(cell.panel, cell.row, cell.column) for cell in item.cells()}
    assert not result.skipped and not result.failed and not result.shortened
    for cell in item.cells():
        kept_cell = run[cell.panel, cell.row, cell.column]
        assert kept_cell.paper == cell.paper
        assert kept_cell.reason == cell.reason
        assert len(kept_cell.test_accuracy) in (0, 20)


def test_graph_convolutions_on_the_citation_graphs_are_within_one_deviation_but_for_one() -> None:
    item, result = read_item("citation"), kept("citation")
    outside = set()
    for cell in result.cells:
        verdict = judge_cell(cell, item)
        if verdict is not None and verdict.name != "within one sd":
            outside.add((cell.row, cell.column))
            assert verdict.reasons, "a number outside must say why"
    assert {place for place in outside if place[0] not in ("SemiEmb", "DeepWalk")} == {
        ("GIN1", "Citeseer")
    }


def test_two_layers_of_crosses_beat_gcn_on_none_of_the_citation_graphs() -> None:
    claims = evaluate_claims(read_item("citation"), kept("citation"))
    (claim,) = (
        claim
        for claim in claims
        if "two layers" in claim.claim.says and "GCN on" in claim.claim.says
    )
    assert claim.outcome == "does not hold"


@pytest.mark.parametrize("panel", ["20 per class", "all nodes"])
def test_crosses_in_the_first_layer_matter_most(panel: str) -> None:
    result = kept("layer-ablation")
    for form in ("released form", "printed form", "gated (ours)"):
        first = percent(result, panel, "first layer", form)
        assert first > percent(result, panel, "second layer", form) + 20
        assert first > percent(result, panel, "no crosses", form) + 20


def test_accuracy_rises_from_20_to_60_percent_with_the_weight_of_the_crosses() -> None:
    result = kept("alpha")
    row = "first order as printed"
    assert percent(result, "20 per class", row, "0") == pytest.approx(20, abs=2)
    assert percent(result, "20 per class", row, "1") >= 60


@pytest.mark.parametrize("panel", ["20 per class", "all nodes"])
def test_gin_is_ahead_on_the_graph_made_for_crosses(panel: str) -> None:
    result = kept("citeseer-cross")
    for layers in ("one layer", "two layers"):
        for row in ("Cross-GCN", "Cross-GCN_Fix", "gated (ours)"):
            assert percent(result, panel, "GIN", layers) > percent(result, panel, row, layers)
