"""Training steps of one model by the CPU's compiled kernels, without autograd.

On graphs of a few thousand nodes PyTorch spends more time between its operations than in them.
Here all arrays are allocated once. Tests compare the passes with those of PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch

from crossgcn.graph import SparseMatrix
from crossgcn.kernels import cpu_loops
from crossgcn.kernels.cpu_loops import ROWS_PER_CHUNK, call
from crossgcn.kernels.dropout_bits import threshold
from crossgcn.layers import CrossFeatureTransform
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.objective import Targets
from crossgcn.training.optimizer import AdamState, Optimizer

Array = Any
Key = tuple[int, int]
"""Seed and step, which decide the dropped entries."""

_NOTHING = np.empty(0, dtype=np.float32)
_BAG_FROM = 1 << 17
"""Multiplications from which PyTorch's embedding bag is the faster sparse product."""


class CompiledStep:
    """Forward, backward and Adam, on the weights and running means of the PyTorch step.

    Args:
        model: With weights as :func:`~crossgcn.training.compiled.lay_out_weights` stores them.
        seed: Decides the dropped entries.
    """

    def __init__(
        self,
        model: NodeClassifier,
        targets: Targets,
        optimizer: Optimizer,
        weight_decay: float,
        seed: int,
    ) -> None:
        self.seed, self.weight_decay = seed, weight_decay
        self.learning_rate = optimizer.learning_rate
        self.network = CompiledNetwork(model, targets)
        self._updates = {state.weight: WeightUpdate(state) for state in optimizer.states()}

    def __call__(self, step: int) -> tuple[float, int]:
        """Do one step, counted from 1; return the loss and the number of correct predictions."""
        key = (self.seed, step)
        with np.errstate(all="ignore"):
            self.network.forward(key)
            result = self.network.loss()
            self.network.backward(key)
            rates = adam_rates(self.learning_rate, step)
            for weight, gradient in self.network.gradients(self.weight_decay):
                self._updates[weight](gradient.reshape(-1), *rates)
        return result


class CompiledNetwork:
    """A model on a set of target nodes and on the memory of its weights."""

    def __init__(self, model: NodeClassifier, targets: Targets) -> None:
        x, blocks = targets.inputs
        self.labels = targets.labels.numpy()
        self.dropout = model.dropout.p
        self.source = SparseFeatures(x) if isinstance(x, SparseMatrix) else None
        self.x: Array = None if isinstance(x, SparseMatrix) else x.numpy()
        self.layers: list[_Layer] = []
        rows = x.shape[0]
        for position, layer in enumerate(model.layers):
            block = blocks[position] if blocks else None
            self.layers.append(_Layer(layer, rows, block, first=position == 0))
            rows = self.layers[-1].out.shape[0]
        self.grad_scores = np.empty_like(self.layers[-1].out)
        self.entering: list[Array] = [None] * len(self.layers)
        before = [self.x, *(layer.out for layer in self.layers[:-1])]
        self._dropped = [None if array is None else np.empty_like(array) for array in before]

    def forward(self, key: Key | None = None) -> Array:
        """Return the scores of the target nodes; with dropout if a key, seed and step, is given."""
        hidden = self.x
        for position, layer in enumerate(self.layers):
            if position == 0 and self.source is not None:
                self.source.drop(key, self.dropout)
                layer.project_sparse(self.source.current)
            else:
                hidden = self._drop(position, hidden, hidden, key, self._dropped[position])
                self.entering[position] = hidden
                _product(hidden, layer.weight, layer.projections)
            hidden = layer.aggregate()
        return hidden

    def loss(self) -> tuple[float, int]:
        """Return the mean cross-entropy of the last scores and the number of correct ones."""
        loss, correct = cpu_loops.cross_entropy(self.layers[-1].out, self.labels, self.grad_scores)
        return float(loss), int(correct)

    def backward(self, key: Key) -> None:
        """Compute the gradients of the last loss in each layer."""
        gradient = self.grad_scores
        for position in reversed(range(len(self.layers))):
            layer = self.layers[position]
            layer.backward(gradient)
            if position == 0 and self.source is not None:
                layer.grad_weight = _row_sums(
                    self.source.transposed, layer.grad_projections, _NOTHING, layer.grad_weight
                )
            else:
                _product(self.entering[position].T, layer.grad_projections, layer.grad_weight)
            if position > 0:
                _product(layer.grad_projections, layer.weight.T, layer.grad_input)
                before = self.layers[position - 1].out
                gradient = self._drop(position, layer.grad_input, before, key, layer.grad_input)

    def gradients(self, weight_decay: float) -> Iterator[tuple[torch.Tensor, Array]]:
        """Yield each weight and the gradient of the objective that :meth:`backward` computed.

        The decay of matrices is left to the optimiser.
        """
        for layer in self.layers:
            yield layer.transform.weight, layer.grad_weight
            if layer.bias_parameter is not None:
                yield layer.bias_parameter, layer.grad_bias
            if layer.trained_order_weights is not None:
                if layer.transform.decays_order_weights:
                    layer.grad_order_weights[1:] += weight_decay * layer.order_weights[1:]
                yield layer.trained_order_weights, layer.grad_order_weights

    def _drop(self, site: int, taken: Array, x: Array, key: Key | None, out: Array) -> Array:
        """Apply ReLU and dropout, or their gradient: both mask and scale ``taken``."""
        p = self.dropout if key is not None else 0.0
        if p == 0.0 and site == 0:
            return taken
        taken, x, flat_out = (array.reshape(-1) for array in (taken, x, out))
        drop(taken, x, flat_out, key or (0, 0), p, site=site, activate=site > 0)
        return out


class SparseFeatures:
    """Sparse features after dropout, without the dropped entries, and their transpose.

    Attributes:
        current: Offsets, columns and values after the last :meth:`drop`.
        transposed: Likewise, of the transpose; only after dropout with a key.
    """

    def __init__(self, matrix: SparseMatrix) -> None:
        transpose, order = matrix._transposed()
        positions = order.numpy().view(np.uint64)
        self.values = matrix.values.numpy()
        self.patterns = [
            (pattern.row_offsets.numpy(), pattern.columns.numpy(), indices)
            for pattern, indices in ((matrix.pattern, positions[:0]), (transpose, positions))
        ]
        self.dropped = np.empty_like(self.values)
        self.kept = [
            tuple(np.empty_like(array) for array in (offsets, columns, self.values))
            for offsets, columns, _ in self.patterns
        ]
        self.whole = (*self.patterns[0][:2], self.values)
        self.current: tuple[Array, ...] = self.whole
        self.transposed = self.kept[1]

    def drop(self, key: Key | None, p: float) -> None:
        """Drop entries with probability ``p``; none without a key."""
        if key is None:
            self.current = self.whole
            return
        drop(self.values, self.values, self.dropped, key, p)
        for (offsets, columns, order), kept in zip(self.patterns, self.kept, strict=True):
            cpu_loops.compact(offsets, columns, self.dropped, order, *kept)
        self.current = self.kept[0]


class _Layer:
    """One layer: views of its weights, and arrays for its results.

    It computes ``cross(A X W) + b`` if ``crosses_last``, where ``A`` may be the identity, and
    ``A cross(X W) + b`` otherwise.
    """

    def __init__(self, layer: Any, rows: int, block: SparseMatrix | None, *, first: bool) -> None:
        transform = layer if isinstance(layer, CrossFeatureTransform) else layer.transform
        self.transform, self.order = transform, transform.order
        self.crosses = not transform.is_linear
        self.crosses_last = block is None or layer.aggregate_first
        self.release = transform.first_order == "release"
        # [in, order * out], on the memory of the weight.
        self.weight = transform.weight.detach().movedim(-1, 0).flatten(1).numpy()
        self.bias_parameter = layer.bias
        self.bias = _NOTHING if layer.bias is None else layer.bias.detach().numpy()
        weights = transform.order_weights
        self.trained_order_weights = weights if isinstance(weights, torch.nn.Parameter) else None
        self.order_weights = np.ones(self.order, dtype=np.float32)
        self._matrix = block
        self.block = None if block is None else _csr(block.pattern, block.values)

        channels, out_rows = transform.out_channels, rows if block is None else block.shape[0]
        crossed_rows = out_rows if self.crosses_last else rows
        self.projections = np.empty((rows, self.order * channels), dtype=np.float32)
        self.grad_projections = np.empty_like(self.projections)
        self.averaged = np.empty((crossed_rows, self.order * channels), dtype=np.float32)
        self.grad_averaged = np.empty_like(self.averaged)
        self.crossed = np.empty((crossed_rows, channels), dtype=np.float32)
        self.grad_crossed = np.empty_like(self.crossed)
        self.out = np.empty((out_rows, channels), dtype=np.float32)

        chunks = -(-crossed_rows // ROWS_PER_CHUNK)
        sums = np.empty((chunks, self.order, channels), dtype=np.float32)
        self.sums = sums if self.trained_order_weights is not None else sums[:, :0]
        self.grad_weight = np.empty_like(self.weight)
        self.grad_bias = np.empty_like(self.bias)
        self.grad_order_weights = np.zeros(self.order, dtype=np.float32)
        self.grad_input = _NOTHING if first else np.empty((rows, self.weight.shape[0]), np.float32)

    @cached_property
    def transposed_block(self) -> tuple[Array, ...]:
        """The transposed adjacency, for gradients; made on first use."""
        assert self._matrix is not None
        transpose, order = self._matrix._transposed()
        return _csr(transpose, self._matrix.values[order])

    def project_sparse(self, x: tuple[Array, ...]) -> None:
        self.projections = _row_sums(x, self.weight, _NOTHING, self.projections)

    def aggregate(self) -> Array:
        """Cross projections and sum over neighbours, in the layer's order; return the output."""
        if self.crosses_last:
            if self.block is None:
                self.averaged = self.projections
            else:
                self.averaged = _row_sums(self.block, self.projections, _NOTHING, self.averaged)
            self._cross(self.averaged, self.out)
            if self.bias.size:
                cpu_loops.add_bias(self.bias, self.out)
        else:
            crossed = self.projections
            if self.crosses:
                self._cross(self.projections, self.crossed)
                crossed = self.crossed
            assert self.block is not None
            self.out = _row_sums(self.block, crossed, self.bias, self.out)
        return self.out

    def backward(self, gradient: Array) -> None:
        """Compute the gradients of the projections from that of the output."""
        if self.bias.size:
            cpu_loops.column_sums(gradient, self.grad_bias)
        if self.block is None:
            self._cross_backward(gradient, self.averaged, self.grad_projections)
            return
        if self.crosses_last:
            self._cross_backward(gradient, self.averaged, self.grad_averaged)
            gradient = self.grad_averaged
        elif self.crosses:
            gradient = _row_sums(self.transposed_block, gradient, _NOTHING, self.grad_crossed)
            self._cross_backward(gradient, self.projections, self.grad_projections)
            return
        # Propagate gradients to the sources of each edge.
        self.grad_projections = _row_sums(
            self.transposed_block, gradient, _NOTHING, self.grad_projections
        )

    def _cross(self, projections: Array, out: Array) -> None:
        if not self.crosses:
            out[...] = projections
            return
        current = self.transform.order_weights
        assert current is not None
        self.order_weights[:] = current.detach().numpy()
        if self.trained_order_weights is not None:
            self.order_weights[0] = 1.0
        arguments = (projections, self.order_weights, self.release, out)
        call(cpu_loops.cross, projections.size, *arguments)

    def _cross_backward(self, gradient: Array, projections: Array, out: Array) -> None:
        if not self.crosses:
            out[...] = gradient
            return
        self.sums[...] = 0.0
        given = (gradient, projections, self.order_weights, self.release)
        call(cpu_loops.cross_backward, projections.size, *given, out, self.sums)
        if self.trained_order_weights is not None:
            self.grad_order_weights[1:] = self.sums[:, 1:].sum(axis=(0, 2), dtype=np.float64)


def _product(left: Array, right: Array, out: Array) -> None:
    """Multiply by PyTorch, which uses the run's number of threads; NumPy does not."""
    torch.mm(torch.from_numpy(left), torch.from_numpy(right), out=torch.from_numpy(out))


def _row_sums(matrix: tuple[Array, ...], dense: Array, bias: Array, out: Array) -> Array:
    """Return a sparse product, in ``out`` or in a new array, whichever is faster."""
    offsets, columns, values = matrix
    entries = int(offsets[-1])
    work = entries * out.shape[1]
    if work < _BAG_FROM:
        call(cpu_loops.row_sums, work, offsets, columns, values, dense, bias, out)
        return out
    sums: Array = torch.embedding_bag(
        torch.from_numpy(dense),
        torch.from_numpy(columns[:entries]),
        torch.from_numpy(offsets),
        per_sample_weights=torch.from_numpy(values[:entries]),
        include_last_offset=True,
    )[0].numpy()
    if bias.size:
        cpu_loops.add_bias(bias, sums)
    return sums


def _csr(pattern: Any, values: torch.Tensor) -> tuple[Array, ...]:
    return pattern.row_offsets.numpy(), pattern.columns.numpy(), values.numpy()


def drop(
    taken: Array, x: Array, out: Array, key: Key, p: float, *, site: int = 0, activate: bool = False
) -> None:
    """Drop entries of ``taken``; with ``activate``, also where ``x`` is not positive."""
    arguments = (taken, x, out, *key, site, *threshold_and_scale(p), activate)
    call(cpu_loops.drop, out.size, *arguments)


def threshold_and_scale(p: float) -> tuple[np.uint32, np.float32]:
    """Return the random number from which an entry is kept, and the scale of kept entries."""
    return np.uint32(threshold(p)), np.float32(1.0 / (1.0 - p))


def adam_rates(learning_rate: float, step: float) -> tuple[np.float32, np.float32]:
    """Return the size of a step of Adam, counted from 1, and the correction of the second mean."""
    return np.float32(learning_rate / (1.0 - 0.9**step)), np.float32((1.0 - 0.999**step) ** -0.5)


class WeightUpdate:
    """Steps of Adam on the memory of one weight and of its running means."""

    def __init__(self, state: AdamState) -> None:
        self._weight, self._mean, self._square = (
            flat(tensor) for tensor in (state.memory, state.mean, state.square)
        )
        self._decay = np.float32(state.decay)

    def __call__(self, gradient: Array, step_size: np.float32, correction: np.float32) -> None:
        """Do a step, given the gradient as it lies in memory and :func:`adam_rates`."""
        call(
            cpu_loops.adam,
            gradient.size,
            self._weight,
            gradient,
            self._mean,
            self._square,
            step_size,
            correction,
            self._decay,
        )


def flat(tensor: torch.Tensor) -> Array:
    """Return a tensor's memory as a vector."""
    return tensor.detach().view(-1).numpy()
