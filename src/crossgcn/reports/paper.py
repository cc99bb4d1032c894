"""The paper's number for a configuration, for tables that show it beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from crossgcn.evaluation.items import Cell, Row, read_item
from crossgcn.training.config import RunConfig

__all__ = ["PaperResult", "paper_result"]

_TABLES = ("citation", "citeseer-cross")


@dataclass(frozen=True)
class PaperResult:
    """One cell of a table in the paper, in percent.

    Attributes:
        method: What the paper calls the model.
        source: Which table.
        mean: Its mean.
        sd: Its standard deviation, where it is printed.
    """

    method: str
    source: str
    mean: float
    sd: float | None


def paper_result(config: RunConfig) -> PaperResult | None:
    """The paper's number for a configuration, if it has one and the two can be compared.

    They cannot when a setting that makes the preset what it is was changed, nor
    under another protocol than the paper's. Which one it used on Citeseer-Cross is
    not known (NOTE[D8]), so there both of ours stand beside its number.
    """
    changed = (config.order_weights, config.first_order, config.aggregate_first, config.bias)
    usual_order = config.order in (None, 2, (2,) * config.num_layers)
    if any(setting is not None for setting in changed) or not usual_order:
        return None
    if config.splits == "public" or (config.train == "all" and config.dataset != "citeseer-cross"):
        return None
    for source, row, cell in _printed():
        here = (cell.settings["dataset"], cell.settings["num_layers"])
        models = (cell.settings["model"], *row.presets)
        if config.model in models and (config.dataset, config.num_layers) == here:
            assert cell.paper is not None
            return PaperResult(row.label, source, cell.paper.mean, cell.paper.sd)
    return None


@cache
def _printed() -> tuple[tuple[str, Row, Cell], ...]:
    return tuple(_cells_with_a_number())


def _cells_with_a_number() -> Iterator[tuple[str, Row, Cell]]:
    for name in _TABLES:
        item = read_item(name)
        rows = {row.label: row for row in item.rows}
        for cell in item.cells():
            if cell.paper is not None:
                yield item.source, rows[cell.row], cell
