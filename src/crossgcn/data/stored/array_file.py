"""``.npy`` files written piece by piece, and read as maps of the disk."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["ArrayFile", "map_array"]


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
