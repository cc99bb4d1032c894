"""The datasets known by name, and where their files are.

Files are read from ``$CROSSGCN_DATA`` or, if that is not set, from the user's cache. The SHA-256
of each file is checked before it is parsed. This module does not import torch, so that listing and
completing names is fast.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from platformdirs import user_cache_path

from crossgcn.errors import BadInput, unknown_name

ENVIRONMENT_VARIABLE = "CROSSGCN_DATA"

PLANETOID_NAMES = ("citeseer", "cora", "pubmed")

_HERE = files("crossgcn.data.datasets")

REGISTRY: dict[str, str] = dict(
    line.split() for line in (_HERE / "registry.txt").read_text().splitlines()
)
"""SHA-256 of each file, by its path below a data folder."""


@dataclass(frozen=True)
class CatalogueEntry:
    """A graph or a dataset of two tables; ``catalogue.toml`` defines what the numbers count.

    Attributes:
        origin: ``bundled``, ``generated``, ``planetoid`` or ``files``.
        classes: Number of classes of a graph.
        target: Default target column of a dataset of tables.
        terms: Terms of use.
        source: Where to get the files.
        files: Paths below a data folder.
    """

    name: str
    description: str
    origin: str
    nodes: int
    edges: int
    columns: int
    self_loops: int = 0
    classes: int = 2
    target: str = ""
    terms: str = ""
    source: str = ""
    files: Sequence[str] = ()


def _read_catalogue(kind: str) -> dict[str, CatalogueEntry]:
    entries = tomllib.loads((_HERE / "catalogue.toml").read_text())[kind]
    for entry in entries:
        if "files" in entry:
            entry["files"] = [path for path in REGISTRY if path.startswith(entry["files"])]
    return {entry["name"]: CatalogueEntry(**entry) for entry in entries}


CATALOGUE, TABLES = _read_catalogue("graphs"), _read_catalogue("tables")
DATASET_NAMES: tuple[str, ...] = (*CATALOGUE, *TABLES)


def find_entry(name: str) -> CatalogueEntry:
    """Return the catalogue entry of a dataset."""
    entry = CATALOGUE.get(name) or TABLES.get(name)
    if entry is None:
        raise unknown_name("dataset", name, DATASET_NAMES)
    return entry


def data_folder() -> Path:
    """Return the folder that files are read from and downloaded to; it need not exist."""
    given = os.environ.get(ENVIRONMENT_VARIABLE)
    if given and not Path(given).is_dir():
        raise BadInput(
            f"{ENVIRONMENT_VARIABLE} is {given!r}, which is not a folder; correct or unset it"
        )
    return Path(given) if given else user_cache_path("crossgcn")


def available(name: str) -> str | None:
    """Return the source of a dataset, or ``None`` if it is not on this machine.

    The source is ``bundled``, ``generated``, ``CROSSGCN_DATA`` or ``cache``.
    """
    entry = find_entry(name)
    if entry.origin in ("bundled", "generated"):
        return entry.origin
    if not all((data_folder() / file).is_file() for file in entry.files):
        return None
    return ENVIRONMENT_VARIABLE if os.environ.get(ENVIRONMENT_VARIABLE) else "cache"


def locate_files(name: str) -> list[Path]:
    """Return the verified files of a dataset that is not in the package."""
    entry = find_entry(name)
    remedy = f"run `crossgcn data get {name}` where GitHub can be reached, or"
    if name in TABLES:
        remedy = f"get it ({entry.source}; {entry.terms}), and"
    return _locate(name, entry.files, remedy)


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
    """Download missing or damaged Planetoid files of a graph, and return their folder."""
    import pooch  # slow, because it imports requests

    folder = data_folder() / "planetoid"
    pooch.get_logger().setLevel("ERROR")
    downloader = pooch.HTTPDownloader(timeout=60)
    for path in map(Path, find_entry(name).files):
        url = f"https://github.com/kimiyoung/planetoid/raw/master/data/{path.name}"
        try:
            pooch.retrieve(url, REGISTRY[str(path)], path.name, folder, downloader=downloader)
        except (OSError, ValueError) as error:
            what = "wrong SHA-256" if isinstance(error, ValueError) else type(error).__name__
            raise BadInput(
                f"{path.name} cannot be fetched from GitHub to {folder} ({what}); try again, or "
                f"copy the eight files ind.{name}.* there, or set {ENVIRONMENT_VARIABLE} to the "
                "folder that has planetoid"
            ) from error
    return folder


def _locate(what: str, wanted: Sequence[str], remedy: str) -> list[Path]:
    """Return files of the data folder; refuse missing files and wrong SHA-256."""
    paths = [data_folder() / file for file in wanted]
    if missing := [path.name for path in paths if not path.is_file()]:
        raise BadInput(
            f"{what} is not on this machine: {remedy} copy {', '.join(missing)} to "
            f"{paths[0].parent}, or set {ENVIRONMENT_VARIABLE} to the folder that has "
            f"{Path(wanted[0]).parent}"
        )
    for file, path in zip(wanted, paths, strict=True):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != REGISTRY[file]:
            raise BadInput(
                f"{path}: not the expected file, its SHA-256 is {digest} instead of "
                f"{REGISTRY[file]}; delete it and get it again"
            )
    return paths
