"""Train a model on the whole graph in every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from crossgcn.data.splits import Split
from crossgcn.graph import PreparedGraph
from crossgcn.graph.sparse_matrix import ModelInputs
from crossgcn.layers import CrossFeatureTransform, CrossGCNConv, FeatureDropout
from crossgcn.models.cross_gcn import GCN, MLP, CrossGCN
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import RunConfig
from crossgcn.training.device import (
    can_be_recorded,
    choose_device,
    enough_memory,
    runs_plain_code,
)
from crossgcn.training.loop import EpochMetrics, Scorer, Step, TrainedModel, fit
from crossgcn.training.objective import compute_loss, training_weights

if TYPE_CHECKING:
    from crossgcn.training.compiled_network import CompiledNetwork


def train_full_batch(
    model: NodeClassifier,
    graph: PreparedGraph,
    y: Tensor,
    split: Split,
    config: RunConfig | None = None,
    *,
    seed: int | None = None,
    device: str | torch.device = "cpu",
    node_weights: Tensor | None = None,
    on_epochs: Callable[[int], None] | None = None,
    on_metrics: Callable[[EpochMetrics], None] | None = None,
) -> TrainedModel:
    """Minimise the objective over the whole graph and keep the best validation epoch.

    Each pass computes only the rows that it needs (see :func:`~crossgcn.graph.receptive_field`).
    The selected epoch is the first with the strictly best validation score (NOTE[D6]). Test nodes
    enter no computation before the epoch is selected.

    Args:
        model: A copy is trained; the model receives the selected weights.
        y: Class of each node, ``-1`` where unknown; or number of each node, NaN where unknown.
        split: Without validation nodes, the last epoch is selected; without test nodes, none are
            scored.
        config: Settings of the training, such as ``epochs``, ``learning_rate`` and ``metric``; by
            default the paper's.
        seed: Seed of dropout; by default drawn from torch's generator.
        device: ``cpu``, ``cuda``, or ``auto``.
        node_weights: Weight of each training node in the loss.
        on_epochs: Called with the number of epochs done since the last call; an exception raised
            in it stops the training.
        on_metrics: Called with the metrics of each epoch.

    Raises:
        Diverged: When a loss, or a selected weight, is not finite.
    """
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
            config or RunConfig(),
            seed=int(torch.randint(2**32, (1,))) if seed is None else seed,
            device=device,
            node_weights=node_weights,
        )
        result = fit(step, split, on_epochs=on_epochs, on_metrics=on_metrics)
    model.load_state_dict(result.state)
    return result


class FullBatchStep(Step):
    """A step on all training nodes, which computes only the rows that they need.

    On the CPU, compiled kernels train the models that they support if Numba is installed. On a GPU
    with Triton, steps can be recorded as a CUDA graph. ``nodes`` are the training nodes; for the
    other arguments see :func:`train_full_batch`.

    Attributes:
        model: The copy that is trained.
        inputs: The arguments with which the model scores the training nodes.
        labels: The labels of the training nodes.
    """

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
        model = deepcopy(model)
        lay_out_weights(model)
        super().__init__(model.to(choose_device(device)), config, seed)
        self.capturable = (
            can_be_recorded(model, self.device)
            and config.metric in (None, "accuracy")
            and model.target_scale is None
        )
        self.graph, self.y = graph, y
        self.inputs, self.labels = self.read(nodes)
        weights = training_weights(config.class_weight, node_weights, y[nodes], model.num_outputs)
        self._weights = None if weights is None else weights.to(device)
        self._network = self.compile(self.inputs, self.labels) if weights is None else None
        if self._network is not None:
            from crossgcn.training.compiled_network import CompiledAdam

            self._adam = CompiledAdam(self.optimizer)

    def compile(self, inputs: ModelInputs, labels: Tensor) -> CompiledNetwork | None:
        """Return compiled passes of the model; ``None`` if the kernels do not support it."""
        if not can_be_compiled(self.model, self.device):
            return None
        from crossgcn.training.compiled_network import CompiledNetwork

        return CompiledNetwork(self.model, inputs, labels)

    def read(self, nodes: Tensor) -> tuple[ModelInputs, Tensor]:
        """Return the arguments with which the model scores some nodes, and the nodes' labels."""
        x, blocks = self.graph.view(nodes, self.model.propagations)
        inputs = x.to(self.device), tuple(block.to(self.device) for block in blocks)
        return inputs, self.y[nodes].to(self.device)

    def scorer(self, nodes: Tensor) -> NodeScorer:
        """Return a scorer of the model on some nodes."""
        return NodeScorer(self, nodes)

    def run(self) -> None:
        """Do one step: forward, backward and Adam."""
        self.count += 1
        if self._network is None:
            self.descend(self.inputs, self._compute_loss)
            return
        key = self.seed, int(self.count)
        with np.errstate(all="ignore"):
            self.loss, self.accuracy, _ = self._network.score(key)
            self._network.backward(key)
            self._adam.step(key[1], self._network.gradients())

    def _compute_loss(self, scores: Tensor) -> Tensor:
        count, scale = self.labels.numel(), self.model.target_scale
        loss, num_correct, grad = compute_loss(
            scores, self.labels, count, weights=self._weights, target_scale=scale
        )
        self.loss, self.accuracy = loss / count, num_correct / count
        return grad

    def release(self) -> None:
        """Free all memory but the model's and the graph's."""
        super().release()
        del self.inputs
        self._network = None


class NodeScorer(Scorer):
    """Scores nodes with the model of a step, computing only the rows that the nodes need."""

    def __init__(self, step: FullBatchStep, nodes: Tensor) -> None:
        self._inputs, labels = step.read(nodes)
        super().__init__(step.model, step.config, step.y, labels)
        self._network = step.compile(self._inputs, labels)

    def read(self) -> Iterator[tuple[ModelInputs, Tensor]]:
        """Yield all nodes as one batch."""
        yield self._inputs, self.labels

    def score(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss, the accuracy, and the scores of the nodes."""
        return super().score() if self._network is None else self._network.score()


def can_be_compiled(model: NodeClassifier, device: torch.device) -> bool:
    """Whether the CPU's compiled kernels can train a model.

    It must be a classifier of this package whose cross-feature layers sum their orders.
    """
    return (
        runs_plain_code(model, (NodeClassifier, CrossGCN, GCN, MLP), device)
        and model.target_scale is None
        and type(model.dropout) is FeatureDropout
        and all(_is_plain(layer) for layer in model.layers)
    )


def _is_plain(layer: Any) -> bool:
    """Whether a layer sums its orders, and aggregates neighbours as GCN does."""
    if type(layer) is CrossGCNConv:
        if not layer.sums_neighbours:
            return False
        layer = layer.transform
    return type(layer) is CrossFeatureTransform and layer.aggregator is None


def lay_out_weights(model: nn.Module) -> None:
    """Store all projections of one input feature side by side in memory.

    Products with sparse features read the weights in this order, without a transposed copy.
    """
    for module in model.modules():
        if isinstance(module, CrossFeatureTransform):
            memory = module.weight.detach().movedim(-1, 0).contiguous()
            module.weight = nn.Parameter(memory.movedim(0, -1), module.weight.requires_grad)
