"""The paper's numbers, as the files in ``experiments`` hold them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

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


def paper_result(dataset: str, model: str, num_layers: int) -> PaperResult | None:
    """The paper's number for a model on a dataset, if it has one."""
    for source, result in _results():
        if model in result["models"] and num_layers == result["num_layers"] and dataset in result:
            return PaperResult(result["method"], source, **result[dataset])
    return None


@cache
def _results() -> list[tuple[str, dict[str, Any]]]:
    tables = []
    for file in sorted(files("crossgcn").joinpath("experiments").iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            content = tomllib.loads(file.read_text(encoding="utf-8"))
            tables += [(content["source"], result) for result in content.get("result", ())]
    return tables
