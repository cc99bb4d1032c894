"""A PyG graph made by hand, brought to what the rest of this package expects."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.archive_arrays import MASK_NAMES, read_roles
from crossgcn.data.features import csr_tensor
from crossgcn.data.validate import validate_data
from crossgcn.errors import BadInput

__all__ = ["adopt_graph"]


def adopt_graph(data: Data, where: str = "data") -> Data:
    """Check a graph and complete it with ``name``, ``num_classes`` and ``roles``.

    Masks as PyG keeps them (``train_mask``, ``val_mask``, ``test_mask``) become
    ``roles``; classes are counted when nothing says how many there are. Features
    become 32-bit floats, and sparse ones CSR. Edges are taken as they are.

    Args:
        data: At least ``x``, ``edge_index`` and ``y``; it is not changed.
        where: What to call it in messages, and its name if it has none.

    Raises:
        BadInput: Naming the tensor, the place in it, the value and the remedy.
    """
    adopted = Data(
        x=_float_features(data.x, where),
        edge_index=data.edge_index,
        y=data.y,
        name=getattr(data, "name", where),
    )
    given = {name: getattr(data, name, None) for name in ("roles", *MASK_NAMES)}
    arrays = {name: tensor.numpy() for name, tensor in given.items() if tensor is not None}
    roles = read_roles(arrays, where)
    if roles is not None:
        adopted.roles = roles.to(torch.int8)
    num_classes = getattr(data, "num_classes", None)
    if num_classes is not None:
        adopted.num_classes = num_classes
    validate_data(adopted, where)
    if num_classes is None:
        adopted.num_classes = int(adopted.y.max()) + 1
    adopted.num_nodes = adopted.x.shape[0]
    return adopted


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
