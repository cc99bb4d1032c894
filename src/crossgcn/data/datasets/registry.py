"""Find the files of a dataset: in ``$CROSSGCN_DATA``, in the user's cache, or by a download.

Both folders have the layout of :data:`REGISTRY`. The SHA-256 of a file is checked before
anything parses it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

import pooch
from filelock import FileLock
from platformdirs import user_cache_path

from crossgcn.data.datasets.catalogue import CATALOGUE, DATASET_NAMES, PLANETOID_PARTS, TABLES
from crossgcn.data.files import sha256_of_file
from crossgcn.errors import BadInput, WorkFailed, unknown_name

ENVIRONMENT_VARIABLE = "CROSSGCN_DATA"

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


def available(name: str) -> str | None:
    """Return where a dataset would be read from, or ``None`` if it is not on this machine.

    ``bundled``, ``generated``, ``CROSSGCN_DATA`` or ``cache``.
    """
    if name not in DATASET_NAMES:
        raise unknown_name("dataset", name, DATASET_NAMES)
    wanted: Sequence[str]
    if name in TABLES:
        wanted = TABLES[name].files
    elif CATALOGUE[name].origin == "planetoid":
        wanted = _planetoid_files(name)
    else:
        return CATALOGUE[name].origin
    if not wanted:
        return "bundled"
    return next((origin for origin, root in _folders() if not _missing(root, wanted)), None)


def locate(name: str) -> Path | None:
    """Return the folder with all eight Planetoid files of a graph, verified, or ``None``."""
    found = _find(_planetoid_files(name))
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


def _download(name: str, cache: Path) -> Path:
    """Download the files of a graph that are not in the cache yet, each verified."""
    pooch.get_logger().setLevel("ERROR")
    downloader = pooch.HTTPDownloader(timeout=60)
    for file in _planetoid_files(name):
        path = cache / file
        try:
            url, known_hash = f"{_GITHUB}/{path.name}", REGISTRY[file]
            pooch.retrieve(url, known_hash, path.name, path.parent, downloader=downloader)
        except (OSError, ValueError) as error:
            what = "wrong SHA-256" if isinstance(error, ValueError) else type(error).__name__
            raise planetoid_not_here(name, f"GitHub: {what} for {path.name}") from error
    return cache / "planetoid"


def planetoid_not_here(name: str, tried: str = "") -> BadInput:
    """Return the error for a graph whose files are missing, with three ways to provide them.

    Args:
        tried: Why a download failed, if one was tried.
    """
    what = f"{name} (a download was tried: {tried})" if tried else name
    remedy = f"run `crossgcn data get {name}` where GitHub can be reached, or"
    return _not_here(what, _planetoid_files(name), remedy)


def _not_here(what: str, wanted: Sequence[str], remedy: str) -> BadInput:
    """Return the error for missing files; it says which, if a folder has some of them."""
    folder = Path(wanted[0]).parent
    partly = ""
    for _, root in _folders():
        missing = _missing(root, wanted)
        if len(missing) < len(wanted):
            partly += f"; {root / folder} lacks {', '.join(Path(file).name for file in missing)}"
    return BadInput(
        f"{what} is not on this machine{partly}: {remedy} copy "
        f"{', '.join(Path(file).name for file in wanted)} to {folder} below the folder that "
        f"{ENVIRONMENT_VARIABLE} names, or to {cache_folder() / folder}"
    )


def _planetoid_files(name: str) -> list[str]:
    if name not in PLANETOID_NAMES:
        raise unknown_name("Planetoid graph", name, PLANETOID_NAMES)
    return [f"planetoid/ind.{name}.{part}" for part in PLANETOID_PARTS]


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
            found = sha256_of_file(root / file)
            if found != REGISTRY[file]:
                raise BadInput(
                    f"{root / file}: not the expected file, its SHA-256 is {found or 'unreadable'} "
                    f"instead of {REGISTRY[file]}; delete it and get it again"
                )
        return [root / file for file in wanted]
    return None
