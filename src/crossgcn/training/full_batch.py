"""Train on the whole graph: one model, or several of one architecture side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.graph import PreparedGraph
from crossgcn.graph.prepared import choose_device
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig, training_config
from crossgcn.training.device import can_be_recorded, capture, check_precision, multiplying_in
from crossgcn.training.loop import Step
from crossgcn.training.model_batch import (
    State,
    can_be_compiled,
    can_be_stacked,
    stack_models,
    state_shapes,
    unstack_state,
)
from crossgcn.training.objective import Objective, class_weights, find_targets, scale_node_weights
from crossgcn.training.scoring import NodeScorer, check_scoring, fit_and_test
from crossgcn.training.selection import Diverged, EpochMetrics, TrainedModel
from crossgcn.training.unused_columns import find_unused_columns

if TYPE_CHECKING:
    from crossgcn.training.compiled.network import CompiledStep

_OUTPUTS_PER_WORD = 4
"""float32 numbers in the 16 bytes that a GPU's thread reads at once."""


class FullBatchStep(Step):
    """Models of one architecture, trained side by side as one stacked model.

    A step makes as many kernel calls for twenty models as for one. Each model is trained as it
    would be alone. On the CPU, a single model whose layers they support is trained by compiled
    kernels if Numba is installed; on a GPU with Triton, steps can be recorded as a CUDA graph.

    Args:
        models: Their weights are the start; they are not changed.
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
        self.objective = Objective(model, graph, y, nodes, config.weight_decay, self.device)
        targets = self.objective.targets
        of_models = [
            class_weights(config.class_weight, y[own], targets.num_classes) for own in nodes
        ]
        known = [weights.to(self.device) for weights in of_models if weights is not None]
        if known:
            loss = replace(targets.loss, class_weights=torch.stack(known))
            self.objective.targets = targets = replace(targets, loss=loss)
        of_nodes = scale_node_weights(node_weights, nodes[0].numel())
        if of_nodes is not None:
            weights = of_nodes.unsqueeze(0).to(self.device)
            self.objective.targets = replace(targets, node_weights=weights)
        self._replay: Callable[[], None] | None = None
        self._compiled: CompiledStep | None = None
        is_weighted = known or of_nodes is not None
        if self.device.type == "cpu" and can_be_compiled(model) and not is_weighted:
            from crossgcn.training.compiled.network import CompiledStep

            self._compiled = CompiledStep(self.objective, self.optimizer, seeds[0])

    @property
    def capturable(self) -> bool:  # type: ignore[override]
        """Whether a step can be recorded as a CUDA graph."""
        return (
            can_be_recorded(self.model, self.device)
            and self.config.metric in (None, "accuracy")
            and self.model.target_scale is None
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
        return NodeScorer(self.model, targets, self.config, self.y)

    @property
    def states(self) -> list[State]:
        """The current state of each model, on the CPU."""
        state = {name: value.detach().cpu() for name, value in self.model.state_dict().items()}
        states = [state]
        if self.model.num_models is not None:
            states = [unstack_state(state, i, self.shapes) for i in range(self.model.num_models)]
        return self.widen(states, [int(self.count)] * len(states))


def train_full_batch(
    model: NodeClassifier,
    graph: PreparedGraph,
    y: Tensor,
    split: Split,
    *,
    seed: int | None = None,
    device: str | torch.device = "cpu",
    on_epoch: Callable[[EpochMetrics], None] | None = None,
    **settings: Any,
) -> TrainedModel:
    """Minimise the objective over the whole graph and keep the best validation epoch.

    Each pass computes only the rows that it needs (see
    :func:`~crossgcn.graph.receptive_field`). The selected epoch is the first with the strictly
    best validation accuracy (NOTE[D6]). Test nodes enter no loss, and without ``test_curve`` no
    computation, before the epoch is selected. (A model with a loss over all nodes predicts them
    too; no test label is read.)

    Args:
        model: Trained in place; holds the selected weights afterwards.
        y: Class of each node, ``-1`` where unknown.
        seed: Decides the dropped entries; drawn by torch's generator when left out.
        device: ``cpu``, ``cuda``, or ``auto``.
        on_epoch: Called with the metrics of each epoch; an exception raised in it stops the
            training.
        **settings: ``epochs``, ``learning_rate``, ``weight_decay``, ``test_curve`` and
            ``precision``, see :class:`~crossgcn.RunConfig`.

    Raises:
        Diverged: When a loss, or a selected weight, is not finite.
    """
    config = training_config(**settings)
    seed = int(torch.randint(2**32, (1,))) if seed is None else seed
    (result,) = train_model_batch(
        [model], graph, y, [split], config, [seed], device=device, on_metrics=on_epoch
    )
    if isinstance(result, Diverged):
        raise result
    model.load_state_dict(result.state)
    return result


def train_model_batch(
    models: Sequence[NodeClassifier],
    graph: PreparedGraph,
    y: Tensor,
    splits: Sequence[Split],
    config: RunConfig,
    seeds: Sequence[int],
    *,
    device: str | torch.device = "cpu",
    **more: Any,
) -> list[TrainedModel | Diverged]:
    """Train several models of one architecture, each on its own split, in the same steps.

    Each model is trained as :func:`train_full_batch` would train it alone with the same seed.
    Models that diverge do not stop the others.

    Args:
        models: Their weights are the start; they are not changed.
        seeds: One per model; decides the dropped entries.
        **more: As for :func:`~crossgcn.training.scoring.fit_and_test`.
    """
    train, validation, test = (
        [getattr(split, role) for split in splits] for role in ("train", "validation", "test")
    )
    check_scoring(config, models[0].num_outputs, *(y[nodes] for nodes in validation))
    step = FullBatchStep(models, graph, y, train, config, seeds=seeds, device=device)
    return fit_and_test(step, step.scorer, validation, test, **more)
