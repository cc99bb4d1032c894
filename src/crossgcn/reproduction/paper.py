"""The paper's number for a configuration, for tables that show it beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from crossgcn.reproduction.items import Cell, Row, read_item
from crossgcn.training.config import RunConfig

_TABLES = ("citation", "citeseer-cross")
_FREE = {"hidden_channels", "dropout", "input_dropout", "order"}
"""Model settings that may differ from the paper's; ``order`` has a rule of its own."""


@dataclass(frozen=True)
class PaperResult:
    """A cell of a table in the paper, in percent; ``method`` is the paper's name of the model."""

    method: str
    source: str
    mean: float
    sd: float | None


def paper_result(config: RunConfig) -> PaperResult | None:
    """Return the paper's number for a configuration, if there is a comparable one.

    There is none if a setting that defines the preset was changed, or under another protocol
    than the paper's. The protocol on Citeseer-Cross is not known (NOTE[D8]), so there the
    paper's number applies to both of ours.
    """
    if config.order not in (None, 2, (2,) * config.num_layers):
        return None
    if config.splits == "public" or (config.train == "all" and config.dataset != "citeseer-cross"):
        return None
    for source, row, cell in _printed():
        settings = {"dataset": config.dataset} | config.model_settings()
        same = all(
            value == cell.settings.get(name)
            for name, value in settings.items()
            if name not in _FREE and name not in cell.choose
        )
        if same and config.model in (cell.settings["model"], *row.presets):
            assert cell.paper is not None
            return PaperResult(row.label, source, cell.paper.mean, cell.paper.sd)
    return None


@cache
def _printed() -> tuple[tuple[str, Row, Cell], ...]:
    """Return the cells with a printed number, with their table and row."""
    return tuple(
        (item.source, next(row for row in item.rows if row.label == cell.row), cell)
        for item in map(read_item, _TABLES)
        for cell in item.cells()
        if cell.paper is not None
    )
