"""What held-out nodes tell about scores: probabilities that fit, intervals and sets of classes.

How far a model misses rows that it was not trained on tells how far it misses new ones: intervals
and sets are those of split conformal prediction.
"""

from __future__ import annotations

from math import ceil, log
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax
from torch import Tensor

from crossgcn.errors import BadInput
from crossgcn.models.cross_hops import CrossHops

ASSUMPTION = "This holds for new nodes of the same population as the validation nodes."

Floats = NDArray[np.float64]
Answers = Floats | NDArray[np.bool_]
"""Intervals ``[rows, 2]``, or which classes are in sets, ``[rows, classes]``."""


def calibrate(model: CrossHops, scores: Tensor, labels: NDArray[np.int64]) -> dict[str, float]:
    """Scale the scores, and for two classes shift them, to minimise the log loss.

    Scale and shift are applied to the weights and biases of the read-out, so scores remain sums of
    the same terms. The ranking of nodes does not change. A shift, which moves predicted classes,
    must lower the log loss by more than the Bayesian information criterion asks of one parameter.

    Args:
        scores: Scores of nodes that the model was not trained on, ``[nodes, classes]``.
        labels: Classes of the same nodes.
    """
    from scipy.optimize import minimize  # takes long to import, and most commands do not calibrate

    margins = (scores - scores.mean(dim=1, keepdim=True)).numpy()

    def log_loss(values: Any) -> float:
        scaled = np.exp(values[0]) * margins
        scaled[:, -1] += sum(values[1:])
        return float((logsumexp(scaled, axis=1) - scaled[np.arange(len(labels)), labels]).sum())

    best = minimize(log_loss, np.zeros(1), method="Nelder-Mead")
    if margins.shape[1] == 2:
        shifted = minimize(log_loss, np.zeros(2), method="Nelder-Mead")
        best = shifted if best.fun - shifted.fun > log(len(labels)) / 2 else best
    scale, shift = float(np.exp(best.x[0])), float(sum(best.x[1:]))
    readout = model.readout
    with torch.no_grad():
        readout.weight.mul_(scale)
        readout.bias.mul_(scale)
        readout.bias.view(readout.bags, -1)[:, -1] += shift
    return {"scale": scale, "shift": shift}


class Misses(NamedTuple):
    """How far a model misses the rows that were held out of its training.

    Attributes:
        sizes: Sorted. Of a number, the absolute error divided by the scale of the row: the spread
            of its bags' predictions plus ``typical``. Of classes, one minus the probability of the
            true class.
        typical: The median absolute error of a number, so that a spread far below the errors
            changes little; 1 for classes.
    """

    sizes: list[float]
    typical: float = 1.0

    @classmethod
    def measure(cls, y: NDArray[Any], scores: Floats, spread: Floats) -> Self:
        """Compare the scores of held-out rows, ``[rows, outputs]``, with their targets."""
        if not len(y):
            raise BadInput(
                "there are no validation nodes, which tell how far the model misses new ones: "
                "leave out the interval, or train with validation nodes"
            )
        if scores.shape[1] > 1:
            return cls(np.sort(1 - softmax(scores, axis=1)[np.arange(len(y)), y]).tolist())
        errors = np.abs(y - scores[:, 0])
        typical = float(np.median(errors)) or 1.0
        return cls(np.sort(errors / (spread + typical)).tolist(), typical)

    def predict(self, scores: Floats, spread: Floats, coverage: float) -> Answers:
        """Return intervals or sets of rows.

        A set has every class that is at least as probable as the true class of enough held-out
        rows (Sadinle et al. 2019), so it is empty if no class is.
        """
        count = len(self.sizes)
        most = min(999, 1000 * count // (count + 1))
        if not 0.5 <= coverage <= most / 1000 + 1e-9:
            raise BadInput(
                f"{100 * coverage:g} % cannot be promised by {count:,} validation nodes; give "
                f"--interval 50 to {most / 10:g}, which is coverage=0.5 to {most / 1000:g}"
            )
        largest = self.sizes[ceil((count + 1) * (coverage - 1e-9)) - 1]
        if scores.shape[1] > 1:
            return np.asarray(1 - softmax(scores, axis=1) <= largest)
        return np.asarray(scores + largest * (spread + self.typical)[:, None] * [-1, 1])


def judge(answers: Answers, y: NDArray[Any]) -> tuple[float, float]:
    """Return the share of targets inside their intervals or sets, and the mean size of these."""
    if answers.dtype == bool:
        return answers[np.arange(len(y)), y].mean(), answers.sum(axis=1).mean()
    low, high = answers.T
    return ((low <= y) & (y <= high)).mean(), (high - low).mean()
