"""A model, or its first layer, as a polynomial of its columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crossgcn.explanation.reading import Floats, Ints, LayerReading, NotASum
from crossgcn.models.cross_hops import CrossHops


@dataclass(frozen=True)
class Polynomial:
    r"""Weights in float64.

    Unit :math:`e` computes :math:`\mathbf{f}_e\mathbf{x} + \sum_{k\ge2} \alpha_{ke}
    \prod_{m\le k} \mathbf{w}^m_e\mathbf{x}`.

    Attributes:
        weights: :math:`\mathbf{f}`, then :math:`\mathbf{w}^m`, ``[1 + order, units, columns]``.
        order_weights: :math:`\alpha`, ``[order, units]``; the first row is part of the weights.
        readout: ``[units, bags * outputs]``, zero between a unit and other bags.
        bias: Mean over bags, ``[outputs]``.
    """

    weights: Floats
    order_weights: Floats
    readout: Floats
    bias: Floats
    bags: int = 1

    @classmethod
    def of_model(cls, model: CrossHops, contrast: tuple[int, int] | None = None) -> Polynomial:
        """Read a model; its scores are margins (:func:`margins`), or numbers in their unit."""
        if type(model) is not CrossHops:
            raise NotASum(
                f"{type(model).__name__} is not a sum of named terms: explain a cross-hops model"
            )
        weight, readout = as_array(model.transform.weight), as_array(model.readout.weight)
        order, units, _ = weight.shape
        gates = model.transform.unit_order_weights()
        gate = np.ones((1, units)) if order == 1 or gates is None else as_array(gates)
        bias = as_array(model.readout.bias).reshape(model.bags, -1).mean(axis=0)
        margin, shift = margins(len(readout), contrast), 0.0
        if model.target_scale is not None:
            shift, deviation = as_array(model.target_scale)
            margin = margin * deviation
        by_bag = (margin @ readout).reshape(len(margin), model.bags, -1)
        blocks = np.einsum("obu,bc->buco", by_bag, np.eye(model.bags))
        weights = np.concatenate([gate[0][np.newaxis, :, np.newaxis] * weight[:1], weight])
        return cls(weights, gate, blocks.reshape(units, -1), margin @ bias + shift, model.bags)

    @classmethod
    def of_layer(cls, layer: LayerReading) -> Polynomial:
        """Return the units of a layer, without its bias."""
        projections = layer.projections[: layer.order]
        weights = np.concatenate([layer.first_order[np.newaxis], projections])
        units = weights.shape[1]
        return cls(weights, layer.order_weights[: layer.order], np.eye(units), np.zeros(units))

    @property
    def order(self) -> int:
        """Highest order of the products."""
        return len(self.order_weights)

    def project(self, features: Floats, columns: Ints) -> Floats:
        """Return the part of all projections that some columns have, ``[1 + order, rows, units]``.

        Args:
            features: The values of these columns, ``[rows, columns]``.
        """
        return np.stack([features @ weight[:, columns].T for weight in self.weights])

    def evaluate(self, projected: Floats) -> Floats:
        """Return ``[rows, bags * outputs]`` from projections ``[1 + order, rows, units]``."""
        crosses = np.zeros(())
        for weights, value in zip(self.order_weights[:0:-1], projected[:1:-1], strict=True):
            crosses = value * (weights + crosses)
        scores: Floats = (projected[0] + projected[1] * crosses) @ self.readout
        return scores

    def mean_of_bags(self, scores: Floats) -> Floats:
        """Return ``[rows, outputs]`` from the scores of all bags."""
        mean: Floats = scores.reshape(len(scores), self.bags, -1).mean(axis=1)
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


def as_array(tensor: object) -> Floats:
    """Return a tensor as a float64 array."""
    array: Floats = tensor.detach().cpu().double().numpy()  # type: ignore[attr-defined]
    return array
