"""A perceptron on the columns of :class:`~crossgcn.CrossHops`, to compare with."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from crossgcn.models.cross_hops import CrossHops


class HopPerceptron(CrossHops):
    """One hidden layer with ReLU on a node's own columns and the means of its neighbourhood.

    It reads the same columns as :class:`~crossgcn.CrossHops` and is bagged in the same way, but
    its score is not a sum of named terms. Arguments are those of :class:`~crossgcn.CrossHops`
    without ``order``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, order=1, **kwargs)
        self.hidden_bias = nn.Parameter(torch.zeros(self.transform.out_channels))

    def reset_parameters(self) -> None:
        """Draw all weights; biases are 0."""
        super().reset_parameters()
        nn.init.normal_(self.transform.weight, std=sqrt(2 / self.plan.num_columns))
        if hasattr(self, "hidden_bias"):
            nn.init.zeros_(self.hidden_bias)

    def hidden(self, projections: Tensor) -> Tensor:
        """Apply ReLU and dropout to the projections and their biases."""
        units: Tensor = self.dropout(projections + self.hidden_bias, site=1, activate=True)
        return units
