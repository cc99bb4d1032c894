"""Training steps over the whole graph, for one model or for several at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crossgcn.graph import PreparedGraph
from crossgcn.graph.prepared import choose_device
from crossgcn.kernels import has_triton
from crossgcn.models.node_classifier import NodeClassifier, calibrate
from crossgcn.training.config import RunConfig
from crossgcn.training.device import capture, check_precision, multiplying_in
from crossgcn.training.losses import class_weights, scale_node_weights
from crossgcn.training.metrics import positive_class
from crossgcn.training.model_batch import (
    can_be_compiled,
    can_be_stacked,
    stack_models,
    state_shapes,
    unstack_state,
)
from crossgcn.training.objective import Objective
from crossgcn.training.steps.step import State, Step
from crossgcn.training.steps.targets import NodeScorer, find_targets
from crossgcn.training.steps.unused_columns import find_unused_columns

if TYPE_CHECKING:
    from crossgcn.training.compiled.step import CompiledStep

_OUTPUTS_PER_WORD = 4
"""float32 numbers in the 16 bytes that a GPU's thread reads at once."""


class FullBatchStep(Step):
    """Models of one architecture, trained side by side as one stacked model.

    A step makes as many kernel calls for twenty models as for one. Each model is trained as it
    would be alone. On the CPU, a single model whose layers they support is trained by compiled
    kernels if Numba is installed; on a GPU with Triton, steps can be recorded as a CUDA graph.

    Args:
        models: Their weights are the start; they are not changed.
        nodes: The training nodes of each model.
        device: ``cpu``, ``cuda``, or ``auto``.
        node_weights: Weight of each training node in the loss, ``[nodes]``, for a single model.

    Attributes:
        model: All models in one, without the weights of unused columns.
        graph: The graph without these columns.
    """

    model: NodeClassifier

    def __init__(
        self,
        models: Sequence[NodeClassifier],
        graph: PreparedGraph,
        y: Tensor,
        nodes: Sequence[Tensor],
        config: RunConfig,
        *,
        seeds: Sequence[int],
        device: str | torch.device = "cpu",
        node_weights: Tensor | None = None,
    ) -> None:
        device = choose_device(device)
        check_precision(config.precision, device)
        models = _calibrated(models, graph, nodes)
        unused = find_unused_columns(models[0], graph)
        if unused is not None:
            models, graph = unused.narrow_models(models), unused.narrow_graph(graph)
        self.graph, self.y = graph, y
        if can_be_stacked(models[0]):
            whole_words = _OUTPUTS_PER_WORD if device.type == "cuda" else 1
            model = stack_models(models, round_outputs_to=whole_words)
        else:
            (single,) = models
            model = deepcopy(single)
        super().__init__(model.to(device), config, seeds, unused)
        self.shapes = state_shapes(models[0])
        self._start = [weight.detach().clone() for weight in model.parameters()]
        self.objective = Objective(
            model, graph, y, nodes, config.weight_decay, self.device, self.count
        )
        num_classes = self.objective.targets.num_classes
        of_models = [class_weights(config.class_weight, y[own], num_classes) for own in nodes]
        if of_models[0] is not None:
            weights = torch.stack([each for each in of_models if each is not None])
            self.objective.targets = replace(
                self.objective.targets, class_weights=weights.to(self.device)
            )
        weights_of_nodes = scale_node_weights(node_weights, nodes[0].numel())
        if weights_of_nodes is not None:
            of_draws = weights_of_nodes.repeat(model.draws).unsqueeze(0).to(self.device)
            self.objective.targets = replace(self.objective.targets, node_weights=of_draws)
        self._replay: Callable[[], None] | None = None
        self._compiled: CompiledStep | None = None
        is_weighted = of_models[0] is not None or weights_of_nodes is not None
        if self.device.type == "cpu" and can_be_compiled(model) and not is_weighted:
            from crossgcn.training.compiled.step import CompiledStep

            self._compiled = CompiledStep(self.objective, self.optimizer, seeds[0])

    @property
    def capturable(self) -> bool:  # type: ignore[override]
        """Whether a step can be recorded as a CUDA graph."""
        return (
            self.device.type == "cuda"
            and has_triton()
            and self.config.metric in (None, "accuracy")
            and self.model.target_scale is None
            and all(getattr(module, "capturable", True) for module in self.model.modules())
        )

    def run(self) -> None:
        """Do one step: forward, backward and Adam."""
        self.count += 1
        if self._compiled is not None:
            loss, right = self._compiled(int(self.count))
            self.losses = torch.tensor([loss])
            self.accuracies = torch.tensor([right]) / self.objective.targets.counts.double()
            return
        self.model.train()
        with multiplying_in(self.config.precision, self.device):
            done = self.objective()
            gradients = done.gradients(self.optimizer.weights)
        self.optimizer.step(gradients)
        self.losses, self.accuracies = done.losses, done.accuracies

    def __call__(self) -> Tensor:
        """Do one step, replayed from a CUDA graph if possible, and return the losses."""
        if not self.capturable:
            self.run()
            return self.losses
        if self._replay is None:
            self._replay = capture(self.run, self.restart, self.device)
        self._replay()
        return self.losses

    def restart(self) -> None:
        """Return to the initial weights and the first step, in place."""
        with torch.no_grad():
            for weight, start in zip(self.model.parameters(), self._start, strict=True):
                weight.copy_(start)
        self.optimizer.reset()
        self.count.zero_()

    def release(self) -> None:
        """Free all memory but the model's and the graph's."""
        del self.objective
        self._compiled, self._replay = None, None

    def scorer(self, nodes: Sequence[Tensor]) -> NodeScorer:
        """Return a scorer of the model on other nodes, one set for each model."""
        targets = find_targets(self.model, self.graph, self.y, nodes, self.device)
        positive = positive_class(self.y.numpy(force=True)) if targets.num_classes == 2 else None
        precision, metric = self.config.precision, self.config.metric
        return NodeScorer(self.model, targets, precision, metric, positive)

    @property
    def states(self) -> list[State]:
        """The current state of each model, on the CPU."""
        state = {name: value.detach().cpu() for name, value in self.model.state_dict().items()}
        states = [state]
        if self.model.num_models is not None:
            states = [unstack_state(state, i, self.shapes) for i in range(self.model.num_models)]
        return self.widen(states, [int(self.count)] * len(states))


def _calibrated(
    models: Sequence[NodeClassifier], graph: PreparedGraph, nodes: Sequence[Tensor]
) -> Sequence[NodeClassifier]:
    """Return calibrated copies of models that need it, each by its own training nodes."""
    if models[0].is_calibrated:
        return models
    copies = [deepcopy(model) for model in models]
    for model, own in zip(copies, nodes, strict=True):
        calibrate(model, *graph.view(own, model.propagations))
    return copies
