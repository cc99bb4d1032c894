"""Find the files of a dataset: in ``$CROSSGCN_DATA``, in the user's cache, or by a download.

Both folders have the layout of :data:`REGISTRY`. The SHA-256 of a file is checked before
anything parses it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Literal

import pooch
from filelock import FileLock
from platformdirs import user_cache_path

from crossgcn.data.datasets.catalogue import CATALOGUE, DATASET_NAMES, PLANETOID_PARTS, TABLES
from crossgcn.errors import BadInput, WorkFailed, unknown_name

ENVIRONMENT_VARIABLE = "CROSSGCN_DATA"

Root = Literal["CROSSGCN_DATA", "cache"]
Origin = Literal["bundled", "generated", Root]

PLANETOID_NAMES = ("citeseer", "cora", "pubmed")

_GITHUB = "https://github.com/kimiyoung/planetoid/raw/master/data"

REGISTRY: dict[str, str] = dict(
    line.split()
    for line in (files("crossgcn.data.datasets") / "registry.txt").read_text().splitlines()
)
"""SHA-256 of each file, by its path below a data folder."""


def cache_folder() -> Path:
    """Return the folder for downloads; it need not exist."""
    return user_cache_path("crossgcn")


def available(name: str) -> Origin | None:
    """Return where a dataset would be read from, or ``None`` if it is not on this machine."""
    if name not in DATASET_NAMES:
        raise unknown_name("dataset", name, DATASET_NAMES)
    if name in TABLES:
        wanted = list(TABLES[name].files)
        if not wanted:
            return "bundled"
    else:
        origin = CATALOGUE[name].origin
        if origin != "planetoid":
            return origin
        wanted = _planetoid_files(name)
    return next((origin for origin, _ in _folders_with(wanted)), None)


def locate(name: str) -> Path | None:
    """Return the folder with all eight Planetoid files of a graph, verified, or ``None``."""
    root = _find(_planetoid_files(name))
    return None if root is None else root / "planetoid"


def locate_tables(name: str) -> list[Path]:
    """Return the verified files of a dataset of tables that is not in the package."""
    entry = TABLES[name]
    root = _find(list(entry.files))
    if root is None:
        folder = Path(entry.files[0]).parent
        names = ", ".join(Path(file).name for file in entry.files)
        raise BadInput(
            f"{name} is not on this machine: get {names} ({entry.source}; {entry.terms}); copy to "
            f"{folder} below the folder that {ENVIRONMENT_VARIABLE} names, or to "
            f"{cache_folder() / folder}"
        )
    return [root / file for file in entry.files]


def locate_splits(name: str) -> Path:
    """Return the verified file with the authors' twenty splits of a graph."""
    file = _splits_file(name)
    if file not in REGISTRY:
        raise BadInput(
            f"the authors released no splits for {name!r}, only for {', '.join(PLANETOID_NAMES)}; "
            "use --splits random or --splits public"
        )
    root = _find([file])
    if root is None:
        raise splits_not_here(name)
    return root / file


def splits_here(dataset: str) -> bool:
    """Return whether the authors' splits of a dataset are on this machine, and verify them."""
    file = _splits_file(dataset)
    return file in REGISTRY and _find([file]) is not None


def splits_not_here(dataset: str) -> BadInput:
    """Return the error for missing splits, with three ways to continue."""
    file = _splits_file(dataset)
    return BadInput(
        f"the authors' splits of {dataset} are not on this machine; set {ENVIRONMENT_VARIABLE} to "
        f"a folder with {file}, or copy that file to {cache_folder() / file}, "
        "or use --splits random"
    )


def graph_with_splits(dataset: str) -> str:
    """Return the graph whose splits a dataset uses; those made from Citeseer use its splits."""
    return "citeseer" if dataset.startswith("citeseer-cross") else dataset


def fetch(name: str) -> Path:
    """Return the folder with the Planetoid files of a graph; download them if need be."""
    found = locate(name)
    if found is not None:
        return found
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / "download.lock"):
            # Another process may have finished the download in the meantime.
            return locate(name) or _download(name, cache)
    except OSError as error:
        raise WorkFailed(
            f"{cache}: the cache cannot be written ({error.strerror or error}); free it, or put "
            f"the files elsewhere and set {ENVIRONMENT_VARIABLE}"
        ) from error


def not_here(name: str, tried: str = "") -> BadInput:
    """Return the error for a graph whose files are missing, with three ways to provide them.

    Args:
        tried: Why a download failed, if one was tried.
    """
    wanted, incomplete = _planetoid_files(name), []
    for _, root in _roots():
        missing = [Path(file).name for file in wanted if not (root / file).is_file()]
        if len(missing) < len(wanted):
            incomplete.append(f"{root / 'planetoid'} lacks {', '.join(missing)}")
    state = f"here only in part ({'; '.join(incomplete)})" if incomplete else "not on this machine"
    why = f" and could not be downloaded ({tried})" if tried else ""
    return BadInput(
        f"{name} is {state}{why}: set {ENVIRONMENT_VARIABLE} to a folder with "
        f"planetoid/ind.{name}.*, or run `crossgcn data get {name}` where GitHub can be reached, "
        f"or copy the eight files ind.{name}.* into {cache_folder() / 'planetoid'}"
    )


def _download(name: str, cache: Path) -> Path:
    """Download the files of a graph that are not in the cache yet, each verified."""
    pooch.get_logger().setLevel("ERROR")
    urls = {file: f"{_GITHUB}/{Path(file).name}" for file in _planetoid_files(name)}
    registry = pooch.create(cache, base_url="", registry=REGISTRY, urls=urls)
    for file in urls:
        try:
            registry.fetch(file, downloader=pooch.HTTPDownloader(timeout=60))
        except (OSError, ValueError) as error:
            what = "wrong SHA-256" if isinstance(error, ValueError) else type(error).__name__
            raise not_here(name, f"GitHub: {what} for {Path(file).name}") from error
    return cache / "planetoid"


def _planetoid_files(name: str) -> list[str]:
    if name not in PLANETOID_NAMES:
        raise unknown_name("Planetoid graph", name, PLANETOID_NAMES)
    return [f"planetoid/ind.{name}.{part}" for part in PLANETOID_PARTS]


def _splits_file(dataset: str) -> str:
    return f"splits/{graph_with_splits(dataset)}.npz"


def _roots() -> Iterator[tuple[Root, Path]]:
    given = os.environ.get(ENVIRONMENT_VARIABLE)
    if given:
        root = Path(given)
        if not root.is_dir():
            raise BadInput(
                f"{ENVIRONMENT_VARIABLE} is {given!r}, which is no folder; correct or unset it"
            )
        yield "CROSSGCN_DATA", root
    yield "cache", cache_folder()


def _folders_with(wanted: list[str]) -> Iterator[tuple[Root, Path]]:
    for origin, root in _roots():
        if all((root / file).is_file() for file in wanted):
            yield origin, root


def _find(wanted: list[str]) -> Path | None:
    """Return the first data folder that has all files, after verifying them."""
    for _, root in _folders_with(wanted):
        for file in wanted:
            _verify(root / file, REGISTRY[file])
        return root
    return None


def _verify(path: Path, expected: str) -> None:
    try:
        found = pooch.file_hash(str(path))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); make it readable") from error
    if found != expected:
        raise BadInput(
            f"{path}: not the expected file, its SHA-256 is {found} instead of {expected}; "
            "delete it and get it again"
        )
