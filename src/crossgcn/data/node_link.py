"""Node-link JSON as networkx writes it, with the ``val`` and ``test`` flags of GraphSAGE."""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgcn.errors import BadInput

__all__ = ["NodeLinkGraph", "read_json", "read_node_link"]


@dataclass(frozen=True)
class NodeLinkGraph:
    """Nodes in the order of the file, and the edges between them.

    Args:
        ids: What the file calls each node, as text.
        roles: 1 train, 2 validation, 3 test.
        edges: Ends of each edge by position in ``ids``, ``[2, edges]``.
    """

    ids: list[str]
    roles: NDArray[np.int8]
    edges: NDArray[np.int64]


def read_json(path: Path, object_hook: Any = None) -> dict[str, Any]:
    """One JSON object from a file.

    Args:
        path: The file.
        object_hook: As :func:`json.load` takes it.
    """
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
        raise BadInput(f"{path}: holds {type(content).__name__}, not a JSON object {{...}}")
    return content


def read_node_link(path: Path) -> NodeLinkGraph:
    """Read nodes, their roles and their links.

    networkx up to 1.11 writes the ends of a link as positions in the list of nodes,
    later ones as ids; both are read. A node that lacks one of the two flags is left
    out with its links, as GraphSAGE's own reader does.

    Args:
        path: A JSON file with ``nodes``, and ``links`` or ``edges``.

    Raises:
        BadInput: Naming file, node or link, and the remedy.
    """
    ends = _LinkEnds(path)
    content = read_json(path, ends)
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
    position_of_code = _find_nodes(list(ends.code_of), nodes, path)
    kept = roles > 0
    new_position = np.where(kept, np.cumsum(kept) - 1, -1)
    codes = np.array(ends.codes, np.int64).reshape(-1, 2).T
    edges = new_position[position_of_code][codes]
    ids = [_id(nodes[position], position, path) for position in np.flatnonzero(kept).tolist()]
    if not ids:
        raise BadInput(f"{path}: no node has both flags, val and test; write them for every node")
    return NodeLinkGraph(ids, roles[kept], edges[:, (edges >= 0).all(axis=0)])


class _LinkEnds:
    """Takes links out while the file is read: 16 bytes for each, in place of a dictionary."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.code_of: dict[str | int, int] = {}
        self.codes = array("q")

    def __call__(self, found: dict[str, Any]) -> dict[str, Any] | None:
        if "source" not in found or "target" not in found or "val" in found:
            return found
        for end in (found["source"], found["target"]):
            if type(end) is not int and type(end) is not str:
                raise BadInput(
                    f"{self.path}: link {len(self.codes) // 2} has an end {end!r}; "
                    "give the position or the id of a node"
                )
            self.codes.append(self.code_of.setdefault(end, len(self.code_of)))
        return None


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
    """1 train, 2 validation, 3 test; 0 for a node without both flags."""
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


def _id(node: dict[str, Any], position: int, path: Path) -> str:
    if type(node.get("id")) is not int and type(node.get("id")) is not str:
        raise BadInput(
            f"{path}: node {position} has the id {node.get('id')!r}; give it a text or a number"
        )
    return str(node["id"])


def _find_nodes(ends: list[str | int], nodes: list[Any], path: Path) -> NDArray[np.int64]:
    """Position of the node that each distinct end of a link stands for."""
    position_of: dict[str | int, int] = {}
    for position, node in enumerate(nodes):
        name = node.get("id") if type(node.get("id")) in (int, str) else None
        if name is not None and position_of.setdefault(name, position) != position:
            raise BadInput(
                f"{path}: nodes {position_of[name]} and {position} both have the id {name!r}; "
                "give every node its own"
            )
    by_position = [end if type(end) is int and 0 <= end < len(nodes) else -1 for end in ends]
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
            f"nor a position 0 to {len(nodes) - 1}; add the node, or take the link out"
        )
    return np.array(found, np.int64)
