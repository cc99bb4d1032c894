"""Relations: the ways in which the nodes of a graph are linked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from crossgcn.data.features import FeatureSpace

NEIGHBOURS = "neighbours"
"""The name of a relation without a name of its own."""


class Relation(NamedTuple):
    """One way in which nodes are linked.

    Attributes:
        name: What the nodes are to each other, such as ``ties``.
        edge_index: Sources and targets ``[2, edges]``; with ``things``, nodes and things.
        edge_weight: One weight per edge; ones by default.
        directed: Whether edges lead from the first to the second end.
        edge_attr: Encoded columns of the edges, a CSR matrix ``[edges, columns]``.
        space: Names of these columns, and the column of the table that each describes.
        things: Names of the things by which nodes are linked: all nodes with an edge to the same
            thing are neighbours.
    """

    name: str
    edge_index: Tensor
    edge_weight: Tensor | None = None
    directed: bool = False
    edge_attr: Any = None
    space: FeatureSpace = FeatureSpace((), ())
    things: tuple[str, ...] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the edges of a graph, without a name, say all about the relation."""
        return self.name == NEIGHBOURS and self.edge_attr is None and self.things is None


def relations_of(data: Data) -> tuple[Relation, ...]:
    """Return the relations of a graph; one, ``neighbours``, if the graph has none by name."""
    only = data.edge_index, data.get("edge_weight"), data.get("directed") is True
    return data.get("relations") or (as_relation(*only),)


def as_relation(
    edge_index: Tensor, weight: Tensor | None = None, directed: bool = False
) -> Relation:
    """Return edges as the only relation of a graph."""
    return Relation(NEIGHBOURS, edge_index, weight, directed)


def has_edges(data: Data) -> bool:
    """Return whether any two nodes may be neighbours."""
    return any(each.edge_index.numel() for each in relations_of(data))


def shape_of(relations: Sequence[Relation]) -> dict[str, Any]:
    """Return what a model has to know of relations, as arguments of ``CrossHops``.

    Nothing for one undirected relation without columns of edges.
    """
    directed = [each.directed for each in relations]
    columns = [len(each.space) for each in relations]
    shape: dict[str, Any] = {}
    if len(relations) > 1 or any(directed):
        shape["directed"] = directed if len(relations) > 1 else True
    return shape | {"edge_columns": columns} if any(columns) else shape


def select_edges(relation: Relation, chosen: Tensor) -> Relation:
    """Return a relation with some of its edges, given by their positions."""
    weight, attr = relation.edge_weight, relation.edge_attr
    return relation._replace(
        edge_index=relation.edge_index[:, chosen],
        edge_weight=None if weight is None else weight[chosen],
        edge_attr=None if attr is None else attr[chosen.numpy()],
    )


def join_edges(relations: Sequence[Relation], num_nodes: int) -> Relation:
    """Return the edges of all relations as one, for models of layers: undirected, without weights.

    A single relation stays as it is. Nodes that share a thing are left out.
    """
    listed = [each for each in relations if each.things is None]
    if len(listed) == 1:
        return listed[0]
    ends = torch.cat(
        [torch.zeros(2, 0, dtype=torch.long), *(each.edge_index for each in listed)], 1
    )
    return as_relation(to_undirected(ends, num_nodes=num_nodes))


def merge_columns(given: Relation, edge_index: Tensor, num_nodes: int) -> sp.csr_array:
    """Return the columns of each of the unique edges: the mean over the edges that are parallel."""

    def keys(ends: NDArray[np.int64]) -> NDArray[np.int64]:
        first, second = ends if given.directed else np.sort(ends, axis=0)
        return np.asarray(first * num_nodes + second)

    known, place, counts = np.unique(
        keys(given.edge_index.numpy()), return_inverse=True, return_counts=True
    )
    entries = (1 / counts[place]).astype(np.float32), (place, np.arange(len(place)))
    mean = sp.csr_array(entries, shape=(len(known), len(place))) @ given.edge_attr
    merged = sp.csr_array(mean)[np.searchsorted(known, keys(edge_index.numpy()))]
    merged.sort_indices()
    return merged


def relation_arrays(relations: Sequence[Relation]) -> dict[str, NDArray[Any]]:
    """Return relations as arrays of a graph file."""
    arrays: dict[str, NDArray[Any]] = {"relations": np.array([each.name for each in relations])}
    for number, each in enumerate(relations):
        parts: dict[str, Any] = {
            "edge_index": each.edge_index,
            "edge_weight": each.edge_weight,
            "directed": True if each.directed else None,
            "things": None if each.things is None else np.array(each.things, dtype=str),
        }
        if (attr := each.edge_attr) is not None:
            parts |= {"indptr": attr.indptr, "indices": attr.indices, "data": attr.data}
            parts |= {"names": np.array(each.space.names), "fields": np.array(each.space.fields)}
        arrays |= {f"{name}_{number}": np.asarray(p) for name, p in parts.items() if p is not None}
    return arrays


def read_relations(arrays: Mapping[str, NDArray[Any]]) -> tuple[Relation, ...] | None:
    """Read what :func:`relation_arrays` returned; ``None`` if there are no relations."""
    if "relations" not in arrays:
        return None
    found = []
    for number, name in enumerate(arrays["relations"].tolist()):
        end = f"_{number}"
        parts = {key.removesuffix(end): arrays[key] for key in arrays if key.endswith(end)}
        found.append(_read_relation(name, parts))
    return tuple(found)


def _read_relation(name: str, parts: Mapping[str, NDArray[Any]]) -> Relation:
    weight, attr, space = parts.get("edge_weight"), None, FeatureSpace((), ())
    if "indptr" in parts:
        space = FeatureSpace(tuple(parts["names"].tolist()), tuple(parts["fields"].tolist()))
        shape = (parts["edge_index"].shape[1], len(space))
        attr = sp.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=shape)
    return Relation(
        name,
        torch.from_numpy(parts["edge_index"]),
        None if weight is None else torch.from_numpy(weight),
        "directed" in parts,
        attr,
        space,
        tuple(parts["things"].tolist()) if "things" in parts else None,
    )
