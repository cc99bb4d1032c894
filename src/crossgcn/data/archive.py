"""The project's own graph file: one ``.npz`` with features, edges, labels and roles.

================  ==========================  =======================================
array             kind                        meaning
================  ==========================  =======================================
``x``             numbers [N, D]              dense features, or instead of it the four
``x_indptr``      integers [N + 1]            ... of a CSR matrix: where rows start
``x_indices``     integers [nnz]              ... column of each value
``x_data``        numbers [nnz]               ... the values
``x_shape``       integers [2]                ... N and D
``edge_index``    integers [2, E]             ends of each edge; one direction will do
``edge_weight``   numbers [E], optional       0 or more for each edge; 1 when left out
``directed``      one boolean, optional       true when an edge counts for its second end
                                              alone
``y``             integers [N]                class of each node, -1 for unlabelled
``num_classes``   one integer, optional       when some class has no labelled node
``roles``         integers [S, N], optional   a row a split: 0 none, 1 train,
                                              2 validation, 3 test
``train_mask``    booleans [N] or [N, S],     with ``val_mask`` and ``test_mask``,
                  optional                    instead of ``roles``
================  ==========================  =======================================

Edges become unique and, unless ``directed``, undirected; see
:func:`~crossgcn.data.adopt_graph`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.adopt import adopt_graph
from crossgcn.data.archive_arrays import (
    read_booleans,
    read_directed,
    read_features,
    read_integers,
    read_num_classes,
    read_numbers,
)
from crossgcn.data.npz import Arrays, read_npz, write_npz
from crossgcn.data.roles import MASK_NAMES

__all__ = ["read_graph", "save_graph"]


def save_graph(path: Path | str, data: Data) -> None:
    """Write a graph to a file; :func:`read_graph` gives it back as adopted.

    The old file, if any, is replaced only once the new one is complete; the same
    graph gives the same bytes every time.

    Args:
        path: Where to, ending in ``.npz``.
        data: What :func:`~crossgcn.data.adopt_graph` accepts.
    """
    path = Path(path)
    data = adopt_graph(data, "the graph to save")
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
    arrays["edge_index"] = data.edge_index.numpy(force=True)
    if "edge_weight" in data:
        arrays["edge_weight"] = data.edge_weight.numpy(force=True)
    if "directed" in data:
        arrays["directed"] = np.array(data.directed)
    arrays["y"] = data.y.numpy(force=True)
    arrays["num_classes"] = np.array(data.num_classes)
    if "roles" in data:
        arrays["roles"] = data.roles.numpy(force=True)
    write_npz(path, arrays)


def read_graph(path: Path | str) -> Data:
    """Read a graph file (its arrays are listed at the top of this module).

    It comes as :func:`~crossgcn.data.adopt_graph` would make it in memory: edges
    unique and, unless the file says otherwise, undirected, features in 32 bits;
    nothing is normalised.

    Args:
        path: The ``.npz`` file; its name without the ending names the graph.

    Raises:
        BadInput: Naming file, array, position, value and remedy.
    """
    path = Path(path)
    arrays = read_npz(path)
    where = str(path)
    data = Data(
        x=read_features(arrays, where),
        edge_index=read_integers(arrays, "edge_index", 2, where),
        y=read_integers(arrays, "y", 1, where),
        num_classes=read_num_classes(arrays, where),
        name=path.stem,
    )
    if read_directed(arrays, where):
        data.directed = True
    if "edge_weight" in arrays:
        data.edge_weight = read_numbers(arrays, "edge_weight", 1, where)
    if "roles" in arrays:
        data.roles = read_integers(arrays, "roles", 2, where)
    for name in MASK_NAMES:
        if name in arrays:
            data[name] = read_booleans(arrays, name, where)
    return adopt_graph(data, where)
