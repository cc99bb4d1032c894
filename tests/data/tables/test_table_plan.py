from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from crossgcn.data.tables.plan import TableChoices, make_plan
from crossgcn.data.tables.read import read_table
from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput

N = 60


def nodes_with(**columns: Any) -> Table:
    """A table of sixty nodes, n0 to n59, with the given columns beside their ids."""
    return read_table(pd.DataFrame({"id": [f"n{i}" for i in range(N)], **columns}), "nodes")


def edges_with(**columns: Any) -> Table:
    return read_table(pd.DataFrame(columns), "edges")


def cycle(*values: Any) -> list[Any]:
    return [values[i % len(values)] for i in range(N)]


COLUMNS: dict[str, tuple[list[Any], str, str]] = {
    "0 and 1": (cycle(0, 1, 1), "flag", "only 0 and 1"),
    "0 and 1 with gaps": (cycle(0, 1, None), "flag", "only 0 and 1"),
    "truth values": (cycle(True, False), "flag", "only false and true"),
    "True and FALSE": (cycle("True", "FALSE"), "flag", "only FALSE and True"),
    "words": (cycle("red", "green", "blue"), "categorical", "3 different values"),
    "words with space around": (cycle("red", " red", "blue "), "categorical", "2 different values"),
    "yes and no": (cycle("yes", "no"), "categorical", "2 different values"),
    "one word or nothing": (cycle("gift", ""), "categorical", "'gift' or nothing"),
    "small codes": (cycle(1, 2, 3, 5), "categorical", "4 different whole numbers, taken as codes"),
    "codes with a word": (
        cycle(*[1, 2, 3] * 5, "other"),
        "categorical",
        "4 different values, most",
    ),
    "many whole numbers": (cycle(*range(18, 48)), "numeric", "numbers from 18 to 47"),
    "few floats": (cycle(0.5, 1.5), "numeric", "numbers from 0.5 to 1.5"),
    "all different floats": ([i / 7 for i in range(N)], "numeric", "numbers from 0 to"),
    "a cell that is not a number": (["?", *range(100, 159)], "numeric", "98.3% numbers from 100"),
    "an infinity": (["inf", *range(100, 159)], "numeric", "numbers from 100 to inf"),
    "codes with leading zeros": (
        cycle("01067", "10115", "20095"),
        "categorical",
        "3 different values",
    ),
    "rows counted": (list(range(1, N + 1)), "ignored", "counts the rows"),
    "all the same": (["x"] * N, "ignored", "always 'x'"),
    "nothing": ([None] * N, "ignored", "no cell has a value"),
    "names": ([f"Ann {i}" for i in range(N)], "ignored", "60 different texts in 60 cells"),
    "nearly all names": (
        [f"Ann {i % 56}" for i in range(N)],
        "ignored",
        "56 different texts in 60",
    ),
    "names that rows share": ([f"Ann {i % 50}" for i in range(N)], "categorical", "50 different"),
    "free text": (
        [f"the {i % 50} words of which a note is made" for i in range(N)],
        *("ignored", "50 different texts in 60 cells of 9 words on average: free text"),
    ),
    "days": ([f"2024-02-{i % 28 + 1:02d}" for i in range(N)], "date", "28 different dates"),
    "days or months": (
        [f"{i % 11 + 1}/{i % 9 + 2}/2024" for i in range(N)],
        *("date", "written %m/%d/%Y, though %d/%m/%Y fits as well"),
    ),
    "times": ([f"2024-02-03 {i % 24:02d}:00" for i in range(N)], "date", "different dates"),
    "days in words of Europe": (
        [f"{i % 28 + 1}.02.2024" for i in range(N)],
        "date",
        "different dates",
    ),
    "lists": (cycle("a;b", "b;c", "a", "c;a;b", "b"), "list", "lists of 3 words between ';'"),
    "lists with bars": (cycle("a|b", "b|c", "a", "c|a|b"), "list", "3 words between '|'"),
    "lists with commas": (cycle("a, b", "b, c", "a", "c,a,b"), "list", "3 words between ','"),
    "lists in JSON": (cycle('["a", "b"]', "['b']", "[]"), "list", "2 words as JSON"),
    "lists of Python": (cycle(["a", "b"], ["b", "c"], ["a"]), "list", "3 words as JSON"),
    "places with a comma": (cycle("Porto, PT", "Faro, PT"), "categorical", "2 different values"),
    "decimal commas": (cycle("1,5", "2", "3,5"), "numeric", "with decimal commas from 1.5 to 3.5"),
    "thousands": (
        [f"{i},500" for i in range(1, N + 1)],
        *("numeric", "with ',' between thousands from 1,500 to 60,500"),
    ),
    "currency": ([f"{i}.110,05 €" for i in range(1, N + 1)], "numeric", "from 1,110.05 to 60,110"),
    "losses": ([f"-${i},110" for i in range(1, N + 1)], "numeric", "from -60,110 to -1,110"),
    "percent": ([f"{i / 4} %" for i in range(N)], "numeric", "with '%' from 0 to 14.75"),
    "a stray semicolon": ([*cycle("a", "b")[1:], "a;b"], "categorical", "3 different values"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_kinds_of_columns_are_inferred(name: str) -> None:
    values, kind, reason = COLUMNS[name]
    plan = make_plan(nodes_with(x=values), None, TableChoices())
    found = plan.columns[1]
    assert (found.name, found.kind) == ("x", kind), found.reason
    assert reason in found.reason
    assert plan.features == ((found,) if kind != "ignored" else ())


def test_choices_override_inference() -> None:
    nodes = nodes_with(
        a=cycle(1, 2), b=cycle(1, 2), c=cycle("x"), d=cycle(*range(30)), y=cycle(0, 1)
    )
    choices = TableChoices(
        target="y", categorical=("d",), numeric=("a",), lists=("c",), ignored=("b",)
    )
    plan = make_plan(nodes, None, choices)
    kinds = {column.name: (column.kind, column.reason) for column in plan.columns}
    assert kinds == {
        "id": ("id", "names the node"),
        "a": ("numeric", "as chosen"),
        "b": ("ignored", "as chosen"),
        "c": ("list", "as chosen"),
        "d": ("categorical", "as chosen"),
        "y": ("target", "to be predicted"),
    }


def test_names_are_shown_and_are_no_ids() -> None:
    nodes = nodes_with(called=[f"A{i}" for i in range(N)], y=cycle(0, 1))
    plan = make_plan(nodes, None, TableChoices(target="y", name_column="called"))
    kinds = {column.name: (column.kind, column.reason) for column in plan.columns}
    assert kinds["called"] == ("ignored", "names, shown beside the ids")
    with pytest.raises(BadInput, match="column 'id' of nodes is chosen as id and as ignored"):
        make_plan(nodes, None, TableChoices(id_column="id", name_column="id"))


IDS = [f"u{i}" for i in range(N)]
ENDS: dict[str, Any] = {"who": IDS[:40], "whom": IDS[20:]}


@pytest.mark.parametrize(
    ("columns", "found", "reason"),
    [
        ({"x": cycle(1, 2), "Node ID": IDS}, "Node ID", "its name, and it holds the ends of edges"),
        ({"id": list(range(N)), "user": IDS}, "user", "it holds the ends of edges"),
        ({"id": [*IDS[:-1], IDS[0]]}, "id", "its name"),
    ],
)
def test_ids_are_found_by_name_and_by_the_edges(
    columns: dict[str, Any], found: str, reason: str
) -> None:
    nodes = read_table(pd.DataFrame(columns), "nodes")
    plan = make_plan(nodes, edges_with(**ENDS), TableChoices())
    assert plan.id_column == found
    assert f"ids of nodes: nodes, column {found}: {reason}" in plan.reasons[0]


@pytest.mark.parametrize(
    ("choices", "found", "reason"),
    [
        ({}, "user_id", "the first column whose values differ"),
        ({"target": "user_id"}, "name", "the first column whose values differ"),
        ({"ignored": ("user_id",)}, "name", "the first column whose values differ"),
        ({"id_column": "x"}, "x", "as chosen"),
    ],
)
def test_ids_are_found_without_edges(choices: dict[str, Any], found: str, reason: str) -> None:
    columns = {
        "x": cycle(1, 2),
        "income": [i / 7 for i in range(N)],
        "name": [f"A{i}" for i in range(N)],
    }
    nodes = read_table(pd.DataFrame({**columns, "user_id": IDS}), "nodes")
    plan = make_plan(nodes, None, TableChoices(**choices))
    assert plan.id_column == found and plan.reasons[0].endswith(reason)
    assert plan.relations == ()


def test_a_table_without_ids_is_refused() -> None:
    nodes = read_table(pd.DataFrame({"a": cycle(1, 2), "b": cycle("x", "y", "z")}), "nodes")
    with pytest.raises(BadInput, match=r"no column tells the nodes apart.*--id-column"):
        make_plan(nodes, None, TableChoices())


KNOWN, UNKNOWN = ["n1", "n2"], ["2001", ""]


@pytest.mark.parametrize(
    ("columns", "choices", "ends", "reason"),
    [
        ({"from": KNOWN, "to": KNOWN}, {}, ("from", "to"), "their names"),
        (
            dict.fromkeys(["kind", "Target ID", "Source ID"], KNOWN),
            *({}, ("Source ID", "Target ID"), "their names"),
        ),
        (
            dict.fromkeys(["since", "src_node", "dst_node"], KNOWN),
            *({}, ("src_node", "dst_node"), "their names"),
        ),
        ({"weight": KNOWN, "u": KNOWN, "v": KNOWN}, {}, ("u", "v"), "their names"),
        (
            {"start": UNKNOWN, "end": UNKNOWN, "who": KNOWN, "whom": KNOWN},
            *({}, ("who", "whom"), "they hold ids of nodes"),
        ),
        ({"x": UNKNOWN, "to": UNKNOWN, "from": UNKNOWN}, {}, ("from", "to"), "their names"),
        (
            {"a": KNOWN, "b": KNOWN},
            *({"source_column": "b"}, ("b", "a"), "they hold ids of nodes"),
        ),
        (
            {"a": KNOWN, "b": KNOWN},
            *({"destination_column": "a"}, ("b", "a"), "they hold ids of nodes"),
        ),
        (
            {"a": KNOWN, "b": KNOWN},
            *({"source_column": "b", "destination_column": "a"}, ("b", "a"), "as chosen"),
        ),
    ],
)
def test_ends_are_found_by_name_or_by_what_they_hold(
    columns: dict[str, list[str]], choices: dict[str, str], ends: tuple[str, str], reason: str
) -> None:
    plan = make_plan(nodes_with(), edges_with(**columns), TableChoices(**choices))
    (relation,) = plan.relations
    assert (relation.source_column, relation.destination_column) == ends
    assert plan.reasons[1].endswith(reason)


def test_how_columns_of_edges_are_used_is_said() -> None:
    edges = edges_with(since=["x", "y"], who=KNOWN, weight=[1, 2], whom=KNOWN)
    plan = make_plan(nodes_with(), edges, TableChoices())
    assert [line.split(": ", 1)[1] for line in plan.reasons[1:]] == [
        "edges, columns who and whom: they hold ids of nodes",
        "edges, column weight: its name",
        "edges: since (categorical)",
    ]


def test_edges_have_two_columns_and_choices_about_edges_need_edges() -> None:
    with pytest.raises(BadInput, match="edge_weight is 'w', but there is no table of edges"):
        make_plan(nodes_with(), None, TableChoices(edge_weight="w"))
    refused = r"edges: cannot tell the two ends of .*'n0' are in a of the columns .*; choose .*--so"
    with pytest.raises(BadInput, match=refused):
        make_plan(nodes_with(), edges_with(a=["n1"], weight=[1]), TableChoices())


def test_a_split_is_found_by_its_name_and_words() -> None:
    split = cycle("train", "Train", "VAL", "test", "")
    plan = make_plan(nodes_with(Split=split), None, TableChoices())
    assert plan.split_column == "Split"
    assert plan.columns[1].kind == "split"
    assert make_plan(nodes_with(phase=split), None, TableChoices()).split_column is None
    odd = make_plan(nodes_with(split=cycle("left", "right")), None, TableChoices())
    assert (odd.split_column, odd.columns[1].kind) == (None, "categorical")
    chosen = make_plan(nodes_with(phase=split), None, TableChoices(split_column="phase"))
    assert chosen.split_column == "phase"


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (TableChoices(target="bys"), "nodes: there is no column 'bys': did you mean 'buys'"),
        (TableChoices(numeric=("buys", "agee")), "no column 'agee': did you mean 'age'"),
        (TableChoices(source_column="fro"), "edges: there is no column 'fro': did you mean 'from'"),
        (TableChoices(target="buys", ignored=("buys",)), "is chosen as target and as ignored"),
        (TableChoices(id_column="age", numeric=("age",)), "chosen as id and as numeric; choose"),
        (
            TableChoices(source_column="to", edge_weight="to"),
            "'to' of edges is chosen as source_column and as edge_weight",
        ),
    ],
)
def test_contradictory_choices_are_refused(choices: TableChoices, message: str) -> None:
    nodes = nodes_with(age=cycle(*range(20)), buys=cycle("a", "b"))
    with pytest.raises(BadInput, match=message):
        make_plan(nodes, edges_with(**{"from": ["n1"], "to": ["n2"]}), choices)


def test_a_column_without_a_header_is_left_out(tmp_path: Path) -> None:
    frame = pd.DataFrame({"name": [f"7{i}" for i in range(N)], "x": cycle("a", "b", "c")})
    frame.to_csv(tmp_path / "n.csv")
    nodes = read_table(tmp_path / "n.csv", "nodes")
    plan = make_plan(nodes, None, TableChoices())
    assert plan.id_column == "name"
    assert (plan.columns[0].kind, plan.columns[0].reason) == (
        "ignored",
        "no header, as an index has none",
    )
    ends = pd.DataFrame({"one": frame["name"][:-1].array, "other": frame["name"][1:].array})
    ends.index = pd.Index(range(70, 70 + len(ends)))
    ends.to_csv(tmp_path / "e.csv")
    plan = make_plan(nodes, read_table(tmp_path / "e.csv", "edges"), TableChoices())
    (relation,) = plan.relations
    assert (relation.source_column, relation.destination_column) == ("one", "other")
    frame.set_index("name").rename_axis(None).to_csv(tmp_path / "n.csv")
    plan = make_plan(read_table(tmp_path / "n.csv", "nodes"), None, TableChoices())
    assert (plan.id_column, plan.columns[0].kind) == ("Unnamed: 0", "id")


def test_a_plan_does_not_depend_on_the_order_of_rows() -> None:
    columns = {name: values for name, (values, _, _) in COLUMNS.items()}
    frame = pd.DataFrame({"id": IDS, **columns})
    shuffled = frame.iloc[np.random.default_rng(0).permutation(N)]
    plans = [
        make_plan(read_table(each, "nodes"), None, TableChoices()) for each in (frame, shuffled)
    ]
    assert plans[0] == plans[1]
