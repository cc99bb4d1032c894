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

An undirected edge between two nodes is an entry of both. Numbers are little-endian. ``graph.json``
holds a checksum of every block of each file (:mod:`crossgcn.data.seals`); blocks are verified when
they are first read.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from pydantic import BaseModel, Field, ValidationError

from crossgcn.data.files import holding, read_json_object
from crossgcn.data.seals import BLOCK, BlockChecksums, checksum_matches
from crossgcn.errors import BadInput, WorkFailed

PAGE, PREPROCESS = "graph.json", "preprocess.json"
FORMAT, VERSION = "crossgcn-graph", 2
REMEDY = "make it again with crossgcn data import"

Count = Annotated[int, Field(ge=0, lt=2**48)]


class FileDescription(BaseModel, strict=True, extra="forbid"):
    """What ``graph.json`` says of a file; only arrays have a type and a shape."""

    bytes: Count = 0
    sha256: str = ""
    blocks: Annotated[str, Field(pattern="^([0-9a-f]{8})*$")] = ""
    dtype: str = ""
    shape: list[Count] = []


class Page(BaseModel, strict=True, extra="forbid"):
    """The content of ``graph.json``, as :class:`~crossgcn.data.StoredGraph` describes it."""

    format: str = FORMAT
    version: int = VERSION
    num_nodes: Annotated[Count, Field(ge=1)]
    num_entries: Count
    num_self_loops: Count
    directed: bool
    num_features: Count
    num_classes: Annotated[int, Field(ge=1, lt=2**31)] | None
    files: dict[str, FileDescription]
    sha256: str = ""


def is_graph_folder(path: Path | str) -> bool:
    """Return whether a path is a folder with a graph, or with parts of one."""
    folder = Path(path)
    return folder.is_dir() and any((folder / name).exists() for name in (PAGE, "offsets.npy"))


def read_page(folder: Path) -> Page:
    """Read ``graph.json``, and check it."""
    path = folder / PAGE
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder; give one made by crossgcn data import")
    if not path.exists():
        raise BadInput(
            f"{folder}: there is no {PAGE}, so it is no graph, or its import was never finished; "
            f"{REMEDY}"
        )
    content = read_json_object(path, "give a folder you may read", REMEDY)
    if content.get("format") != FORMAT:
        raise BadInput(f"{path}: does not describe a graph; {REMEDY}")
    if content.get("version") != VERSION:
        raise BadInput(
            f"{path}: has version {content.get('version')!r} where this crossgcn reads {VERSION}; "
            f"{REMEDY}, or use the crossgcn that wrote it"
        )
    if not checksum_matches(content):
        raise BadInput(f"{path}: was changed after it was written; {REMEDY}")
    try:
        page = Page.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadInput(f"{path}: {where}: {first['msg']}; {REMEDY}") from None
    _check_shapes(path, page)
    return page


def _check_shapes(path: Path, page: Page) -> None:
    """Refuse arrays that are no part of one graph."""
    nodes, entries, width = page.num_nodes, page.num_entries, page.num_features
    # Lengths that are stated nowhere else are those of the file itself.
    lengths = {name: about.shape[:1] for name, about in page.files.items()}
    values = lengths.get("feature_values.npy", [])
    groups: list[dict[str, tuple[str, list[int]]]] = [
        {"offsets.npy": ("<i8", [nodes + 1]), "neighbours.npy": ("<i4 <i8", [entries])},
        {"weights.npy": ("<f4", [entries])},
        {"labels.npy": ("<i8 <f4", [nodes])},
        {"roles.npy": ("|i1", [*lengths.get("roles.npy", []), nodes])},
        {"features.npy": ("<f4", [nodes, width])},
        {
            "feature_offsets.npy": ("<i8", [nodes + 1]),
            "feature_columns.npy": ("<i4 <i8", values),
            "feature_values.npy": ("<f4", values),
        },
        {
            "id_offsets.npy": ("<i8", [nodes + 1]),
            "id_text.npy": ("|u1", lengths.get("id_text.npy", [])),
        },
        {PREPROCESS: ("", [])},
    ]
    listed = [group for group in groups if not group.keys().isdisjoint(page.files)]
    expected = {name: kind for group in listed for name, kind in group.items()}
    has_features = not {"features.npy", "feature_values.npy"}.isdisjoint(expected)
    if (
        page.files.keys() != expected.keys()
        or groups[0] not in listed
        or has_features != (width > 0)
    ):
        raise BadInput(f"{path}: lists {', '.join(page.files)}, which make no graph; {REMEDY}")
    for name, (types, shape) in expected.items():
        about = page.files[name]
        if about.dtype not in types.split(" ") or about.shape != shape:
            raise BadInput(
                f"{path}: {name} is {about.dtype} {about.shape}, not {types} {shape}; {REMEDY}"
            )
        if about.dtype:
            content = np.dtype(about.dtype).itemsize * math.prod(shape)
            if about.bytes != len(npy_header(about)) + content:
                raise BadInput(f"{path}: {name} has {about.bytes:,} bytes, not its shape; {REMEDY}")


def npy_header(about: FileDescription) -> bytes:
    """Return the start of an ``.npy`` file; files are compared with it, not parsed by it."""
    file = io.BytesIO()
    content = {"descr": about.dtype, "fortran_order": False, "shape": tuple(about.shape)}
    np.lib.format.write_array_header_1_0(file, content)
    return file.getvalue()


def changed_file(folder: Path, name: str, what: str) -> BadInput:
    """Return the error for an array of a graph folder with impossible content."""
    return BadInput(
        f"{folder / f'{name}.npy'}: {what}, so a file was changed after it was written; {REMEDY}"
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
        self._checksums = BlockChecksums()
        self._file = path.open("xb+")
        self._write(self._header())

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what was written so far."""
        return (self.length, *self._row_shape)

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows ``[any number, *row_shape]``."""
        assert rows.shape[1:] == self._row_shape, (rows.shape, self._row_shape)
        content = np.ascontiguousarray(rows, self.dtype).data
        if len(rows) and content.nbytes:
            self._write(content)
        self.length += len(rows)

    def finish(self) -> FileDescription:
        """Flush the file to disk, close it, and return what ``graph.json`` says of it."""
        # NumPy leaves room for the first axis to grow, so both headers have the same length.
        self._file.seek(0)
        self._file.write(self._header())
        self._file.flush()
        os.fsync(self._file.fileno())
        size = os.fstat(self._file.fileno()).st_size
        self._file.seek(0)
        first = self._file.read(BLOCK)
        self._file.seek(0)
        sha256 = hashlib.file_digest(self._file, "sha256").hexdigest()
        self._file.close()
        return self._describe(bytes=size, sha256=sha256, blocks=self._checksums.finish(first))

    def close(self) -> None:
        """Close the file as it is."""
        self._file.close()

    def _header(self) -> bytes:
        return npy_header(self._describe())

    def _describe(self, **more: Any) -> FileDescription:
        return FileDescription(dtype=self.dtype.str, shape=list(self.shape), **more)

    def _write(self, content: Any) -> None:
        self._file.write(content)
        self._checksums.update(content)


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
    if out.is_symlink():
        out = out.resolve()
    check_target(out)
    temporary = _temporary(out)
    folder, scratch = temporary / "graph", temporary / "scratch"
    try:
        with holding(temporary, out):
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
                raise _not_written(out, temporary, error) from error
            finally:
                for left_over in (folder, scratch):
                    shutil.rmtree(left_over, ignore_errors=True)
    finally:
        with suppress(OSError):
            temporary.rmdir()


def _not_written(out: Path, temporary: Path, error: OSError) -> WorkFailed:
    written = sum(path.stat().st_size for path in temporary.rglob("*") if path.is_file())
    free = shutil.disk_usage(temporary).free
    return WorkFailed(
        f"{out} could not be written ({error.strerror or error}); nothing of it is kept: free some "
        f"space on that disk, or give a folder elsewhere ({written:,} bytes were written, and "
        f"{free:,} more are free)"
    )


def _temporary(out: Path) -> Path:
    return out.with_name(f".{out.name}.building")


def check_target(out: Path) -> None:
    """Refuse a path that exists and is not an empty folder.

    A process that was killed after its last step left a temporary folder, which is removed.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        if (temporary := _temporary(out)).exists():
            with suppress(BadInput, OSError):  # a process that is still at work holds it
                with holding(temporary):
                    for left_over in ("graph", "scratch"):
                        shutil.rmtree(temporary / left_over, ignore_errors=True)
                temporary.rmdir()
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
