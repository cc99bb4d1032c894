"""The benchmark of the peers, on few rows."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from crossgcn import WorkFailed
from crossgcn.cli.bench import load_harness

HARNESS = load_harness()


@pytest.fixture
def script() -> Iterator[dict[str, Any]]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield runpy.run_path(str(HARNESS.FOLDER / "peers.py"))
    torch.set_num_threads(before)


def test_all_sides_are_measured_and_their_growth_is_fitted(script: dict[str, Any]) -> None:
    cases = [script["Case"](*size, 20) for size in ((12, 2), (256, 2), (1024, 2))]
    found = script["measure_cases"](cases, HARNESS.Options(quick=True, rounds=1))
    entries = found.extra["peers"]
    sides = 1 + len(script["OTHER_CROSSINGS"])
    assert len(entries) == len(found.timings) == len(found.checks) == 3 * sides
    assert all(entry["memory_bytes"] > 4 * entry["parameters"] for entry in entries)
    ratios = [result for result in found.results if result.unit == "×"]
    assert len(ratios) == 3 * (sides - 1)
    slopes = {
        result.what: result.value for result in found.results if result.case == "growth with D"
    }
    assert slopes["memory of DCN-v2, full"] > 1.2 > slopes["memory of cross"]


def test_what_has_too_many_parameters_is_said_and_not_made(script: dict[str, Any]) -> None:
    full = next(each for each in script["OTHER_CROSSINGS"] if each.label == "DCN-v2, full")
    count = script["count_parameters"](full, script["Case"](20_000, 2, 20))
    assert count == 20_000**2 + 20_000 * (32 + 1)
    assert count > script["MOST_PARAMETERS"]


def test_sparse_rows_that_give_something_else_stop_it(script: dict[str, Any]) -> None:
    class Wrong:
        label = "wrong"

        def make(self, features: int, order: int) -> Callable[[Any], Tensor]:
            return lambda x: x if isinstance(x, Tensor) else torch.zeros(x.shape)

    case = script["Case"](64, 2, 20)
    with pytest.raises(WorkFailed, match="wrong of sparse and of dense rows differ"):
        script["check_rows"](Wrong(), case, case.draw(0))
