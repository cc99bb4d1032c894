r"""Blocks of the adjacency whose expectation is that of :func:`~crossgcn.graph.edges_of_kind`.

If :math:`\mathcal{S}_i` were drawn of node ``i``'s neighbours :math:`\mathcal{N}_i`, itself
excluded, a row of a block computes

.. math:: a_{ii}\mathbf{x}_i + \frac{|\mathcal{N}_i|}{|\mathcal{S}_i|}
    \sum_{j\in\mathcal{S}_i} a_{ij}\mathbf{x}_j

with the weights :math:`a_{ij}` of the whole graph. Degrees are computed once per graph and take
4 bytes per node.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.sampler import SamplerOutput

from crossgcn.graph.matrix import SparseMatrix
from crossgcn.graph.normalise import EDGE_RULES, EdgeKind
from crossgcn.graph.sampling.source import GraphSource
from crossgcn.kernels.sampling import ALL, loops


def sampled_blocks(
    source: GraphSource,
    output: SamplerOutput,
    propagations: Sequence[EdgeKind],
    rescaled: Sequence[bool] | None = None,
) -> tuple[SparseMatrix, ...]:
    """Return one block per hop, first to last; ``output.node`` enters the first.

    Args:
        output: The sampled edges; each hop drew for all nodes found before.
        rescaled: For each hop, whether weights of drawn edges are scaled up to stand for all
            neighbours; ``True`` by default.
    """
    rescaled = rescaled if rescaled is not None else [True] * len(propagations)
    node = output.node.numpy()
    ends = [tensor.numpy() for tensor in (output.col, output.row, output.edge)]
    nodes_until = np.cumsum(output.num_sampled_nodes)
    edges_until = np.concatenate([[0], np.cumsum(output.num_sampled_edges)])
    blocks = []
    last_first = zip(reversed(propagations), reversed(rescaled), strict=True)
    for hop, (kind, rescale) in enumerate(last_first):
        edges = slice(edges_until[hop], edges_until[hop + 1])
        rows, num_columns = node[: nodes_until[hop]], int(nodes_until[hop + 1])
        blocks.append(
            _block(source, kind, rows, num_columns, *(end[edges] for end in ends), rescale=rescale)
        )
    return tuple(reversed(blocks))


def whole_adjacency(source: GraphSource, kind: EdgeKind) -> SparseMatrix:
    """Return the adjacency of the whole graph."""
    source.check_all()
    nodes, neighbours = np.arange(source.num_nodes), source.neighbours.numpy()
    rows = np.repeat(nodes, np.diff(source.offsets.numpy()))
    entries = (neighbours != rows).nonzero()[0]
    rows, columns = rows[entries], neighbours[entries].astype(np.int64)
    return _block(source, kind, nodes, nodes.size, rows, columns, entries)


def adjacency_rows(source: GraphSource, nodes: Tensor, kind: EdgeKind) -> SparseMatrix:
    """Return the rows of some nodes in the adjacency of the whole graph."""
    own = nodes.numpy()
    starts, entries, drawn = source.draw(own, ALL, 0, True)
    targets = np.repeat(np.arange(own.size), np.diff(starts))
    columns = drawn.astype(np.int64)
    return _block(source, kind, own, source.num_nodes, targets, columns, entries, own)


def _block(
    source: GraphSource,
    kind: EdgeKind,
    rows: NDArray[np.int64],
    num_columns: int,
    targets: NDArray[np.int64],
    sources: NDArray[np.int64],
    entries: NDArray[np.int64],
    own_columns: NDArray[np.int64] | None = None,
    *,
    rescale: bool = False,
) -> SparseMatrix:
    """Make a block; by default, the rows' own nodes are its first columns."""
    if (np.diff(targets) < 0).any():
        order = np.argsort(targets, kind="stable")
        targets, sources, entries = targets[order], sources[order], entries[order]
    loop = source.find_own(rows)
    has_loop = loop >= 0
    drawn = np.bincount(targets, minlength=rows.size)
    values = np.ones(targets.size, np.float32)
    if rescale:
        offsets = source.offsets.numpy()
        degrees = offsets[rows + 1] - offsets[rows] - has_loop
        values = (degrees / np.maximum(drawn, 1)).astype(np.float32)[targets]
    rule = EDGE_RULES[kind]
    own = np.full(rows.size, rule.own, np.float32)
    own[has_loop] = 1.0
    if source.weights is not None:
        weights = source.weights.numpy()
        values *= weights[entries]
        own[has_loop] = weights[loop[has_loop]]
    nodes = source.neighbours.numpy()[entries]
    if rule.normalised:
        roots = source.inverse_roots(rule.self_loops, rule.own)
        values *= roots[rows][targets] * roots[nodes]
        own *= roots[rows] ** 2
    starts = np.concatenate([[0], np.cumsum(drawn)])
    columns = np.arange(rows.size) if own_columns is None else own_columns
    if rule.self_loops == "add":
        starts, sources, values = loops().insert_own(
            starts, nodes, sources, values, rows, columns, own
        )
    elif rule.self_loops == "keep":
        targets = np.concatenate([targets, has_loop.nonzero()[0]])
        order = np.lexsort((np.concatenate([nodes, rows[has_loop]]), targets))
        sources = np.concatenate([sources, columns[has_loop]])[order]
        values = np.concatenate([values, own[has_loop]])[order]
        starts = np.concatenate([[0], np.cumsum(drawn + has_loop)])
    block = SparseMatrix(
        torch.from_numpy(starts),
        torch.from_numpy(sources),
        torch.from_numpy(values),
        (rows.size, num_columns),
    )
    if own_columns is not None or rows.size < num_columns:
        block.own = torch.from_numpy(columns)
    return block
