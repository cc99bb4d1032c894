from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest
from pydantic import ValidationError

from crossgcn.data.datasets.catalogue import CATALOGUE
from crossgcn.errors import BadInput
from crossgcn.models.catalogue import build_model
from crossgcn.reproduction import ITEM_NAMES
from crossgcn.reproduction.items import Item, PaperValue, read_item
from crossgcn.reproduction.plan import CellResult, ItemResult
from crossgcn.reproduction.verdicts import evaluate_claims
from crossgcn.training.config import RunConfig


def test_every_file_is_an_item_and_every_item_has_one() -> None:
    folder = files("crossgcn.reproduction").joinpath("items")
    assert {file.name for file in folder.iterdir()} == {f"{name}.toml" for name in ITEM_NAMES}


@pytest.mark.parametrize("name", ITEM_NAMES)
def test_the_list_of_names_says_where_in_the_paper_an_item_stands(name: str) -> None:
    assert ITEM_NAMES[name].startswith(f"{read_item(name).source}, ")


@pytest.mark.parametrize("name", ITEM_NAMES)
def test_every_cell_is_a_model_that_can_be_made(name: str) -> None:
    for cell in read_item(name).cells():
        assert cell.settings["dataset"] in CATALOGUE
        for chosen in cell.choices():
            config = RunConfig.create(**{**cell.settings, **chosen})
            if config.hidden_channels <= 64:
                build_model(config.model, 12, 6, **config.model_settings())


def test_the_papers_tables_are_typed_off_without_a_slip() -> None:
    """Sums over whole tables of the paper, added up from its source."""

    def printed(name: str) -> list[PaperValue]:
        return [cell.paper for cell in read_item(name).cells() if cell.paper is not None]

    citation = printed("citation")
    assert (len(citation), sum(value.sd is not None for value in citation)) == (30, 24)
    assert sum(value.mean for value in citation) == pytest.approx(2131.4)
    assert sum(value.sd or 0 for value in citation) == pytest.approx(51.8)
    ablation = printed("layer-ablation")
    assert sum(value.mean for value in ablation) == pytest.approx(2 * (62.9 + 63.3 + 78.9 + 76.2))
    assert sum(value.mean for value in printed("training-time")) == pytest.approx(
        0.433 + 0.466 + 0.557 + 0.751 + 1.120 + 1.768
        + 0.478 + 0.534 + 0.627 + 0.881 + 1.430 + 2.629
        + 0.485 + 0.525 + 0.650 + 0.906 + 1.407 + 2.307
    )  # fmt: skip
    # Tables 3 and 4 stand in both panels.
    assert sum(value.mean for value in printed("citeseer-cross")) == pytest.approx(
        2 * (25.1 + 62.9 + 48.6 + 45.7 + 76.9 + 76.2)
    )


def of_the_paper(item: Item) -> ItemResult:
    """What would be measured if every run gave exactly what the paper prints."""
    cells = []
    for cell in item.cells():
        if cell.paper is None:
            continue
        key = {"panel": cell.panel, "row": cell.row, "column": cell.column, "x": cell.x}
        value = cell.paper.mean
        if item.kind == "timing":
            cells.append(CellResult(**key, timing={"mean": value}))
        else:
            accuracy = (value / 100,) * 3
            cells.append(CellResult(**key, test_accuracy=accuracy, validation_accuracy=accuracy))
    return ItemResult(item=item.name, cells=tuple(cells))


@pytest.mark.parametrize("name", ["citeseer-cross", "layer-ablation", "citation", "training-time"])
def test_the_papers_claims_hold_for_the_papers_numbers(name: str) -> None:
    """A claim that its own table refutes would be put into the paper's mouth."""
    item = read_item(name)
    claims = evaluate_claims(item, of_the_paper(item))
    tested = [claim for claim in claims if any(c.outcome != "not tested" for c in claim.checks)]
    assert len(tested) >= 2
    for claim in tested:
        outcomes = {check.outcome for check in claim.checks}
        assert outcomes <= {"shown", "not tested"}, (claim.claim.says, claim.checks)


def make(**changes: Any) -> Item:
    content: dict[str, Any] = {
        "name": "sample",
        "title": "A sample",
        "source": "Table 9",
        "kind": "table",
        "settings": {"dataset": "citeseer", "dropout": 0.1},
        "panels": [{"label": "few", "settings": {"train": 20}}, {"label": "many"}],
        "columns": [
            {"label": "narrow", "settings": {"hidden_channels": 16}},
            {"label": "chosen", "choose": {"hidden_channels": [16, 32], "dropout": [0.0, 0.5]}},
        ],
        "rows": [
            {"label": "GCN", "settings": {"model": "gcn", "dropout": 0.2}},
            {
                "label": "GIN",
                "settings": {"model": "gin"},
                "compare_with": "GCN",
                "paper": {"narrow": {"mean": 50}, "many/narrow": {"mean": 60, "sd": 2}},
                "panels": ["many"],
            },
        ],
    }
    return Item(**{**content, **changes})


def test_a_cell_merges_item_panel_row_and_column() -> None:
    first, second, *_ = make().cells()
    assert first.settings == {
        "dataset": "citeseer",
        "dropout": 0.2,
        "train": 20,
        "model": "gcn",
        "hidden_channels": 16,
    }
    assert list(first.choices()) == [{}]
    assert list(second.choices()) == [
        {"hidden_channels": width, "dropout": dropout} for width in (16, 32) for dropout in (0, 0.5)
    ]


def test_a_row_may_have_some_panels_only_and_a_number_for_one_of_them() -> None:
    places = {(cell.panel, cell.row, cell.column): cell for cell in make().cells()}
    assert len(places) == 6
    assert ("few", "GIN", "narrow") not in places
    cell = places["many", "GIN", "narrow"]
    assert cell.paper == PaperValue(mean=60, sd=2)
    assert cell.compare_with == "GCN"


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": [{"label": "GIN", "compare_with": "GCN"}]},
        {"rows": [{"label": "GIN", "paper": {"broad": {"mean": 1}}}]},
        {"rows": [{"label": "GIN", "paper": {"nowhere/narrow": {"mean": 1}}}]},
        {"claims": [{"says": "so", "checks": [{"cell": {"row": "GAT"}, "at_least": 1}]}]},
        {"claims": [{"says": "so", "checks": []}]},
        {"rows": []},
        {"colour": "red"},
    ],
)
def test_a_label_that_is_nowhere_is_found_when_the_file_is_read(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        make(**changes)


def test_an_unknown_item_is_answered_with_the_nearest() -> None:
    with pytest.raises(BadInput, match="citation"):
        read_item("citations")


def test_no_reason_or_finding_carries_a_measured_number() -> None:
    """Accuracies in the text would be results typed into a file."""
    for name in ITEM_NAMES:
        item = read_item(name)
        texts = [claim.finding for claim in item.claims]
        texts += [reason for row in item.rows for reason in row.reasons.values()]
        if item.kind != "statistics":
            assert not [text for text in texts if re.search(r"\d\d\.\d", text)]
