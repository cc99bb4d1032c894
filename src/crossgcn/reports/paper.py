"""The paper's numbers, as the files in ``experiments`` hold them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from crossgcn.training.config import RunConfig

__all__ = ["PaperResult", "paper_result"]


@dataclass(frozen=True)
class PaperResult:
    """One cell of a table in the paper, in percent.

    Attributes:
        method: What the paper calls the model.
        source: Which table.
        mean: Its mean.
        sd: Its standard deviation.
    """

    method: str
    source: str
    mean: float
    sd: float


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
    for source, result in _results():
        same_model = config.model in result["models"] and config.num_layers == result["num_layers"]
        if same_model and config.dataset in result:
            return PaperResult(result["method"], source, **result[config.dataset])
    return None


@cache
def _results() -> list[tuple[str, dict[str, Any]]]:
    tables = []
    for file in sorted(files("crossgcn").joinpath("experiments").iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            content = tomllib.loads(file.read_text(encoding="utf-8"))
            tables += [(content["source"], result) for result in content.get("result", ())]
    return tables
