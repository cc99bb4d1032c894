"""Read a trained model, and what it computes on a graph, as polynomials in 64-bit arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Data

from crossgcn.errors import BadInput
from crossgcn.graph import SparseMatrix, edges_of_kind
from crossgcn.layers import CrossFeatureTransform, CrossGCNConv
from crossgcn.models.cross_hops import CrossHops
from crossgcn.models.node_classifier import NodeClassifier

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


class NotASum(BadInput):
    """The model is not a sum of products of features, so it has no exact explanation."""


@dataclass(frozen=True)
class Polynomial:
    r"""Units that are products of projections, and their linear map to outputs.

    Unit :math:`e` computes :math:`\mathbf{f}_e\mathbf{x} + \sum_{k\ge2} \alpha_{ke}
    \prod_{m\le k} \mathbf{w}^m_e\mathbf{x}`.

    Attributes:
        weights: :math:`\mathbf{f}`, then :math:`\mathbf{w}^m`, ``[1 + order, units, columns]``.
        order_weights: :math:`\alpha`, ``[order, units]``; the first row is part of the weights.
        readout: ``[units, bags * outputs]``, zero between a unit and other bags.
        bias: Mean over bags, ``[outputs]``. :meth:`evaluate` leaves it out.
        aggregate_first: Of a layer: whether it sums over neighbours before it multiplies.
    """

    weights: Floats
    order_weights: Floats
    readout: Floats
    bias: Floats
    bags: int = 1
    aggregate_first: bool = False

    @property
    def order(self) -> int:
        """The highest number of columns that are multiplied."""
        return len(self.order_weights)

    def project(self, features: Any, columns: Ints | slice = slice(None)) -> Floats:
        """Return the part of all projections that some columns have, ``[1 + order, rows, units]``.

        Args:
            features: The values of these columns, dense or sparse, ``[rows, columns]``.
        """
        return np.stack([features @ weight[:, columns].T for weight in self.weights])

    def crosses(self, projected: Floats) -> Floats:
        """Return what the units have beyond their first order, ``[rows, units]``."""
        crosses = np.zeros(())
        for weights, value in zip(self.order_weights[:0:-1], projected[:1:-1], strict=True):
            crosses = value * (weights + crosses)
        return np.asarray(projected[1] * crosses)

    def evaluate(self, projected: Floats) -> Floats:
        """Return ``[rows, bags * outputs]`` from projections ``[1 + order, rows, units]``."""
        scores: Floats = (projected[0] + self.crosses(projected)) @ self.readout
        return scores

    def mean(self, evaluated: Floats) -> Floats:
        """Return the mean over bags with the bias, ``[rows, outputs]``."""
        mean: Floats = evaluated.reshape(len(evaluated), self.bags, -1).mean(axis=1) + self.bias
        return mean


@dataclass(frozen=True)
class Reading:
    """What a model of layers computes on a graph.

    Attributes:
        adjacencies: The matrix with which each layer sums over neighbours; ``None`` for a
            layer without a graph.
        inputs: What the first layer multiplies, ``[nodes, features]``: the features, or their
            sums over neighbours if that layer aggregates first.
        outputs: Output of each layer before its activation, ``[nodes, units]``; the last ones
            are class scores. A hidden unit is active where its output is positive.
        crosses: What the crosses of the last layer add to its output.
    """

    layers: tuple[Polynomial, ...]
    adjacencies: tuple[Any, ...]
    inputs: sp.csr_array
    outputs: tuple[Floats, ...]
    crosses: Floats

    @property
    def has_edges(self) -> bool:
        """Whether a layer sums over neighbours."""
        return any(each is not None for each in self.adjacencies)


def read_hops(model: CrossHops, margin: Floats) -> Polynomial:
    """Read a :class:`~crossgcn.CrossHops` that compares scores by a ``margin``.

    The outputs of a model of a number are in its unit.
    """
    if type(model) is not CrossHops:
        raise NotASum(
            f"{type(model).__name__} is not a sum of named terms: explain a cross-hops model"
        )
    shift, deviation = target_scale(model)
    margin, bags = margin * deviation, model.bags
    by_bag = (margin @ as_array(model.readout.weight)).reshape(len(margin), bags, -1)
    readout = np.einsum("obu,bc->buco", by_bag, np.eye(bags)).reshape(
        model.readout.weight.size(1), -1
    )
    bias = margin @ as_array(model.readout.bias).reshape(bags, -1).mean(axis=0) + shift
    return replace(read_layer(model.transform, 0), readout=readout, bias=bias, bags=bags)


def read_model(model: nn.Module, data: Data) -> Reading:
    """Read the layers of a model and compute its values on a graph.

    Args:
        model: A :class:`~crossgcn.models.node_classifier.NodeClassifier`, or a single layer.

    Raises:
        NotASum: If a part of the model is not a sum of products of features.
        BadInput: If the model does not fit the graph.
    """
    layers, x = read_layers(model), _features(data)
    if x.shape[1] != layers[0].weights.shape[2]:
        raise BadInput(
            f"the graph has {x.shape[1]} features per node, but the model takes "
            f"{layers[0].weights.shape[2]}; give the graph it was trained on, or one encoded in "
            "the same way"
        )
    adjacencies = tuple(_adjacency(module, data) for module in _modules(model))
    multiplied: list[Any] = []
    outputs: list[Floats] = []
    for layer, adjacency in zip(layers, adjacencies, strict=True):
        if layer.aggregate_first and adjacency is not None:
            x = adjacency @ x
        multiplied.append(x)
        projected = layer.project(x)
        linear, crosses = projected[0], layer.crosses(projected)
        if not layer.aggregate_first and adjacency is not None:
            linear, crosses = adjacency @ linear, adjacency @ crosses
        outputs.append(np.asarray(linear + crosses + layer.bias))
        x = np.maximum(outputs[-1], 0.0)
    inputs = sp.csr_array(multiplied[0])
    inputs.eliminate_zeros()
    inputs.sort_indices()
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
    orders, bias = transform.unit_order_weights(), module.bias
    if orders is None:
        raise _refuse(f"{where} combines its orders by {type(transform.aggregator).__name__}")
    weight, alpha = as_array(transform.weight), as_array(orders)
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


def target_scale(model: nn.Module) -> tuple[float, float]:
    """Return the zero point and the step of the scores of a model of a number."""
    scale = getattr(model, "target_scale", None)
    return (0.0, 1.0) if scale is None else tuple(as_array(scale).tolist())


def as_array(tensor: Any) -> Floats:
    """Return a tensor as a float64 array."""
    array: Floats = tensor.detach().cpu().double().numpy()
    return array


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


def _features(data: Data) -> Any:
    x = data.x
    if not isinstance(x, Tensor) or x.layout not in (torch.strided, torch.sparse_csr):
        raise BadInput("give the graph's x as a tensor [nodes, features], dense or sparse CSR")
    x = x.detach().cpu().double()
    is_dense = x.layout == torch.strided
    features = sp.csr_array(x.numpy() if is_dense else SparseMatrix.from_torch(x).to_scipy())
    entries = features.tocoo()
    bad = entries.row[~np.isfinite(entries.data)]
    if bad.size:
        raise BadInput(f"node {bad[0]} has a feature that is not finite; fill or drop it first")
    return features


def _adjacency(module: nn.Module, data: Data) -> Any:
    """Return the matrix with which a layer sums over neighbours, one row per target."""
    if not isinstance(module, CrossGCNConv):
        return None
    edges, weight = data.edge_index, data.get("edge_weight")
    if not isinstance(edges, Tensor) or edges.layout != torch.strided:
        raise BadInput("the graph's edges must come as edge_index [2, edges]; convert them first")
    weight = None if weight is None else weight.detach().cpu()
    (kind,) = module.propagations
    num_nodes = data.x.size(0)
    return edges_of_kind(kind, edges.cpu(), num_nodes, weight, dtype=torch.float64).to_scipy()
