"""Write files atomically, and detect changed ones by checksums."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from crossgcn.errors import BadInput, WorkFailed


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``path`` on success.

    It is flushed to disk before it is renamed. If the block raises an error, it is removed,
    and a file at ``path`` stays as it was.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically."""
    with replacing(path) as file:
        file.write((json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


Arrays = dict[str, NDArray[Any]]

# Zip entries carry a time: always the earliest possible one, so that bytes are reproducible.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def read_npz(path: Path) -> Arrays:
    """Read every array of an ``.npz`` file; refuse any that needs unpickling."""
    if not path.is_file():
        raise BadInput(f"{path}: no such file; check the path")
    arrays: Arrays = {}
    member = ""
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                with archive.open(member) as file:
                    array = np.lib.format.read_array(file, allow_pickle=False)
                    arrays[member.removesuffix(".npy")] = array
    except zipfile.BadZipFile as error:
        raise BadInput(
            f"{path}: not an .npz file, or cut short ({error}); write it with numpy.savez "
            "or crossgcn.data.save_graph"
        ) from error
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, EOFError, MemoryError, NotImplementedError, RuntimeError, zlib.error) as e:
        raise BadInput(
            f"{path}: array {member!r} cannot be read ({e}); write it again, as plain numbers"
        ) from e
    return arrays


def write_npz(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a compressed ``.npz`` file, atomically and with reproducible bytes."""
    try:
        with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                entry = zipfile.ZipInfo(f"{name}.npy", _NO_TIME)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.create_system = 3
                with archive.open(entry, "w", force_zip64=True) as member:
                    np.lib.format.write_array(
                        member, np.ascontiguousarray(array), allow_pickle=False
                    )
    except FileNotFoundError as error:
        raise BadInput(f"{path}: its folder does not exist; make {path.parent} first") from error
    except OSError as error:
        raise WorkFailed(f"{path}: could not be written ({error.strerror or error})") from error


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
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def read_json_object(path: Path, if_missing: str, if_damaged: str) -> dict[str, Any]:
    """Read a JSON object; return an empty one for any other JSON value.

    ``if_missing`` and ``if_damaged`` are remedies for the error messages.
    """
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); {if_missing}") from None
    except ValueError as error:
        raise BadInput(f"{path}: is not valid JSON ({error}); {if_damaged}") from None
    return content if isinstance(content, dict) else {}
