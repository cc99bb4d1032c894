"""Graphs in the four files GraphSAGE publishes them in, Reddit for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from crossgcn.data.adopt import adopt_graph
from crossgcn.data.node_link import read_json, read_node_link
from crossgcn.errors import BadInput

__all__ = ["GRAPH_ENDING", "read_graphsage"]

GRAPH_ENDING = "-G.json"
_ENDINGS = (GRAPH_ENDING, "-id_map.json", "-class_map.json", "-feats.npy")

_CHUNK = 8192
"""Rows of features in memory at a time: the file of Reddit holds 1.1 GB of 64-bit numbers."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def read_graphsage(folder: Path | str, prefix: str = "reddit") -> Data:
    """Read ``PREFIX-G.json``, ``-id_map.json``, ``-class_map.json`` and ``-feats.npy``.

    As in GraphSAGE, features are standardised with the mean and standard deviation
    of the training nodes, a column that is constant on them is only centred, and a
    node without ``val`` and ``test`` flags is left out. Other than there, every edge
    is seen in training as well: GraphSAGE hides those that touch a validation or test
    node, the models here are trained on the whole graph, without those nodes' labels.

    Args:
        folder: Where the four files are.
        prefix: What their names start with.

    Returns:
        A graph as from :func:`~crossgcn.data.load_dataset`, called ``prefix``, with one
        public split and nodes in the order of the graph file.

    Raises:
        BadInput: Naming the file, the node or row, and the remedy.
    """
    graph_file, id_file, class_file, feature_file = _find_files(Path(folder), prefix)
    graph = read_node_link(graph_file)
    training = graph.roles == 1
    if not training.any():
        raise BadInput(f"{graph_file}: no node trains; write val and test as false for some")
    row_of = read_json(id_file)
    features = _open_features(feature_file)
    if len(features) != len(row_of):
        raise BadInput(
            f"{feature_file}: has {len(features)} rows, but {id_file.name} has {len(row_of)} ids; "
            "give one row per id, and take both files from the same download"
        )
    rows = _look_up(graph.ids, row_of, id_file, "row", len(features))
    repeated = np.flatnonzero(np.bincount(rows) > 1)
    if len(repeated):
        raise BadInput(f"{id_file}: row {repeated[0]} belongs to two nodes; give each its own")
    y = _look_up(graph.ids, read_json(class_file), class_file, "class", 2**31)
    data = Data(
        x=torch.from_numpy(_standardise(features, rows, training, feature_file)),
        edge_index=torch.from_numpy(graph.edges),
        y=torch.from_numpy(y),
        roles=torch.from_numpy(graph.roles).unsqueeze(0),
        name=prefix,
    )
    return adopt_graph(data, str(graph_file))


def _find_files(folder: Path, prefix: str) -> list[Path]:
    paths = [folder / f"{prefix}{ending}" for ending in _ENDINGS]
    for path in paths:
        if not path.is_file():
            raise BadInput(
                f"{path}: no such file; a graph of GraphSAGE is the four files "
                f"{', '.join(path.name for path in paths)} in one folder"
            )
    return paths


def _open_features(path: Path) -> NDArray[Any]:
    try:
        features = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadInput(
            f"{path}: not a .npy file of plain numbers, or cut short ({error}); "
            "download it again, or write it with numpy.save"
        ) from None
    if (
        not isinstance(features, np.ndarray)
        or features.ndim != 2
        or features.dtype.kind not in "fiu"
    ):
        what = getattr(features, "dtype", "several arrays"), list(getattr(features, "shape", ()))
        raise BadInput(f"{path}: holds {what[0]} {what[1]}; it must be numbers [nodes, features]")
    return features


def _look_up(ids: list[str], values: dict[str, Any], path: Path, what: str, end: int) -> Integers:
    """The whole number from 0 to below ``end`` that a map gives each node."""
    found = np.empty(len(ids), np.int64)
    for position, name in enumerate(ids):
        if name not in values:
            raise BadInput(
                f"{path}: node {name!r} of the graph is not in it; give every node its {what}"
            )
        value = values[name]
        if isinstance(value, list):
            raise BadInput(
                f"{path}: node {name!r} has a list for a {what}; graphs with several classes per "
                "node (GraphSAGE's ppi) cannot be used, give one class per node"
            )
        number = (
            int(value)
            if isinstance(value, str) and value.isdecimal() and len(value) < 19
            else value
        )
        if type(number) is not int or not 0 <= number < end:
            raise BadInput(
                f"{path}: node {name!r} has the {what} {value!r}; give a whole number "
                f"from 0 to {end - 1}"
            )
        found[position] = number
    return found


def _standardise(
    features: NDArray[Any], rows: Integers, training: NDArray[np.bool_], path: Path
) -> NDArray[np.float32]:
    """The nodes' features in 32 bits, with mean 0 and deviation 1 over the training nodes."""
    count, width = int(training.sum()), features.shape[1]
    mean, square = np.zeros(width), np.zeros(width)
    with np.errstate(over="ignore", invalid="ignore"):
        for chunk in _chunks(features, rows[training], path):
            mean += chunk.sum(axis=0) / count
        for chunk in _chunks(features, rows[training], path):
            square += np.square(chunk - mean).sum(axis=0) / count
    for column in np.flatnonzero(~np.isfinite(square)):
        raise BadInput(
            f"{path}: the squares of column {column} are too large to be added up; scale it down"
        )
    deviation = np.sqrt(square)
    # Below this, what is left of a constant column is rounding.
    deviation[deviation <= 10 * np.finfo(np.float64).eps * np.abs(mean)] = 1.0
    standard = np.empty((len(rows), width), np.float32)
    start = 0
    for chunk in _chunks(features, rows, path):
        standard[start : start + len(chunk)] = (chunk - mean) / deviation
        start += len(chunk)
    return standard


def _chunks(features: NDArray[Any], rows: Integers, path: Path) -> Iterator[Floats]:
    for start in range(0, len(rows), _CHUNK):
        chunk = features[rows[start : start + _CHUNK]].astype(np.float64)
        bad = np.argwhere(~np.isfinite(chunk))
        if len(bad):
            row, column = bad[0]
            raise BadInput(
                f"{path}: row {rows[start + row]}, column {column} is {chunk[row, column]}; "
                "replace missing and infinite values by finite numbers"
            )
        yield chunk
