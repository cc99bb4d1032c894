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


def _citeseer_cross(name: str, features: int, signs: str) -> CatalogueEntry:
    description = f"Citeseer's graph and labels; normals whose {signs} give the class"
    return CatalogueEntry(name, description, 3327, 4552, 124, features, 6, "generated")


_GRAPHS = (
    CatalogueEntry(
        "citeseer",
        "papers, citations, six fields; binary bag of words; 15 nodes unlabelled",
        *(3327, 4552, 124, 3703, 6),
        "bundled",
    ),
    CatalogueEntry(
        "cora",
        "papers, citations, seven topics; binary bag of words",
        *(2708, 5278, 0, 1433, 7),
        "planetoid",
    ),
    CatalogueEntry(
        "pubmed",
        "papers, citations, three kinds of diabetes; tf-idf words",
        *(19717, 44324, 3, 500, 3),
        "planetoid",
    ),
    _citeseer_cross("citeseer-cross", 12, "pairwise signs"),
    _citeseer_cross("citeseer-cross-3", 18, "signs in threes"),
    _citeseer_cross("citeseer-cross-4", 24, "signs in fours"),
    CatalogueEntry(
        "reddit400k-shaped",
        "a random graph of the size of Reddit400K, for measuring speed; 60 % train",
        *(30_000, 386_742, 0, 602, 41),
        "generated",
    ),
)

CATALOGUE: dict[str, CatalogueEntry] = {entry.name: entry for entry in _GRAPHS}


@dataclass(frozen=True)
class TableEntry:
    """A dataset of two tables, nodes and edges, in numbers.

    Attributes:
        edges: Distinct undirected edges.
        columns: Of the table of nodes, without the ids.
        target: Column that is predicted by default.
        terms: Terms of use.
        source: Where to get the files.
        files: Below a data folder; none if the tables are in the package.
    """

    name: str
    description: str
    nodes: int
    edges: int
    columns: int
    target: str
    terms: str
    source: str
    files: tuple[str, ...] = ()


_COLLEGES = {
    "Amherst41": (2235, 90_954),
    "Bowdoin47": (2252, 84_387),
    "Caltech36": (769, 16_656),
    "Haverford76": (1446, 59_589),
    "JohnsHopkins55": (5180, 186_586),
    "Reed98": (962, 18_812),
}

_TABLES = (
    TableEntry(
        "us-county",
        "US counties and their borders; population, economy, the presidential election of 2016",
        *(3220, 9468, 14, "winner"),
        "public facts of USDA ERS, US Census and BLS",
        "in the package",
    ),
    TableEntry(
        "tolokers",
        "crowd workers who worked on the same tasks; who was banned; ten official splits",
        *(11_758, 519_000, 8, "banned"),
        "CC BY 4.0",
        "nodes.tsv: https://github.com/Toloka/TolokerGraph; tolokers.npz: "
        "https://github.com/yandex-research/heterophilous-graphs",
        ("real/tolokers/nodes.tsv", "real/tolokers/tolokers.npz"),
    ),
    *(
        TableEntry(
            f"facebook100/{college}",
            "students and friendships of a college, 2005; dormitory, year, major, high school",
            *(nodes, edges, 7, "gender"),
            "research use; cite Traud, Mucha and Porter 2012",
            "https://archive.org/details/oxford-2005-facebook-matrix",
            (f"real/facebook100/{college}.mat",),
        )
        for college, (nodes, edges) in _COLLEGES.items()
    ),
    TableEntry(
        "twitch/DE",
        "German streamers and friendships; games played, days, views; who has adult content",
        *(9498, 153_138, 5, "mature"),
        "research use; cite Rozemberczki, Allen and Sarkar 2021",
        "https://snap.stanford.edu/data/twitch-social-networks.html",
        tuple(
            f"real/twitch/musae_DE_{part}" for part in ("edges.csv", "features.json", "target.csv")
        ),
    ),
)

TABLES: dict[str, TableEntry] = {entry.name: entry for entry in _TABLES}

DATASET_NAMES: tuple[str, ...] = (*CATALOGUE, *TABLES)

PLANETOID_PARTS: tuple[str, ...] = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
"""Endings of the eight Planetoid files of a graph, after ``ind.NAME.``"""
