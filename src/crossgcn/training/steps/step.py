"""What every training step has: a model, its optimiser, and the number of steps taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from crossgcn.layers import FeatureDropout
from crossgcn.training.config import RunConfig
from crossgcn.training.model_batch import state_shapes
from crossgcn.training.objective import make_optimizer
from crossgcn.training.steps.unused_columns import UnusedColumns

State = dict[str, Tensor]


class Step:
    """A model in training; :meth:`run` does the work of one epoch.

    :func:`~crossgcn.training.loop.fit` calls it. The dropped entries depend on the seed and the
    number of the step alone.

    Args:
        model: Trained in place, on its device; one model, or several stacked.
        unused: The columns that were removed from the model before.

    Attributes:
        losses: Of the last epoch, on the training nodes and with dropout, ``[models]``; likewise
            ``accuracies``.
        count: Steps of the optimiser so far, a tensor on the device.
        capturable: Whether an epoch can be recorded as a CUDA graph.
        shapes: Shape of each tensor in the state of a single model.
    """

    losses: Tensor
    accuracies: Tensor
    capturable: bool = False
    steps_per_epoch: int = 1
    shapes: Mapping[str, torch.Size]

    def __init__(
        self,
        model: nn.Module,
        config: RunConfig,
        seeds: Sequence[int],
        unused: UnusedColumns | None = None,
    ) -> None:
        self.model, self.config, self._unused = model, config, unused
        self.device = next(model.parameters()).device
        self.shapes = state_shapes(model)
        self.count = torch.zeros((), dtype=torch.long, device=self.device)
        of_models = torch.tensor(list(seeds), device=self.device)
        for module in model.modules():
            if isinstance(module, FeatureDropout):
                module.follow(of_models, self.count)
        self.optimizer = make_optimizer(model, config.learning_rate, config.weight_decay)

    def run(self) -> None:
        """Train for one epoch."""
        raise NotImplementedError

    def restart(self) -> None:
        """Return to the initial weights and the first step, in place; for capturable steps."""
        raise NotImplementedError

    def release(self) -> None:
        """Free all memory but the model's: there are no more epochs."""

    def state(self) -> State:
        """Return the tensors that a checkpoint keeps; they are written to in place."""
        tensors = {f"weights.{name}": value for name, value in self.model.state_dict().items()}
        tensors["count"] = self.count
        names = {id(weight): name for name, weight in self.model.named_parameters()}
        for group in self.optimizer.groups:
            means = zip(group.weights, group.means, group.squares, group.steps, strict=True)
            for weight, *own in means:
                for what, value in zip(("mean", "square", "step"), own, strict=True):
                    tensors[f"adam.{names[id(weight)]}.{what}"] = value
        return tensors

    def widen(self, states: list[State], epochs: Sequence[int]) -> list[State]:
        """Return states with the weights of unused columns, after so many epochs each."""
        if self._unused is None:
            return states
        steps = [self.steps_per_epoch * epoch for epoch in epochs]
        return self._unused.widen(
            states, steps, self.config.learning_rate, self.config.weight_decay
        )
