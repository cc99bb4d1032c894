from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pandas as pd
import pytest
from clean_tables import draw_edges, make_customers, make_random_nodes
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from table_parts import EDGES, NODES, UNREADABLE, BadTable
from tables_with_errors import ERRORS, UNREADABLE_TABLES
from tables_with_warnings import WARNINGS

from crossgcn.data.tables.cells import quote
from crossgcn.data.tables.checks import Problem, check_tables
from crossgcn.data.tables.checks.leaks import count_errors, count_errors_of_neighbours
from crossgcn.data.tables.checks.problems import Rule, show_name
from crossgcn.data.tables.graph import load_tables
from crossgcn.data.tables.plan import TableChoices, make_plan
from crossgcn.data.tables.read import read_table
from crossgcn.errors import BadInput

Command = Callable[..., CompletedProcess[str]]

WARNED = tuple(replace(table, is_error=False) for table in WARNINGS)
BAD_TABLES = (*UNREADABLE_TABLES, *ERRORS, *WARNED)


def check(nodes: pd.DataFrame, edges: pd.DataFrame | None, target: str | None) -> list[Problem]:
    node_table = read_table(nodes, "nodes")
    edge_table = None if edges is None else read_table(edges, "edges")
    plan = make_plan(node_table, edge_table, TableChoices(target=target))
    return check_tables(node_table, edge_table, plan)


def kinds(problems: list[Problem]) -> list[str]:
    return [problem.kind for problem in problems]


def write(path: Path, content: str | bytes) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("bad", BAD_TABLES, ids=lambda bad: bad.name)
def test_a_bad_table_is_reported_with_file_row_value_and_remedy(
    bad: BadTable, crossgcn: Command, tmp_path: Path
) -> None:
    write(tmp_path / bad.nodes_file, bad.nodes)
    if bad.edges is not None:
        write(tmp_path / "edges.csv", bad.edges)
    done = crossgcn("check", bad.nodes_file, "edges.csv", *bad.options, "--out", "out")
    printed = " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in printed
    assert done.returncode == (2 if bad.is_error else 0), printed
    for fragment in bad.fragments:
        assert fragment in printed
    if bad.kind == UNREADABLE:
        assert not (tmp_path / "out").exists()
        return
    problems = json.loads((tmp_path / "out" / "check.json").read_text())["findings"]
    (found, *_) = (content for content in problems if content["kind"] == bad.kind)
    assert found["severity"] == ("error" if bad.is_error else "warning")
    described = Problem(**found).describe()
    assert all(fragment in described for fragment in bad.fragments)


def test_tables_can_be_loaded_unless_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for bad in (*ERRORS, *WARNED):
        if bad.options != ("--target", "buys"):
            continue
        write(tmp_path / "nodes.csv", bad.nodes)
        write(tmp_path / "edges.csv", bad.edges or "")
        if bad.is_error:
            with pytest.raises(BadInput) as refusal:
                load_tables("nodes.csv", "edges.csv", TableChoices(target="buys"))
            assert all(fragment in str(refusal.value) for fragment in bad.fragments)
        else:
            graph = load_tables("nodes.csv", "edges.csv", TableChoices(target="buys"))
            assert bad.kind in kinds(list(graph.problems))


def test_every_rule_has_a_bad_table() -> None:
    shown = {bad.kind for bad in BAD_TABLES} - {UNREADABLE}
    assert len(shown) > 40 and shown == Rule.names
    assert len({bad.name for bad in BAD_TABLES}) == len(BAD_TABLES)


def test_the_base_of_the_bad_tables_has_no_problem(crossgcn: Command, tmp_path: Path) -> None:
    for nodes in (NODES, "\ufeff" + NODES, NODES.replace("\n", "\r\n"), NODES.replace(",", ";")):
        write(tmp_path / "nodes.csv", nodes)
        write(tmp_path / "edges.csv", EDGES)
        done = crossgcn("check", "nodes.csv", "edges.csv", "--target", "buys")
        assert done.returncode == 0
        assert "no errors, no warnings" in done.stdout


def test_no_false_alarm_on_customer_tables() -> None:
    for seed in range(3):
        nodes = make_customers(seed=seed)
        assert check(nodes, draw_edges(nodes["customer"], nodes["leaves"], seed), "leaves") == []


@pytest.mark.parametrize("seed", range(8))
def test_no_false_alarm_on_random_tables(seed: int) -> None:
    nodes = make_random_nodes(seed)
    edges = draw_edges(nodes["id"], nodes["label"], seed)
    assert check(nodes, edges, "label") == []
    if seed < 3:
        assert check(nodes, None, "label") == []
        assert check(nodes, edges, None) == []


def test_listing_every_edge_in_both_directions_is_fine() -> None:
    nodes = make_random_nodes(0)
    edges = draw_edges(nodes["id"], nodes["label"], 0)
    turned = edges.rename(columns={"source": "target", "target": "source"})
    assert check(nodes, pd.concat([edges, turned]), "label") == []
    half = pd.concat([edges, turned[: len(turned) // 2]])
    (found,) = check(nodes, half, "label")
    assert (found.kind, found.count) == ("reversed-edge", len(turned) // 2)
    assert found.row == len(edges) + 1


def test_errors_come_first_and_the_order_of_rows_decides_only_the_place() -> None:
    nodes = make_customers()
    edges = draw_edges(nodes["customer"], nodes["leaves"], 0)
    edges.loc[[5, 9], "target"] = ["nobody", edges["source"][9]]
    nodes["copy"] = nodes["plan"].str.upper()
    nodes["income"] = nodes["income"].astype(str)
    nodes.loc[[50, 90], "income"] = ["12 kg", "inf"]
    nodes["fixed"] = 1
    problems = check(nodes, edges, "leaves")
    assert kinds(problems) == [
        *("not-a-number", "infinite-number", "unknown-edge-end"),
        *("constant-column", "copied-column", "self-loop"),
    ]
    assert problems == check(nodes, edges, "leaves")
    mixed = nodes.sample(frac=1, random_state=1), edges.sample(frac=1, random_state=2)
    assert kinds(check(*mixed, "leaves")) == kinds(problems)


def test_the_same_problem_in_many_columns_is_reported_once() -> None:
    nodes = make_customers()
    for number in range(30):
        nodes[f"fixed{number}"] = "same"
    (found,) = check(nodes, None, "leaves")
    assert (found.kind, found.column, found.count) == ("constant-column", "fixed0", 30)
    assert "likewise columns fixed1, fixed2" in found.message
    assert "and 19 more" in found.message


def test_ignored_columns_are_not_checked() -> None:
    nodes = make_customers()
    nodes["name"] = [f"Ann {row}" for row in range(len(nodes))]
    table = read_table(nodes, "nodes")
    ignored = TableChoices(target="leaves", ignored=("name",))
    assert kinds(check_tables(table, None, make_plan(table, None, ignored))) == []
    assert kinds(check(nodes, None, "leaves")) == ["left-out"]


def test_ids_of_64_bits_are_told_apart() -> None:
    nodes = make_customers()
    nodes["customer"] = 2**60 + np.arange(len(nodes))
    edges = draw_edges(nodes["customer"], nodes["leaves"], 0)
    assert check(nodes, edges, "leaves") == []
    edges.loc[3, "target"] = 2**60 + len(nodes)
    (found,) = check(nodes, edges, "leaves")
    assert (found.kind, found.row, found.value) == ("unknown-edge-end", 4, str(2**60 + len(nodes)))


def test_the_remedy_names_the_column_as_the_option_takes_it(crossgcn: Command) -> None:
    nodes = make_customers()
    nodes["leaves, says 'x'"] = nodes["leaves"].str.upper()
    (found,) = check(nodes, None, "leaves")
    nodes.to_csv("nodes.csv", index=False)
    words = shlex.split(found.remedy)
    option = words[words.index("--ignore") + 1]
    done = crossgcn("check", "nodes.csv", "--target", "leaves", "--ignore", option)
    assert "no errors, no warnings" in done.stdout


def test_na_is_a_valid_id_and_a_blank_cell_is_not() -> None:
    nodes = make_customers()
    nodes.loc[4, "customer"] = "NA"
    edges = draw_edges(nodes["customer"], nodes["leaves"], 0)
    assert check(nodes, edges, "leaves") == []
    nodes.loc[4, "customer"] = " "
    problems = check(nodes, edges, "leaves")
    assert {problem.kind for problem in problems} == {"missing-id", "unknown-edge-end"}


def test_surrounding_space_is_ignored_in_classes_and_categories() -> None:
    nodes = make_customers()
    nodes.loc[::2, "leaves"] += " "
    nodes.loc[::3, "plan"] = " " + nodes["plan"]
    nodes["fixed"] = ["a", "a "] * (len(nodes) // 2)
    assert kinds(check(nodes, None, "leaves")) == ["constant-column"]


def test_words_for_a_missing_value_are_quoted() -> None:
    nodes = make_customers()
    size = len(nodes)
    nodes["pet"] = np.where(np.arange(size) % 7 < 5, "none", np.where(nodes["age"] < "4", "a", "b"))
    nodes["shop"] = ["NA", ""] * (size // 2)
    found = {problem.kind: problem for problem in check(nodes, None, "leaves")}
    assert found.keys() == {"missing-word", "mostly-missing", "empty-column"}
    assert "of the cells are 'none'" in found["mostly-missing"].message
    assert "each is empty or 'NA'" in found["empty-column"].message
    count = int((nodes["pet"] == "none").sum())
    word = found["missing-word"]
    assert (word.column, word.row, word.value, word.count) == ("pet", 1, "none", count)
    assert word.severity == "warning"


def test_few_or_chosen_missing_words_do_not_warn() -> None:
    nodes = make_customers()
    nodes["pet"] = nodes["plan"]
    nodes.loc[:10, "pet"] = "none"
    assert "missing-word" not in kinds(check(nodes, None, "leaves"))
    nodes.loc[:11, "pet"] = "none"
    nodes.loc[::9, "leaves"] = "None"
    assert kinds(check(nodes, None, "leaves")).count("missing-word") == 2
    table = read_table(nodes, "nodes")
    for words in ((), ("none",)):
        plan = make_plan(table, None, TableChoices(target="leaves", missing=words))
        assert "missing-word" not in kinds(check_tables(table, None, plan))


def test_a_column_that_only_correlates_with_the_class_is_not_a_leak() -> None:
    random = np.random.default_rng(0)
    nodes = make_customers(2000)
    is_true = random.random(len(nodes)) < 0.95
    nodes["hint"] = np.where(is_true, nodes["leaves"].map({"yes": "up", "no": "down"}), "up")
    assert check(nodes, None, "leaves") == []
    is_true = random.random(len(nodes)) < 0.997
    nodes["hint"] = np.where(is_true, nodes["leaves"].map({"yes": "up", "no": "down"}), "up")
    (found,) = check(nodes, None, "leaves")
    assert (found.kind, found.column) == ("gives-label-away", "hint")


def test_a_rare_class_does_not_make_every_column_a_leak() -> None:
    nodes = make_customers()
    nodes["leaves"] = np.where(np.arange(len(nodes)) % 24 == 0, "yes", "no")
    assert kinds(check(nodes, None, "leaves")) == ["unbalanced-classes"]


def test_zeros_in_a_file_sorted_by_class_are_not_a_leak() -> None:
    nodes = make_customers().sort_values("leaves", ignore_index=True)
    random = np.random.default_rng(0)
    spent = random.gamma(2, 30, len(nodes)).round(2)
    nodes["spent"] = np.where(random.random(len(nodes)) < 0.8, 0, spent)
    assert check(nodes, None, "leaves") == []


contingency = arrays(
    np.int64, st.tuples(st.just(1), *[st.integers(2, 4)] * 2), elements=st.integers(0, 5)
)


@given(contingency)
def test_errors_by_value_are_those_of_asking_all_others(tables: NDArray[np.int64]) -> None:
    nodes = [
        (value, label)
        for (_, value, label), number in np.ndenumerate(tables)
        for _ in range(int(number))
    ]
    wrong = 0
    for position, (value, label) in enumerate(nodes):
        others = nodes[:position] + nodes[position + 1 :]
        votes = [sum(other == (value, of) for other in others) for of in range(tables.shape[2])]
        wrong += not all(votes[label] > vote for of, vote in enumerate(votes) if of != label)
    assert count_errors(tables).tolist() == [wrong]


@given(st.lists(st.integers(0, 2), min_size=5, max_size=40), st.randoms(use_true_random=False))
def test_errors_by_neighbours_are_those_of_asking_each_neighbour(
    classes: list[int], random: np.random.Generator
) -> None:
    size = len(classes)
    ranks = list(range(size))
    random.shuffle(ranks)
    by_rank = dict(zip(ranks, classes, strict=True))
    wrong = 0
    for rank in range(size):
        nearby = [rank - 2, rank - 1, rank + 1, rank + 2]
        inside = [2 * (size - 1) - near if near >= size else abs(near) for near in nearby]
        wrong += sum(by_rank[near] == by_rank[rank] for near in inside) < 3
    numbers = np.array(ranks, dtype=np.float64) * 1.5 - 7
    assert count_errors_of_neighbours(numbers, np.array(classes)) == wrong


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40))
def test_repeated_edges_are_counted_as_by_hand(pairs: list[tuple[int, int]]) -> None:
    nodes = pd.DataFrame({"id": range(7), "x": list("abababa"), "y": list("nmnmnmm")})
    found = {
        problem.kind: (problem.count, problem.row)
        for problem in check(nodes, pd.DataFrame(pairs, columns=["source", "target"]), "y")
    }
    expected: dict[str, list[int]] = {"self-loop": [], "duplicate-edge": [], "reversed-edge": []}
    for row, (source, target) in enumerate(pairs, 1):
        before = pairs[: row - 1]
        if source == target:
            expected["self-loop"].append(row)
        elif (source, target) in before:
            expected["duplicate-edge"].append(row)
        elif (target, source) in before:
            expected["reversed-edge"].append(row)
    one_way = {pair for pair in pairs if pair[::-1] not in pairs}
    if not one_way:
        expected["reversed-edge"] = []
    for kind, rows in expected.items():
        assert found.get(kind) == ((len(rows), rows[0]) if rows else None), kind


nasty = st.one_of(
    st.sampled_from(["", " ", "NA", "inf", "-inf", "1e308", "-1e308", "1e999", "-999", "0", "1"]),
    st.sampled_from(["1,5", "10 kg", "a;b", "['a']", "2024-01-01", "#REF!", "train", "test", "É"]),
    st.integers(-5, 5).map(str),
    st.floats().map(str),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
headers = st.sampled_from(["id", "split", "weight", "a", "b", "c", "source", "target"])


@st.composite
def any_frames(draw: st.DrawFn) -> pd.DataFrame:
    names = draw(st.lists(headers, min_size=2, max_size=5, unique=True))
    size = draw(st.integers(1, 60))
    pools = [draw(st.lists(nasty, min_size=1, max_size=30)) for _ in names]
    random = np.random.default_rng(draw(st.integers(0, 99)))
    cells = [[pool[at] for at in random.integers(len(pool), size=size)] for pool in pools]
    return pd.DataFrame(dict(zip(names, cells, strict=True)), dtype=object)


@given(any_frames(), any_frames(), st.booleans())
def test_any_table_can_be_checked(
    nodes: pd.DataFrame, edges: pd.DataFrame, has_target: bool
) -> None:
    try:
        problems = check(nodes, edges, nodes.columns[-1] if has_target else None)
    except BadInput:
        return
    for problem in problems:
        assert problem.remedy and "{" not in problem.kind
        assert problem.describe().isprintable()
        assert problem.row is None or 1 <= problem.row <= max(len(nodes), len(edges))


def test_a_cell_is_described_with_place_count_and_remedy() -> None:
    problem = Problem(
        kind="not-a-number",
        severity="error",
        file="nodes.csv",
        message="'abc' is not a number",
        remedy="write a number or leave the cell empty",
        row=17,
        column="age",
        value="abc",
        count=3000,
    )
    assert problem.describe() == (
        "nodes.csv, row 17, column age: 'abc' is not a number (3,000 such); "
        "write a number or leave the cell empty"
    )


def test_a_table_is_described_without_row_column_and_count() -> None:
    problem = Problem("no-feature", "error", "nodes.csv", "no column is left", "add columns")
    assert problem.describe() == "nodes.csv: no column is left; add columns"


def test_json_holds_every_field() -> None:
    problem = Problem("hub", "warning", "edges.csv", "much", "less", 3, "source", "u1", 2)
    assert Problem(**json.loads(json.dumps(problem.to_json()))) == problem


@given(st.text(max_size=300))
def test_what_is_shown_of_a_name_or_value_stays_on_one_line_and_short(text: str) -> None:
    for shown in (quote(text), show_name(text)):
        assert shown.isprintable() and len(shown) < 700
    assert show_name("income in $") == "income in $"
    assert show_name(" a") == "' a'"
    assert quote("x" * 1000) == f"{'x' * 60!r}… (1,000 characters)"
