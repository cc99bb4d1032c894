"""How well models do on some nodes, with nothing dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from crossgcn.models.stack import Stack
from crossgcn.training.precision import multiplying_in
from crossgcn.training.stacking import can_be_compiled
from crossgcn.training.targets import Targets

if TYPE_CHECKING:
    from crossgcn.training.compiled_network import CompiledNetwork

__all__ = ["Scorer"]


class Scorer:
    """Loss and accuracy on given nodes, with the weights as they are at each call.

    Args:
        model: One model, or several stacked.
        targets: The nodes.
        precision: As for training.
    """

    def __init__(self, model: Stack, targets: Targets, precision: str = "fp32") -> None:
        self.model, self.targets, self.precision = model, targets, precision
        self.device = targets.labels.device
        self._network: CompiledNetwork | None = None
        if self.device.type == "cpu" and can_be_compiled(model):
            from crossgcn.training.compiled_network import CompiledNetwork

            self._network = CompiledNetwork(model, targets)

    @torch.no_grad()
    def __call__(self) -> tuple[Tensor, Tensor]:
        """Losses and accuracies, ``[models]`` each."""
        if self._network is not None:
            with np.errstate(all="ignore"):
                self._network.forward()
                loss, right = self._network.loss()
            return torch.tensor([loss]), torch.tensor([right]) / self.targets.counts.double()
        self.model.eval()
        with multiplying_in(self.precision, self.device):
            scores = self.model(*self.targets.inputs)
        losses, accuracies, _ = self.targets.score(scores)
        return losses, accuracies
