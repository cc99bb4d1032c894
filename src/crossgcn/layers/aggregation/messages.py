"""What is sent along the edges, one vector per edge."""

from __future__ import annotations

from torch import Tensor

from crossgcn.graph import SparseMatrix

__all__ = ["weigh_messages"]


def weigh_messages(x: Tensor, hop: SparseMatrix) -> Tensor:
    """The vector of each edge's source times the edge's weight, as PyG's layers send it.

    Returns:
        ``[nonzeros, channels]``, in the order of ``hop.rows``.
    """
    return x.index_select(0, hop.columns) * hop.values.to(x.dtype).unsqueeze(-1)
