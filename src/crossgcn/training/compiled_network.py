"""Training steps of one model by the CPU's compiled kernels, without autograd.

On graphs of a few thousand nodes, PyTorch's overhead per operation exceeds the computation.
Here all arrays are allocated once. Tests compare the passes with PyTorch's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from crossgcn.graph import SparseMatrix
from crossgcn.graph.sparse_matrix import ModelInputs
from crossgcn.kernels import cpu_loops
from crossgcn.kernels.cpu_loops import ROWS_PER_CHUNK, call, drop
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.objective import Optimizer

Array = Any
Csr = tuple[Array, ...]
"""Row offsets, columns and values of a sparse matrix."""
Key = tuple[int, int]
"""Seed and step, which decide the dropped entries."""
WeightGradient = tuple[Tensor, Array]
"""A weight and its gradient."""

_NOTHING = np.empty(0, dtype=np.float32)
_BAG_FROM = 1 << 17
"""From this many multiplications, PyTorch's embedding bag is the faster sparse product."""


class CompiledNetwork:
    """Compiled passes of a model on fixed inputs, reading the weights in place.

    Args:
        model: A model prepared by :func:`~crossgcn.training.full_batch.lay_out_weights`.
        inputs: The arguments of the model.
        labels: The classes of the scored nodes.
    """

    def __init__(self, model: NodeClassifier, inputs: ModelInputs, labels: Tensor) -> None:
        (x, blocks), self.labels = inputs, labels.numpy()
        self.x: Array = None if isinstance(x, SparseMatrix) else x.numpy()
        self.operations: list[_Operation] = []
        rows, dropout = x.shape[0], model.dropout.p
        for site, layer in enumerate(cast(Any, model.layers)):
            block = blocks[site] if blocks else None
            transform = layer if isinstance(layer, CrossFeatureTransform) else layer.transform
            if site == 0 and isinstance(x, SparseMatrix):
                self.operations.append(_SparseProjection(transform, x, dropout))
            else:
                self.operations.append(_Dropout(dropout, site))
                self.operations.append(_Projection(transform, rows, is_first=site == 0))
            aggregates_first = block is not None and layer.aggregate_first
            if block is not None and aggregates_first:
                width, rows = transform.order * transform.out_channels, block.shape[0]
                self.operations.append(_NeighbourSum(block, width))
            if not transform.is_linear:
                self.operations.append(_Cross(transform, rows))
            if block is not None and not aggregates_first:
                rows = block.shape[0]
                self.operations.append(_NeighbourSum(block, transform.out_channels))
            if layer.bias is not None:
                self.operations.append(_Bias(layer.bias))
        self.grad_scores = np.empty((rows, model.num_outputs), dtype=np.float32)

    def score(self, key: Key | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss, the accuracy and the scores; with a key, dropout is applied."""
        scores = self.x
        for operation in self.operations:
            scores = operation.forward(scores, key)
        loss, num_correct = cpu_loops.cross_entropy(scores, self.labels, self.grad_scores)
        accuracy = torch.tensor(num_correct / len(self.labels), dtype=torch.float64)
        return torch.tensor(loss), accuracy, torch.from_numpy(scores)

    def backward(self, key: Key) -> None:
        """Compute the gradient of the last loss with respect to each weight."""
        grad = self.grad_scores
        for operation in reversed(self.operations):
            grad = operation.backward(grad, key)

    def gradients(self) -> Iterator[WeightGradient]:
        """Yield each weight with the gradient that :meth:`backward` computed."""
        for operation in self.operations:
            yield from operation.gradients.items()


class _Operation(ABC):
    """An operation of the network.

    ``forward`` and ``backward`` return arrays that are valid until the next call, and may
    overwrite the array that they receive.

    Attributes:
        gradients: The gradient of each weight, filled by ``backward``.
    """

    gradients: Mapping[Tensor, Array] = {}

    @abstractmethod
    def forward(self, x: Array, key: Key | None) -> Array: ...

    @abstractmethod
    def backward(self, grad: Array, key: Key) -> Array:
        """Return the gradient of the input, given the gradient of the output."""


class _Dropout(_Operation):
    """ReLU (not on the features) and dropout in one pass."""

    def __init__(self, p: float, site: int) -> None:
        self._p, self._site = p, site
        self._out = _NOTHING

    def forward(self, x: Array, key: Key | None) -> Array:
        p = 0.0 if key is None else self._p
        if p == 0.0 and self._site == 0:
            return x
        if self._out.shape != x.shape:
            self._out = np.empty_like(x)
        self._x = x
        self._mask(x, self._out, key or (0, 0), p)
        return self._out

    def backward(self, grad: Array, key: Key) -> Array:
        if self._site > 0:  # features need no gradient
            self._mask(grad, grad, key, self._p)
        return grad

    def _mask(self, data: Array, out: Array, key: Key, p: float) -> None:
        data, x, out = (array.reshape(-1) for array in (data, self._x, out))
        drop(data, x, out, key, p, site=self._site, activate=self._site > 0)


class _Projection(_Operation):
    """All projections of a transform, as one matrix product."""

    def __init__(self, transform: CrossFeatureTransform, rows: int, *, is_first: bool) -> None:
        # [in, order * out], a view of the weight.
        self._weight = transform.weight.detach().movedim(-1, 0).flatten(1).numpy()
        self._grad_weight = np.empty_like(self._weight)
        self._parameter, self.gradients = transform.weight, {transform.weight: self._grad_weight}
        in_channels, out_channels = self._weight.shape
        self._out = np.empty((rows, out_channels), dtype=np.float32)
        self._grad = None if is_first else np.empty((rows, in_channels), dtype=np.float32)

    def forward(self, x: Array, key: Key | None) -> Array:
        self._x = x
        _product(x, self._weight, self._out)
        return self._out

    def backward(self, grad: Array, key: Key) -> Array:
        _product(self._x.T, grad, self._grad_weight)
        if self._grad is not None:
            _product(grad, self._weight.T, self._grad)
        return self._grad


class _SparseProjection(_Projection):
    """All projections of sparse features; dropout removes entries from their pattern."""

    def __init__(self, transform: CrossFeatureTransform, x: SparseMatrix, p: float) -> None:
        super().__init__(transform, x.shape[0], is_first=True)
        self._p, self._values = p, x.values.numpy()
        self._dropped = np.empty_like(self._values)
        transpose, order = x._transposed()
        positions = order.numpy().view(np.uint64)
        self._whole = _csr(x.pattern, x.values)
        # Offsets, columns and positions of values: of the features, and of their transpose.
        self._patterns = [
            (pattern.row_offsets.numpy(), pattern.columns.numpy(), indices)
            for pattern, indices in ((x.pattern, positions[:0]), (transpose, positions))
        ]
        self._kept, self._kept_transposed = (
            tuple(np.empty_like(array) for array in (offsets, columns, self._values))
            for offsets, columns, _ in self._patterns
        )

    def forward(self, x: Array, key: Key | None) -> Array:
        features = self._whole
        if key is not None:
            drop(self._values, self._values, self._dropped, key, self._p)
            kept = (self._kept, self._kept_transposed)
            for (offsets, columns, order), out in zip(self._patterns, kept, strict=True):
                cpu_loops.compact(offsets, columns, self._dropped, order, *out)
            features = self._kept
        self._out = _row_sums(features, self._weight, self._out)
        return self._out

    def backward(self, grad: Array, key: Key) -> Array:
        self._grad_weight = _row_sums(self._kept_transposed, grad, self._grad_weight)
        self.gradients = {self._parameter: self._grad_weight}
        return None


class _NeighbourSum(_Operation):
    """The weighted sum over neighbours."""

    def __init__(self, block: SparseMatrix, width: int) -> None:
        self._matrix, self._block = block, _csr(block.pattern, block.values)
        self._out = np.empty((block.shape[0], width), dtype=np.float32)
        self._grad = np.empty((block.shape[1], width), dtype=np.float32)

    @cached_property
    def _transposed(self) -> Csr:
        transpose, order = self._matrix._transposed()
        return _csr(transpose, self._matrix.values[order])

    def forward(self, x: Array, key: Key | None) -> Array:
        self._out = _row_sums(self._block, x, self._out)
        return self._out

    def backward(self, grad: Array, key: Key) -> Array:
        self._grad = _row_sums(self._transposed, grad, self._grad)
        return self._grad


class _Bias(_Operation):
    """A bias, added in place."""

    def __init__(self, parameter: nn.Parameter) -> None:
        self._values = parameter.detach().numpy()
        self._grad = np.empty_like(self._values)
        self.gradients = {parameter: self._grad}

    def forward(self, x: Array, key: Key | None) -> Array:
        x += self._values
        return x

    def backward(self, grad: Array, key: Key) -> Array:
        grad.sum(axis=0, out=self._grad)
        return grad


class _Cross(_Operation):
    """The weighted sum of the orders; order k is the product of the first k projections."""

    def __init__(self, transform: CrossFeatureTransform, rows: int) -> None:
        self._transform = transform
        weights, order, width = transform.order_weights, transform.order, transform.out_channels
        self._weights = np.ones(order, dtype=np.float32)
        self._grad_weights = np.zeros(order, dtype=np.float32)
        self._are_trained = isinstance(weights, nn.Parameter)
        if isinstance(weights, nn.Parameter):
            self.gradients = {weights: self._grad_weights}
        self._release = transform.first_order == "release"
        self._out = np.empty((rows, width), dtype=np.float32)
        self._grad = np.empty((rows, order * width), dtype=np.float32)
        sums = np.empty((-(-rows // ROWS_PER_CHUNK), order, width), dtype=np.float32)
        self._sums = sums if self._are_trained else sums[:, :0]

    def forward(self, x: Array, key: Key | None) -> Array:
        self._x = x
        weights = self._transform.order_weights
        assert weights is not None
        self._weights[:] = weights.detach().numpy()
        if self._are_trained:
            self._weights[0] = 1.0
        call(cpu_loops.cross, x.size, x, self._weights, self._release, self._out)
        return self._out

    def backward(self, grad: Array, key: Key) -> Array:
        self._sums[...] = 0.0
        given = (grad, self._x, self._weights, self._release)
        call(cpu_loops.cross_backward, self._x.size, *given, self._grad, self._sums)
        if self._are_trained:
            self._grad_weights[1:] = self._sums[:, 1:].sum(axis=(0, 2), dtype=np.float64)
        return self._grad


def _product(left: Array, right: Array, out: Array) -> None:
    """Multiply with PyTorch, which respects the run's number of threads; NumPy does not."""
    torch.mm(torch.from_numpy(left), torch.from_numpy(right), out=torch.from_numpy(out))


def _row_sums(matrix: Csr, dense: Array, out: Array) -> Array:
    """Return a sparse times a dense matrix: ``out``, or a new array where that is faster."""
    offsets, columns, values = matrix
    entries = int(offsets[-1])
    work = entries * out.shape[1]
    if work < _BAG_FROM:
        call(cpu_loops.row_sums, work, offsets, columns, values, dense, out)
        return out
    sums: Array = torch.embedding_bag(
        torch.from_numpy(dense),
        torch.from_numpy(columns[:entries]),
        torch.from_numpy(offsets),
        per_sample_weights=torch.from_numpy(values[:entries]),
        include_last_offset=True,
    )[0].numpy()
    return sums


def _csr(pattern: Any, values: Tensor) -> Csr:
    return pattern.row_offsets.numpy(), pattern.columns.numpy(), values.numpy()


class CompiledAdam:
    """Adam in compiled loops, updating the weights and the state of an optimizer in place."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._learning_rate, self._decayed = optimizer.learning_rate, optimizer.decayed
        self._states = {
            weight: (flat(memory), flat(state["exp_avg"]), flat(state["exp_avg_sq"]))
            for weight, memory, state in zip(
                optimizer.weights, optimizer.memory, optimizer.states, strict=True
            )
        }
        self._decay = optimizer.weight_decay

    def step(self, number: int, gradients: Iterable[WeightGradient]) -> None:
        """Update the weights; steps count from 1, gradients have the weights' memory layout."""
        step_size = np.float32(self._learning_rate / (1.0 - 0.9**number))
        correction = np.float32((1.0 - 0.999**number) ** -0.5)
        for parameter, gradient in gradients:
            weight, mean, square = self._states[parameter]
            if parameter in self._decayed:
                gradient[1:] += np.float32(self._decay) * weight[1:]
            decay = np.float32(self._decay if parameter.dim() >= 2 else 0.0)
            moments = gradient.reshape(-1), mean, square
            call(cpu_loops.adam, weight.size, weight, *moments, step_size, correction, decay)


def flat(tensor: Tensor) -> Array:
    """Return a tensor's memory as a vector."""
    return tensor.detach().view(-1).numpy()
