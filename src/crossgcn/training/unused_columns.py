"""Feature columns without entries, left out while a model trains.

Most graphs use a part of a vocabulary of a million words. The gradient of the weights of a
column without entries is their own decay alone, so their final values follow from the initial
ones and the number of steps. They are computed once, after training, and are exactly those
that training with all columns would have given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from crossgcn.training.model_batch import State, can_be_stacked

_ROWS = 1 << 16
_WORTHWHILE = 1 << 16
"""Weights that must be saved to make it worthwhile."""


def find_unused_columns(
    model: NodeClassifier, graph: PreparedGraph | GraphSource
) -> UnusedColumns | None:
    """Return the columns to leave out, or ``None`` where that saves little or changes results."""
    pieces: Iterable[Features]
    if isinstance(graph, PreparedGraph):
        first, width, pieces = graph.x, graph.x.size(1), [graph.x]
    else:
        first, width = graph.features(torch.arange(1)), graph.num_features
        pieces = map(graph.features, torch.split(torch.arange(graph.num_nodes), _ROWS))
    if not isinstance(first, SparseMatrix) or not can_be_stacked(model):
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
    is_used = torch.zeros(width, dtype=torch.bool)
    for x in pieces:
        assert isinstance(x, SparseMatrix)
        is_used[x.columns] = True
    if (width - int(is_used.sum())) * module.num_projections < _WORTHWHILE:
        return None
    return UnusedColumns(name, is_used)


class UnusedColumns:
    """Removes columns from graphs and models, and puts their weights back into states.

    Args:
        name: The weight that is multiplied with the features, which are its last dimension.
        is_used: Whether a column has entries, ``[columns]``.
    """

    def __init__(self, name: str, is_used: Tensor) -> None:
        self.name, self.is_used = name, is_used
        self.starts: list[Tensor] = []

    def narrow_graph(self, graph: PreparedGraph) -> PreparedGraph:
        """Return the graph without the columns; entries keep their order."""
        assert isinstance(graph.x, SparseMatrix)
        narrow = copy(graph)
        narrow.x = select_columns(graph.x, self.is_used)
        return narrow

    def narrow_source(self, source: GraphSource) -> GraphSource:
        """Return the source without the columns."""
        return NarrowSource(source, self.is_used)

    def narrow_models(self, models: Sequence[NodeClassifier]) -> list[NodeClassifier]:
        """Return copies without the columns' weights, and remember their initial values."""
        weights = [model.get_parameter(self.name).detach() for model in models]
        self.starts = [weight[..., ~self.is_used] for weight in weights]
        return [self._narrow(model, weight) for model, weight in zip(models, weights, strict=True)]

    def _narrow(self, model: NodeClassifier, weight: Tensor) -> NodeClassifier:
        kept = nn.Parameter(weight[..., self.is_used])
        # deepcopy takes it for a copy already made, and does not copy the wide weight.
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
        """Return states of the given models, from those of the narrow ones after so many steps."""
        wide = []
        for state, start, count in zip(states, self.starts, steps, strict=True):
            narrow = state[self.name]
            whole = narrow.new_empty(*narrow.shape[:-1], self.is_used.numel())
            whole[..., self.is_used] = narrow
            whole[..., ~self.is_used] = follow_decay(start, count, learning_rate, weight_decay)
            wide.append(state | {self.name: whole})
        return wide


def follow_decay(start: Tensor, steps: int, learning_rate: float, weight_decay: float) -> Tensor:
    """Return weights after steps of Adam whose gradient is the decay alone."""
    weight = start.clone(memory_format=torch.contiguous_format)
    if weight_decay == 0.0 or steps == 0 or weight.numel() == 0:
        return weight
    if has_numba() and weight.dtype == torch.float32:
        from crossgcn.kernels.cpu import loops as cpu_loops

        count = np.arange(1, steps + 1)
        step_sizes = (learning_rate / (1.0 - 0.9**count)).astype(np.float32)
        corrections = ((1.0 - 0.999**count) ** -0.5).astype(np.float32)
        flat, decay = weight.view(-1).numpy(), np.float32(weight_decay)
        work = flat.size * steps
        cpu_loops.call(cpu_loops.decay_alone, work, flat, step_sizes, corrections, decay)
        return weight
    optimizer = Adam([weight], [], learning_rate=learning_rate, weight_decay=weight_decay)
    nothing = torch.zeros_like(weight)
    for _ in range(steps):
        optimizer.step([nothing])
    return weight
