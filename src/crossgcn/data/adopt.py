"""A PyG graph made by hand, brought to what the rest of this package expects."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

from crossgcn.data.features import csr_tensor
from crossgcn.data.roles import gather_roles
from crossgcn.data.validate import validate_data
from crossgcn.errors import BadInput

__all__ = ["adopt_graph"]


def adopt_graph(data: Data, where: str = "data") -> Data:
    """Check a graph and complete it with ``name``, ``num_classes`` and ``roles``.

    Masks as PyG keeps them (``train_mask``, ``val_mask``, ``test_mask``) become
    ``roles``, a row for each of their columns; classes are counted when nothing
    says how many there are. Features and edge weights become 32-bit floats.

    Edges become undirected, unique and sorted; self-loops stay. An edge given more
    than once, in either direction, weighs the mean of its weights. A graph from a
    file goes through here as well, and one that was here before comes out the same.
    A graph that says ``directed=True``, as one from a directed graph folder does, keeps
    the direction of its edges: each counts for its second end alone.

    Args:
        data: At least ``x``, ``edge_index`` and ``y``; it is not changed. Weights
            are ``edge_weight [E]``, never ``edge_attr``, which is left behind.
        where: What to call it in messages, and its name if it has none.

    Raises:
        BadInput: Naming the tensor, the place in it, the value and the remedy.
    """
    edge_weight = getattr(data, "edge_weight", None)
    adopted = Data(
        x=_float_features(data.x, where),
        edge_index=data.edge_index,
        edge_weight=edge_weight.float() if isinstance(edge_weight, Tensor) else edge_weight,
        y=data.y,
        name=getattr(data, "name", where),
        num_classes=getattr(data, "num_classes", None),
    )
    validate_data(adopted, where)
    adopted.num_nodes = adopted.x.shape[0]
    ends, weight = adopted.edge_index, adopted.get("edge_weight")
    if getattr(data, "directed", None) is True:
        adopted.directed = True
        adopted.edge_index, adopted.edge_weight = _keep_direction(ends, weight, adopted.num_nodes)
    else:
        adopted.edge_index, adopted.edge_weight = _make_undirected(ends, weight, adopted.num_nodes)
    if "num_classes" not in adopted:
        adopted.num_classes = int(adopted.y.max()) + 1
    adopted.roles = gather_roles(data, adopted.num_nodes, where)
    return adopted


def _make_undirected(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor | None]:
    if edge_weight is None:
        return to_undirected(edge_index, num_nodes=num_nodes), None
    # Averaged in one direction only, so that both weigh the same to the last bit.
    edge_index, edge_weight = coalesce(
        edge_index.sort(dim=0).values, edge_weight.double(), num_nodes, reduce="mean"
    )
    edge_index, edge_weight = to_undirected(edge_index, edge_weight, num_nodes, reduce="mean")
    return edge_index, edge_weight.float()


def _keep_direction(
    edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor | None]:
    """Unique and sorted by target, as the rows of a graph folder are."""
    if edge_weight is None:
        return coalesce(edge_index, num_nodes=num_nodes, sort_by_row=False), None
    edge_index, edge_weight = coalesce(
        edge_index, edge_weight.double(), num_nodes, reduce="mean", sort_by_row=False
    )
    return edge_index, edge_weight.float()


def _float_features(x: Tensor | None, where: str) -> Tensor | None:
    """The features in 32 bits, or what was given for the check to complain about."""
    if x is None or (x.dtype == torch.float32 and x.layout != torch.sparse_coo):
        return x
    if x.layout == torch.strided:
        return x.float()
    if x.layout == torch.sparse_csr:
        rows, columns = x.shape
        return csr_tensor(x.crow_indices(), x.col_indices(), x.values().float(), (rows, columns))
    raise BadInput(f"{where}: x has layout {x.layout}; give it dense or as x.to_sparse_csr()")
