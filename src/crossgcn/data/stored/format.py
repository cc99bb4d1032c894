"""What a graph folder holds, and the page that says so.

=========================  =====================  ==========================================
file                       kind                   meaning
=========================  =====================  ==========================================
``graph.json``                                    counts, sizes and hashes; written last
``offsets.npy``            int64 [N + 1]          where the neighbours of each node start
``neighbours.npy``         int32 or int64         those that sum into it, rising, each once
``weights.npy``            float32, optional      of each entry of ``neighbours``
``labels.npy``             int64 [N], optional    class of each node, -1 for unlabelled
``roles.npy``              int8 [S, N], optional  a row a split: 0 none, 1 train,
                                                  2 validation, 3 test
``features.npy``           float32 [N, D]         dense features, or instead of it
``feature_offsets.npy``    int64 [N + 1]          ... where rows of a sparse matrix start
``feature_columns.npy``    int32 or int64         ... column of each value, rising in a row
``feature_values.npy``     float32                ... the values
``id_offsets.npy``         int64 [N + 1]          where each node's own name starts, optional
``id_text.npy``            uint8                  ... the names in UTF-8, one after another
``preprocess.json``        optional               names of classes and features, and how a table
                                                  of nodes is encoded
=========================  =====================  ==========================================

An undirected edge between two nodes is an entry of both. Numbers have their low byte first.
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
from torch import Tensor

from crossgcn.data.features import csr_tensor
from crossgcn.data.files import digest_of_json, is_sealed, read_json_object
from crossgcn.errors import BadInput, WorkFailed

PAGE, PREPROCESS = "graph.json", "preprocess.json"
FORMAT, VERSION = "crossgcn-graph", 1
REMEDY = "make it again with crossgcn data import"


def is_graph_folder(path: Path | str) -> bool:
    """Whether a path is a folder with a graph in it, or what is left of one."""
    folder = Path(path)
    return folder.is_dir() and any((folder / name).exists() for name in (PAGE, "offsets.npy"))


def fingerprint_of(files: dict[str, Any]) -> str:
    """A hash of everything the folder holds: equal graphs have equal ones."""
    return digest_of_json(files)


def read_page(folder: Path) -> dict[str, Any]:
    """The page of a folder, checked against its seal and the sizes of the files.

    Raises:
        BadInput: It is no graph, was not finished, is of another version, or was changed
            or cut short; naming the file.
    """
    path = folder / PAGE
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder; give one made by crossgcn data import")
    if not path.exists():
        raise BadInput(
            f"{folder}: there is no {PAGE}, so it is no graph, or one that was never finished; "
            f"{REMEDY}"
        )
    page = read_json_object(path, "give a folder you may read", REMEDY)
    if page.get("format") != FORMAT:
        raise BadInput(f"{path}: is not the page of a graph; {REMEDY}")
    if page.get("version") != VERSION:
        raise BadInput(
            f"{path}: has version {page.get('version')!r} where this crossgcn reads {VERSION}; "
            f"{REMEDY}, or use the crossgcn that wrote it"
        )
    if not is_sealed(page):
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


class ArrayFile:
    """An array that grows along its first axis until it is closed.

    Rows are written one after another, never through a map of the file: a disk that is
    full then says so, where a map would end the process.

    Args:
        path: The file, which must not be there yet.
        dtype: Of the elements, kept with the low byte first.
        row_shape: Of what one step along the first axis holds.
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
        """So far."""
        return (self.length, *self._row_shape)

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows at the end.

        Args:
            rows: ``[any number, *row_shape]``.
        """
        assert rows.shape[1:] == self._row_shape, (rows.shape, self._row_shape)
        content = np.ascontiguousarray(rows, self.dtype).data
        if len(rows) and content.nbytes:
            self._file.write(content)
            self._digest.update(content)
        self.length += len(rows)

    def close(self) -> dict[str, Any]:
        """Put everything on the disk; what ``graph.json`` says of the file."""
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

    def abandon(self) -> None:
        """Close the file as it is."""
        self._file.close()

    def _write_header(self) -> None:
        # NumPy leaves room for the first axis to grow, so both headers are of one length.
        np.lib.format.write_array_header_1_0(
            self._file,
            {"descr": self.dtype.str, "fortran_order": False, "shape": self.shape},
        )


def map_array(path: Path) -> NDArray[Any]:
    """An array of the disk, of which nothing is read before it is used."""
    # A writable private map of more than the machine's memory would be refused by the system.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def changed_file(folder: Path, name: str, what: str) -> BadInput:
    """An error to raise.

    Args:
        folder: The graph folder.
        name: Of the array in which it was noticed.
        what: What it says that cannot be.
    """
    return BadInput(
        f"{folder / f'{name}.npy'}: {what}, so a file was changed after it was written: look with "
        f"crossgcn data show {folder} --verify, and make the folder again with crossgcn data import"
    )


def check_feature_rows(
    folder: Path, starts: NDArray[np.integer], ends: NDArray[np.integer], num_values: int
) -> None:
    """Refuse rows of sparse features that lead out of the values there are."""
    wrong = (starts < 0) | (ends < starts) | (ends > num_values)
    if wrong.any():
        at = int(wrong.argmax())
        what = f"a row is from {int(starts[at])} to {int(ends[at])} of {num_values:,} values"
        raise changed_file(folder, "feature_offsets", what)


def checked_csr(
    folder: Path,
    indptr: NDArray[np.integer],
    columns: NDArray[np.integer],
    values: NDArray[np.float32],
    shape: tuple[int, int],
) -> Tensor:
    """See :func:`~crossgcn.data.features.csr_tensor`; columns that make no matrix are refused."""
    try:
        return csr_tensor(indptr, columns, values, shape)
    except RuntimeError as error:
        if "not satisfied" not in str(error):  # torch's word for what is wrong with the columns
            raise
        what = f"rows of {shape[1]:,} features name others, or some twice or out of order"
        raise changed_file(folder, "feature_columns", what) from None


@contextmanager
def building_folder(out: Path) -> Iterator[tuple[Path, Path]]:
    """Work in a hidden neighbour of ``out`` that takes its place on success.

    The neighbour has a fixed name and is locked while it is worked in. One that nobody
    holds was left behind by a process that was killed: it is cleared and used again.

    Args:
        out: The folder to make; it must be new or empty.

    Yields:
        The folder to fill, and one for files that are needed only meanwhile.

    Raises:
        BadInput: ``out`` is in use, or cannot be made.
        WorkFailed: The disk is full, or something else keeps files from being written.
    """
    if out.name in ("", ".."):
        raise BadInput(f"{out} is no name for a folder; give one that can be made")
    check_target(out)
    shelter = out.with_name(f".{out.name}.building")
    try:
        shelter.mkdir(parents=True, exist_ok=True)
        lock = FileLock(shelter / "lock")
        lock.acquire(blocking=False)
    except Timeout:
        raise BadInput(
            f"{out} is being written by another process, in {shelter}; wait for it, or give "
            "another folder"
        ) from None
    except OSError as error:
        raise BadInput(f"{out}: cannot be made ({error.strerror}); give another folder") from None
    folder, scratch = shelter / "graph", shelter / "scratch"
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
        # Before the lock is given up, so that nobody else's folder is removed.
        with suppress(OSError):
            (shelter / "lock").unlink()
            shelter.rmdir()
        lock.release()


def check_target(out: Path) -> None:
    """Refuse a folder that is in use.

    Args:
        out: Where something is to be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out} is there and not empty: give a folder that is new or empty")


def check_free_space(out: Path, needed: int) -> None:
    """Refuse work that cannot be finished, before it is begun.

    Args:
        out: Where to; it need not exist yet.
        needed: Bytes, about.

    Raises:
        WorkFailed: With what is needed and what is free.
    """
    above = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    free = shutil.disk_usage(above).free
    if needed > free:
        raise WorkFailed(
            f"{out} needs about {needed / 1e9:.2f} GB of disk space, {free / 1e9:.2f} GB are free "
            f"in {above}: free some, or give a folder on another disk"
        )


def _sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
