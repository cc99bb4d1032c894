"""Real graphs of people and places as two tables: nodes and edges, with named columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import as_file, files
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import io, sparse

from crossgcn.data.datasets.catalogue import TABLES, locate_tables
from crossgcn.data.files import read_npz
from crossgcn.data.graph import is_labelled
from crossgcn.data.tables.graph import TableGraph, load_tables
from crossgcn.data.tables.plan import TableChoices, TablePlan
from crossgcn.data.tables.read import make_table
from crossgcn.data.tables.table import Table
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
    return _READERS[name.partition("/")[0]](name)


def load_real(
    name: str, target: str | None = None, choices: TableChoices | None = None
) -> TableGraph:
    """Read the tables of a dataset and encode them as a graph.

    Columns that give the target away are left out: of ``us-county`` the names of counties and
    states, and of ``winner`` and ``democratic_share`` the one that is not the target.

    Args:
        name: As for :func:`read_real`.
        target: Column to predict; each dataset has a default.
        choices: Take columns otherwise than by default, for example
            ``TableChoices(categorical=("state",))``.

    Returns:
        As :func:`~crossgcn.load_tables`; ``data.roles`` holds the official splits, if any.
    """
    choices = choices or TableChoices()
    if target is not None:
        choices = choices.model_copy(update={"target": target})
    nodes, edges, all_choices, roles = prepare_real(name, choices)
    graph = load_tables(nodes, edges, all_choices)
    graph = replace(graph, plan=name_defaults(graph.plan, name, choices))
    if roles is not None:
        graph.data.roles = torch.from_numpy(roles) * is_labelled(graph.data.y)
    return graph


def prepare_real(
    name: str, choices: TableChoices
) -> tuple[Table, Table, TableChoices, NDArray[np.int8] | None]:
    """Return tables of nodes and of edges, all choices about their columns, and the roles.

    What ``choices`` say about a column replaces the default of that column.
    """
    tables, defaults = read_real(name), _DEFAULTS[name.partition("/")[0]]
    target = choices.target or TABLES[name].target
    named = {target, *_named(choices)}
    merged = defaults.model_dump() | choices.model_dump(exclude_defaults=True) | {"target": target}
    for kind in ("categorical", "lists", "ignored", "missing"):
        kept = tuple(each for each in getattr(defaults, kind) if each not in named)
        merged[kind] = kept + getattr(choices, kind)
    if choices.name_column is None and defaults.name_column in named:
        merged["name_column"] = None  # chosen as something else
    nodes, edges = make_table(tables.nodes, name), make_table(tables.edges, f"{name} (edges)")
    return nodes, edges, TableChoices(**merged), tables.roles


def name_defaults(plan: TablePlan, name: str, choices: TableChoices) -> TablePlan:
    """Say in a plan what is a default of the dataset, and not among the user's ``choices``."""
    default = f"default of {name}"
    columns, ignored = list(plan.columns), []
    for position, column in enumerate(columns):
        if column.reason == "as chosen" and column.name not in _named(choices):
            columns[position] = column.model_copy(update={"reason": default})
            ignored += [column.name] * (column.kind == "ignored")
    reasons = [
        reason.replace(": as chosen", f": {default}")
        if reason.startswith(("ids", "edges"))
        else reason
        for reason in plan.reasons
    ]
    if ignored:
        reasons.append(
            f"left out by {default}: {', '.join(ignored)}; include one with --categorical "
            f"{ignored[0]}"
        )
    return plan.model_copy(update={"columns": tuple(columns), "reasons": tuple(reasons)})


def _named(choices: TableChoices) -> set[str]:
    """Return the columns of the node table that choices name."""
    return {column for column, _ in choices.node_columns()}


def _read_us_county(name: str) -> RealTables:
    with as_file(files("crossgcn.data.datasets") / name) as folder:
        return RealTables(pd.read_csv(folder / "nodes.csv"), pd.read_csv(folder / "edges.csv"))


def _read_tolokers(name: str) -> RealTables:
    nodes, graph = locate_tables(name)
    arrays = read_npz(graph)
    roles = np.zeros(arrays["train_masks"].shape, np.int8)
    for role, part in enumerate(("train", "val", "test"), 1):
        roles[arrays[f"{part}_masks"]] = role
    edges = pd.DataFrame(arrays["edges"], columns=["source", "target"])
    # Without na_filter, pandas would take the education "none" for a missing value.
    return RealTables(pd.read_csv(nodes, sep="\t", na_filter=False), edges, roles)


def _read_facebook(name: str) -> RealTables:
    (path,) = locate_tables(name)
    content = io.loadmat(path, variable_names=["A", "local_info"], spmatrix=False)
    nodes = pd.DataFrame(content["local_info"], columns=list(STUDENT_COLUMNS)).astype("Int64")
    nodes = nodes.mask(nodes == 0)
    nodes.insert(0, "student", range(len(nodes)))
    source, target = sparse.triu(content["A"], k=1).nonzero()
    return RealTables(nodes, pd.DataFrame({"source": source, "target": target}))


def _read_twitch(name: str) -> RealTables:
    edges, games, streamers = locate_tables(name)
    nodes = pd.read_csv(streamers).drop(columns="id").rename(columns={"new_id": "id"})
    played = json.loads(games.read_bytes())
    nodes["games"] = [sorted(set(played[str(node)])) for node in nodes["id"]]
    return RealTables(nodes, pd.read_csv(edges))


_READERS: dict[str, Callable[[str], RealTables]] = {
    "us-county": _read_us_county,
    "tolokers": _read_tolokers,
    "facebook100": _read_facebook,
    "twitch": _read_twitch,
}

_DEFAULTS = {
    "us-county": TableChoices(
        id_column="fips",
        name_column="name",
        source_column="county",
        destination_column="neighbour",
        ignored=("state", "winner", "democratic_share"),
    ),
    "tolokers": TableChoices(
        id_column="id", source_column="source", destination_column="target", missing=("-none",)
    ),
    "facebook100": TableChoices(
        id_column="student",
        source_column="source",
        destination_column="target",
        categorical=STUDENT_COLUMNS,
    ),
    "twitch": TableChoices(
        id_column="id", source_column="from", destination_column="to", lists=("games",)
    ),
}
"""What is known about the columns of each dataset; the target is in the catalogue."""
