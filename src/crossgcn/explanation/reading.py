"""A trained model and its graph as plain numbers, ready to be taken apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Data

from crossgcn.errors import BadInput
from crossgcn.explanation.layer_reading import Floats, LayerReading, NotASum, read_layer
from crossgcn.explanation.occurrence import binary_columns
from crossgcn.graph import PreparedGraph, SparseMatrix, edges_of_kind
from crossgcn.layers import CrossGCNConv
from crossgcn.models.node_classifier import NodeClassifier

Graph: TypeAlias = Data | PreparedGraph


@dataclass(frozen=True)
class Reading:
    """What a model computes on a graph, layer by layer, in 64 bits.

    Attributes:
        layers: The layers' weights.
        adjacencies: How each layer sums over neighbours; ``None`` where it sees no graph.
        features: The nodes' features, ``[nodes, features]``.
        edges: Sources and targets of the edges, ``[2, edges]``.
        inputs: What the first layer crosses, ``[nodes, features]``: the features, or
            their sums over neighbours where that layer aggregates first.
        binary: Which columns of it hold nothing but 0 and 1, so that their powers are
            themselves.
        gates: Which hidden units are active at each node, an array per hidden layer.
        hidden: Values of the active ones, likewise.
        crosses: What a layer's own crosses add before its activation, per layer and node.
        first: What the first layer gives before its activation.
        logits: Class scores, ``[nodes, classes]``.
    """

    layers: tuple[LayerReading, ...]
    adjacencies: tuple[Any, ...]
    features: sp.csr_array
    edges: NDArray[np.int64]
    inputs: sp.csr_array
    binary: NDArray[np.bool_]
    gates: tuple[NDArray[np.bool_], ...]
    hidden: tuple[Floats, ...]
    crosses: tuple[Floats, ...]
    first: Floats
    logits: Floats

    @property
    def num_nodes(self) -> int:
        """How many nodes the graph has."""
        return int(self.inputs.shape[0])

    @property
    def num_features(self) -> int:
        """How many features a node has."""
        return int(self.inputs.shape[1])

    @property
    def of_neighbourhoods(self) -> bool:
        """Whether features are summed over neighbours before they are crossed."""
        return self.layers[0].aggregate_first and self.adjacencies[0] is not None

    def go_on(self, first: Floats, rows: NDArray[np.int64] | None = None) -> Floats:
        """Class scores when the first layer had given something else.

        Args:
            first: Its output before the activation, ``[nodes, channels]``.
            rows: The nodes wanted; all when left out.
        """
        out = first
        for layer, adjacency in zip(self.layers[1:], self.adjacencies[1:], strict=True):
            linear, crosses = layer.apply(np.maximum(out, 0.0), adjacency)
            out = linear + crosses + layer.bias
        return out if rows is None else out[rows]

    def readout(self) -> Floats:
        """How much each unit of the first layer counts for each class, ``[classes, units]``.

        Through later layers it is the product of their first-order weights, each hidden
        unit taken with the share of nodes at which it is active.
        """
        out = np.eye(self.layers[-1].first_order.shape[0])
        for layer, gate in zip(self.layers[:0:-1], self.gates[::-1], strict=True):
            out = (out @ layer.first_order) * gate.mean(axis=0)
        return out


def read_model(model: nn.Module, graph: Graph) -> Reading:
    """Read a model's weights and follow the graph through it.

    Args:
        model: A stack of cross-feature or plain graph convolutions, an MLP, or one such layer.
        graph: What it is to be explained on.

    Raises:
        BadInput: If the model has a part that is no sum of products of features, or does
            not fit the graph.
    """
    modules, layers = _modules(model), read_layers(model)
    features = _features(graph)
    if features.shape[1] != layers[0].first_order.shape[1]:
        raise BadInput(
            f"the graph has {features.shape[1]} features per node, but the model takes "
            f"{layers[0].first_order.shape[1]}; give the graph it was trained on, or one "
            "encoded in the same way"
        )
    adjacencies = tuple(_adjacency(module, graph, features.shape[0]) for module in modules)
    inputs = features
    if layers[0].aggregate_first and adjacencies[0] is not None:
        inputs = sp.csr_array(adjacencies[0] @ features)
        inputs.eliminate_zeros()
    inputs.sort_indices()
    return _follow(layers, adjacencies, features, _edges(graph), inputs)


def read_layers(model: nn.Module) -> tuple[LayerReading, ...]:
    """Read a model's weights alone; see :func:`read_model`."""
    if isinstance(model, NodeClassifier) and model.num_models is not None:
        raise BadInput(
            f"this model holds the weights of {model.num_models} models at once; explain one of "
            "them, as a record's folder holds it"
        )
    if isinstance(model, NodeClassifier) and type(model).forward is not NodeClassifier.forward:
        raise NotASum(
            f"{type(model).__name__} has a forward pass of its own, which has no exact "
            "explanation; explain a model that only applies its layers one after the other"
        )
    if isinstance(model, NodeClassifier) and model.residual != "none" and len(model.layers) > 1:
        raise NotASum(
            f"layers of this model add to what enters them (residual={model.residual!r}), which "
            "has no share in an explanation; explain a model with residual='none'"
        )
    return tuple(read_layer(module, position) for position, module in enumerate(_modules(model)))


def can_be_explained(model: nn.Module) -> bool:
    """Whether what a model says is a sum of products of features, which can be taken apart."""
    try:
        read_layers(model)
    except NotASum:
        return False
    return True


def _modules(model: nn.Module) -> list[nn.Module]:
    return list(model.layers) if isinstance(model, NodeClassifier) else [model]


def _follow(
    layers: tuple[LayerReading, ...],
    adjacencies: tuple[Any, ...],
    features: sp.csr_array,
    edges: NDArray[np.int64],
    inputs: sp.csr_array,
) -> Reading:
    gates, hidden, crosses = [], [], []
    outputs: list[Floats] = []
    x: Any = inputs
    for position, (layer, adjacency) in enumerate(zip(layers, adjacencies, strict=True)):
        if position:
            gates.append(outputs[-1] > 0)
            x = np.where(gates[-1], outputs[-1], 0.0)
            hidden.append(x)
        linear, crossed = layer.apply(x, adjacency, aggregated=position == 0)
        crosses.append(crossed)
        outputs.append(linear + crossed + layer.bias)
    return Reading(
        layers,
        adjacencies,
        features,
        edges,
        inputs,
        binary_columns(inputs),
        tuple(gates),
        tuple(hidden),
        tuple(crosses),
        outputs[0],
        outputs[-1],
    )


def _features(graph: Graph) -> sp.csr_array:
    x: Any = graph.x
    if isinstance(x, SparseMatrix):
        matrix = x.to("cpu").to_scipy()
    elif isinstance(x, Tensor) and x.layout == torch.sparse_csr:
        matrix = SparseMatrix.from_torch(x.detach().cpu()).to_scipy()
    elif isinstance(x, Tensor) and x.layout == torch.sparse_coo and x.dim() == x.sparse_dim() == 2:
        whole = x.detach().cpu().coalesce()
        places = tuple(whole.indices().numpy())
        matrix = sp.csr_array(sp.coo_array((whole.values().numpy(), places), shape=whole.shape))
    elif isinstance(x, Tensor) and x.layout == torch.strided and x.dim() == 2:
        matrix = sp.csr_array(x.detach().cpu().numpy())
    else:
        raise BadInput(
            f"the graph's features are {_describe(x)}; give x as a tensor [nodes, features], "
            "dense, sparse CSR or sparse COO"
        )
    features = sp.csr_array(matrix.astype(np.float64))
    features.eliminate_zeros()
    if not np.isfinite(features.data).all():
        node = int(np.searchsorted(features.indptr, _first_bad(features.data), side="right")) - 1
        raise BadInput(f"node {node} has a feature that is not finite; fill or drop it first")
    return features


def _describe(x: Any) -> str:
    if not isinstance(x, Tensor):
        return type(x).__name__
    return f"a tensor {list(x.shape)} of layout {x.layout}"


def _first_bad(values: Floats) -> int:
    return int(np.flatnonzero(~np.isfinite(values))[0])


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


def _edges(graph: Graph) -> NDArray[np.int64]:
    """Sources and targets; of a prepared graph, without the self-loops it was given."""
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
