"""Read regular files only, and write files atomically."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from crossgcn.errors import BadInput, WorkFailed

if TYPE_CHECKING:
    import pandas as pd

Arrays = dict[str, NDArray[Any]]

LOCK, PART = ".lock", ".part"
"""Name of a folder's lock file, and suffix of incomplete files."""

_UNPACKED_BYTES, _UNPACKED_RATIO = 1 << 30, 100


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``path`` on success.

    The temporary file is flushed to disk before it is renamed. If the block raises an error, it is
    deleted, and ``path`` is unchanged. Symbolic links are followed.

    Raises:
        BadInput: If the folder does not exist or ``path`` is not a regular file.
        WorkFailed: If the file cannot be written.
    """
    if path.is_symlink():
        path = path.resolve()
    if not path.parent.is_dir():
        raise BadInput(f"{path}: its folder does not exist; make {path.parent} first")
    if path.exists() and not path.is_file():
        raise BadInput(f"{path}: exists and is not a regular file; give another path")
    temporary = path.with_name(f".{path.name}{PART}")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise WorkFailed(f"{path}: could not be written ({error.strerror or error})") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Create a folder, and lock it until the block ends or the process dies.

    The lock is reentrant within a process.

    Raises:
        BadInput: If another process holds it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.resolve() / LOCK, is_singleton=True, thread_local=False)
        lock.acquire(blocking=False)
    except Timeout:
        raise BadInput(
            f"{folder} is being written by another process; wait for it, or give another folder"
        ) from None
    except OSError as error:
        raise BadInput(
            f"{folder}: cannot be made ({error.strerror}); give another folder"
        ) from None
    try:
        yield
    finally:
        if lock.lock_counter == 1:
            with suppress(OSError):  # after the release, the file may be another process's lock
                (folder / LOCK).unlink()
        lock.release()


def is_empty(folder: Path) -> bool:
    """Return whether a folder holds at most a lock and incomplete files."""
    return all(path.name == LOCK or path.suffix == PART for path in folder.iterdir())


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically."""
    # File names that are not valid UTF-8 contain lone surrogates.
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    with replacing(path) as file:
        file.write(text.encode("utf-8", "surrogatepass"))


def read_json_object(path: Path, if_missing: str, if_damaged: str) -> dict[str, Any]:
    """Read a JSON object; return an empty one for any other JSON value.

    ``if_missing`` and ``if_damaged`` are remedies for the error messages.
    """
    if path.exists() and not path.is_file():  # opening a pipe would block
        raise BadInput(f"{path}: cannot be read (not a regular file); {if_missing}")
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); {if_missing}") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: is not valid JSON ({error}); {if_damaged}") from None
    return content if isinstance(content, dict) else {}


def write_hashed_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object with its own SHA-256, under the key ``sha256``."""
    content = json.loads(json.dumps(content))  # keys become text, tuples become lists
    write_json(path, {**content, "sha256": sha256_of_json(content)})


def read_hashed_json(path: Path, if_missing: str, if_damaged: str) -> dict[str, Any]:
    """Read what :func:`write_hashed_json` wrote, without the hash; refuse changed content."""
    content = read_json_object(path, if_missing, if_damaged)
    if content.pop("sha256", None) != sha256_of_json(content):
        raise _changed(path, if_damaged)
    return content


def sha256_of_json(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of an object; the order of its keys does not matter."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def sha256_of_file(path: Path) -> str | None:
    """Return the SHA-256 of a file, or ``None`` if it is not there."""
    if not path.is_file():  # opening a pipe would block
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_files(folder: Path, names: Iterable[str]) -> dict[str, str | None]:
    """Return the SHA-256 of some files of a folder, by name."""
    return {name: sha256_of_file(folder / name) for name in names}


def refuse_changed_files(folder: Path, hashes: Mapping[str, str | None], remedy: str) -> None:
    """Refuse a folder in which a file is missing or differs from :func:`sha256_of_files`."""
    for name, expected in hashes.items():
        if expected is None or sha256_of_file(folder / name) != expected:
            raise _changed(folder / name, remedy)


def _changed(path: Path, remedy: str) -> BadInput:
    return BadInput(
        f"{path}: is not what was written there (it is missing, changed or cut short: its SHA-256 "
        f"differs); {remedy}"
    )


def read_npz(path: Path) -> Arrays:
    """Read every array of an ``.npz`` file; refuse any that needs unpickling."""
    if not path.is_file():
        raise BadInput(f"{path}: no such file; check the path")
    arrays: Arrays = {}
    member = ""
    try:
        with zipfile.ZipFile(path) as archive:
            check_unpacked(path, sum(info.file_size for info in archive.infolist()))
            for member in archive.namelist():
                content = io.BytesIO(archive.read(member))  # compares the checksum
                array = np.lib.format.read_array(content, allow_pickle=False)
                arrays[member.removesuffix(".npy")] = array
    except BadInput:
        raise
    except Exception as error:  # a damaged header can raise any error
        where = f"array {member!r}" if member else "its list of arrays"
        raise BadInput(
            f"{path}: not an .npz file of plain numbers, or cut short: {where} cannot be read "
            f"({str(error)[:200]}); write it with numpy.savez or crossgcn.data.save_graph"
        ) from error
    return arrays


def check_unpacked(path: Path, unpacked: int) -> None:
    """Refuse an archive that unpacks to more bytes than :func:`unpack_limit`."""
    if unpacked > unpack_limit(path):
        raise BadInput(
            f"{path}: {path.stat().st_size:,} bytes unpack to {unpacked:,} or more, which exceeds "
            f"{unpack_limit(path):,}; if you trust the file, write it without compression"
        )


def unpack_limit(path: Path) -> int:
    """Return how many bytes an archive may unpack to: a gigabyte, or 100 times its size."""
    return max(_UNPACKED_BYTES, _UNPACKED_RATIO * path.stat().st_size)


def write_npz(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a compressed ``.npz`` file, atomically and with reproducible bytes."""
    with replacing(path) as file:
        contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        # NumPy gives all entries the same timestamp, so equal arrays give equal bytes.
        np.savez_compressed(file, **contiguous)  # type: ignore[arg-type]


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a DataFrame without its index to ``.csv``, ``.parquet`` or ``.pq``, atomically."""
    ending = path.suffix.lower()
    if ending not in (".csv", ".parquet", ".pq"):
        raise BadInput(
            f"{path}: cannot tell the format from the name; end it in .csv or in .parquet"
        )
    with replacing(path) as file:
        if ending == ".csv":
            text: str = frame.to_csv(index=False, lineterminator="\n")
            if "\r" in text:  # readers end a row at an unquoted carriage return
                text = frame.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
            file.write(text.encode())
            return
        try:
            frame.to_parquet(file, engine="pyarrow", index=False)
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"{path}: Parquet cannot hold this table ({error}); give each column its own name "
                "and values of one type"
            ) from None
