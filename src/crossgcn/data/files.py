"""Writing a file so that readers see the old one or the new one, never half of one."""

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
    """Open a temporary neighbour of ``path`` that takes its place on success.

    The bytes reach the disk before the name changes. If the block raises, the
    neighbour is removed and whatever stood at ``path`` is untouched.

    Args:
        path: The file to write; its folder must exist.
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
    """Write JSON as a whole or not at all."""
    with replacing(path) as file:
        file.write((json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


Arrays = dict[str, NDArray[Any]]

# Zip entries carry a time; the earliest one the format can say, for equal bytes.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def read_npz(path: Path) -> Arrays:
    """Every array of a file, refusing anything that would need unpickling.

    Args:
        path: An ``.npz`` file, from :func:`numpy.savez` or :func:`write_npz`.
    """
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
    """Write arrays, compressed; equal arrays in equal order give equal bytes.

    Args:
        path: Where to; a file that is there is replaced only when all is written.
        arrays: Plain arrays by name.
    """
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


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """The same with a hash of itself."""
    return content | {"sha256": digest_of_json(content)}


def is_sealed(content: dict[str, Any]) -> bool:
    """Whether it is what :func:`sealed` gave."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return content.get("sha256") == digest_of_json(rest)


def digest_of_json(content: dict[str, Any]) -> str:
    """SHA-256 of an object, in whatever order its keys are."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def digest_of_file(path: Path) -> str | None:
    """SHA-256 of what a file holds; none where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def read_json_object(path: Path, whence: str, remedy: str) -> dict[str, Any]:
    """The object in a file; an empty one where it holds something else.

    Args:
        path: The file.
        whence: What to give instead of a file that is not there.
        remedy: What to do about one that is damaged.

    Raises:
        BadInput: If it cannot be read, or is no JSON.
    """
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); {whence}") from None
    except ValueError as error:
        raise BadInput(f"{path}: is not valid JSON ({error}); {remedy}") from None
    return content if isinstance(content, dict) else {}
