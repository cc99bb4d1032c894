"""Columns that no node has, left out while a model trains.

In a vocabulary of a million words most graphs use a part. The weights of a column without
entries get no gradient but their own decay, so what becomes of them can be worked out
afterwards, from where they started and the number of steps: exactly what training them
along with the others would have given, without a thought for them in any step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy, deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from crossgcn.graph import PreparedGraph, SparseMatrix
from crossgcn.graph.sampling.source import Features, GraphSource, NarrowSource, select_columns
from crossgcn.kernels import has_numba
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.adam import Adam
from crossgcn.training.model_batch import can_be_stacked

State = dict[str, Tensor]

_ROWS = 1 << 16
_WORTHWHILE = 1 << 16
"""Weights to be spared from which the others are put together."""


def find_unused_columns(model: NodeClassifier, graph: PreparedGraph) -> UnusedColumns | None:
    """Columns that can be left out; none where that spares little, or would change anything.

    Args:
        model: One of those to be trained.
        graph: What it is trained and judged on.
    """
    x = graph.x
    if not isinstance(x, SparseMatrix):
        return None
    return _worthwhile(model, x.shape[1], lambda: _mark(x.shape[1], [x]))


def find_unused_columns_of(model: NodeClassifier, source: GraphSource) -> UnusedColumns | None:
    """The same for a graph that is seen a few rows at a time; its features are gone through once.

    Args:
        model: To be trained.
        source: What it is trained and judged on.
    """
    if not isinstance(source.features(torch.arange(1)), SparseMatrix) or not model.is_calibrated:
        return None
    pieces = torch.split(torch.arange(source.num_nodes), _ROWS)
    return _worthwhile(
        model, source.num_features, lambda: _mark(source.num_features, map(source.features, pieces))
    )


def _mark(width: int, pieces: Iterable[Features]) -> Tensor:
    is_used = torch.zeros(width, dtype=torch.bool)
    for x in pieces:
        assert isinstance(x, SparseMatrix)
        is_used[x.columns] = True
    return is_used


def _worthwhile(
    model: NodeClassifier, width: int, find_used: Callable[[], Tensor]
) -> UnusedColumns | None:
    if not can_be_stacked(model):
        return None
    readers = [
        (f"{name}.weight", module)
        for name, module in model.named_modules()
        if isinstance(module, CrossFeatureTransform) and module.in_channels == width
    ]
    if len(readers) != 1 or not readers[0][1].weight.requires_grad:
        return None
    name, module = readers[0]
    if any(width in p.shape for own, p in model.named_parameters() if own != name):
        return None
    if width * module.num_projections < _WORTHWHILE:
        return None
    is_used = find_used()
    if (width - int(is_used.sum())) * module.num_projections < _WORTHWHILE:
        return None
    return UnusedColumns(name, is_used)


class UnusedColumns:
    """Makes graph and models narrower, and states wide again.

    Args:
        name: Of the one weight that meets the features, its last dimension theirs.
        is_used: Whether any node has an entry in a column, ``[columns]``.
    """

    def __init__(self, name: str, is_used: Tensor) -> None:
        self.name, self.is_used = name, is_used
        self.starts: list[Tensor] = []

    def narrow_graph(self, graph: PreparedGraph) -> PreparedGraph:
        """The same graph, its features without the columns; entries keep their order."""
        assert isinstance(graph.x, SparseMatrix)
        narrow = copy(graph)
        narrow.x = select_columns(graph.x, self.is_used)
        return narrow

    def narrow_source(self, source: GraphSource) -> GraphSource:
        """The same for a graph that is seen a few rows at a time."""
        return NarrowSource(source, self.is_used)

    def narrow_models(self, models: Sequence[NodeClassifier]) -> list[NodeClassifier]:
        """Copies without the columns' weights, whose start is remembered."""
        weights = [model.get_parameter(self.name).detach() for model in models]
        self.starts = [weight[..., ~self.is_used] for weight in weights]
        return [self._narrow(model, weight) for model, weight in zip(models, weights, strict=True)]

    def _narrow(self, model: NodeClassifier, weight: Tensor) -> NodeClassifier:
        kept = nn.Parameter(weight[..., self.is_used])
        # Copied by hand, so that the wide weight is not copied at all.
        narrow = deepcopy(model, {id(model.get_parameter(self.name)): kept})
        module = narrow.get_submodule(self.name.removesuffix(".weight"))
        assert isinstance(module, CrossFeatureTransform)
        module.in_channels = kept.size(-1)
        return narrow

    def widen(
        self,
        states: Sequence[State],
        steps: Sequence[int],
        learning_rate: float,
        weight_decay: float,
    ) -> list[State]:
        """States of the models as they were given, all columns' weights in their places.

        Args:
            states: Of the narrow models, in their order.
            steps: How many steps each was trained.
            learning_rate: Adam's.
            weight_decay: λ.
        """
        wide = []
        for state, start, count in zip(states, self.starts, steps, strict=True):
            narrow = state[self.name]
            whole = narrow.new_empty(*narrow.shape[:-1], self.is_used.numel())
            whole[..., self.is_used] = narrow
            whole[..., ~self.is_used] = follow_decay(start, count, learning_rate, weight_decay)
            wide.append(state | {self.name: whole})
        return wide


def follow_decay(start: Tensor, steps: int, learning_rate: float, weight_decay: float) -> Tensor:
    """What steps of Adam make of weights that no loss depends on.

    Args:
        start: The weights at the start, on the CPU.
        steps: How many.
        learning_rate: Adam's.
        weight_decay: λ.
    """
    weight = start.clone(memory_format=torch.contiguous_format)
    if weight_decay == 0.0 or steps == 0 or weight.numel() == 0:
        return weight
    if has_numba() and weight.dtype == torch.float32:
        from crossgcn.kernels.cpu import loops as cpu_loops
        from crossgcn.kernels.cpu import loops as cpu_wide

        count = np.arange(1, steps + 1)
        step_sizes = (learning_rate / (1.0 - 0.9**count)).astype(np.float32)
        corrections = ((1.0 - 0.999**count) ** -0.5).astype(np.float32)
        flat, decay = weight.view(-1).numpy(), np.float32(weight_decay)
        work = flat.size * steps
        cpu_loops.call(cpu_wide.decay_alone, work, flat, step_sizes, corrections, decay)
        return weight
    optimizer = Adam([weight], [], learning_rate=learning_rate, weight_decay=weight_decay)
    nothing = torch.zeros_like(weight)
    for _ in range(steps):
        optimizer.step([nothing])
    return weight
