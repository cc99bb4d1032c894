"""A graph made ready once, for any number of models trained on it."""

from __future__ import annotations

import torch
from torch import Tensor

from crossgcn.graph.normalise import normalised_adjacency
from crossgcn.graph.receptive_field import receptive_field
from crossgcn.graph.sparse_matrix import SparseMatrix

__all__ = ["PreparedGraph"]

Features = Tensor | SparseMatrix


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
        self.adjacency = normalised_adjacency(
            edge_index, x.size(0), edge_weight, dtype=dtype or torch.float32
        )

    def view(self, targets: Tensor, num_hops: int) -> tuple[Features, tuple[SparseMatrix, ...]]:
        """Inputs of a model with ``num_hops`` propagations that give it just ``targets``.

        Returns:
            Features of the nodes in the receptive field, and one adjacency
            block per propagation: ``model(*view)`` has a row per target.
        """
        field = receptive_field(self.adjacency, targets, num_hops)
        if isinstance(self.x, SparseMatrix):
            return self.x.select_rows(field.input_rows), field.blocks
        return self.x[field.input_rows], field.blocks


def _cast(x: Features, dtype: torch.dtype) -> Features:
    return x.with_values(x.values.to(dtype)) if isinstance(x, SparseMatrix) else x.to(dtype)
