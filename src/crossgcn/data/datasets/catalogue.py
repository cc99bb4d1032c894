"""The datasets known by name.

Nothing here imports torch, so that listing and completing names is fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_ON_CITESEER = "Citeseer's graph and labels; normals whose"

_DESCRIPTIONS = {
    "citeseer": "papers, citations, six fields; binary bag of words; 15 nodes unlabelled",
    "cora": "papers, citations, seven topics; binary bag of words",
    "pubmed": "papers, citations, three kinds of diabetes; tf-idf words",
    "citeseer-cross": f"{_ON_CITESEER} pairwise signs give the class",
    "citeseer-cross-3": f"{_ON_CITESEER} signs in threes give the class",
    "citeseer-cross-4": f"{_ON_CITESEER} signs in fours give the class",
    "citeseer-cross-pairs": (
        "citeseer-cross with the products of two features in place of the features"
    ),
    "reddit400k-shaped": (
        "a random graph of the size of Reddit400K, for measuring speed; 60 % train"
    ),
}

Origin = Literal["bundled", "generated", "planetoid"]
"""In the package, drawn from a seed, or read from Planetoid's files."""


@dataclass(frozen=True)
class CatalogueEntry:
    """A dataset in numbers.

    Attributes:
        nodes: Unlabelled and isolated ones included.
        edges: Distinct undirected edges between two different nodes.
        self_loops: Nodes that an edge joins to themselves.
        classes: Of the labelled nodes.
    """

    name: str
    description: str
    nodes: int
    edges: int
    self_loops: int
    features: int
    classes: int
    origin: Origin


_ENTRIES: tuple[tuple[str, tuple[int, int, int, int, int], Origin], ...] = (
    ("citeseer", (3327, 4552, 124, 3703, 6), "bundled"),
    ("cora", (2708, 5278, 0, 1433, 7), "planetoid"),
    ("pubmed", (19717, 44324, 3, 500, 3), "planetoid"),
    ("citeseer-cross", (3327, 4552, 124, 12, 6), "generated"),
    ("citeseer-cross-3", (3327, 4552, 124, 18, 6), "generated"),
    ("citeseer-cross-4", (3327, 4552, 124, 24, 6), "generated"),
    ("citeseer-cross-pairs", (3327, 4552, 124, 66, 6), "generated"),
    ("reddit400k-shaped", (30000, 386742, 0, 602, 41), "generated"),
)

CATALOGUE: dict[str, CatalogueEntry] = {
    name: CatalogueEntry(name, _DESCRIPTIONS[name], *counts, origin)
    for name, counts, origin in _ENTRIES
}

DATASET_NAMES: tuple[str, ...] = tuple(CATALOGUE)

PLANETOID_PARTS: tuple[str, ...] = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
"""Endings of the eight Planetoid files of a graph, after ``ind.NAME.``"""
