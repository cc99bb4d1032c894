"""A model, or one of its layers, as a polynomial of its columns, in 64-bit arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crossgcn.errors import BadInput
from crossgcn.models.cross_hops import CrossHops

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

    @classmethod
    def of_model(cls, model: CrossHops, margin: Floats) -> Polynomial:
        """Read a model; its outputs are differences of scores, or numbers in their unit.

        Args:
            margin: From :func:`margins`.
        """
        if type(model) is not CrossHops:
            raise NotASum(
                f"{type(model).__name__} is not a sum of named terms: explain a cross-hops model"
            )
        weight, readout = as_array(model.transform.weight), as_array(model.readout.weight)
        order, units, _ = weight.shape
        gates = model.transform.unit_order_weights()
        gate = np.ones((1, units)) if order == 1 or gates is None else as_array(gates)
        bias = as_array(model.readout.bias).reshape(model.bags, -1).mean(axis=0)
        shift = 0.0
        if model.target_scale is not None:
            shift, deviation = as_array(model.target_scale)
            margin = margin * deviation
        by_bag = (margin @ readout).reshape(len(margin), model.bags, -1)
        blocks = np.einsum("obu,bc->buco", by_bag, np.eye(model.bags))
        weights = np.concatenate([gate[0][np.newaxis, :, np.newaxis] * weight[:1], weight])
        return cls(weights, gate, blocks.reshape(units, -1), margin @ bias + shift, model.bags)

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


def margins(num_scores: int, contrast: tuple[int, int] | None = None) -> Floats:
    """Return how scores are compared, ``[outputs, scores]``.

    One class against another if ``contrast`` names them; else the second of two classes against
    the first, each of more classes against the mean of the others, and a number as it is.
    """
    if num_scores == 2 and contrast is None:
        contrast = (1, 0)
    if contrast is not None:
        margin = np.zeros((1, num_scores))
        margin[0, contrast] = 1.0, -1.0
        return margin
    if num_scores == 1:
        return np.ones((1, 1))
    return (np.eye(num_scores) * num_scores - 1) / (num_scores - 1)


def as_array(tensor: Any) -> Floats:
    """Return a tensor as a float64 array."""
    array: Floats = tensor.detach().cpu().double().numpy()
    return array
