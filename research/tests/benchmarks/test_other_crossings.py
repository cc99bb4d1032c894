"""The benchmark of other feature-crossing modules, on few rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from crossgcn import WorkFailed
from research.benchmarks import peers
from research.benchmarks.harness.command import Options

pytestmark = pytest.mark.usefixtures("one_thread")


def test_all_sides_are_measured_and_their_growth_is_fitted() -> None:
    cases = [peers.Case(*size, 20) for size in ((12, 2), (256, 2), (1024, 2))]
    found = peers.measure_cases(cases, Options(quick=True, rounds=1))
    entries = found.extra["peers"]
    sides = 1 + len(peers.OTHER_CROSSINGS)
    assert len(entries) == len(found.timings) == len(found.checks) == 3 * sides
    assert all(entry["memory_bytes"] > 4 * entry["parameters"] for entry in entries)
    ratios = [result for result in found.results if result.unit == "×"]
    assert len(ratios) == 3 * (sides - 1)
    slopes = {
        result.what: result.value for result in found.results if result.case == "growth with D"
    }
    assert slopes["memory of DCN-v2, full"] > 1.2 > slopes["memory of cross"]


def test_what_has_too_many_parameters_is_said_and_not_made() -> None:
    full = next(each for each in peers.OTHER_CROSSINGS if each.label == "DCN-v2, full")
    count = peers.count_parameters(full, peers.Case(20_000, 2, 20))
    assert count == 20_000**2 + 20_000 * (32 + 1)
    assert count > peers.MOST_PARAMETERS


def test_sparse_rows_that_give_something_else_stop_it() -> None:
    class Wrong:
        label = "wrong"

        def make(self, features: int, order: int) -> Callable[[Any], Tensor]:
            return lambda x: x if isinstance(x, Tensor) else torch.zeros(x.shape)

    case = peers.Case(64, 2, 20)
    with pytest.raises(WorkFailed, match="wrong of sparse and of dense rows differ"):
        peers.check_rows(Wrong(), case, case.draw(0))  # type: ignore[arg-type]
