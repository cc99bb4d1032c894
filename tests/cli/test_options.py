"""What the texts of options are read as."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from conftest_fixtures import Command

from crossgcn.cli.options import read_settings
from crossgcn.errors import BadInput


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("learning_rate=0.1", 0.1),
        ("batch-size=64", 64),
        ("bias = false", False),
        ("class_weight=balanced", "balanced"),
        ("order=2,1", [2, 1]),
        ("order_weights=0.5", [0.5]),
    ],
)
def test_a_setting_is_read_from_text(text: str, value: Any) -> None:
    (read,) = read_settings([text]).values()
    assert read == value and type(read) is type(value)


def test_a_setting_is_given_once_and_with_a_value() -> None:
    with pytest.raises(BadInput, match="order is given twice"):
        read_settings(["order=2"], order="3")
    with pytest.raises(BadInput, match="--set takes name=value"):
        read_settings(["order"])


def test_a_comma_within_the_name_of_a_column_is_escaped(crossgcn: Command) -> None:
    frame = pd.DataFrame({"price, net": [1.5, 2.5] * 20, "b": [1.0, 3.0] * 20, "y": [0, 1] * 20})
    frame.to_csv("nodes.csv", index_label="id")
    done = crossgcn(
        "check", "nodes.csv", "--target", "y", "--ignore", r"price\, net, b ,", "--json"
    )
    assert done.stdout.count('"ignored"') == 2, done.stdout
