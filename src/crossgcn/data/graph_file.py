"""Read and write the project's graph file: one ``.npz`` with features, edges, labels and roles.

================  ==========================  =======================================
array             kind                        meaning
================  ==========================  =======================================
``x``             numbers [N, D]              dense features, or instead of it the four
``x_indptr``      integers [N + 1]            ... of a CSR matrix: where rows start
``x_indices``     integers [nnz]              ... column of each value
``x_data``        numbers [nnz]               ... the values
``x_shape``       integers [2]                ... N and D
``edge_index``    integers [2, E]             ends of each edge; one direction is enough
``edge_weight``   numbers [E], optional       0 or more for each edge; 1 when left out
``directed``      one boolean, optional       true if an edge counts for its second end
                                              alone
``y``             integers [N]                class of each node, -1 for unlabelled; or
                                              decimal numbers to predict, NaN for unknown
``num_classes``   one integer, optional       if some class has no labelled node
``roles``         integers [S, N], optional   one row per split: 0 none, 1 train,
                                              2 validation, 3 test
``train_mask``    booleans [N] or [N, S],     with ``val_mask`` and ``test_mask``,
                  optional                    instead of ``roles``
================  ==========================  =======================================

Edges become unique and, unless ``directed``, undirected; see
:func:`~crossgcn.data.canonical_graph`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.features import csr_tensor
from crossgcn.data.files import Arrays, read_npz, write_npz
from crossgcn.data.graph import MASK_NAMES, canonical_graph
from crossgcn.errors import BadInput

_CSR_NAMES = ("x_indptr", "x_indices", "x_data", "x_shape")
_NAMES = ("x", "edge_index", "edge_weight", "y", "roles", *MASK_NAMES)


def read_graph(path: Path | str) -> Data:
    """Read a graph file (its arrays are listed at the top of this module).

    Returns:
        The canonical form of the graph (:func:`~crossgcn.data.canonical_graph`), named as the
        file. Features are not normalised.

    Raises:
        BadInput: Names file, array, position, value and remedy.
    """
    path = Path(path)
    arrays = read_npz(path)
    parts: dict[str, Any] = {
        name: _as_tensor(arrays[name], name, path) for name in _NAMES if name in arrays
    }
    if "x" not in arrays:
        parts["x"] = _sparse_features(arrays, path)
    for name, kinds, wanted in (
        ("num_classes", "iu", "one integer, at least 1"),
        ("directed", "b", "one boolean"),
    ):
        if name in arrays:
            array = arrays[name]
            if array.dtype.kind not in kinds or array.size != 1 or (kinds == "iu" and array < 1):
                raise _wrong(array, name, path, wanted)
            parts[name] = array.item()
    return canonical_graph(Data(**parts, name=path.stem), str(path))


def save_graph(path: Path | str, data: Data) -> None:
    """Write the canonical form of a graph to an ``.npz`` file.

    An existing file is replaced only when the new one is complete. Equal graphs give equal
    bytes.

    Args:
        path: The file, ending in ``.npz``.
        data: A graph that :func:`~crossgcn.data.canonical_graph` accepts.
    """
    path = Path(path)
    data = canonical_graph(data, "the graph to save")
    x: Tensor = data.x
    if x.layout == torch.sparse_csr:
        index = np.int32 if max(x.shape[1], len(x.values())) < 2**31 else np.int64
        arrays: Arrays = {
            "x_indptr": x.crow_indices().numpy(force=True).astype(index),
            "x_indices": x.col_indices().numpy(force=True).astype(index),
            "x_data": x.values().numpy(force=True),
            "x_shape": np.array(x.shape, np.int64),
        }
    else:
        arrays = {"x": x.numpy(force=True)}
    for name in ("edge_index", "edge_weight", "directed", "y", "num_classes", "roles"):
        value = data.get(name)
        if value is not None:
            arrays[name] = torch.as_tensor(value).numpy(force=True)
    write_npz(path, arrays)


def _as_tensor(array: NDArray[Any], name: str, path: Path) -> Tensor:
    """Convert integers to 64 bits, and floats that torch has not."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind not in "biuf":
        raise _wrong(array, name, path, "numbers or booleans")
    if kind == "f":
        return torch.from_numpy(array.astype(np.float32 if size <= 4 else np.float64, copy=False))
    return torch.from_numpy(array if kind == "b" else array.astype(np.int64, copy=False))


def _wrong(array: NDArray[Any], name: str, path: Path, wanted: str) -> BadInput:
    return BadInput(f"{path}: {name} is {array.dtype} {list(array.shape)}; it must be {wanted}")


def _sparse_features(arrays: Arrays, path: Path) -> Tensor:
    missing = [name for name in _CSR_NAMES if name not in arrays]
    if missing:
        raise BadInput(
            f"{path}: no features: add x, or all of {', '.join(_CSR_NAMES)} "
            f"({', '.join(missing)} missing; it has {', '.join(arrays) or 'no array'})"
        )
    indptr, indices, values, shape = (_as_tensor(arrays[n], n, path) for n in _CSR_NAMES)
    try:
        if any(part.dtype != torch.int64 for part in (indptr, indices, shape)):
            raise ValueError("row starts, columns and shape are integers")
        num_rows, num_columns = shape.tolist()
        return csr_tensor(indptr, indices, values.float(), (num_rows, num_columns))
    except (RuntimeError, ValueError, TypeError) as error:
        raise BadInput(
            f"{path}: {', '.join(_CSR_NAMES)} of shape {shape.tolist()} are no CSR matrix "
            f"({str(error).splitlines()[0]}); write those of a scipy.sparse.csr_array after its "
            "sum_duplicates()"
        ) from None
