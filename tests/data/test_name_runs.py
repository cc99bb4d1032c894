"""Names come back as they were, however they were written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossgcn import BadInput
from crossgcn.data.preprocess import MOST_NAMES, expand_names, shorten_names

RUNS = st.one_of(
    st.lists(st.sampled_from(["a", "a1", "a2", "x#0", "", "7", "a=b", "a01"]), max_size=5),
    st.builds(
        lambda name, start, length: [f"{name}{number}" for number in range(start, start + length)],
        st.sampled_from(["", "a", "a0", "a1", "city#", "\n"]),
        st.integers(0, 1005),
        st.integers(0, 130),
    ),
    st.builds(
        lambda name, length: [name] * length, st.sampled_from(["a", "9", ""]), st.integers(0, 130)
    ),
)


@settings(deadline=None)
@given(st.lists(RUNS, max_size=6))
def test_what_was_written_short_is_read_as_it_was(runs: list[list[str]]) -> None:
    names = tuple(name for run in runs for name in run)
    assert expand_names(json.loads(json.dumps(shorten_names(names))), "names") == names
    assert expand_names(list(names), "names") == names


def test_long_runs_are_short_and_short_ones_are_left() -> None:
    hashed = [f"city#{number}" for number in range(1 << 16)]
    hashed[300] += "=Porto"
    assert shorten_names(hashed) == [
        ["city#", 0, 300],
        "city#300=Porto",
        ["city#", 301, 1 << 16],
    ]
    assert shorten_names(["city"] * 100) == [["city", 100]]
    words = [f"w{number}" for number in range(40)]
    assert shorten_names(words) == words


@pytest.mark.parametrize(
    "short",
    ["a", [1], [["a"]], [["a", -1]], [["a", 3, 2]], [["a", 0, MOST_NAMES + 1]], [["a", 1.5]], [[]]],
)
def test_anything_else_is_refused(short: Any) -> None:
    with pytest.raises(BadInput, match="names is not a list of names"):
        expand_names(short, "names")
