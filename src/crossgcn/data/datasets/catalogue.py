"""The datasets known by name, and where their files are.

Files are looked for below ``$CROSSGCN_DATA`` or, if that is not set, in the user's cache. The
SHA-256 of each is checked before anything parses it. Nothing here imports torch, so that listing
and completing names is fast.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Sequence
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

_HERE = files("crossgcn.data.datasets")

REGISTRY: dict[str, str] = dict(
    line.split() for line in (_HERE / "registry.txt").read_text().splitlines()
)
"""SHA-256 of each file, by its path below a data folder."""


@dataclass(frozen=True)
class CatalogueEntry:
    """A graph in numbers; ``catalogue.toml`` says what they count."""

    name: str
    description: str
    nodes: int
    edges: int
    self_loops: int
    features: int
    classes: int
    origin: Literal["bundled", "generated", "planetoid"]


@dataclass(frozen=True)
class TableEntry:
    """A dataset of two tables, nodes and edges, in numbers; ``catalogue.toml`` says of what.

    Attributes:
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
    files: Sequence[str] = ()


_CATALOGUE = tomllib.loads((_HERE / "catalogue.toml").read_text())

CATALOGUE = {entry["name"]: CatalogueEntry(**entry) for entry in _CATALOGUE["graphs"]}
TABLES = {entry["name"]: TableEntry(**entry) for entry in _CATALOGUE["tables"]}
DATASET_NAMES: tuple[str, ...] = (*CATALOGUE, *TABLES)


def cache_folder() -> Path:
    """Return the folder for downloads if ``$CROSSGCN_DATA`` is not set; it need not exist."""
    return user_cache_path("crossgcn")


def data_folder() -> Path:
    """Return the folder below which files are looked for, and to which they are downloaded."""
    given = os.environ.get(ENVIRONMENT_VARIABLE)
    if given and not Path(given).is_dir():
        raise BadInput(
            f"{ENVIRONMENT_VARIABLE} is {given!r}, which is no folder; correct or unset it"
        )
    return Path(given) if given else cache_folder()


def available(name: str) -> str | None:
    """Return where a dataset would be read from, or ``None`` if it is not on this machine.

    ``bundled``, ``generated``, ``CROSSGCN_DATA`` or ``cache``.
    """
    if name not in DATASET_NAMES:
        raise unknown_name("dataset", name, DATASET_NAMES)
    if name in TABLES:
        origin, wanted = "bundled", TABLES[name].files
    else:
        origin = CATALOGUE[name].origin
        wanted = planetoid_files(name) if origin == "planetoid" else ()
    if not wanted:
        return origin
    if _missing(wanted):
        return None
    return ENVIRONMENT_VARIABLE if os.environ.get(ENVIRONMENT_VARIABLE) else "cache"


def planetoid_files(name: str) -> list[str]:
    """Return the eight files of a graph, below a data folder."""
    if name not in PLANETOID_NAMES:
        raise unknown_name("Planetoid graph", name, PLANETOID_NAMES)
    return [f"planetoid/ind.{name}.{part}" for part in PLANETOID_PARTS]


def locate_planetoid(name: str) -> Path:
    """Return the folder with the eight verified Planetoid files of a graph."""
    remedy = f"run `crossgcn data get {name}` where GitHub can be reached, or"
    return _locate(name, planetoid_files(name), remedy)[0].parent


def locate_tables(name: str) -> list[Path]:
    """Return the verified files of a dataset of tables that is not in the package."""
    entry = TABLES[name]
    return _locate(name, entry.files, f"get it ({entry.source}; {entry.terms}), and")


def locate_splits(name: str) -> Path:
    """Return the verified file with the authors' twenty splits of a graph."""
    file = f"splits/{name}.npz"
    if file not in REGISTRY:
        raise BadInput(
            f"the authors released no splits for {name!r}, only for {', '.join(PLANETOID_NAMES)}; "
            "use --splits random or --splits public"
        )
    what = f"the file with the authors' splits of {name}"
    return _locate(what, [file], "use --splits random, or")[0]


def fetch(name: str) -> Path:
    """Return the folder with the Planetoid files of a graph; download what is missing."""
    wanted, folder = planetoid_files(name), data_folder() / "planetoid"
    if not _missing(wanted):
        return locate_planetoid(name)
    import pooch  # imports requests, which takes long

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkFailed(
            f"{folder} cannot be written ({error.strerror}); free it, or set "
            f"{ENVIRONMENT_VARIABLE} to another folder"
        ) from error
    pooch.get_logger().setLevel("ERROR")
    downloader = pooch.HTTPDownloader(timeout=60)
    for path in map(Path, wanted):
        url = f"https://github.com/kimiyoung/planetoid/raw/master/data/{path.name}"
        try:
            pooch.retrieve(url, REGISTRY[str(path)], path.name, folder, downloader=downloader)
        except (OSError, ValueError) as error:
            what = "wrong SHA-256" if isinstance(error, ValueError) else type(error).__name__
            raise BadInput(
                f"{name}: GitHub: {what} for {path.name}; try again, or copy the eight files "
                f"ind.{name}.* to {folder}, or below {ENVIRONMENT_VARIABLE}"
            ) from error
    return folder


def _missing(wanted: Sequence[str]) -> list[str]:
    root = data_folder()
    return [file for file in wanted if not (root / file).is_file()]


def _locate(what: str, wanted: Sequence[str], remedy: str) -> list[Path]:
    """Return files of the data folder; refuse a missing one, and one with another SHA-256."""
    paths = [data_folder() / file for file in wanted]
    if missing := _missing(wanted):
        raise BadInput(
            f"{what} is not on this machine: {remedy} copy "
            f"{', '.join(Path(file).name for file in missing)} to {paths[0].parent}, or set "
            f"{ENVIRONMENT_VARIABLE} to the folder that has {Path(missing[0]).parent}"
        )
    for file, path in zip(wanted, paths, strict=True):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != REGISTRY[file]:
            raise BadInput(
                f"{path}: not the expected file, its SHA-256 is {digest} instead of "
                f"{REGISTRY[file]}; delete it and get it again"
            )
    return paths
