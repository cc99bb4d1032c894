"""The datasets known by name.

Nothing here imports torch, so that listing and completing names is fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class CatalogueEntry:
    """A dataset in numbers.

    Attributes:
        nodes: Unlabelled and isolated ones included.
        edges: Distinct undirected edges between two different nodes.
        self_loops: Nodes that an edge joins to themselves.
        classes: Of the labelled nodes.
        origin: In the package, drawn from a seed, or read from Planetoid's files.
    """

    name: str
    description: str
    nodes: int
    edges: int
    self_loops: int
    features: int
    classes: int
    origin: Literal["bundled", "generated", "planetoid"]


def _on_citeseer(name: str, description: str, features: int) -> CatalogueEntry:
    """Describe a dataset with the graph and labels of Citeseer."""
    return CatalogueEntry(name, description, 3327, 4552, 124, features, 6, "generated")


_ENTRIES = (
    CatalogueEntry(
        "citeseer",
        "papers, citations, six fields; binary bag of words; 15 nodes unlabelled",
        nodes=3327,
        edges=4552,
        self_loops=124,
        features=3703,
        classes=6,
        origin="bundled",
    ),
    CatalogueEntry(
        "cora",
        "papers, citations, seven topics; binary bag of words",
        nodes=2708,
        edges=5278,
        self_loops=0,
        features=1433,
        classes=7,
        origin="planetoid",
    ),
    CatalogueEntry(
        "pubmed",
        "papers, citations, three kinds of diabetes; tf-idf words",
        nodes=19717,
        edges=44324,
        self_loops=3,
        features=500,
        classes=3,
        origin="planetoid",
    ),
    _on_citeseer(
        "citeseer-cross",
        "Citeseer's graph and labels; normals whose pairwise signs give the class",
        12,
    ),
    _on_citeseer(
        "citeseer-cross-3",
        "Citeseer's graph and labels; normals whose signs in threes give the class",
        18,
    ),
    _on_citeseer(
        "citeseer-cross-4",
        "Citeseer's graph and labels; normals whose signs in fours give the class",
        24,
    ),
    _on_citeseer(
        "citeseer-cross-pairs",
        "citeseer-cross with the products of two features in place of the features",
        66,
    ),
    CatalogueEntry(
        "reddit400k-shaped",
        "a random graph of the size of Reddit400K, for measuring speed; 60 % train",
        nodes=30000,
        edges=386742,
        self_loops=0,
        features=602,
        classes=41,
        origin="generated",
    ),
)

CATALOGUE: dict[str, CatalogueEntry] = {entry.name: entry for entry in _ENTRIES}

DATASET_NAMES: tuple[str, ...] = tuple(CATALOGUE)

PLANETOID_PARTS: tuple[str, ...] = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
"""Endings of the eight Planetoid files of a graph, after ``ind.NAME.``"""
