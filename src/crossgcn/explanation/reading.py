r"""Read a trained model and its graph as plain 64-bit arrays.

Everything else in this package works on a :class:`Reading`: the polynomial of each layer, the
matrices with which layers sum over neighbours, and the values that the model computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch_geometric.data import Data

from crossgcn.errors import BadInput
from crossgcn.graph import PreparedGraph, SparseMatrix, edges_of_kind
from crossgcn.layers import CrossFeatureTransform, CrossGCNConv
from crossgcn.models.node_classifier import NodeClassifier

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Graph: TypeAlias = Data | PreparedGraph


class NotASum(BadInput):
    """The model is not a sum of products of features, so it has no exact explanation."""


@dataclass(frozen=True)
class LayerReading:
    r"""The polynomial of one layer.

    Unit :math:`e` computes :math:`\mathbf{f}_e\mathbf{x} + \sum_{k\ge2} \alpha_{ke}
    \prod_{m\le k} \mathbf{w}^m_e\mathbf{x}`, before or after the sum over neighbours.

    Attributes:
        first_order: :math:`\mathbf{f}`, ``[channels, features]``; includes :math:`\alpha_1`.
        projections: :math:`\mathbf{w}^m`, ``[order, channels, features]``, scaled where the
            layer scales them.
        order_weights: :math:`\alpha`, ``[order, channels]``.
        bias: ``[channels]``; zeros if the layer has none.
        aggregate_first: Whether neighbours are summed before features are multiplied.
    """

    first_order: Floats
    projections: Floats
    order_weights: Floats
    bias: Floats
    aggregate_first: bool

    @cached_property
    def order(self) -> int:
        """The highest order whose weight is not zero."""
        used = np.flatnonzero(self.order_weights[1:].any(axis=1))
        return int(used[-1]) + 2 if used.size else 1

    def apply(self, x: Any, adjacency: Any) -> tuple[Floats, Floats]:
        """Return the layer's output in two parts, first order and crosses, without the bias.

        Args:
            x: The input, dense or sparse.
            adjacency: Weights of the sum over neighbours; ``None`` for a layer without a graph,
                or if ``x`` is already summed over neighbours.
        """
        if self.aggregate_first and adjacency is not None:
            x, adjacency = adjacency @ x, None
        linear = np.asarray(x @ self.first_order.T)
        crosses, product = np.zeros_like(linear), np.ones_like(linear)
        for position in range(self.order if self.order > 1 else 0):
            product = product * np.asarray(x @ self.projections[position].T)
            if position:
                crosses += self.order_weights[position] * product
        if adjacency is None:
            return linear, crosses
        return np.asarray(adjacency @ linear), np.asarray(adjacency @ crosses)


@dataclass(frozen=True)
class Reading:
    """What a model computes on a graph, layer by layer.

    Attributes:
        adjacencies: The matrix with which each layer sums over neighbours; ``None`` for a
            layer without a graph.
        inputs: What the first layer multiplies, ``[nodes, features]``: the features, or their
            sums over neighbours if that layer aggregates first.
        binary: Which columns of ``inputs`` hold only 0 and 1, so that powers change nothing.
        outputs: Output of each layer before its activation, ``[nodes, units]``. A hidden unit is
            active where its output is positive.
        crosses: What the crosses of each layer add to its output.
    """

    layers: tuple[LayerReading, ...]
    adjacencies: tuple[Any, ...]
    inputs: sp.csr_array
    binary: Bools
    outputs: tuple[Floats, ...]
    crosses: tuple[Floats, ...]

    @property
    def logits(self) -> Floats:
        """Class scores, ``[nodes, classes]``."""
        return self.outputs[-1]

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph."""
        return int(self.inputs.shape[0])

    @property
    def num_features(self) -> int:
        """Number of features of a node."""
        return int(self.inputs.shape[1])

    @property
    def of_neighbourhoods(self) -> bool:
        """Whether features are summed over neighbours before they are multiplied."""
        return self.layers[0].aggregate_first and self.adjacencies[0] is not None

    def readout(self) -> Floats:
        """Return the weight of each unit of the first layer for each class, ``[classes, units]``.

        The readout is the product of the first-order weights of the later layers, where each
        hidden unit counts with the share of nodes at which it is active.
        """
        out = np.eye(self.layers[-1].first_order.shape[0])
        for layer, hidden in zip(self.layers[:0:-1], self.outputs[-2::-1], strict=True):
            out = (out @ layer.first_order) * (hidden > 0).mean(axis=0)
        return out


def read_model(model: nn.Module, graph: Graph) -> Reading:
    """Read the weights of a model and compute its values on a graph.

    Args:
        model: A :class:`~crossgcn.models.node_classifier.NodeClassifier`, or a single layer.

    Raises:
        NotASum: If a part of the model is not a sum of products of features.
        BadInput: If the model does not fit the graph.
    """
    layers = read_layers(model)
    features = inputs = _features(graph)
    if features.shape[1] != layers[0].first_order.shape[1]:
        raise BadInput(
            f"the graph has {features.shape[1]} features per node, but the model takes "
            f"{layers[0].first_order.shape[1]}; give the graph it was trained on, or one "
            "encoded in the same way"
        )
    adjacencies = tuple(_adjacency(each, graph, features.shape[0]) for each in _modules(model))
    first = adjacencies[0]
    if layers[0].aggregate_first and first is not None:
        inputs = sp.csr_array(first @ features)
        inputs.eliminate_zeros()
        first = None
    inputs.sort_indices()
    outputs, crosses = [], []
    x: Any = inputs
    for layer, adjacency in zip(layers, (first, *adjacencies[1:]), strict=True):
        linear, crossed = layer.apply(x, adjacency)
        crosses.append(crossed)
        outputs.append(linear + crossed + layer.bias)
        x = np.maximum(outputs[-1], 0.0)
    return Reading(
        layers,
        adjacencies,
        inputs,
        binary_columns(inputs),
        tuple(outputs),
        tuple(crosses),
    )


def read_layers(model: nn.Module) -> tuple[LayerReading, ...]:
    """Read the weights of a model, without a graph; see :func:`read_model`."""
    return tuple(read_layer(module, position) for position, module in enumerate(_modules(model)))


def binary_columns(features: sp.csr_array) -> Bools:
    """Return which columns hold only 0 and 1."""
    other = (features.data != 1.0) & (features.data != 0.0)
    found: Bools = np.bincount(features.indices[other], minlength=features.shape[1]) == 0
    return found


def read_layer(module: nn.Module, position: int) -> LayerReading:
    """Read the polynomial of a layer; ``position`` (from 0) is for error messages."""
    where = f"layer {position + 1}"
    if isinstance(module, CrossGCNConv):
        transform, bias = module.transform, module.bias
        aggregate_first = module.aggregate_first
        if not module.sums_neighbours:
            raise NotASum(
                f"{where} joins neighbours by aggr={module.aggr!r}, which has no exact "
                "explanation; explain a model whose neighbours are summed (aggr='add')"
            )
        if not isinstance(transform, CrossFeatureTransform):
            raise NotASum(
                f"{where} transforms features by a {type(transform).__name__}, which has no exact "
                "explanation; explain a CrossGCN or a GCN"
            )
        if module.flow != "source_to_target":
            raise BadInput(f"{where} has flow={module.flow!r}; use 'source_to_target'")
    elif isinstance(module, CrossFeatureTransform):
        transform, bias, aggregate_first = module, module.bias, False
    else:
        raise NotASum(
            f"{where} is a {type(module).__name__} of {type(module).__module__.split('.')[0]}, "
            "which is not a sum of products of its inputs and has no exact explanation; explain "
            "crossgcn's CrossGCN, crossgcn's GCN or crossgcn's MLP"
        )
    if isinstance(transform.weight, UninitializedParameter):
        raise BadInput(f"{where} has seen no data yet and has no weights; train the model first")
    orders = transform.unit_order_weights()
    if orders is None:
        raise NotASum(
            f"{where} combines its orders by {type(transform.aggregator).__name__}, which is not a "
            "weighted sum of products and has no exact explanation; explain a model with 'gated', "
            "'per-unit', 'learned', 'fixed' or 'mean' order weights"
        )
    projections, alpha = _numbers(transform.weight), _numbers(orders)
    if not (np.isfinite(projections).all() and np.isfinite(alpha).all()):
        raise BadInput(f"{where} has weights that are not finite; train the model again")
    release = transform.first_order == "release"
    first = alpha[0][:, np.newaxis] * (projections.sum(axis=0) if release else projections[0])
    bias_values = np.zeros(projections.shape[1]) if bias is None else _numbers(bias)
    return LayerReading(first, projections, alpha, bias_values, aggregate_first)


def _numbers(tensor: Tensor) -> Floats:
    return tensor.detach().cpu().double().numpy()


def _modules(model: nn.Module) -> list[nn.Module]:
    """Return the layers of a model that only applies them one after the other."""
    if not isinstance(model, NodeClassifier):
        return [model]
    if type(model).forward is not NodeClassifier.forward:
        raise NotASum(
            f"{type(model).__name__} has a forward pass of its own, which has no exact "
            "explanation; explain a model that only applies its layers one after the other"
        )
    return list(model.layers)


def _features(graph: Graph) -> sp.csr_array:
    x: Any = graph.x
    matrix: Any
    layout = x.layout if isinstance(x, Tensor) and x.dim() == 2 else None
    if isinstance(x, SparseMatrix):
        matrix = x.to("cpu").to_scipy()
    elif layout == torch.strided:
        matrix = x.detach().cpu().numpy()
    elif layout == torch.sparse_csr:
        matrix = SparseMatrix.from_torch(x.detach().cpu()).to_scipy()
    elif layout == torch.sparse_coo and x.sparse_dim() == 2:
        whole = x.detach().cpu().coalesce()
        matrix = sp.coo_array((whole.values().numpy(), whole.indices().numpy()), shape=x.shape)
    else:
        given = type(x).__name__
        if isinstance(x, Tensor):
            given = f"a tensor {list(x.shape)} of layout {x.layout}"
        raise BadInput(
            f"the graph's features are {given}; give x as a tensor [nodes, features], "
            "dense, sparse CSR or sparse COO"
        )
    features = sp.csr_array(sp.csr_array(matrix).astype(np.float64))
    features.eliminate_zeros()
    bad = np.flatnonzero(~np.isfinite(features.data))
    if bad.size:
        node = int(np.searchsorted(features.indptr, bad[0], side="right")) - 1
        raise BadInput(f"node {node} has a feature that is not finite; fill or drop it first")
    return features


def _adjacency(module: nn.Module, graph: Graph, num_nodes: int) -> Any:
    """Return the matrix with which a layer sums over neighbours, one row per target."""
    if not isinstance(module, CrossGCNConv):
        return None
    (kind,) = module.propagations
    if isinstance(graph, PreparedGraph):
        matrix = graph.edges(kind)
    else:
        weight: Tensor | None = getattr(graph, "edge_weight", None)
        weight = None if weight is None else weight.detach().cpu()
        matrix = edges_of_kind(kind, torch.from_numpy(_edges(graph)), num_nodes, weight)
    return sp.csr_array(matrix.to("cpu").to_scipy().astype(np.float64))


def _edges(graph: Graph) -> Ints:
    """Return sources and targets; for a prepared graph, without its self-loops."""
    if isinstance(graph, PreparedGraph):
        pattern = graph.adjacency.to("cpu").to_scipy().tocoo()
        other = pattern.row != pattern.col
        return np.stack([pattern.col[other], pattern.row[other]]).astype(np.int64)
    edge_index: Any = graph.edge_index
    if edge_index is None:
        return np.zeros((2, 0), np.int64)
    if not isinstance(edge_index, Tensor) or edge_index.is_sparse or edge_index.size(0) != 2:
        raise BadInput("the graph's edges must come as edge_index [2, edges]; convert them first")
    return edge_index.detach().cpu().numpy()
