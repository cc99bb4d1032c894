"""Read the weights of a trained model as polynomials in 64-bit arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import nn

from crossgcn.errors import BadInput
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
        bias: Mean over bags, ``[outputs]``, which :meth:`mean` adds; 0 for a layer.
    """

    weights: Floats
    order_weights: Floats
    readout: Floats
    bias: Floats
    bags: int = 1

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

    def evaluate(self, projected: Floats) -> Floats:
        """Return ``[rows, bags * outputs]`` from projections ``[1 + order, rows, units]``."""
        crosses = np.zeros(())
        for weights, value in zip(self.order_weights[:0:-1], projected[:1:-1], strict=True):
            crosses = value * (weights + crosses)
        scores: Floats = (projected[0] + projected[1] * crosses) @ self.readout
        return scores

    def mean(self, evaluated: Floats) -> Floats:
        """Return the mean over bags with the bias, ``[rows, outputs]``."""
        mean: Floats = evaluated.reshape(len(evaluated), self.bags, -1).mean(axis=1) + self.bias
        return mean


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


def read_layers(model: nn.Module) -> list[Polynomial]:
    """Read the layers of a model, or a single layer; refuse what is no sum of products."""
    return [read_layer(module, position) for position, module in enumerate(layers_of(model))]


def read_layer(module: nn.Module, position: int) -> Polynomial:
    """Read the polynomial of a layer; ``position`` (from 0) is for error messages."""
    where, transform = f"layer {position + 1}", module
    if isinstance(module, CrossGCNConv):
        transform = module.transform
        if not module.sums_neighbours:
            raise _refuse(f"{where} joins neighbours by aggr={module.aggr!r}")
        if module.flow != "source_to_target":
            raise _refuse(f"{where} has flow={module.flow!r}")
    if not isinstance(transform, CrossFeatureTransform):
        kind = type(transform)
        raise _refuse(f"{where} multiplies by a {kind.__name__} of {kind.__module__.split('.')[0]}")
    orders = transform.unit_order_weights()
    if orders is None:
        raise _refuse(f"{where} combines its orders by {type(transform.aggregator).__name__}")
    weight, alpha = as_array(transform.weight), as_array(orders)
    release = transform.first_order == "release"
    first = alpha[0][:, np.newaxis] * (weight.sum(axis=0) if release else weight[0])
    used = np.flatnonzero(alpha.any(axis=1))  # Orders of weight 0 are left out.
    order = max(1, int(used.max(initial=0)) + 1)
    units = weight.shape[1]
    weights = np.concatenate([first[np.newaxis], weight[:order]])
    return Polynomial(weights, alpha[:order], np.eye(units), np.zeros(units))


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


def layers_of(model: nn.Module) -> list[nn.Module]:
    """Return the layers of a model that only applies them one after the other."""
    if not isinstance(model, NodeClassifier):
        return [model]
    if type(model).forward is not NodeClassifier.forward:
        raise _refuse(f"{type(model).__name__} has a forward pass of its own")
    return list(model.layers)
