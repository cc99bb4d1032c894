"""Forward and backward pass of one model by the CPU's compiled kernels, without autograd.

On graphs of a few thousand nodes PyTorch spends more time between its operations than in them.
Here all arrays are allocated once. Tests compare the passes with those of PyTorch.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossgcn.graph import SparseMatrix
from crossgcn.kernels.cpu import loops as cpu_loops
from crossgcn.kernels.cpu.loops import ROWS_PER_CHUNK, call
from crossgcn.kernels.draws import threshold
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.compiled.blocked_features import BlockedFeatures
from crossgcn.training.steps.targets import Targets

Array = Any
_NOTHING = np.empty(0, dtype=np.float32)
_BAG_FROM = 1 << 17
"""Multiplications from which PyTorch's embedding bag is the faster sparse product."""

_WIDE_FROM = 1 << 20
"""Weights of the first layer from which their gradient is computed in blocks."""


class CompiledNetwork:
    """One model on one set of target nodes, on the memory of the model's weights.

    Args:
        model: A stacked model of one, on the CPU.
    """

    def __init__(self, model: NodeClassifier, targets: Targets) -> None:
        x, blocks = targets.inputs
        self.labels = targets.labels[0].numpy()
        self.dropout = model.dropout.p
        self.source = _sparse_input(x, model) if isinstance(x, SparseMatrix) else None
        self.x = None if self.source is not None else x[0].numpy()  # type: ignore[index]
        rows = x.shape[0] if self.source is not None else x.shape[1]
        self.layers: list[_Layer] = []
        for position, layer in enumerate(model.layers):
            block = blocks[position] if blocks else None
            wide = position == 0 and self.is_wide
            self.layers.append(_Layer(layer, rows, block, first=position == 0, wide=wide))
            rows = self.layers[-1].out.shape[0]
        self.grad_scores = np.empty_like(self.layers[-1].out)
        self.entering: list[Array] = [None] * len(self.layers)
        self._dropped = [_like(self.x), *(np.empty_like(layer.out) for layer in self.layers[:-1])]

    @property
    def is_wide(self) -> bool:
        """Whether the first weight's gradient is computed in blocks, by the caller."""
        return isinstance(self.source, BlockedFeatures)

    def forward(self, key: tuple[int, int] | None = None) -> Array:
        """Return the scores of the target nodes; with dropout if a key, seed and step, is given."""
        hidden = self.x
        for position, layer in enumerate(self.layers):
            if position == 0 and self.source is not None:
                self.source.drop(key, self.dropout)
                layer.project_sparse(self.source)
            else:
                hidden = self._drop(position, hidden, hidden, key, self._dropped[position])
                self.entering[position] = hidden
                layer.project_dense(hidden)
            hidden = layer.aggregate()
        return hidden

    def loss(self) -> tuple[float, int]:
        """Return the mean cross-entropy of the last scores and the number of correct ones."""
        loss, right = cpu_loops.cross_entropy(self.layers[-1].out, self.labels, self.grad_scores)
        return float(loss), int(right)

    def backward(self, key: tuple[int, int]) -> None:
        """Compute the gradients of the last loss in each layer, except in a wide first weight."""
        gradient = self.grad_scores
        for position in reversed(range(len(self.layers))):
            layer = self.layers[position]
            layer.backward(gradient)
            if position == 0 and isinstance(self.source, _SparseInput):
                layer.differentiate_sparse(self.source)
            elif position > 0 or self.source is None:
                layer.differentiate_dense(self.entering[position])
            if position > 0:
                layer.differentiate_input()
                before = self.layers[position - 1].out
                gradient = self._drop(position, layer.grad_input, before, key, layer.grad_input)

    def _drop(
        self, site: int, taken: Array, x: Array, key: tuple[int, int] | None, out: Array
    ) -> Array:
        """Apply ReLU and dropout, or their gradient: both mask and scale ``taken``."""
        if key is None and site == 0:
            return taken
        p = self.dropout if key is not None else 0.0
        if p == 0.0 and site == 0:
            return taken
        _drop(taken.reshape(-1), x.reshape(-1), out.reshape(-1), key or (0, 0), site, p, site > 0)
        return out


class _SparseInput:
    """Sparse features after dropout, and their transpose."""

    def __init__(self, matrix: SparseMatrix) -> None:
        transpose, order = matrix._transposed()
        self.values = matrix.values.numpy()
        self.order = order.numpy().view(np.uint64)
        self.patterns = [
            (pattern.row_offsets.numpy(), pattern.columns.numpy(), indices)
            for pattern, indices in (
                (matrix.pattern, self.order[:0]),
                (transpose, self.order),
            )
        ]
        self.dropped = np.empty_like(self.values)
        self.kept = [
            tuple(np.empty_like(array) for array in (offsets, columns, self.values))
            for offsets, columns, _ in self.patterns
        ]
        self.everything = (*self.patterns[0][:2], self.values)
        self.current: tuple[Array, ...] = self.everything

    def drop(self, key: tuple[int, int] | None, p: float) -> None:
        if key is None:
            self.current = self.everything
            return
        _drop(self.values, self.values, self.dropped, key, 0, p, False)
        for (offsets, columns, order), kept in zip(self.patterns, self.kept, strict=True):
            cpu_loops.compact(offsets, columns, self.dropped, order, *kept)
        self.current = self.kept[0]


class _Layer:
    """One layer: views of its weights, and arrays for its results."""

    def __init__(
        self,
        layer: Any,
        rows: int,
        block: SparseMatrix | None,
        *,
        first: bool,
        wide: bool,
    ) -> None:
        transform = _transform_of(layer)
        self.transform = transform
        self.order, self.channels = transform.order, transform.out_channels
        self.crosses = not (self.order == 1 and isinstance(transform.order_aggregation, str))
        self.release = transform.first_order == "release"
        self.aggregate_first = block is not None and layer.aggregate_first
        self.weight = _matrix_of(transform.weight)
        self.bias = _NOTHING if layer.bias is None else layer.bias.detach()[0].numpy()
        self.trained_order_weights = isinstance(transform.order_weights, torch.nn.Parameter)
        self.order_weights = np.ones((1, self.order), dtype=np.float32)

        width = self.order * self.channels
        self.projections = np.empty((1, rows, width), dtype=np.float32)
        self.grad_projections = np.empty_like(self.projections)
        self.block = None
        out_rows = rows
        if block is not None:
            out_rows = block.shape[0]
            self.block = _csr(block.pattern, block.values)
        self._matrix = block
        crossed_rows = out_rows if self.aggregate_first else rows
        self.averaged = np.empty((1, crossed_rows, width), dtype=np.float32)
        self.grad_averaged = np.empty_like(self.averaged)
        self.crossed = np.empty((1, crossed_rows, self.channels), dtype=np.float32)
        self.grad_crossed = np.empty_like(self.crossed)
        self.out = np.empty((out_rows, self.channels), dtype=np.float32)

        chunks = -(-crossed_rows // ROWS_PER_CHUNK)
        self.sums = np.empty((1, chunks, self.order, self.channels), dtype=np.float32)
        if not self.trained_order_weights:
            self.sums = self.sums[:, :, :0]
        self.grad_weight = _NOTHING if wide else np.empty_like(self.weight)
        self.grad_bias = np.empty_like(self.bias)
        self.grad_order_weights = np.zeros(self.order, dtype=np.float32)
        self.grad_input = _NOTHING if first else np.empty((rows, self.weight.shape[0]), np.float32)

    @cached_property
    def transposed_block(self) -> Any:
        """The transposed adjacency, for gradients; made on first use."""
        assert self._matrix is not None
        transpose, order = self._matrix._transposed()
        return _csr(transpose, self._matrix.values[order])

    def project_sparse(self, source: _SparseInput | BlockedFeatures) -> None:
        self.projections = _row_sums(source.current, self.weight, _NOTHING, self.projections[0])[
            None
        ]

    def project_dense(self, x: Array) -> None:
        _product(x, self.weight, self.projections[0])

    def aggregate(self) -> Array:
        """Cross projections and sum over neighbours, in the layer's order; return the output."""
        if self.block is None:
            self._cross(self.projections, self.out[None])
            if self.bias.size:
                cpu_loops.add_bias(self.bias, self.out)
        elif self.aggregate_first:
            averaged = _row_sums(self.block, self.projections[0], _NOTHING, self.averaged[0])
            self.averaged = averaged[None]
            self._cross(self.averaged, self.out[None])
            if self.bias.size:
                cpu_loops.add_bias(self.bias, self.out)
        else:
            crossed = self.projections
            if self.crosses:
                self._cross(self.projections, self.crossed)
                crossed = self.crossed
            self.out = _row_sums(self.block, crossed[0], self.bias, self.out)
        return self.out

    def backward(self, gradient: Array) -> None:
        """Compute the gradients of the projections from that of the output."""
        if self.bias.size:
            cpu_loops.column_sums(gradient, self.grad_bias)
        if self.block is None:
            self._cross_backward(gradient[None], self.projections, self.grad_projections)
        elif self.aggregate_first:
            self._cross_backward(gradient[None], self.averaged, self.grad_averaged)
            self._propagate_back(self.grad_averaged[0])
        elif self.crosses:
            crossed = _row_sums(self.transposed_block, gradient, _NOTHING, self.grad_crossed[0])
            self._cross_backward(crossed[None], self.projections, self.grad_projections)
        else:
            self._propagate_back(gradient)

    def _propagate_back(self, gradient: Array) -> None:
        """Propagate gradients to the sources of each edge."""
        out = self.grad_projections[0]
        self.grad_projections = _row_sums(self.transposed_block, gradient, _NOTHING, out)[None]

    def differentiate_sparse(self, source: _SparseInput) -> None:
        self.grad_weight = _row_sums(
            source.kept[1], self.grad_projections[0], _NOTHING, self.grad_weight
        )

    def differentiate_dense(self, x: Array) -> None:
        _product(x.T, self.grad_projections[0], self.grad_weight)

    def differentiate_input(self) -> None:
        _product(self.grad_projections[0], self.weight.T, self.grad_input)

    def _cross(self, projections: Array, out: Array) -> None:
        if not self.crosses:
            out[...] = projections
            return
        current = self.transform.order_weights
        assert current is not None
        self.order_weights[0] = current.detach()[0].numpy()
        if self.trained_order_weights:
            self.order_weights[0, 0] = 1.0
        call(cpu_loops.cross, projections.size, projections, self.order_weights, self.release, out)

    def _cross_backward(self, gradient: Array, projections: Array, out: Array) -> None:
        if not self.crosses:
            out[...] = gradient
            return
        self.sums[...] = 0.0
        call(
            cpu_loops.cross_backward,
            projections.size,
            gradient,
            projections,
            self.order_weights,
            self.release,
            out,
            self.sums,
        )
        if self.trained_order_weights:
            self.grad_order_weights[1:] = self.sums[0, :, 1:].sum(axis=(0, 2), dtype=np.float64)


def _product(left: Array, right: Array, out: Array) -> None:
    """Multiply by PyTorch, which uses the run's number of threads; NumPy does not."""
    torch.mm(torch.from_numpy(left), torch.from_numpy(right), out=torch.from_numpy(out))


def _row_sums(matrix: tuple[Array, ...], dense: Array, bias: Array, out: Array) -> Array:
    """Return a sparse product, in ``out`` or in a new array, whichever is faster."""
    offsets, columns, values = matrix
    work = int(offsets[-1]) * out.shape[1]
    if work < _BAG_FROM:
        call(cpu_loops.row_sums, work, offsets, columns, values, dense, bias, out)
        return out
    entries = int(offsets[-1])
    sums = torch.embedding_bag(
        torch.from_numpy(dense),
        torch.from_numpy(columns[:entries]),
        torch.from_numpy(offsets),
        False,
        0,
        False,
        torch.from_numpy(values[:entries]),
        True,
    )[0].numpy()
    if bias.size:
        cpu_loops.add_bias(bias, sums)
    return sums


def _drop(
    taken: Array, x: Array, out: Array, key: tuple[int, int], site: int, p: float, activate: bool
) -> None:
    seed, step = key
    call(
        cpu_loops.drop,
        out.size,
        taken,
        x,
        out,
        np.array([0, out.size]),
        np.array([seed]),
        step,
        site,
        np.uint32(threshold(p)),
        np.float32(1.0 / (1.0 - p)),
        activate,
    )


def _sparse_input(x: SparseMatrix, model: NodeClassifier) -> _SparseInput | BlockedFeatures:
    width = _transform_of(model.layers[0]).num_projections
    return BlockedFeatures(x, width) if x.shape[1] * width >= _WIDE_FROM else _SparseInput(x)


def _transform_of(layer: Any) -> CrossFeatureTransform:
    return layer if isinstance(layer, CrossFeatureTransform) else layer.transform


def _matrix_of(weight: Tensor) -> Array:
    """Return the weight of a stacked model of one as ``[in, order * out]``, on its memory."""
    return weight.detach()[0].movedim(-1, 0).flatten(1).numpy()


def _csr(pattern: Any, values: Tensor) -> tuple[Array, ...]:
    return pattern.row_offsets.numpy(), pattern.columns.numpy(), values.numpy()


def _like(array: Array) -> Array:
    return None if array is None else np.empty_like(array)
