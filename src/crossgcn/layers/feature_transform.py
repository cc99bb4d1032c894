"""Base classes of transforms of a node's features, and dropout of features."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from crossgcn import kernels
from crossgcn.errors import BadInput, check_count
from crossgcn.graph import DenseFeatures, SparseMatrix
from crossgcn.kernels import Draws, may_use_kernels
from crossgcn.layers.catalogue import describe_options


class FeatureTransform(nn.Module):
    """A map of rows that consists of a linear part and a rest.

    A weighted sum over neighbours commutes with the linear part. A graph convolution that
    aggregates first therefore projects sparse features before it aggregates them.

    Subclasses set ``in_channels`` and ``out_channels``, implement :meth:`project` and
    :meth:`combine`, and override :attr:`num_projections` if it is not ``out_channels``.

    Attributes:
        stackable: Whether the parameters of several models can be stacked along a new first
            dimension; see :mod:`crossgcn.training.model_batch`.
        propagations: No hop, so a transform can be a layer of a
            :class:`~crossgcn.models.node_classifier.NodeClassifier`.
    """

    in_channels: int
    out_channels: int
    bias: nn.Parameter | None
    stackable = False
    propagations = ()

    @property
    def num_projections(self) -> int:
        """Width of the linear part."""
        return self.out_channels

    @property
    def capturable(self) -> bool:
        """Whether a CUDA graph can record it: it never waits for a number from the GPU."""
        return True

    @property
    def kept_numbers(self) -> tuple[int, int]:
        """Estimate the numbers kept for backward, per row and per feature of a row."""
        return self.num_projections, 1

    def reset_parameters(self) -> None:
        """Set own parameters to 0 and draw those of submodules; subclasses draw their weights."""
        reset_parameters(self)

    def forward(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform each row of ``x``."""
        out = self.transform(x)
        return out if self.bias is None else out + self.bias.unsqueeze(-2)

    def transform(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform each row of ``x`` without adding the bias."""
        return self.combine(self.project(x))

    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        """Apply the linear part."""
        raise NotImplementedError

    def combine(self, projections: Tensor) -> Tensor:
        """Apply the rest to projections, without adding the bias."""
        raise NotImplementedError


class FeatureCrossing(FeatureTransform):
    """A feature transform that multiplies features in another way than the paper's.

    Subclasses index the dimensions of weights from the last, so that weights of several models
    can be stacked. Biases are vectors and weights are matrices, which is how weight decay tells
    them apart (NOTE[D5]).

    Args:
        order: Highest order K of the crosses, at least 2.
        bias: Add a bias to the output.

    Shapes:
        - **x**: ``[..., rows, in_channels]`` dense, or ``[rows, in_channels]`` as
          ``torch.sparse_csr`` or :class:`~crossgcn.graph.SparseMatrix`.
        - **output**: ``[..., rows, out_channels]``.
    """

    def __init__(self, in_channels: int, out_channels: int, order: int, bias: bool) -> None:
        super().__init__()
        self.in_channels = check_count("in_channels", in_channels)
        self.out_channels = check_count("out_channels", out_channels)
        self.order = check_order(order)
        if self.order == 1:
            raise BadInput(
                f"{type(self).__name__} multiplies at least 2 features; got order=1: use "
                "transform='linear'"
            )
        self.add_parameters(bias=(out_channels,) if bias else None)

    def add_parameters(self, **shapes: tuple[int, ...] | None) -> None:
        """Register a parameter of each shape; ``None`` is one that is left out."""
        for name, shape in shapes.items():
            weight = None if shape is None else nn.Parameter(torch.empty(shape))
            self.register_parameter(name, weight)

    def forward(self, x: Tensor | SparseMatrix) -> Tensor:
        """Transform each row of ``x``."""
        if x.shape[-1] != self.in_channels:
            raise BadInput(
                f"{type(self).__name__} was made for rows of {self.in_channels} features; "
                f"got {x.shape[-1]}"
            )
        return super().forward(x)

    def extra_repr(self) -> str:
        """Describe it for ``print(model)``."""
        own = f"{self.in_channels}, {self.out_channels}, order={self.order}"
        return ", ".join([own, *describe_options(self)])


def reset_parameters(module: nn.Module) -> None:
    """Set a module's own parameters to 0 and draw those of its submodules."""
    for parameter in module.parameters(recurse=False):
        nn.init.zeros_(parameter)
    for child in module.children():
        reset: Any = getattr(child, "reset_parameters", None)
        if reset is not None:
            reset()


def draw(weight: Tensor, variance: float) -> None:
    """Fill a weight with uniform numbers of a given variance."""
    bound = math.sqrt(3 * variance)
    nn.init.uniform_(weight, -bound, bound)


def check_order(order: object) -> int:
    """Return an order as an ``int``, or raise :class:`BadInput`."""
    return check_count("order", order, "1 is a linear map, 2 adds products of two features")


def refuse_recurrent(what: str, x: Tensor, *, traced: bool) -> None:
    """Refuse what PyTorch's recurrent networks cannot do, before they fail or compute zeros.

    Args:
        what: The setting that brought the network, for the message.
        traced: Also refuse tracing.
    """
    transformed = torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
    tracing = not (may_use_kernels(x) or torch.compiler.is_dynamo_compiling())
    if transformed or (traced and tracing):
        raise BadInput(
            f"{what} uses a recurrent network, which can neither be vectorised (vmap) nor "
            f"differentiated in forward mode{' nor traced for export' if traced else ''}: use "
            "another name"
        )


def is_dense(x: object) -> bool:
    """Return whether features are a dense tensor."""
    return isinstance(x, Tensor) and x.layout == torch.strided


SITES_PER_DRAW = 64
"""Upper bound of the number of dropouts in a model."""

Features = TypeVar("Features", Tensor, SparseMatrix, DenseFeatures)


class FeatureDropout(nn.Module):
    """:func:`feature_dropout` as a module; passes of different ``draw`` drop different entries."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise BadInput(f"dropout must be at least 0 and below 1; got {p}")
        self.p = p
        self.draw = 0
        self._seeds: Tensor | None = None
        self._step: Tensor | None = None

    def follow(self, seeds: Tensor, step: Tensor) -> None:
        """Drop by a seed per model and the training step, instead of torch's generator."""
        self._seeds, self._step = seeds, step

    def draws(self, site: int = 0) -> Draws | None:
        """Return the random bits of a dropout of the model; ``None`` for torch's generator."""
        if self._seeds is None or self._step is None:
            return None
        return Draws(self._seeds, self._step, site + SITES_PER_DRAW * self.draw)

    def forward(
        self, x: Features, *, site: int = 0, activate: bool = False, to_multiply: bool = False
    ) -> Features:
        """Drop entries in training mode.

        Args:
            site: The number of this dropout in the model.
            activate: Apply a ReLU first, to dense features.
            to_multiply: Nothing but a product follows. Then dense features in a training step on
                a GPU are dropped as they are multiplied.
        """
        draws = self.draws(site)
        if draws is not None and self.training and to_multiply and DenseFeatures.can_hold(x):
            return DenseFeatures(x).drop(draws, self.p, activate)  # type: ignore[return-value]
        return feature_dropout(x, self.p, self.training, activate=activate, draws=draws)

    def extra_repr(self) -> str:
        """Describe it for ``print(model)``."""
        return f"p={self.p}"


def feature_dropout(
    x: Features,
    p: float,
    training: bool,
    *,
    activate: bool = False,
    draws: Draws | None = None,
) -> Features:
    """Zero each entry with probability ``p`` and scale the others by ``1 / (1 - p)``.

    For a sparse matrix only the stored entries are drawn, which has the same distribution.

    Args:
        x: Dense, ``torch.sparse_csr``, :class:`~crossgcn.graph.SparseMatrix` or
            :class:`~crossgcn.graph.DenseFeatures`.
        activate: Apply a ReLU first, to dense features.
        draws: The random bits; from torch's generator by default.
    """
    dense = is_dense(x)
    if not training or p == 0.0:
        return torch.relu(x) if activate and dense else x  # type: ignore[arg-type, return-value]
    if draws is None:
        device = x.values.device if isinstance(x, SparseMatrix) else x.device
        seeds = torch.randint(2**32, (1,), device=device)
        draws = Draws(seeds, torch.zeros_like(seeds), 0)
    if isinstance(x, DenseFeatures):
        return x.drop(draws, p)
    if isinstance(x, SparseMatrix):
        return x.with_values(kernels.drop(x.values, x.model_starts, draws, p, False))
    if x.layout == torch.sparse_csr:
        return torch.sparse_csr_tensor(
            x.crow_indices(),
            x.col_indices(),
            kernels.drop(x.values(), None, draws, p, False),
            x.shape,
            check_invariants=False,
        )
    if not dense:
        raise BadInput(f"features of layout {x.layout} cannot be dropped: pass x.to_sparse_csr()")
    return kernels.drop(x, None, draws, p, activate)
