"""Truncated random walks, all of them one step at a time."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.errors import BadInput

__all__ = ["random_walks"]

NO_NODE = -1


def random_walks(
    edge_index: Tensor, num_nodes: int, *, walks_per_node: int, walk_length: int, seed: int
) -> NDArray[np.int32]:
    """Walk from every node to a neighbour drawn at random, and on from there.

    Edges lead both ways, every neighbour is as likely as any other, and
    self-loops are not taken, as in DeepWalk. One NumPy operation moves all
    walks by one step, so the cost in Python does not grow with the graph.

    Args:
        edge_index: The two ends of each edge, ``[2, edges]``, in either direction or both.
        num_nodes: How many nodes there are, isolated ones included.
        walks_per_node: How many walks start at each node.
        walk_length: Nodes per walk, the first one included.
        seed: The same seed gives the same walks.

    Returns:
        A walk per row, ``[walks_per_node * num_nodes, walk_length]``, in rounds
        that start once at every node, in a random order. The walk of an
        isolated node is that node alone; -1 fills the rest of its row.
    """
    for name, value in (("walks_per_node", walks_per_node), ("walk_length", walk_length)):
        if value < 1:
            raise BadInput(f"{name} must be at least 1; got {value}")
    offsets, neighbours = _neighbours(edge_index, num_nodes)
    degrees = np.diff(offsets)
    generator = np.random.default_rng(seed)
    rounds = np.tile(np.arange(num_nodes, dtype=np.int32), (walks_per_node, 1))
    here = generator.permuted(rounds, axis=1).ravel()
    walks = np.full((here.size, walk_length), NO_NODE, dtype=np.int32)
    walks[:, 0] = here
    moving = np.flatnonzero(degrees[here] > 0)
    here = here[moving]
    for step in range(1, walk_length):
        choice = generator.integers(degrees[here])
        here = neighbours[offsets[here] + choice]
        walks[moving, step] = here
    return walks


def _neighbours(edge_index: Tensor, num_nodes: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The neighbours of all nodes one after the other, and where those of each node start."""
    source, target = edge_index[:, edge_index[0] != edge_index[1]].numpy()
    ends = np.concatenate([source, target]), np.concatenate([target, source])
    graph = sp.coo_array((np.ones(ends[0].size), ends), shape=(num_nodes, num_nodes)).tocsr()
    graph.sum_duplicates()
    return graph.indptr.astype(np.int64), graph.indices.astype(np.int32)
