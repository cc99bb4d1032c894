from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from torch import device

import research.findings
from crossgcn.data.datasets.catalogue import CATALOGUE
from crossgcn.errors import BadInput
from crossgcn.models.catalogue import build_model
from crossgcn.training.config import RunConfig
from crossgcn.training.trainer import shared_settings
from research.findings.tables import TABLE_NAMES, Column, FindingsTable, Row, read_table

TRAINED_ALIKE = ("epochs", "weight_decay", "learning_rate", "dropout", "hidden_channels")


def test_every_file_is_a_table() -> None:
    folder = Path(research.findings.__file__).parent
    assert {file.name for file in folder.glob("*.toml")} == {f"{name}.toml" for name in TABLE_NAMES}


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_row_is_a_model_that_can_be_made(name: str) -> None:
    for cell in read_table(name).cells():
        assert cell.settings["dataset"] in CATALOGUE
        for candidate in cell.candidates():
            config = RunConfig.create(**{**cell.settings, **candidate})
            with device("meta"):
                build_model(config.model, 12, 3, **config.model_settings())


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_rows_are_trained_like_what_they_are_compared_with(name: str) -> None:
    table = read_table(name)
    configs = {
        (cell.row, cell.column): RunConfig.create(**{**cell.defaults, **cell.settings})
        for cell in table.cells()
    }
    compared = 0
    for row in table.rows:
        for other in row.against:
            for column in table.columns:
                if not row.stands_in(column):
                    continue
                ours, theirs = configs[row.label, column.label], configs[other, column.label]
                assert shared_settings(ours) == shared_settings(theirs)
                for setting in TRAINED_ALIKE:
                    assert getattr(ours, setting) == getattr(theirs, setting)
                assert ours.num_layers == theirs.num_layers
                assert ours.identity() != theirs.identity()
                compared += 1
    assert compared


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_a_cell_comes_after_those_it_is_compared_with(name: str) -> None:
    table = read_table(name)
    order = [(cell.row, cell.column) for cell in table.cells()]
    assert len({*order}) == len(order)
    for row in table.rows:
        for column in filter(row.stands_in, table.columns):
            place = order.index((row.label, column.label))
            assert all(order.index((other, column.label)) < place for other in row.against)


def test_a_table_cannot_compare_with_a_row_it_does_not_have() -> None:
    with pytest.raises(ValidationError, match="compared with gcm, no other row"):
        FindingsTable(
            name="x",
            title="",
            compares="",
            columns=(Column(label="a", settings={}),),
            rows=(Row(label="b", settings={}, against=("gcm",)),),
        )


def test_a_row_stands_only_in_columns_that_are_there() -> None:
    columns = (Column(label="a", settings={}), Column(label="b", settings={}))
    rows = (Row(label="plain", settings={}), Row(label="new", settings={}, columns=("b",)))
    table = FindingsTable(name="x", title="", compares="", columns=columns, rows=rows)
    assert [(c.row, c.column) for c in table.cells()] == [
        ("plain", "a"),
        ("plain", "b"),
        ("new", "b"),
    ]
    with pytest.raises(ValidationError, match="new is measured in b, no column"):
        FindingsTable(name="x", title="", compares="", columns=columns[:1], rows=rows)


def test_a_search_has_chosen_already() -> None:
    cells = {(cell.row, cell.column): cell for cell in read_table("orders").cells()}
    assert list(cells["searched", "planted triples"].candidates()) == [{}]
    assert ("searched", "planted pairs") not in cells
    assert len(list(cells["order 3, 1 layer", "planted triples"].candidates())) == 4


def test_an_unknown_table_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="did you mean 'peers'"):
        read_table("peer")
