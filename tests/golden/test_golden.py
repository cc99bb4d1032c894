"""Results of commands, frozen before the package was made smaller."""

from __future__ import annotations

import json
from typing import Any

import pytest
from stories import RESULTS, ROUNDING, STORIES, Run, tell

RECORDED = json.loads(RESULTS.read_text())["stories"]


def close(value: Any, recorded: Any) -> bool:
    """Whether numbers differ by no more than rounding, which training enlarges."""
    if isinstance(recorded, dict):
        return list(value) == list(recorded) and all(close(value[k], recorded[k]) for k in recorded)
    return bool(value == pytest.approx(recorded, rel=2e-3, abs=2e-3))


@pytest.mark.parametrize("title", STORIES)
def test_results_are_those_of_before(title: str, crossgcn: Run) -> None:
    recorded = RECORDED[title]
    different = {}
    told = list(tell(STORIES[title], crossgcn))
    for label, mark, value in told:
        before = recorded[label]["value"]
        same = close(value, before) if mark == ROUNDING else value == before
        if not same:
            different[label] = {"before": before, "now": value}
    assert not different
    assert [label for label, _, _ in told] == list(recorded)
