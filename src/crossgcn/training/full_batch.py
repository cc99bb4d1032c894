"""Train a model on the whole graph in every step."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.graph import PreparedGraph
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.compiled import can_be_compiled, lay_out_weights
from crossgcn.training.config import Precision, RunConfig
from crossgcn.training.device import (
    can_be_recorded,
    check_precision,
    choose_device,
    enough_memory,
    multiplying_in,
)
from crossgcn.training.loop import Diverged, EpochMetrics, Step, TrainedModel, fit
from crossgcn.training.objective import (
    find_targets,
    order_weight_penalty,
    scale_node_weights,
    training_loss,
)
from crossgcn.training.scoring import NodeScorer, check_scoring

if TYPE_CHECKING:
    from crossgcn.training.compiled.network import CompiledStep


class FullBatchStep(Step):
    """A model whose steps compute all training nodes, and only the rows that these need.

    On the CPU, a model whose layers they support is trained by compiled kernels if Numba is
    installed; on a GPU with Triton, steps can be recorded as a CUDA graph.

    Args:
        model: Its weights are the start; it is not changed.
        nodes: The training nodes.
        seed: Decides the dropped entries.
        node_weights: Weight of each training node in the loss, ``[nodes]``.

    Attributes:
        model: A copy in training.
        targets: The training nodes, and the inputs that their scores need.
    """

    model: NodeClassifier

    def __init__(
        self,
        model: NodeClassifier,
        graph: PreparedGraph,
        y: Tensor,
        nodes: Tensor,
        config: RunConfig,
        *,
        seed: int,
        device: str | torch.device = "cpu",
        node_weights: Tensor | None = None,
    ) -> None:
        device = choose_device(device)
        check_precision(config.precision, device)
        model = deepcopy(model)
        lay_out_weights(model)
        super().__init__(model.to(device), config, seed)
        self.graph, self.y = graph, y
        self.targets = find_targets(model, graph, y, nodes, self.device)
        self._loss = training_loss(model, config.class_weight, y[nodes])
        node_weights = scale_node_weights(node_weights, nodes.numel())
        self._node_weights = None if node_weights is None else node_weights.to(self.device)
        self._compiled: CompiledStep | None = None
        is_weighted = self._loss.class_weights is not None or node_weights is not None
        if self.device.type == "cpu" and can_be_compiled(model) and not is_weighted:
            from crossgcn.training.compiled.network import CompiledStep

            self._compiled = CompiledStep(
                model, self.targets, self.optimizer, config.weight_decay, seed
            )

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
            loss, num_correct = self._compiled(int(self.count))
            self.loss = torch.tensor(loss)
            accuracy = num_correct / self.targets.labels.numel()
            self.accuracy = torch.tensor(accuracy, dtype=torch.float64)
            return
        self.model.train()
        with multiplying_in(self.config.precision, self.device):
            scores = self.model(*self.targets.inputs)
            decay = order_weight_penalty(self.model, self.config.weight_decay)
            self.loss, self.accuracy, grad = self._loss(
                scores.detach(), self.targets.labels, scores.size(0), self._node_weights
            )
            gradients = torch.autograd.grad(
                [scores] if decay is None else [scores, decay],
                self.optimizer.weights,
                [grad] if decay is None else [grad, torch.ones_like(decay)],
                allow_unused=True,
            )
        self.optimizer.step(gradients)

    def release(self) -> None:
        """Free all memory but the model's and the graph's."""
        super().release()
        del self.targets
        self._compiled = None

    def scorer(self, nodes: Tensor) -> NodeScorer:
        """Return a scorer of the model on some nodes."""
        targets = find_targets(self.model, self.graph, self.y, nodes, self.device)
        return NodeScorer(self.model, targets, self.config, self.y)


def train_full_batch(
    model: NodeClassifier,
    graph: PreparedGraph,
    y: Tensor,
    split: Split,
    *,
    seed: int | None = None,
    device: str | torch.device = "cpu",
    epochs: int = 500,
    learning_rate: float = 0.01,
    weight_decay: float = 5e-4,
    precision: Precision = "fp32",
    test_curve: bool = False,
    on_epoch: Callable[[EpochMetrics], None] | None = None,
) -> TrainedModel:
    """Minimise the objective over the whole graph and keep the best validation epoch.

    Each pass computes only the rows that it needs (see
    :func:`~crossgcn.graph.receptive_field`). The selected epoch is the first with the strictly
    best validation accuracy (NOTE[D6]). Test nodes enter no loss, and without ``test_curve`` no
    computation, before the epoch is selected.

    Args:
        model: Trained in place; holds the selected weights afterwards.
        y: Class of each node, ``-1`` where unknown.
        seed: Decides the dropped entries; drawn by torch's generator when left out.
        device: ``cpu``, ``cuda``, or ``auto``.
        epochs: As in :class:`~crossgcn.RunConfig`; likewise ``learning_rate``, ``weight_decay``,
            ``precision`` and ``test_curve``.
        on_epoch: Called with the metrics of each epoch; an exception raised in it stops the
            training.

    Raises:
        Diverged: When a loss, or a selected weight, is not finite.
    """
    config = RunConfig.create(
        epochs=epochs,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        precision=precision,
        test_curve=test_curve,
    )
    seed = int(torch.randint(2**32, (1,))) if seed is None else seed
    result = fit_full_batch(
        model, graph, y, split, config, seed=seed, device=device, on_metrics=on_epoch
    )
    if isinstance(result, Diverged):
        raise result
    model.load_state_dict(result.state)
    return result


def fit_full_batch(
    model: NodeClassifier,
    graph: PreparedGraph,
    y: Tensor,
    split: Split,
    config: RunConfig,
    *,
    seed: int,
    device: str | torch.device = "cpu",
    node_weights: Tensor | None = None,
    on_epochs: Callable[[int], None] | None = None,
    on_metrics: Callable[[EpochMetrics], None] | None = None,
) -> TrainedModel | Diverged:
    """Train a copy of a model by a configuration.

    Args:
        split: As for :func:`~crossgcn.training.loop.fit`, like ``on_epochs`` and ``on_metrics``.
        seed: Decides the dropped entries.
        node_weights: Weight of each training node in the loss.
    """
    check_scoring(config, model.num_outputs, y[split.validation])
    device = choose_device(device)
    sizes = (
        f"{type(model).__name__} with {model.num_layers} layers and "
        f"{sum(weight.numel() for weight in model.parameters()):,} weights on "
        f"{graph.x.size(0):,} nodes, {graph.adjacency.nonzeros:,} directed edges (self-loops "
        f"included) and {graph.x.size(1):,} features"
    )
    with enough_memory(sizes, device):
        step = FullBatchStep(
            model,
            graph,
            y,
            split.train,
            config,
            seed=seed,
            device=device,
            node_weights=node_weights,
        )
        return fit(step, split, on_epochs=on_epochs, on_metrics=on_metrics)
