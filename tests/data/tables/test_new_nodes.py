from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.graph import NewNodes, load_new_tables
from crossgcn.data.tables.kinds.base import Unseen
from crossgcn.data.tables.plan import TableChoices, TablePlan, make_plan
from crossgcn.data.tables.read import read_table
from crossgcn.errors import BadInput

KNOWN = [f"u{i}" for i in range(40)]
NODES = pd.DataFrame(
    {
        "user": KNOWN,
        "city": ["Porto", "Faro", "Lagos", "Porto"] * 10,
        "age": range(100, 140),
        "buys": ["a", "b"] * 20,
    }
)
EDGES = pd.DataFrame({"who": KNOWN[:-1], "whom": KNOWN[1:]})
NEW = pd.DataFrame({"user": ["x", "y", "z"], "city": ["Faro", "Rome", None], "age": [1, 120, None]})


def trained(edges: pd.DataFrame | None = EDGES, **choices: Any) -> tuple[TableEncoder, TablePlan]:
    nodes = read_table(NODES, "nodes")
    table = None if edges is None else read_table(edges, "edges")
    plan = make_plan(nodes, table, TableChoices(target="buys", **choices))
    return TableEncoder.fit(plan.with_missing_words(nodes), plan.features), plan


def load(
    nodes: pd.DataFrame = NEW,
    edges: pd.DataFrame | None = None,
    trained_on: tuple[TableEncoder, TablePlan] | None = None,
) -> NewNodes:
    encoder, plan = trained_on or trained()
    return load_new_tables(nodes, edges, encoder, plan, KNOWN)


def test_new_nodes_come_after_the_known_ones() -> None:
    edges = pd.DataFrame({"who": ["x", "z", "u3", "y"], "whom": ["u39", "x", "y", "y"]})
    new = load(edges=edges)
    assert new.ids == ("x", "y", "z")
    assert new.relations[0].edge_index.dtype == torch.int64
    assert new.relations[0].edge_index.tolist() == [[40, 42, 3], [39, 40, 41]]
    assert new.relations[0].edge_weight is None


def test_new_nodes_are_encoded_as_the_known_ones_were() -> None:
    encoder, _ = trained()
    new = load(NEW.assign(shoe_size=44))
    active = [
        {encoder.space.names[at] for at in np.flatnonzero(row)} - {"age", "age rank"}
        for row in new.x.toarray()
    ]
    lowest, middle = (
        name for name in encoder.space.names if name in active[0] | active[1] and "age" in name
    )
    assert active == [{"city=Faro", lowest}, {"city=(other)", middle}, {"city=(other)"}]
    assert new.unused == ("shoe_size",)


def test_unseen_values_are_reported() -> None:
    cities = ["Porto", "Faro", "Lagos", "Porto"] * 10
    cities[0] = "Évora"
    tags = ["red;blue", "blue", "red", "green;red"] * 10
    codes = [3, 4, 5, 3] * 10
    table = read_table(NODES.assign(city=cities, tags=tags, code=codes), "nodes")
    plan = make_plan(table, None, TableChoices(target="buys"))
    encoder = TableEncoder.fit(plan.with_missing_words(table), plan.features)
    new = pd.DataFrame(
        {
            "user": [f"x{i}" for i in range(7)],
            "city": ["Rome", " PORTO", "Évora", "Faro ", "", "Rome", "porto"],
            "age": 100,
            "tags": ["red;pink", "Blue", "red", "", "pink; Blue;mauve", "blue", "NA"],
            "code": ["3.0", "4", "5.0", "6", "6", "", "NA"],
        }
    )
    found = load(new, None, (encoder, plan)).unseen
    assert found == (
        Unseen("city", 4, "Rome"),
        Unseen("tags", 3, "pink"),
        Unseen("code", 2, "6"),
    )
    known = new.assign(city="Évora", tags="red", code="3")
    assert load(known, None, (encoder, plan)).unseen == ()
    assert load(NEW).unseen == (Unseen("city", 1, "Rome"),)


def test_there_may_be_no_edges_and_no_target() -> None:
    assert load().relations[0].edge_index.shape == (2, 0)
    assert load(NEW.assign(buys="a")).unused == ()


def test_weights_are_read_where_the_model_has_them() -> None:
    weighted = trained(EDGES.assign(weight=1.0))
    edges = pd.DataFrame({"who": ["x", "y"], "whom": ["x", "u0"], "weight": [7.0, 0.5]})
    new = load(edges=edges, trained_on=weighted)
    assert new.relations[0].edge_weight is not None
    assert new.relations[0].edge_weight.tolist() == [0.5]
    assert new.relations[0].edge_index.tolist() == [[41], [0]]
    for weight in ("-1", "inf", "", "1e300", "heavy"):
        with pytest.raises(
            BadInput, match=r"edges, row 2, column weight: .* not a weight from 0.*write a number"
        ):
            load(edges=edges.assign(weight=["1", weight]), trained_on=weighted)
    with pytest.raises(BadInput, match="edges: there is no column 'weight'"):
        load(edges=edges[["who", "whom"]], trained_on=weighted)


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (
            NEW.assign(user=["x", "u7", "z"]),
            None,
            r"row 2, column user: the model was trained on 'u7'",
        ),
        (
            NEW.assign(user=["x", "y", "x"]),
            None,
            r"row 3, column user: 'x' is already the id of row 1",
        ),
        (NEW.assign(user=["x", "", "z"]), None, r"row 2, column user: the node has no id; give"),
        (NEW.drop(columns="user"), None, "nodes: there is no column 'user'"),
        (NEW.drop(columns="age"), None, "nodes: there is no column 'age'"),
        (NEW.assign(age=["1", "old", ""]), None, "row 2, column age: 'old' is not a finite number"),
        (
            NEW,
            pd.DataFrame({"who": ["x", "y"], "whom": ["u0", "nobody"]}),
            r"edges, row 2, column whom: 'nobody' is not a node.*, nor among the 40 nodes tr",
        ),
        (NEW, pd.DataFrame({"who": ["x"], "to": ["u0"]}), "edges: there is no column 'whom'"),
    ],
)
def test_bad_tables_of_new_nodes_are_refused(
    nodes: pd.DataFrame, edges: pd.DataFrame | None, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        load(nodes, edges)


def test_a_model_trained_without_edges_refuses_edges() -> None:
    with pytest.raises(BadInput, match="edges: the model was trained without edges"):
        load(edges=EDGES, trained_on=trained(None))
