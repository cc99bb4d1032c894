"""One step of training, for one model or for several at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crossgcn.graph import PreparedGraph
from crossgcn.graph.prepared import choose_device
from crossgcn.kernels import has_triton
from crossgcn.layers import FeatureDropout
from crossgcn.models.node_classifier import NodeClassifier, calibrate
from crossgcn.training.device import capture, check_precision, multiplying_in
from crossgcn.training.model_batch import (
    can_be_compiled,
    can_be_stacked,
    stack_models,
    state_shapes,
    unstack_state,
)
from crossgcn.training.objective import Objective, make_optimizer
from crossgcn.training.steps.unused_columns import find_unused_columns

if TYPE_CHECKING:
    from crossgcn.training.compiled.step import CompiledStep

State = dict[str, Tensor]

_OUTPUTS_PER_WORD = 4  # float32 in the 16 bytes that a GPU's thread reads at once


class TrainingStep:
    """Models of one architecture in training; a call is one step of each of them.

    They become one stacked model, so that a step is as many calls of kernels for twenty
    models as for one. What is dropped in a step depends on a model's seed alone, so each
    model is trained as it would be by itself. On a GPU the step is recorded as a CUDA
    graph, where Triton is there; on the CPU, one model is trained by compiled kernels
    throughout, where Numba is there and the model is made of layers they know.

    Args:
        models: Their weights are the start; they are left as they are.
        graph: Features and adjacency.
        y: Class of each node.
        nodes: The training nodes of each model.
        seeds: One per model; decides what is dropped.
        learning_rate: Adam's.
        weight_decay: λ of the objective.
        device: ``cpu``, ``cuda``, or ``auto``.
        precision: ``fp32``; on a GPU also ``tf32`` and ``bf16``.

    Attributes:
        model: All models in one, without weights of columns that no node has; they are in
            :attr:`states`.
        graph: What the model takes: features without these columns, and adjacency.
        shapes: What each tensor of a single model's state is like.
        losses: Of the last step, ``[models]``.
        accuracies: Of the last step, on the training nodes and with dropout, ``[models]``.
    """

    losses: Tensor
    accuracies: Tensor

    def __init__(
        self,
        models: Sequence[NodeClassifier],
        graph: PreparedGraph,
        y: Tensor,
        nodes: Sequence[Tensor],
        *,
        seeds: Sequence[int],
        learning_rate: float = 0.01,
        weight_decay: float = 5e-4,
        device: str | torch.device = "cpu",
        precision: str = "fp32",
    ) -> None:
        self.device = choose_device(device)
        check_precision(precision, self.device)
        self.precision = precision
        models = _calibrated(models, graph, nodes)
        self._unused = find_unused_columns(models[0], graph)
        if self._unused is not None:
            models = self._unused.narrow_models(models)
            graph = self._unused.narrow_graph(graph)
        self.graph = graph
        stacked = can_be_stacked(models[0])
        assert stacked or len(models) == 1
        self.shapes = state_shapes(models[0])
        whole_words = _OUTPUTS_PER_WORD if self.device.type == "cuda" else 1
        model = (
            stack_models(models, round_outputs_to=whole_words) if stacked else deepcopy(models[0])
        )
        self.model = model.to(self.device)
        self._start = [weight.detach().clone() for weight in self.model.parameters()]
        self._count = torch.zeros((), dtype=torch.long, device=self.device)
        of_models = torch.tensor(list(seeds), device=self.device)
        for module in self.model.modules():
            if isinstance(module, FeatureDropout):
                module.follow(of_models, self._count)
        self._weight_decay = weight_decay
        self.objective = Objective(
            self.model, graph, y, nodes, weight_decay, self.device, self._count
        )
        self.optimizer = make_optimizer(self.model, learning_rate, weight_decay)
        self._replay: Callable[[], None] | None = None
        self._compiled: CompiledStep | None = None
        if self.device.type == "cpu" and can_be_compiled(self.model):
            from crossgcn.training.compiled.step import CompiledStep

            self._compiled = CompiledStep(self.objective, self.optimizer, seeds[0])

    def __call__(self) -> Tensor:
        """Forward, backward and Adam; returns the losses, ``[models]``, on the device."""
        if not self.captures:
            self.run()
            return self.losses
        if self._replay is None:
            self._replay = capture(self.run, self.restart, self.device)
        self._replay()
        return self.losses

    @property
    def captures(self) -> bool:
        """Whether steps can be recorded as a CUDA graph."""
        return (
            self.device.type == "cuda"
            and has_triton()
            and all(getattr(module, "capturable", True) for module in self.model.modules())
        )

    def run(self) -> None:
        """The step itself, launch by launch."""
        self._count += 1
        if self._compiled is not None:
            loss, right = self._compiled(int(self._count))
            self.losses = torch.tensor([loss])
            self.accuracies = torch.tensor([right]) / self.objective.targets.counts.double()
            return
        self.model.train()
        with multiplying_in(self.precision, self.device):
            step = self.objective()
            gradients = step.gradients(self.optimizer.weights)
        self.optimizer.step(gradients)
        self.losses = step.losses
        self.accuracies = step.accuracies

    def finish(self) -> None:
        """Let go of everything but the model: on a big graph, room for what comes next."""
        del self.objective
        self._compiled, self._replay = None, None

    def restart(self) -> None:
        """Back to the first weights and the first step, in place."""
        with torch.no_grad():
            for weight, start in zip(self.model.parameters(), self._start, strict=True):
                weight.copy_(start)
        self.optimizer.reset()
        self._count.zero_()

    @property
    def states(self) -> list[State]:
        """The state of each model as it is now, on the CPU."""
        state = {name: value.detach().cpu() for name, value in self.model.state_dict().items()}
        states = [state]
        if self.model.num_models is not None:
            states = [
                unstack_state(state, position, self.shapes)
                for position in range(self.model.num_models)
            ]
        return self.widen(states, [int(self._count)] * len(states))

    def widen(self, states: list[State], steps: Sequence[int]) -> list[State]:
        """States of the models as they were given, from those of :attr:`model`.

        Args:
            states: One per model, on the CPU.
            steps: How many steps led to each.
        """
        if self._unused is None:
            return states
        rates = self.optimizer.learning_rate, self._weight_decay
        return self._unused.widen(states, steps, *rates)


def _calibrated(
    models: Sequence[NodeClassifier], graph: PreparedGraph, nodes: Sequence[Tensor]
) -> Sequence[NodeClassifier]:
    """Models whose scales are not set yet, set by what they will see; the given ones are left."""
    if models[0].is_calibrated:
        return models
    copies = [deepcopy(model) for model in models]
    for model, own in zip(copies, nodes, strict=True):
        calibrate(model, *graph.view(own, model.propagations))
    return copies
