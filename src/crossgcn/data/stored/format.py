"""What a graph folder holds, and how it is created and checked.

=========================  =====================  ==========================================
file                       kind                   meaning
=========================  =====================  ==========================================
``graph.json``                                    counts, sizes and hashes; written last
``offsets.npy``            int64 [N + 1]          where the neighbours of each node start
``neighbours.npy``         int32 or int64         sources of its edges, ascending, each once
``weights.npy``            float32, optional      of each entry of ``neighbours``
``labels.npy``             int64 [N], optional    class of each node, -1 for unlabelled; or
                           float32 [N]            ... its number, NaN for unlabelled
``roles.npy``              int8 [S, N], optional  one row per split: 0 none, 1 train,
                                                  2 validation, 3 test
``features.npy``           float32 [N, D]         dense features, or instead of it
``feature_offsets.npy``    int64 [N + 1]          ... where rows of a sparse matrix start
``feature_columns.npy``    int32 or int64         ... column of each value, ascending in a row
``feature_values.npy``     float32                ... the values
``id_offsets.npy``         int64 [N + 1]          where the id of each node starts, optional
``id_text.npy``            uint8                  ... the ids in UTF-8, one after another
``preprocess.json``        optional               names of classes and features, and how a table
                                                  of nodes is encoded
=========================  =====================  ==========================================

An undirected edge between two nodes is an entry of both. Numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import DTypeLike, NDArray

from crossgcn.data.files import checksum_matches, read_json_object
from crossgcn.errors import BadInput, WorkFailed

PAGE, PREPROCESS = "graph.json", "preprocess.json"
FORMAT, VERSION = "crossgcn-graph", 1
REMEDY = "make it again with crossgcn data import"


def is_graph_folder(path: Path | str) -> bool:
    """Return whether a path is a folder with a graph, or with parts of one."""
    folder = Path(path)
    return folder.is_dir() and any((folder / name).exists() for name in (PAGE, "offsets.npy"))


def read_page(folder: Path) -> dict[str, Any]:
    """Read ``graph.json``, and check it and the sizes of the files."""
    path = folder / PAGE
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder; give one made by crossgcn data import")
    if not path.exists():
        raise BadInput(
            f"{folder}: there is no {PAGE}, so it is no graph, or its import was never finished; "
            f"{REMEDY}"
        )
    page = read_json_object(path, "give a folder you may read", REMEDY)
    if page.get("format") != FORMAT:
        raise BadInput(f"{path}: does not describe a graph; {REMEDY}")
    if page.get("version") != VERSION:
        raise BadInput(
            f"{path}: has version {page.get('version')!r} where this crossgcn reads {VERSION}; "
            f"{REMEDY}, or use the crossgcn that wrote it"
        )
    if not checksum_matches(page):
        raise BadInput(f"{path}: was changed after it was written; {REMEDY}")
    for name, about in page["files"].items():
        _check_size(folder / name, about["bytes"])
    return page


def _check_size(path: Path, expected: int) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise BadInput(f"{path}: is missing; {REMEDY}") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); {REMEDY}") from None
    if size != expected:
        raise BadInput(
            f"{path}: has {size:,} bytes where {PAGE} says {expected:,}, so it was cut short or "
            f"replaced; {REMEDY}"
        )


def changed_file(folder: Path, name: str, what: str) -> BadInput:
    """Return the error for an array of a graph folder with impossible content."""
    return BadInput(
        f"{folder / f'{name}.npy'}: {what}, so a file was changed after it was written: look with "
        f"crossgcn data show {folder} --verify, and make the folder again with crossgcn data import"
    )


class ArrayFile:
    """A ``.npy`` file that grows along its first axis.

    Rows are written to the file, not to a memory map of it: a full disk then raises an error,
    where a map would end the process.
    """

    def __init__(self, path: Path, dtype: DTypeLike, row_shape: tuple[int, ...] = ()) -> None:
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.length = 0
        self._row_shape = row_shape
        self._digest = hashlib.sha256()
        self._file = path.open("xb")
        self._write_header()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what was written so far."""
        return (self.length, *self._row_shape)

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows ``[any number, *row_shape]``."""
        assert rows.shape[1:] == self._row_shape, (rows.shape, self._row_shape)
        content = np.ascontiguousarray(rows, self.dtype).data
        if len(rows) and content.nbytes:
            self._file.write(content)
            self._digest.update(content)
        self.length += len(rows)

    def finish(self) -> dict[str, Any]:
        """Flush the file to disk, close it, and return what ``graph.json`` says of it."""
        self._file.seek(0)
        self._write_header()
        self._file.flush()
        os.fsync(self._file.fileno())
        size = os.fstat(self._file.fileno()).st_size
        self._file.close()
        return {
            "dtype": self.dtype.str,
            "shape": list(self.shape),
            "bytes": size,
            "sha256": self._digest.hexdigest(),
        }

    def close(self) -> None:
        """Close the file as it is."""
        self._file.close()

    def _write_header(self) -> None:
        # NumPy leaves room for the first axis to grow, so both headers have the same length.
        np.lib.format.write_array_header_1_0(
            self._file,
            {"descr": self.dtype.str, "fortran_order": False, "shape": self.shape},
        )


@contextmanager
def building_folder(out: Path) -> Iterator[tuple[Path, Path]]:
    """Create a folder under a temporary name, and rename it to ``out`` on success.

    The temporary folder is locked. One without a lock was left by a killed process: it is
    cleared and used again.

    Yields:
        The folder to fill, and one for temporary files.

    Raises:
        BadInput: ``out`` is not empty, is being written by another process, or cannot be made.
        WorkFailed: The disk is full, or files cannot be written for another reason.
    """
    if out.name in ("", ".."):
        raise BadInput(f"{out} is no name for a folder; give one that can be made")
    check_target(out)
    temporary = out.with_name(f".{out.name}.building")
    try:
        temporary.mkdir(parents=True, exist_ok=True)
        lock = FileLock(temporary / "lock")
        lock.acquire(blocking=False)
    except Timeout:
        raise BadInput(
            f"{out} is being written by another process, in {temporary}; wait for it, or give "
            "another folder"
        ) from None
    except OSError as error:
        raise BadInput(f"{out}: cannot be made ({error.strerror}); give another folder") from None
    folder, scratch = temporary / "graph", temporary / "scratch"
    try:
        try:
            check_target(out)  # Another process may have finished it meanwhile.
            for left_over in (folder, scratch):
                shutil.rmtree(left_over, ignore_errors=True)
                left_over.mkdir()
            yield folder, scratch
            _sync_folder(folder)
            check_target(out)
            if out.exists():
                out.rmdir()
            folder.replace(out)
            _sync_folder(out.parent)
        except OSError as error:
            raise WorkFailed(
                f"{out} could not be written ({error.strerror or error}); nothing of it is kept: "
                "free some space on that disk, or give a folder elsewhere"
            ) from error
    finally:
        for left_over in (folder, scratch):
            shutil.rmtree(left_over, ignore_errors=True)
        # Before the lock is released, so that no other process's folder is removed.
        with suppress(OSError):
            (temporary / "lock").unlink()
            temporary.rmdir()
        lock.release()


def check_target(out: Path) -> None:
    """Refuse a path that exists and is not an empty folder."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out} is there and not empty: give a folder that is new or empty")


def check_free_space(out: Path, needed: int) -> None:
    """Raise ``WorkFailed`` if the disk of ``out`` has fewer bytes than ``needed``."""
    above = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    free = shutil.disk_usage(above).free
    if needed > free:
        raise WorkFailed(
            f"{out} needs about {needed / 1e9:.2f} GB of disk space, {free / 1e9:.2f} GB are free "
            f"in {above}: free some, or give a folder on another disk"
        )


def _sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
