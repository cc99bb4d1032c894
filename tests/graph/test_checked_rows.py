"""Rows that would lead out of a graph are refused, by compiled loops and plain ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crossgcn import BadInput
from crossgcn.graph.sampling import source as checked_rows
from crossgcn.graph.sampling.source import GraphSource
from crossgcn.kernels import sampling
from crossgcn.kernels import sampling as plain_sampling
from crossgcn.kernels.sampling import ALL

LOOPS = [plain_sampling, sampling.loops()]
OFFSETS, NEIGHBOURS = [0, 2, 2, 5], [0, 2, 0, 1, 2]


def rows(offsets: list[int], neighbours: list[int]) -> GraphSource:
    return GraphSource(torch.tensor(offsets), torch.tensor(neighbours, dtype=torch.int32))


@pytest.fixture(params=LOOPS, ids=["plain", "compiled"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_rows, "loops", lambda: request.param)


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize(("place", "value"), [(1, 6), (1, -1), (1, 3), (2, 2**40), (3, 6)])
def test_an_offset_is_refused_wherever_it_is_read(place: int, value: int) -> None:
    offsets = OFFSETS.copy()
    offsets[place] = value
    changed, nodes, none = rows(offsets, NEIGHBOURS), np.arange(3), np.empty(0, np.float32)
    for read in (
        lambda: changed.draw(nodes, ALL, 0, True),
        lambda: changed.draw(nodes, 1, 0, False),
        lambda: changed.find_own(nodes),
        lambda: changed.weigh(none, True, 0, 3),
        changed.check_all,
    ):
        with pytest.raises(BadInput, match="offsets are of no graph: row "):
            read()


@pytest.mark.usefixtures("either")
def test_rows_that_are_not_read_are_not_looked_at() -> None:
    changed = rows([0, 2, 2, 2**40], [0, 9, 0, 1, 2])
    assert changed.find_own(np.array([0, 1])).tolist() == [0, -1]
    starts, entries, drawn = changed.draw(np.array([1]), ALL, 0, True)
    assert (starts.tolist(), entries.size, drawn.size) == ([0, 0], 0, 0)
    with pytest.raises(BadInput, match="node 9 is none of 3"):
        changed.draw(np.array([0]), ALL, 0, True)


@given(
    st.lists(st.integers(-3, 8), min_size=4, max_size=4),
    st.lists(st.integers(-2, 5), min_size=5, max_size=5),
)
def test_all_rows_pass_together_where_each_is_one(offsets: Any, neighbours: Any) -> None:
    whole = offsets[0] == 0 and offsets[-1] == 5 and offsets == sorted(offsets)
    whole = whole and all(0 <= node < 3 for node in neighbours)
    if whole:
        rows(offsets, neighbours).check_all()
        return
    with pytest.raises(BadInput):
        rows(offsets, neighbours).check_all()
