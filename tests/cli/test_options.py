"""Options are made from the fields of RunConfig, so they cannot differ from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pandas as pd
import pytest

Command = Callable[..., CompletedProcess[str]]

NOT_OPTIONS = {"dataset", "test_curve"}
"""The dataset is an argument; the test curve is for the figures of the paper."""


@pytest.mark.parametrize(
    ("order", "weights", "read"),
    [("2", "1,0.5", (2, [1.0, 0.5])), ("2,1", "mean", ([2, 1], "mean"))],
)
def test_options_reach_the_run(
    crossgcn: Command, graph_file: Path, order: str, weights: str, read: tuple[object, ...]
) -> None:
    options = (
        "--order",
        order,
        "--order-weights",
        weights,
        "--set",
        "aggregate_first=false",
        "--train",
        5,
    )
    tiny = ("--epochs", 2, "--num-splits", 1, "--hidden-channels", 4, "--workers", 1)
    done = crossgcn("train", graph_file, *tiny, *options, "--out", "out")
    assert done.returncode == 0, done.stderr
    (record,) = Path("out").rglob("run.json")
    config = pd.read_json(record, typ="series")["config"]
    assert (config["order"], config["order_weights"]) == read
    assert (config["aggregate_first"], config["train"], config["epochs"]) == (False, 5, 2)


def test_a_comma_within_the_name_of_a_column_is_escaped(crossgcn: Command) -> None:
    frame = pd.DataFrame({"price, net": [1.5, 2.5] * 20, "b": [1.0, 3.0] * 20, "y": [0, 1] * 20})
    frame.to_csv("nodes.csv", index_label="id")
    done = crossgcn(
        "check", "nodes.csv", "--target", "y", "--ignore", r"price\, net, b ,", "--json"
    )
    assert done.stdout.count('"ignored"') == 2, done.stdout
