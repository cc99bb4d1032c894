"""The settings that a search on validation nodes chose, from its record."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from crossgcn.errors import BadInput

__all__ = ["Chosen", "SearchRecord", "read_search"]


class _Trial(BaseModel):
    """Settings that were tried; a trial that failed has no accuracy."""

    model_config = ConfigDict(frozen=True)

    dataset: str
    model: str
    settings: Mapping[str, Any]
    validation_mean: float | None = None


@dataclass(frozen=True)
class Chosen:
    """What a search ended with.

    Attributes:
        settings: Those of the best mean validation accuracy; of equals the first.
        validation_mean: That accuracy, a fraction.
        trials: How many settings were tried, failed ones included.
    """

    settings: Mapping[str, Any]
    validation_mean: float
    trials: int


class SearchRecord(BaseModel):
    """All trials of a search: ``{"rows": [{dataset, model, settings, validation_mean}, …]}``."""

    model_config = ConfigDict(frozen=True)

    rows: tuple[_Trial, ...]

    def choose(self, dataset: str, model: str) -> Chosen:
        """The best settings of a model on a dataset, by validation accuracy alone.

        Raises:
            BadInput: If no trial of theirs came to an end.
        """
        tried = [row for row in self.rows if (row.dataset, row.model) == (dataset, model)]
        done = [
            (row.validation_mean, row)
            for row in tried
            if row.validation_mean is not None and math.isfinite(row.validation_mean)
        ]
        if not done:
            raise BadInput(
                f"the search has no finished trial of {model} on {dataset}: search it first"
            )
        best, row = max(done, key=lambda trial: trial[0])
        return Chosen(row.settings, best, len(tried))


def read_search(path: Path) -> SearchRecord:
    """Read the record of a search.

    Raises:
        BadInput: If it is not there or not one.
    """
    try:
        return SearchRecord(**json.loads(path.read_bytes()))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); search first") from None
    except (ValueError, TypeError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise BadInput(f"{path}: is not the record of a search ({first})") from None
