"""Read a graph from the four files of GraphSAGE's format, such as Reddit."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from crossgcn.data.files import read_npy_header
from crossgcn.data.graph import canonical_graph
from crossgcn.errors import BadInput

GRAPH_ENDING = "-G.json"
_ENDINGS = (GRAPH_ENDING, "-id_map.json", "-class_map.json", "-feats.npy")

_CHUNK = 8192
"""Rows of features in memory at a time: Reddit's file holds 1.1 GB."""

Integers = NDArray[np.int64]


def read_graphsage(folder: Path | str, prefix: str = "reddit") -> Data:
    """Read ``PREFIX-G.json``, ``-id_map.json``, ``-class_map.json`` and ``-feats.npy``.

    As in GraphSAGE, features are standardised with the mean and standard deviation of the
    training nodes (a column that is constant on them is only centred), and nodes without
    ``val`` and ``test`` flags are dropped. Unlike GraphSAGE, which hides edges of validation
    and test nodes in training, all edges are kept: models here train on the whole graph,
    without the labels of those nodes.

    Returns:
        A graph as from :func:`~crossgcn.data.load_dataset`, named ``prefix``, with one public
        split and nodes in the order of the graph file.

    Raises:
        BadInput: Names the file, the node or row, and the remedy.
    """
    graph_file, id_file, class_file, feature_file = _find_files(Path(folder), prefix)
    ids, roles, edges = _read_node_link(graph_file)
    training = roles == 1
    if not training.any():
        raise BadInput(f"{graph_file}: no node trains; write val and test as false for some")
    row_of = _read_json(id_file)
    features = _open_features(feature_file)
    if len(features) != len(row_of):
        raise BadInput(
            f"{feature_file}: has {len(features)} rows, but {id_file.name} has {len(row_of)} ids; "
            "give one row per id, and take both files from the same download"
        )
    rows = _look_up(ids, row_of, id_file, "row", len(features))
    repeated = np.flatnonzero(np.bincount(rows) > 1)
    if len(repeated):
        raise BadInput(f"{id_file}: row {repeated[0]} belongs to two nodes; give each its own")
    y = _look_up(ids, _read_json(class_file), class_file, "class", 2**31)
    data = Data(
        x=torch.from_numpy(_standardise(features, rows, training, feature_file)),
        edge_index=torch.from_numpy(edges),
        y=torch.from_numpy(y),
        roles=torch.from_numpy(roles).unsqueeze(0),
        name=prefix,
    )
    return canonical_graph(data, str(graph_file))


def _find_files(folder: Path, prefix: str) -> list[Path]:
    paths = [folder / f"{prefix}{ending}" for ending in _ENDINGS]
    for path in paths:
        if not path.is_file():
            raise BadInput(
                f"{path}: no such file; a graph of GraphSAGE is the four files "
                f"{', '.join(path.name for path in paths)} in one folder"
            )
    return paths


def _read_json(path: Path, object_hook: Any = None) -> dict[str, Any]:
    try:
        with path.open(encoding="utf-8") as file:
            content = json.load(file, object_hook=object_hook)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except BadInput:
        raise
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"{path}: not JSON, or cut short ({error}); download or write it again"
        ) from None
    if not isinstance(content, dict):
        raise BadInput(
            f"{path}: holds {type(content).__name__}, not a JSON object {{...}}; write it again"
        )
    return content


def _read_node_link(path: Path) -> tuple[list[str], NDArray[np.int8], Integers]:
    """Read networkx's node-link JSON.

    networkx up to 1.11 writes the ends of a link as positions in the list of nodes, later
    versions as ids; both are read. A node without both flags ``val`` and ``test`` is dropped
    with its links, as in GraphSAGE's own reader.

    Returns:
        The id and the role of each node, and edges ``[2, edges]`` as positions of nodes.
    """
    ends = _LinkEnds(path)
    content = _read_json(path, ends)
    nodes = _list_of(content, ("nodes",), path)
    links = _list_of(content, ("links", "edges"), path)
    for position, link in enumerate(links):
        if link is not None:
            raise BadInput(f"{path}: link {position} lacks source or target; give it both")
    if len(ends.codes) != 2 * len(links):
        raise BadInput(
            f"{path}: has {len(ends.codes) // 2} objects with source and target for {len(links)} "
            "links; use these two names nowhere else"
        )
    roles = np.array([_role(node, position, path) for position, node in enumerate(nodes)], np.int8)
    names = [node.get("id") for node in nodes]
    position_of_code = _find_nodes(list(ends.code_of), names, path)
    kept = roles > 0
    if not kept.any():
        raise BadInput(f"{path}: no node has both flags, val and test; write them for every node")
    ids = []
    for position in np.flatnonzero(kept).tolist():
        if not _is_name(names[position]):
            raise BadInput(
                f"{path}: node {position} has the id {names[position]!r}; "
                "give it a text or a number"
            )
        ids.append(str(names[position]))
    new_position = np.where(kept, np.cumsum(kept) - 1, -1)
    edges = new_position[position_of_code][np.array(ends.codes, np.int64).reshape(-1, 2).T]
    return ids, roles[kept], edges[:, (edges >= 0).all(axis=0)]


class _LinkEnds:
    """Collect links while the JSON is parsed: 16 bytes per link instead of a dictionary."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.code_of: dict[str | int, int] = {}
        self.codes = array("q")

    def __call__(self, found: dict[str, Any]) -> dict[str, Any] | None:
        if "source" not in found or "target" not in found or "val" in found:
            return found
        for end in (found["source"], found["target"]):
            if not _is_name(end):
                raise BadInput(
                    f"{self.path}: link {len(self.codes) // 2} has an end {end!r}; "
                    "give the position or the id of a node"
                )
            self.codes.append(self.code_of.setdefault(end, len(self.code_of)))
        return None


def _is_name(value: object) -> bool:
    return type(value) in (int, str)


def _list_of(content: dict[str, Any], names: tuple[str, ...], path: Path) -> list[Any]:
    for name in names:
        if isinstance(content.get(name), list):
            found: list[Any] = content[name]
            return found
    raise BadInput(
        f"{path}: has no list {' or '.join(map(repr, names))}; write it with "
        "networkx.readwrite.json_graph.node_link_data"
    )


def _role(node: Any, position: int, path: Path) -> int:
    """Return 1 train, 2 validation, 3 test, or 0 for a node without both flags."""
    if not isinstance(node, dict):
        raise BadInput(f"{path}: node {position} is {node!r}; it must be an object with an id")
    if "val" not in node or "test" not in node:
        return 0
    flags = (node["val"], node["test"])
    if any(flag not in (False, True) for flag in flags) or all(flags):
        raise BadInput(
            f"{path}: node {position} has val {flags[0]!r} and test {flags[1]!r}; "
            "give true or false, and not true for both"
        )
    return 2 if flags[0] else 3 if flags[1] else 1


def _find_nodes(ends: list[str | int], names: list[Any], path: Path) -> Integers:
    """Return the position of the node that each distinct end of a link names."""
    position_of: dict[str | int, int] = {}
    for position, name in enumerate(names):
        if _is_name(name) and position_of.setdefault(name, position) != position:
            raise BadInput(
                f"{path}: nodes {position_of[name]} and {position} both have the id {name!r}; "
                "give every node its own"
            )
    by_position = [end if type(end) is int and 0 <= end < len(names) else -1 for end in ends]
    by_id = [position_of.get(end, -1) for end in ends]
    if -1 not in by_position and -1 not in by_id and by_position != by_id:
        raise BadInput(
            f"{path}: the ends of the links can be read as positions of nodes and as their ids, "
            "and mean different nodes; write the ids as text, or number them 0, 1, 2, ... in order"
        )
    found = by_id if by_id.count(-1) < by_position.count(-1) else by_position
    if -1 in found:
        raise BadInput(
            f"{path}: a link ends in {ends[found.index(-1)]!r}, which is neither the id of a node "
            f"nor a position 0 to {len(names) - 1}; add the node, or take the link out"
        )
    return np.array(found, np.int64)


def _open_features(path: Path) -> NDArray[Any]:
    try:
        with path.open("rb") as file:
            shape, by_columns, kind = read_npy_header(file, path.stat().st_size)
            start = file.tell()
    except Exception as error:  # a damaged header can raise any error
        raise BadInput(
            f"{path}: not a .npy file of plain numbers, or cut short ({error}); "
            "download it again, or write it with numpy.save"
        ) from None
    if len(shape) != 2 or kind.kind not in "fiu":
        raise BadInput(f"{path}: holds {kind} {list(shape)}; it must be numbers [nodes, features]")
    order: Literal["F", "C"] = "F" if by_columns else "C"
    return np.asarray(np.memmap(path, kind, "r", start, shape, order))


def _look_up(ids: list[str], values: dict[str, Any], path: Path, what: str, end: int) -> Integers:
    """Return the whole number below ``end`` that a mapping has for each node."""
    found = np.empty(len(ids), np.int64)
    for position, name in enumerate(ids):
        if name not in values:
            raise BadInput(
                f"{path}: node {name!r} of the graph is not in it; give every node its {what}"
            )
        value = number = values[name]
        if isinstance(value, list):
            raise BadInput(
                f"{path}: node {name!r} has a list for a {what}; graphs with several classes per "
                "node (GraphSAGE's ppi) cannot be used, give one class per node"
            )
        if isinstance(value, str) and value.isdecimal() and len(value) < 19:
            number = int(value)
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
    """Return features with mean 0 and deviation 1 over the training nodes."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    with np.errstate(over="ignore", invalid="ignore"):
        for _, chunk in _chunks(features, rows[training], path):
            scaler.partial_fit(chunk)
    for column in np.flatnonzero(~np.isfinite(scaler.var_)):
        raise BadInput(
            f"{path}: the squares of column {column} are too large to be added up; scale it down"
        )
    standard = np.empty((len(rows), features.shape[1]), np.float32)
    for start, chunk in _chunks(features, rows, path):
        standard[start : start + len(chunk)] = scaler.transform(chunk)
    return standard


def _chunks(
    features: NDArray[Any], rows: Integers, path: Path
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    for start in range(0, len(rows), _CHUNK):
        chunk = features[rows[start : start + _CHUNK]].astype(np.float64)
        bad = np.argwhere(~np.isfinite(chunk))
        if len(bad):
            row, column = bad[0]
            raise BadInput(
                f"{path}: row {rows[start + row]}, column {column} is {chunk[row, column]}; "
                "replace missing and infinite values by finite numbers"
            )
        yield start, chunk
