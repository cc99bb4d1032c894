from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest_fixtures import Command

from crossgcn import from_tables
from crossgcn.data.splits import make_splits
from crossgcn.data.tables.graph import TableGraph, describe_encoding, load_tables, read_encoding
from crossgcn.data.tables.labels import Labels
from crossgcn.data.tables.plan import TableChoices
from crossgcn.data.tables.table import Distinct
from crossgcn.errors import BadInput


def people(size: int = 120, **columns: Any) -> pd.DataFrame:
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": [f"p{number}" for number in range(size)],
            "town": random.choice(["Porto", "Lima", "Oslo"], size),
            "income": random.normal(3000, 500, size).round(1),
            **columns,
        }
    )


def load(nodes: pd.DataFrame, **choices: Any) -> Any:
    return load_tables(nodes, None, TableChoices(target="income", **choices))


def test_a_number_is_a_float_label_and_unknown_where_missing() -> None:
    nodes = people()
    written = nodes["income"].astype(str)
    written[4], written[7], written[9] = "", "NA", "n/a"
    graph = load(nodes.assign(income=written))
    assert graph.plan.task == "regression" and graph.classes == ("income",)
    assert (graph.data.y.dtype, graph.data.num_classes) == (torch.float64, 1)
    assert np.flatnonzero(graph.data.y.isnan()).tolist() == [4, 7, 9]
    known = ~graph.data.y.isnan()
    np.testing.assert_allclose(graph.data.y[known], nodes["income"][known.numpy()], rtol=1e-6)
    assert "income" not in graph.encoder.space.fields
    _, plan = read_encoding(describe_encoding(graph))
    assert plan.task == "regression"
    split = make_splits(graph.data, "stratified", num_splits=1, seed=0)[0]
    assert not set(split.train.tolist()) & {4, 7, 9} and len(split.test) == 23


@pytest.mark.parametrize(
    ("numbers", "task", "is_warned"),
    [
        ([1.5, 2.5], "regression", False),
        (range(20), "classification", True),
        (range(21), "regression", False),
        ([0, 1], "classification", False),
        (["01", "02", "03"], "classification", False),
        (["low", "high"], "classification", False),
    ],
)
def test_fractions_or_many_values_make_a_number(numbers: Any, task: str, is_warned: bool) -> None:
    numbers = list(numbers)
    nodes = people(300, income=[str(numbers[row % len(numbers)]) for row in range(300)])
    graph = load(nodes)
    assert graph.plan.task == task
    assert is_warned == any("read as classes; --task regr" in each for each in graph.plan.reasons)


def test_the_task_can_be_chosen() -> None:
    nodes = people(300, income=[row * row % 7 for row in range(300)])
    as_classes, as_number = (load(nodes, task=task) for task in ("classification", "regression"))
    assert as_classes.classes == ("0", "1", "2", "4") and as_number.classes == ("income",)
    assert not any("read as classes" in reason for reason in as_classes.plan.reasons)
    assert as_number.data.y.tolist() == [float(row * row % 7) for row in range(300)]
    with pytest.raises(BadInput, match="task is regression, but there is no target"):
        load_tables(nodes, None, TableChoices(task="regression"))
    with pytest.raises(BadInput, match="task is 'ranking': Input should be 'classification' or"):
        from_tables(nodes, None, "income", task="ranking")


def test_roles_of_nodes_without_a_number_are_none() -> None:
    parts = np.array(["train", "validation", "test"])[np.arange(120) % 3]
    nodes = people(split=parts)
    nodes.loc[:1, "income"] = np.nan
    assert load(nodes).data.roles[0, :4].tolist() == [0, 0, 3, 1]


def test_the_command_takes_the_task(crossgcn: Command, tmp_path: Path) -> None:
    people(income=np.arange(120) % 5).to_csv(tmp_path / "nodes.csv", index=False)
    chosen = ("check", "nodes.csv", "--target", "income")
    assert "5 different whole numbers, read as classes" in crossgcn(*chosen).stdout
    done = crossgcn(*chosen, "--task", "regression")
    assert "5 different whole numbers, read as classes" not in done.stdout
    assert "Next: crossgcn compare nodes.csv --target income --task regression" in done.stdout
    assert crossgcn(*chosen, "--task", "ranking").returncode == 2


def load_classes(classes: dict[str, int], **choices: Any) -> TableGraph:
    """Load nodes with so many of each class, in the order given."""
    names = [name for name, size in classes.items() for _ in range(size)]
    random = np.random.default_rng(0)
    ids = [f"n{row}" for row in range(len(names))]
    colours = random.choice(["red", "blue"], len(names))
    nodes = pd.DataFrame({"id": ids, "colour": colours, "kind": names})
    return load_tables(nodes, None, TableChoices(target="kind", **choices))


def test_nodes_of_rare_classes_lose_their_label_and_the_rest_is_trained_on() -> None:
    graph = load_classes({"b": 20, "rare": 9, "a": 10, "one": 1})
    assert graph.classes == ("a", "b") and graph.data.num_classes == 2
    assert graph.data.y.tolist() == [1] * 20 + [-1] * 9 + [0] * 10 + [-1]
    (found,) = [problem for problem in graph.problems if problem.kind == "rare-classes"]
    assert "too few: 'one' (1), 'rare' (9)" in found.message
    make_splits(graph.data, "stratified", num_splits=1, seed=0)


def test_rare_classes_are_refused_on_request() -> None:
    with pytest.raises(BadInput, match=r"classes need 10 nodes.*'rare' \(9\)"):
        load_classes({"a": 30, "b": 20, "rare": 9}, rare_classes="refuse")


def test_small_tables_keep_classes_that_can_be_split() -> None:
    assert load_classes({"a": 12, "b": 5, "c": 3}).classes == ("a", "b", "c")
    assert load_classes({"a": 12, "b": 5, "c": 2}).classes == ("a", "b")


@pytest.mark.parametrize(
    ("cells", "classes"),
    [
        (["10", "9", "-1", "", "2.5"], ("-1", "2.5", "9", "10")),
        (["b", "a ", "a", "10", "9", "NA"], ("10", "9", "a", "b")),
        (["true", "false"], ("false", "true")),
        (["1.0", "1", "2.0", "1.00"], ("1", "2.0")),
        (
            ["9007199254740993", "9007199254740992", "3", "3.0"],
            ("3", "9007199254740992", "9007199254740993"),
        ),
        (["1", "01", "1.0"], ("01", "1")),
        (["1", "1.0", "x"], ("1", "x")),
        (["1e99999999999999999999", "inf", "1e999"], ("1e999", "1e99999999999999999999", "inf")),
    ],
)
def test_classes_are_sorted_as_people_would(cells: list[str], classes: tuple[str, ...]) -> None:
    assert Labels.of(Distinct.of(pd.Series(cells, dtype="str"))).names == classes
