"""Real graphs as two tables, nodes and edges, with named columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import as_file, files
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import io, sparse

from crossgcn.data.datasets.catalogue import TABLES, locate_files
from crossgcn.data.files import read_npz
from crossgcn.data.graph import is_labelled
from crossgcn.data.tables.edges import join_relations
from crossgcn.data.tables.graph import AnyTable, TableGraph, encode_tables, open_tables
from crossgcn.data.tables.plan import TableChoices, TablePlan
from crossgcn.data.tables.problems import CheckedTables
from crossgcn.data.tables.read import make_table
from crossgcn.errors import unknown_name

STUDENT_COLUMNS = ("status", "gender", "major", "minor", "dorm", "year", "high_school")
"""Columns of ``local_info`` in the files of facebook100."""


class RealTables(NamedTuple):
    """The tables of a dataset, with one row per node and one row per undirected edge.

    ``roles`` are official splits, int8 ``[splits, nodes]``: 1 train, 2 validation, 3 test.
    """

    nodes: pd.DataFrame
    edges: pd.DataFrame
    roles: NDArray[np.int8] | None = None


def read_real(name: str) -> RealTables:
    """Read the tables of a dataset by its name; nothing is downloaded.

    Args:
        name: One of :data:`~crossgcn.data.TABLES`, such as ``"us-county"``, which is part of the
            package. The files of others are found in ``$CROSSGCN_DATA`` or in the user's cache,
            and their hashes are checked before they are parsed.
    """
    if name not in TABLES:
        raise unknown_name("dataset of tables", name, TABLES)
    read, _ = _DATASETS[name.partition("/")[0]]
    return read(name)


def load_real(
    name: str,
    target: str | None = None,
    choices: TableChoices | None = None,
    edges: Mapping[str, AnyTable] | None = None,
    through: Mapping[str, AnyTable] | None = None,
) -> TableGraph:
    """Read the tables of a dataset and encode them as a graph.

    Columns that reveal the target are left out: in ``us-county`` the names of counties and states,
    and ``winner`` or ``democratic_share``, whichever is not the target.

    Args:
        name: As for :func:`read_real`.
        target: Column to predict; each dataset has a default.
        choices: Roles of columns that replace the defaults, for example
            ``TableChoices(categorical=("state",))``.
        edges: Tables of further relations, by name, such as ``{"ties": "ties.csv"}``.
        through: As for :func:`~crossgcn.load_tables`.

    Returns:
        As :func:`~crossgcn.load_tables`; ``data.roles`` holds the official splits, if any.
    """
    choices = choices or TableChoices()
    if target is not None:
        choices = choices.model_copy(update={"target": target})
    tables, roles = open_real(name, choices, edges, through)
    graph = encode_tables(tables)
    if roles is not None:
        graph.data.roles = torch.from_numpy(roles) * is_labelled(graph.data.y)
    return graph


def open_real(
    name: str,
    choices: TableChoices,
    edges: Mapping[str, AnyTable] | None = None,
    through: Mapping[str, AnyTable] | None = None,
) -> tuple[CheckedTables, NDArray[np.int8] | None]:
    """Return the unchecked tables of a dataset, and its official splits.

    Choices for a column replace the dataset's defaults for that column.

    Args:
        edges: Tables of further relations, by name.
        through: Tables of nodes and the things that they share, by name.
    """
    nodes, own_edges, roles = read_real(name)
    _, defaults = _DATASETS[name.partition("/")[0]]
    target = choices.target or TABLES[name].target
    named = {target, *(column for column, _ in choices.node_columns())}
    merged = defaults.model_dump() | choices.model_dump(exclude_defaults=True) | {"target": target}
    for kind in ("categorical", "lists", "ignored", "missing"):
        kept = tuple(each for each in getattr(defaults, kind) if each not in named)
        merged[kind] = kept + getattr(choices, kind)
    if choices.name_column is None and defaults.name_column in named:
        merged["name_column"] = None  # it has another role
    relations = {choices.relation: make_table(own_edges, f"{name} (edges)")}
    tables = open_tables(
        make_table(nodes, name), join_relations(relations, edges), TableChoices(**merged), through
    )
    tables.plan = _mark_defaults(tables.plan, f"default of {name}", named)
    return tables, roles


def _mark_defaults(plan: TablePlan, default: str, named: set[str]) -> TablePlan:
    """Give columns that the user has not named the reason ``default``."""
    columns, ignored = [], []
    for column in plan.columns:
        if column.reason == "as chosen" and column.name not in named:
            column = column.model_copy(update={"reason": default})
            ignored += [column.name] * (column.kind == "ignored")
        columns.append(column)
    reasons = list(plan.reasons)
    if ignored:
        left_out = f"left out by {default}: {', '.join(ignored)}"
        reasons.append(f"{left_out}; include one with --categorical {ignored[0]}")
    return plan.model_copy(update={"columns": tuple(columns), "reasons": tuple(reasons)})


def _read_us_county(name: str) -> RealTables:
    with as_file(files("crossgcn.data.datasets") / name) as folder:
        return RealTables(pd.read_csv(folder / "nodes.csv"), pd.read_csv(folder / "edges.csv"))


def _read_tolokers(name: str) -> RealTables:
    nodes, graph = locate_files(name)
    arrays = read_npz(graph)
    roles = np.zeros(arrays["train_masks"].shape, np.int8)
    for role, part in enumerate(("train", "val", "test"), 1):
        roles[arrays[f"{part}_masks"]] = role
    edges = pd.DataFrame(arrays["edges"], columns=["source", "target"])
    # With na_filter, pandas would read the education "none" as a missing value.
    return RealTables(pd.read_csv(nodes, sep="\t", na_filter=False), edges, roles)


def _read_facebook(name: str) -> RealTables:
    (path,) = locate_files(name)
    content = io.loadmat(path, variable_names=["A", "local_info"], spmatrix=False)
    nodes = pd.DataFrame(content["local_info"], columns=list(STUDENT_COLUMNS)).astype("Int64")
    nodes = nodes.mask(nodes == 0)
    nodes.insert(0, "student", range(len(nodes)))
    source, target = sparse.triu(content["A"], k=1).nonzero()
    return RealTables(nodes, pd.DataFrame({"source": source, "target": target}))


def _read_twitch(name: str) -> RealTables:
    edges, games, streamers = locate_files(name)
    nodes = pd.read_csv(streamers).drop(columns="id").rename(columns={"new_id": "id"})
    played = json.loads(games.read_bytes())
    nodes["games"] = [sorted(set(played[str(node)])) for node in nodes["id"]]
    return RealTables(nodes, pd.read_csv(edges))


_DATASETS = {
    "us-county": (
        _read_us_county,
        TableChoices(name_column="name", ignored=("state", "winner", "democratic_share")),
    ),
    "tolokers": (_read_tolokers, TableChoices(missing=("-none",))),
    "facebook100": (_read_facebook, TableChoices(categorical=STUDENT_COLUMNS)),
    "twitch": (_read_twitch, TableChoices(lists=("games",))),
}
"""Reader and default choices of each dataset; the catalogue has the targets."""
