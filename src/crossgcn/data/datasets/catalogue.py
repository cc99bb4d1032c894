"""The datasets known by name, and the facts a table of them needs.

Nothing here imports torch, so that listing and completing names stays instant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class CatalogueEntry:
    """One dataset, in numbers.

    Args:
        name: What users type.
        description: What a node, an edge and a class stand for.
        nodes: Nodes, unlabelled and isolated ones included.
        edges: Distinct undirected edges between two different nodes.
        self_loops: Nodes the raw edge list joins to themselves.
        features: Columns of the feature matrix.
        classes: Classes among the labelled nodes.
        origin: Whether it ships with the package, is drawn from a seed, or is
            read from Planetoid's files.
    """

    name: str
    description: str
    nodes: int
    edges: int
    self_loops: int
    features: int
    classes: int
    origin: Literal["bundled", "generated", "planetoid"]


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
    CatalogueEntry(
        "citeseer-cross",
        "Citeseer's graph and labels; normals whose pairwise signs give the class",
        nodes=3327,
        edges=4552,
        self_loops=124,
        features=12,
        classes=6,
        origin="generated",
    ),
    CatalogueEntry(
        "citeseer-cross-3",
        "Citeseer's graph and labels; normals whose signs in threes give the class",
        nodes=3327,
        edges=4552,
        self_loops=124,
        features=18,
        classes=6,
        origin="generated",
    ),
    CatalogueEntry(
        "citeseer-cross-4",
        "Citeseer's graph and labels; normals whose signs in fours give the class",
        nodes=3327,
        edges=4552,
        self_loops=124,
        features=24,
        classes=6,
        origin="generated",
    ),
    CatalogueEntry(
        "citeseer-cross-pairs",
        "citeseer-cross with the products of two features in place of the features",
        nodes=3327,
        edges=4552,
        self_loops=124,
        features=66,
        classes=6,
        origin="generated",
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
"""What the names of a graph's eight Planetoid files end in, after ``ind.NAME.``"""
