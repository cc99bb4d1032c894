"""A graph made ready once, for any number of models trained on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

import torch
from torch import Tensor

from crossgcn.graph.graph_source import Features, GraphSource
from crossgcn.graph.normalise import EdgeKind, edges_of_kind
from crossgcn.graph.receptive_field import receptive_field
from crossgcn.graph.sampled_blocks import BlockMaker
from crossgcn.graph.sparse_matrix import SparseMatrix

__all__ = ["PreparedGraph"]


class PreparedGraph:
    """Features and normalised adjacency, and the piece of both that some nodes need.

    Sparse features stay sparse and the adjacency is normalised here, once.

    Args:
        x: Node features, dense ``[nodes, features]`` or ``torch.sparse_csr``.
        edge_index: Sources and targets, ``[2, edges]``.
        edge_weight: One weight per edge; all one when left out.
        dtype: Of features and adjacency; features as they are, and 32 bits, when left out.
    """

    def __init__(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        *,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.x: Features = x if x.layout != torch.sparse_csr else SparseMatrix.from_torch(x)
        if dtype is not None:
            self.x = _cast(self.x, dtype)
        self._make: Callable[[EdgeKind], SparseMatrix] = partial(
            edges_of_kind,
            edge_index=edge_index,
            num_nodes=x.size(0),
            edge_weight=edge_weight,
            dtype=dtype or torch.float32,
        )
        self._kinds: dict[EdgeKind, SparseMatrix] = {}
        self.adjacency = self.edges("gcn")

    @classmethod
    def from_source(cls, source: GraphSource) -> Self:
        """A graph that is there by rows, which are weighed as they are: none is sorted again.

        Args:
            source: A graph in memory or on disk; it is read as a whole.
        """
        graph = cls.__new__(cls)
        graph.x = source.features(torch.arange(source.num_nodes))
        graph._make = BlockMaker(source).whole
        graph._kinds = {}
        graph.adjacency = graph.edges("gcn")
        return graph

    def edges(self, kind: EdgeKind) -> SparseMatrix:
        """The adjacency as :func:`~crossgcn.graph.edges_of_kind` makes it, made once."""
        if kind not in self._kinds:
            self._kinds[kind] = self._make(kind)
        return self._kinds[kind]

    def view(
        self, targets: Tensor, hops: int | Sequence[EdgeKind]
    ) -> tuple[Features, tuple[SparseMatrix, ...]]:
        """Inputs of a model that give it just ``targets``.

        Args:
            targets: The nodes whose outputs are wanted.
            hops: The model's ``propagations``; a number of them is that many of GCN's.

        Returns:
            Features of the nodes in the receptive field, and one adjacency
            block per propagation: ``model(*view)`` has a row per target.
        """
        whole = (
            [self.adjacency] * hops
            if isinstance(hops, int)
            else [self.edges(kind) for kind in hops]
        )
        field = receptive_field(whole, targets)
        if field.input_rows.equal(torch.arange(self.x.size(0))):
            return self.x, field.blocks
        if isinstance(self.x, SparseMatrix):
            return self.x.select_rows(field.input_rows), field.blocks
        return self.x[field.input_rows], field.blocks


def _cast(x: Features, dtype: torch.dtype) -> Features:
    return x.with_values(x.values.to(dtype)) if isinstance(x, SparseMatrix) else x.to(dtype)
