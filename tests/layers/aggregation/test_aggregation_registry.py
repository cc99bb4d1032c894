from __future__ import annotations

import subprocess
import sys

import pytest

from crossgcn import BadInput
from crossgcn.layers.aggregation import AGGREGATIONS, make_aggregation
from crossgcn.models.presets import AGGREGATION_DESCRIPTIONS, AGGREGATION_NAMES


def test_what_the_command_line_lists_is_what_there_is() -> None:
    assert tuple(AGGREGATIONS) == AGGREGATION_NAMES
    assert all(AGGREGATION_DESCRIPTIONS.values())


def test_the_names_are_known_without_torch() -> None:
    code = (
        "import sys; import crossgcn.models.presets; "
        "sys.exit(bool({'torch', 'numpy', 'scipy', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_name_is_refused_with_the_list() -> None:
    with pytest.raises(BadInput, match=r"unknown aggregation 'gats': did you mean 'gat'.*appnp"):
        make_aggregation("gats", 4)


@pytest.mark.parametrize(
    ("name", "has"),
    [("gat", "heads, negative_slope"), ("max", "none"), ("softmax", "t, learn, per_channel")],
)
def test_an_unknown_setting_is_refused_with_those_there_are(name: str, has: str) -> None:
    with pytest.raises(BadInput, match=f"aggregation '{name}' has no setting 'head': it has {has}"):
        make_aggregation(name, 4, head=2)


def test_no_one_may_turn_a_gru_into_an_lstm_by_a_setting() -> None:
    with pytest.raises(BadInput, match="aggregation 'gru' has no setting 'cell': it has none"):
        make_aggregation("gru", 4, cell="lstm")
