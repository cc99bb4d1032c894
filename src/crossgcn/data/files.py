"""Read regular files only, and replace files as a whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from crossgcn.errors import BadInput, WorkFailed


def read_bytes(path: Path) -> bytes:
    """Return the content of a file; refuse pipes and devices, which may never end."""
    # A pipe without a writer would block in open().
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read()


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


def read_json_object(path: Path, if_missing: str, if_damaged: str) -> dict[str, Any]:
    """Read a JSON object; return an empty one for any other JSON value.

    ``if_missing`` and ``if_damaged`` are remedies for the error messages.
    """
    try:
        content = json.loads(read_bytes(path))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); {if_missing}") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: is not valid JSON ({error}); {if_damaged}") from None
    return content if isinstance(content, dict) else {}
