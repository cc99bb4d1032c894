"""Read a trained model of layers and its graph as plain 64-bit arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch_geometric.data import Data

from crossgcn.errors import BadInput
from crossgcn.explanation.polynomial import Floats, NotASum, Polynomial, as_array
from crossgcn.graph import SparseMatrix, edges_of_kind
from crossgcn.layers import CrossFeatureTransform, CrossGCNConv
from crossgcn.models.node_classifier import NodeClassifier


@dataclass(frozen=True)
class Reading:
    """What a model computes on a graph, layer by layer.

    Attributes:
        adjacencies: The matrix with which each layer sums over neighbours; ``None`` for a
            layer without a graph.
        inputs: What the first layer multiplies, ``[nodes, features]``: the features, or their
            sums over neighbours if that layer aggregates first.
        outputs: Output of each layer before its activation, ``[nodes, units]``. A hidden unit is
            active where its output is positive.
        crosses: What the crosses of the last layer add to its output.
    """

    layers: tuple[Polynomial, ...]
    adjacencies: tuple[Any, ...]
    inputs: sp.csr_array
    outputs: tuple[Floats, ...]
    crosses: Floats

    @property
    def logits(self) -> Floats:
        """Class scores, ``[nodes, classes]``."""
        return self.outputs[-1]

    @property
    def has_edges(self) -> bool:
        """Whether a layer sums over neighbours."""
        return any(each is not None for each in self.adjacencies)

    @property
    def of_sums(self) -> bool:
        """Whether features are summed over neighbours before they are multiplied."""
        return self.layers[0].aggregate_first and self.adjacencies[0] is not None


def read_model(model: nn.Module, data: Data) -> Reading:
    """Read the weights of a model and compute its values on a graph.

    Args:
        model: A :class:`~crossgcn.models.node_classifier.NodeClassifier`, or a single layer.

    Raises:
        NotASum: If a part of the model is not a sum of products of features.
        BadInput: If the model does not fit the graph.
    """
    layers = read_layers(model)
    x: Any = _features(data)
    if x.shape[1] != layers[0].weights.shape[2]:
        raise BadInput(
            f"the graph has {x.shape[1]} features per node, but the model takes "
            f"{layers[0].weights.shape[2]}; give the graph it was trained on, or one encoded in "
            "the same way"
        )
    adjacencies = tuple(_adjacency(module, data) for module in _modules(model))
    if layers[0].aggregate_first and adjacencies[0] is not None:
        x = sp.csr_array(adjacencies[0] @ x)
    inputs = x
    inputs.eliminate_zeros()
    inputs.sort_indices()
    outputs: list[Floats] = []
    for layer, adjacency in zip(layers, adjacencies, strict=True):
        if layer.aggregate_first and adjacency is not None and outputs:
            x = adjacency @ x
        projected = layer.project(x)
        linear, crosses = projected[0], layer.crosses(projected)
        if not layer.aggregate_first and adjacency is not None:
            linear, crosses = adjacency @ linear, adjacency @ crosses
        outputs.append(np.asarray(linear + crosses + layer.bias))
        x = np.maximum(outputs[-1], 0.0)
    return Reading(layers, adjacencies, inputs, tuple(outputs), crosses)


def read_layers(model: nn.Module) -> tuple[Polynomial, ...]:
    """Read the weights of a model, without a graph; see :func:`read_model`."""
    return tuple(read_layer(module, position) for position, module in enumerate(_modules(model)))


def read_layer(module: nn.Module, position: int) -> Polynomial:
    """Read the polynomial of a layer; ``position`` (from 0) is for error messages."""
    where, conv = f"layer {position + 1}", isinstance(module, CrossGCNConv)
    if isinstance(module, CrossGCNConv):
        if not module.sums_neighbours:
            raise _refuse(f"{where} joins neighbours by aggr={module.aggr!r}")
        if module.flow != "source_to_target":
            raise _refuse(f"{where} has flow={module.flow!r}")
    transform: Any = module.transform if conv else module
    if not isinstance(transform, CrossFeatureTransform):
        kind = type(transform)
        raise _refuse(f"{where} multiplies by a {kind.__name__} of {kind.__module__.split('.')[0]}")
    if isinstance(transform.weight, UninitializedParameter):
        raise BadInput(f"{where} has seen no data yet and has no weights; train the model first")
    orders, bias = transform.unit_order_weights(), module.bias
    if orders is None:
        raise _refuse(f"{where} combines its orders by {type(transform.aggregator).__name__}")
    weight, alpha = as_array(transform.weight), as_array(orders)
    if not (np.isfinite(weight).all() and np.isfinite(alpha).all()):
        raise BadInput(f"{where} has weights that are not finite; train the model again")
    release = transform.first_order == "release"
    first = alpha[0][:, np.newaxis] * (weight.sum(axis=0) if release else weight[0])
    used = np.flatnonzero(alpha.any(axis=1))  # Orders of weight 0 are left out.
    order = max(1, int(used.max(initial=0)) + 1)
    units = weight.shape[1]
    return Polynomial(
        np.concatenate([first[np.newaxis], weight[:order]]),
        alpha[:order],
        np.eye(units),
        np.zeros(units) if bias is None else as_array(bias),
        aggregate_first=conv and bool(module.aggregate_first),
    )


def _refuse(what: str) -> NotASum:
    return NotASum(
        f"{what}, which is not a sum of products of features and has no exact explanation; explain "
        "a CrossGCN, GCN or MLP of crossgcn whose neighbours are summed (aggr='add') and whose "
        "order_weights are 'gated', 'per-unit', 'learned', 'fixed' or numbers"
    )


def _modules(model: nn.Module) -> list[nn.Module]:
    """Return the layers of a model that only applies them one after the other."""
    if not isinstance(model, NodeClassifier):
        return [model]
    if type(model).forward is not NodeClassifier.forward:
        raise _refuse(f"{type(model).__name__} has a forward pass of its own")
    return list(model.layers)


def _features(data: Data) -> sp.csr_array:
    x = data.x
    if not isinstance(x, Tensor) or x.dim() != 2 or x.layout == torch.sparse_coo:
        raise BadInput("give the graph's x as a tensor [nodes, features], dense or sparse CSR")
    x = x.detach().cpu().double()
    is_dense = x.layout == torch.strided
    features = sp.csr_array(x.numpy() if is_dense else SparseMatrix.from_torch(x).to_scipy())
    features.eliminate_zeros()
    bad = np.flatnonzero(~np.isfinite(features.data))
    if bad.size:
        node = int(np.searchsorted(features.indptr, bad[0], side="right")) - 1
        raise BadInput(f"node {node} has a feature that is not finite; fill or drop it first")
    return features


def _adjacency(module: nn.Module, data: Data) -> Any:
    """Return the matrix with which a layer sums over neighbours, one row per target."""
    if not isinstance(module, CrossGCNConv):
        return None
    edges, weight = data.edge_index, data.get("edge_weight")
    if not isinstance(edges, Tensor) or edges.layout != torch.strided or edges.size(0) != 2:
        raise BadInput("the graph's edges must come as edge_index [2, edges]; convert them first")
    weight = None if weight is None else weight.detach().cpu()
    (kind,) = module.propagations
    num_nodes = data.x.size(0)
    return edges_of_kind(kind, edges.cpu(), num_nodes, weight, dtype=torch.float64).to_scipy()
