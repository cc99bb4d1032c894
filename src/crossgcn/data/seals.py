"""Seal files with hashes when they are written, and verify them when they are read.

A seal shows damage: flipped bits, files cut short, files of two runs in one folder. It does not
show who wrote a file, because whoever changes a file can compute its hash again.

JSON objects carry their own SHA-256. Folders list the SHA-256 of their files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from crossgcn.data.files import read_json_object
from crossgcn.errors import BadInput


def add_checksum(content: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object with its own SHA-256 added as ``sha256``."""
    return content | {"sha256": digest_of_json(content)}


def checksum_matches(content: dict[str, Any]) -> bool:
    """Return whether an object from :func:`add_checksum` is unchanged."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return content.get("sha256") == digest_of_json(rest)


def digest_of_json(content: dict[str, Any]) -> str:
    """Return the SHA-256 of an object, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest_of_file(path: Path) -> str | None:
    """Return the SHA-256 of a file, or ``None`` if it cannot be read."""
    try:
        if not path.is_file():  # opening a pipe would block
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def digests_of_files(folder: Path, names: Iterable[str]) -> dict[str, str | None]:
    """Return the SHA-256 of some files of a folder, by name."""
    return {name: digest_of_file(folder / name) for name in names}


def changed_files(folder: Path, digests: Mapping[str, str | None]) -> list[Path]:
    """Return the files that differ from :func:`digests_of_files`, or are missing."""
    return [
        folder / name
        for name, digest in digests.items()
        if digest is None or digest_of_file(folder / name) != digest
    ]


def read_sealed_json(path: Path, if_missing: str, if_damaged: str) -> dict[str, Any]:
    """Read an object from :func:`add_checksum`; the last two are remedies for errors."""
    content = read_json_object(path, if_missing, if_damaged)
    if not checksum_matches(content):
        raise not_as_written(path, if_damaged)
    return content


def not_as_written(path: Path, remedy: str) -> BadInput:
    """Return the error for a file that differs from its hash."""
    return BadInput(
        f"{path}: is not what was written there (its SHA-256 is another one): it was changed or "
        f"cut short; {remedy}"
    )
