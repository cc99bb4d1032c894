"""The datasets known by name, and where their files are.

Files are looked for below ``$CROSSGCN_DATA``, then in the user's cache, and the SHA-256 of each
is checked before anything parses it. Nothing here imports torch, so that listing and completing
names is fast.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from platformdirs import user_cache_path

from crossgcn.errors import BadInput, WorkFailed, unknown_name

ENVIRONMENT_VARIABLE = "CROSSGCN_DATA"

PLANETOID_NAMES = ("citeseer", "cora", "pubmed")

PLANETOID_PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
"""Endings of the eight Planetoid files of a graph, after ``ind.NAME.``"""

REGISTRY: dict[str, str] = dict(
    line.split()
    for line in (files("crossgcn.data.datasets") / "registry.txt").read_text().splitlines()
)
"""SHA-256 of each file, by its path below a data folder."""


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


def cache_folder() -> Path:
    """Return the folder for downloads; it need not exist."""
    return user_cache_path("crossgcn")


def available(name: str) -> str | None:
    """Return where a dataset would be read from, or ``None`` if it is not on this machine.

    ``bundled``, ``generated``, ``CROSSGCN_DATA`` or ``cache``.
    """
    if name not in DATASET_NAMES:
        raise unknown_name("dataset", name, DATASET_NAMES)
    if name in TABLES:
        wanted, otherwise = TABLES[name].files, "bundled"
    elif CATALOGUE[name].origin == "planetoid":
        wanted, otherwise = planetoid_files(name), ""
    else:
        wanted, otherwise = (), CATALOGUE[name].origin
    if not wanted:
        return otherwise
    return next((origin for origin, root in _folders() if not _missing(root, wanted)), None)


def locate(name: str) -> Path | None:
    """Return the folder with all eight Planetoid files of a graph, verified, or ``None``."""
    found = _find(planetoid_files(name))
    return None if found is None else found[0].parent


def locate_tables(name: str) -> list[Path]:
    """Return the verified files of a dataset of tables that is not in the package."""
    entry = TABLES[name]
    found = _find(entry.files)
    if found is None:
        raise _not_here(name, entry.files, f"get it ({entry.source}; {entry.terms}), and")
    return found


def locate_splits(name: str) -> Path:
    """Return the verified file with the authors' twenty splits of a graph."""
    file = f"splits/{name}.npz"
    if file not in REGISTRY:
        raise BadInput(
            f"the authors released no splits for {name!r}, only for {', '.join(PLANETOID_NAMES)}; "
            "use --splits random or --splits public"
        )
    found = _find([file])
    if found is None:
        what = f"the file with the authors' splits of {name}"
        raise _not_here(what, [file], "use --splits random, or")
    return found[0]


def fetch(name: str) -> Path:
    """Return the folder with the Planetoid files of a graph; download them if need be."""
    found = locate(name)
    if found is not None:
        return found
    import pooch  # imports requests, which takes long

    folder = cache_folder() / "planetoid"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkFailed(
            f"{folder}: the cache cannot be written ({error.strerror}); free it, or put the files "
            f"elsewhere and set {ENVIRONMENT_VARIABLE}"
        ) from error
    pooch.get_logger().setLevel("ERROR")
    downloader = pooch.HTTPDownloader(timeout=60)
    for path in map(Path, planetoid_files(name)):
        url = f"https://github.com/kimiyoung/planetoid/raw/master/data/{path.name}"
        try:
            pooch.retrieve(url, REGISTRY[str(path)], path.name, folder, downloader=downloader)
        except (OSError, ValueError) as error:
            what = "wrong SHA-256" if isinstance(error, ValueError) else type(error).__name__
            raise planetoid_not_here(name, f"GitHub: {what} for {path.name}") from error
    return folder


def planetoid_files(name: str) -> tuple[str, ...]:
    """Return the eight files of a graph, below a data folder."""
    if name not in PLANETOID_NAMES:
        raise unknown_name("Planetoid graph", name, PLANETOID_NAMES)
    return tuple(f"planetoid/ind.{name}.{part}" for part in PLANETOID_PARTS)


def planetoid_not_here(name: str, tried: str = "") -> BadInput:
    """Return the error for a graph whose files are missing, and why a download failed, if tried."""
    what = f"{name} (a download was tried: {tried})" if tried else name
    remedy = f"run `crossgcn data get {name}` where GitHub can be reached, or"
    return _not_here(what, planetoid_files(name), remedy)


def _not_here(what: str, wanted: Sequence[str], remedy: str) -> BadInput:
    """Return the error for missing files; it says which, if a folder has some of them."""
    folder = Path(wanted[0]).parent
    names = [Path(file).name for file in wanted]
    partly = ""
    for _, root in _folders():
        missing = [Path(file).name for file in _missing(root, wanted)]
        if len(missing) < len(wanted):
            partly += f"; {root / folder} lacks {', '.join(missing)}"
    return BadInput(
        f"{what} is not on this machine{partly}: {remedy} copy {', '.join(names)} to {folder} "
        f"below the folder that {ENVIRONMENT_VARIABLE} names, or to {cache_folder() / folder}"
    )


def _folders() -> Iterator[tuple[str, Path]]:
    """Yield the data folders by name, in the order in which they are searched."""
    given = os.environ.get(ENVIRONMENT_VARIABLE)
    if given:
        if not Path(given).is_dir():
            raise BadInput(
                f"{ENVIRONMENT_VARIABLE} is {given!r}, which is no folder; correct or unset it"
            )
        yield ENVIRONMENT_VARIABLE, Path(given)
    yield "cache", cache_folder()


def _missing(root: Path, wanted: Sequence[str]) -> list[str]:
    return [file for file in wanted if not (root / file).is_file()]


def _find(wanted: Sequence[str]) -> list[Path] | None:
    """Return the files in the first data folder that has all, after verifying them."""
    for _, root in _folders():
        if _missing(root, wanted):
            continue
        for file in wanted:
            digest = hashlib.sha256((root / file).read_bytes()).hexdigest()
            if digest != REGISTRY[file]:
                raise BadInput(
                    f"{root / file}: not the expected file, its SHA-256 is {digest} instead of "
                    f"{REGISTRY[file]}; delete it and get it again"
                )
        return [root / file for file in wanted]
    return None
