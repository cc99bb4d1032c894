"""What would change an answer, and dates as dates, on a table with dates and gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from architectures import one_thread  # noqa: F401

from crossgcn import TableModel, from_tables


def make_tables(rows: int = 400) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Late orders, by their date, their speed and a weight that goes with the kind."""
    random = np.random.default_rng(0)
    days = random.integers(0, 900, rows)
    kind = random.integers(2, size=rows)
    weight = np.where(kind, random.integers(10, 40, rows), random.integers(60, 90, rows))
    speed = random.integers(20, 500, rows)
    late = days / 900 + 1.5 * (speed < 200) + weight / 50 + 0.1 * random.normal(size=rows)
    nodes = pd.DataFrame({"id": [f"o{row}" for row in range(rows)]})
    nodes["ordered"] = (pd.Timestamp("2021-02-03") + pd.to_timedelta(days, "D")).strftime(
        "%d.%m.%Y"
    )
    nodes["kind"] = np.array(["box", "crate"])[kind]
    nodes["weight"], nodes["speed"] = weight, speed
    nodes["answer"] = np.where(late > np.median(late), "often late", "on time")
    nodes.loc[::9, "speed"] = None
    nodes.loc[4::17, "ordered"] = None
    ends = random.choice(nodes["id"].to_numpy(object), (2, 900))
    return nodes, pd.DataFrame({"a": ends[0], "b": ends[1]}).query("a != b")


NODES, EDGES = make_tables()


@pytest.fixture(scope="module")
def model() -> TableModel:
    settings: dict[str, Any] = {"num_splits": 1, "epochs": 60, "bags": 2, "tuning": 1}
    return from_tables(NODES, EDGES, "answer", columns="all", hops=1, **settings).fit()


@pytest.mark.filterwarnings("ignore:the model was trained with edges:UserWarning")
def test_changes_are_possible_and_answer_otherwise(model: TableModel) -> None:
    whole, changed = model.explain(), set()
    new = NODES.drop(columns="answer").assign(id="new-" + NODES["id"]).head(60)
    for views in ([whole.node(f"o{row}") for row in range(120)], _new(model, new)):
        for view in views:
            source = (NODES if view.name in set(NODES["id"]) else new).set_index("id")
            row = source.loc[view.name]
            for change in view.changes:
                column = change["column"]
                changed.add(column)
                assert not pd.isna(row[column]) and "missing" not in (
                    change["before"],
                    change["after"],
                )
                assert change["outcome"] != view.predicted
                if column == "ordered":
                    before, after = (pd.Timestamp(change[each]) for each in ("before", "after"))
                    assert before == pd.to_datetime(row["ordered"], format="%d.%m.%Y")
                    dates = pd.to_datetime(NODES["ordered"], format="%d.%m.%Y")
                    assert (dates == after).any()
                if column in ("kind", "weight"):  # weights of boxes and of crates are apart
                    kind = change["after"] if column == "kind" else row["kind"]
                    weight = float(change["after"] if column == "weight" else row["weight"])
                    assert (weight > 50) == (kind == "box")
    assert {"ordered", "speed"} <= changed


def _new(model: TableModel, rows: pd.DataFrame) -> list[Any]:
    whole = model.explain(rows)
    return [whole.node(name) for name in rows["id"]]


def test_a_date_is_shown_as_a_date(model: TableModel) -> None:
    whole = model.explain()
    for row in (0, 1, 4):
        held, written = whole.node(f"o{row}").held["ordered"], NODES["ordered"][row]
        day = pd.to_datetime(written, format="%d.%m.%Y")
        assert held == ("missing" if pd.isna(written) else str(day.date()))
    dates = pd.to_datetime(NODES.set_index("id")["ordered"], format="%d.%m.%Y")
    ends = pd.concat([EDGES, EDGES.rename(columns={"a": "b", "b": "a"})]).drop_duplicates()
    near = dates[ends.loc[ends["a"] == "o3", "b"]]
    shown = pd.Timestamp(whole.node("o3").held["neighbours: ordered"])
    assert near.isna().any() or abs((shown - near.mean()).days) <= 1
    cells = whole.inside(whole.term("ordered"))["cells"]
    assert cells[0]["names"][0].startswith("ordered 2021-02-")
    assert "neighbours: answer" in {column.name for column in whole.columns}
