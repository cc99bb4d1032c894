from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from crossgcn.data.splits import make_splits
from crossgcn.data.tables.graph import TableGraph, load_tables
from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import BadInput


def load(classes: dict[str, int], **choices: Any) -> TableGraph:
    """Load nodes with so many of each class, in the order given."""
    names = [name for name, size in classes.items() for _ in range(size)]
    random = np.random.default_rng(0)
    ids = [f"n{row}" for row in range(len(names))]
    colours = random.choice(["red", "blue"], len(names))
    nodes = pd.DataFrame({"id": ids, "colour": colours, "kind": names})
    return load_tables(nodes, None, TableChoices(target="kind", **choices))


def test_nodes_of_rare_classes_lose_their_label_and_the_rest_is_trained_on() -> None:
    graph = load({"b": 20, "rare": 9, "a": 10, "one": 1})
    assert graph.classes == ("a", "b") and graph.data.num_classes == 2
    assert graph.data.y.tolist() == [1] * 20 + [-1] * 9 + [0] * 10 + [-1]
    (found,) = [problem for problem in graph.problems if problem.kind == "rare-classes"]
    assert "the labels of these are left out: 'one' (1), 'rare' (9)" in found.message
    make_splits(graph.data, "stratified", num_splits=1, seed=0)


def test_rare_classes_are_merged() -> None:
    graph = load({"z": 20, "rare": 9, "a": 12, "one": 1}, rare_classes="merge")
    assert graph.classes == ("a", "z", "other")
    assert graph.data.y.tolist() == [1] * 20 + [2] * 9 + [0] * 12 + [2]
    joined = load({"other": 20, "rare": 9, "a": 12}, rare_classes="merge")
    assert joined.classes == ("a", "other")
    assert joined.data.y.tolist() == [1] * 29 + [0] * 12
    alone = load({"a": 30, "b": 4, "c": 5}, rare_classes="merge")
    assert alone.classes == ("a", "other")
    assert "rare-classes" in {problem.kind for problem in alone.problems}


def test_too_few_nodes_to_merge_lose_their_label() -> None:
    graph = load({"a": 30, "b": 20, "c": 2}, rare_classes="merge")
    assert graph.classes == ("a", "b") and graph.data.y[-2:].tolist() == [-1, -1]
    assert "rare-classes" in {problem.kind for problem in graph.problems}


def test_rare_classes_are_refused_on_request() -> None:
    with pytest.raises(BadInput, match=r"classes need 10 nodes.*'rare' \(9\)"):
        load({"a": 30, "b": 20, "rare": 9}, rare_classes="refuse")


def test_small_tables_keep_classes_that_can_be_split() -> None:
    assert load({"a": 12, "b": 5, "c": 3}).classes == ("a", "b", "c")
    assert load({"a": 12, "b": 5, "c": 2}).classes == ("a", "b")
