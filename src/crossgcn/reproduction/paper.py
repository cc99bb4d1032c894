"""The paper's number for a configuration, for tables that show it beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from crossgcn.reproduction.items import Cell, Row, read_item
from crossgcn.training.config import RunConfig

_TABLES = ("citation", "citeseer-cross")
_VARIANTS = (
    *("order_weights", "first_order", "aggregate_first", "bias"),
    *("aggr", "transform", "scaling", "residual"),
)
_TELLING = ("dataset", "num_layers", *_VARIANTS)


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
    if config.order not in (None, 2, (2,) * config.num_layers):
        return None
    if config.splits == "public" or (config.train == "all" and config.dataset != "citeseer-cross"):
        return None
    for source, row, cell in _printed():
        models = (cell.settings["model"], *row.presets)
        same = all(getattr(config, name) == cell.settings.get(name) for name in _TELLING)
        if config.model in models and same:
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
