"""``.npz`` files in and out: arrays only, same bytes every time, never half written."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.atomic_file import replacing
from crossgcn.errors import BadInput, WorkFailed

__all__ = ["Arrays", "read_npz", "write_npz"]

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
