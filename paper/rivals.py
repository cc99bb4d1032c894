"""Other ways to multiply features, to compare with the paper's: DCN, DCN-v2, CIN and HOFM.

Each maps dense rows ``[..., in_channels]`` to ``[..., out_channels]``, as a linear map does, so it
can take the place of the linear map in a layer of PyG's, which then aggregates:

.. code-block:: python

    conv = GCNConv(16, 32)
    conv.lin = CrossNetwork(16, 32, order=3)

Weights start such that, for features of mean square one, the crosses of all orders together have
a mean square of about one.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class CrossNetwork(nn.Module):
    r"""The cross network of DCN (Wang et al., 2017), with a linear read-out.

    .. math::
        \mathbf{x}_{l+1} = \mathbf{x}_0\,(\mathbf{w}_l^\top\mathbf{x}_l) + \mathbf{b}_l
        + \mathbf{x}_l, \qquad \mathbf{z} = \mathbf{R}\,\mathbf{x}_{K-1} + \mathbf{b}

    All outputs share the K - 1 crosses: a layer only scales and shifts the row.

    Args:
        order: Highest order K of the products, at least 2.

    Shapes:
        - **cross_weight**: all :math:`\mathbf{w}_l`, ``[order - 1, in_channels]``.
        - **cross_bias**: all :math:`\mathbf{b}_l`, ``[order - 1, in_channels]``.
        - **read_out.weight**: :math:`\mathbf{R}`, ``[out_channels, in_channels]``.
    """

    def __init__(
        self, in_channels: int, out_channels: int, order: int = 2, *, bias: bool = False
    ) -> None:
        super().__init__()
        _check_order(order)
        self.cross_weight = nn.Parameter(torch.empty(order - 1, in_channels))
        self.cross_bias = nn.Parameter(torch.empty(order - 1, in_channels))
        self.read_out = nn.Linear(in_channels, out_channels, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights."""
        _glorot(self.read_out)
        _uniform(self.cross_weight, 1 / self.cross_weight.numel())
        nn.init.zeros_(self.cross_bias)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each row of ``x``."""
        crossed = x
        for weight, bias in zip(self.cross_weight, self.cross_bias, strict=True):
            crossed = x * (crossed @ weight).unsqueeze(-1) + bias + crossed
        out: Tensor = self.read_out(crossed)
        return out


class CrossNetworkV2(nn.Module):
    r"""The cross network of DCN-v2 (Wang et al., 2021), with a linear read-out.

    .. math::
        \mathbf{x}_{l+1} = \mathbf{x}_0 \odot (\mathbf{U}_l\mathbf{V}_l^\top\mathbf{x}_l
        + \mathbf{b}_l) + \mathbf{x}_l, \qquad
        \mathbf{z} = \mathbf{R}\,\mathbf{x}_{K-1} + \mathbf{b}

    Args:
        order: Highest order K of the products, at least 2.
        rank: Columns of :math:`\mathbf{U}_l` and :math:`\mathbf{V}_l`.

    Shapes:
        - **down_weight**: all :math:`\mathbf{V}_l^\top`, ``[order - 1, rank, in_channels]``.
        - **up_weight**: all :math:`\mathbf{U}_l`, ``[order - 1, in_channels, rank]``.
        - **cross_bias**: all :math:`\mathbf{b}_l`, ``[order - 1, in_channels]``.
        - **read_out.weight**: :math:`\mathbf{R}`, ``[out_channels, in_channels]``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 2,
        *,
        rank: int = 32,
        bias: bool = False,
    ) -> None:
        super().__init__()
        _check_order(order)
        self.down_weight = nn.Parameter(torch.empty(order - 1, rank, in_channels))
        self.up_weight = nn.Parameter(torch.empty(order - 1, in_channels, rank))
        self.cross_bias = nn.Parameter(torch.empty(order - 1, in_channels))
        self.read_out = nn.Linear(in_channels, out_channels, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights."""
        _glorot(self.read_out)
        _uniform(self.down_weight, 1 / self.down_weight.size(-1))
        _uniform(self.up_weight, 1 / self.up_weight[..., 0, :].numel())
        nn.init.zeros_(self.cross_bias)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each row of ``x``."""
        crossed = x
        layers = zip(self.down_weight, self.up_weight, self.cross_bias, strict=True)
        for down, up, bias in layers:
            crossed = x * (crossed @ down.T @ up.T + bias) + crossed
        out: Tensor = self.read_out(crossed)
        return out


class CompressedInteractionNetwork(nn.Module):
    r"""CIN of xDeepFM (Lian et al., 2018) with decomposed weights, beside a linear map.

    Feature j is a field with the embedding :math:`\mathbf{X}^0_j = x_j\mathbf{v}_j` of width C.
    A layer has H feature maps; the sums of all maps over the width are read out:

    .. math::
        \mathbf{X}^{k}_h = \sum_{i,j} U^k_{hi} V^k_{hj}\,
        (\mathbf{X}^{k-1}_i \odot \mathbf{X}^0_j), \qquad
        \mathbf{z} = \mathbf{W}\mathbf{x} + \sum_{k=1}^{K-1}\sum_{h} \mathbf{r}_{kh}
        \sum_{c} X^{k}_{hc} + \mathbf{b}

    Full weights :math:`W^k_{hij}` would take :math:`HD^2` numbers in the first layer;
    xDeepFM proposes this decomposition, of rank 1.

    Args:
        order: Highest order K of the products, at least 2.
        feature_maps: H; ``out_channels`` by default.
        embedding_channels: C.

    Shapes:
        - **embedding**: all :math:`\mathbf{v}_j`, ``[embedding_channels, in_channels]``.
        - **field_weight**: :math:`\mathbf{U}^1`, then all :math:`\mathbf{V}^k`,
          ``[order, feature_maps, in_channels]``.
        - **map_weight**: all other :math:`\mathbf{U}^k`,
          ``[order - 2, feature_maps, feature_maps]``.
        - **read_out**: all :math:`\mathbf{r}_{kh}`, ``[out_channels, (order - 1) * feature_maps]``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 2,
        *,
        feature_maps: int | None = None,
        embedding_channels: int = 8,
        bias: bool = False,
    ) -> None:
        super().__init__()
        _check_order(order)
        maps = out_channels if feature_maps is None else feature_maps
        self.linear = nn.Linear(in_channels, out_channels, bias=bias)
        self.embedding = nn.Parameter(torch.empty(embedding_channels, in_channels))
        self.field_weight = nn.Parameter(torch.empty(order, maps, in_channels))
        self.map_weight = nn.Parameter(torch.empty(order - 2, maps, maps))
        self.read_out = nn.Parameter(torch.empty(out_channels, (order - 1) * maps))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights."""
        _glorot(self.linear)
        _uniform(self.embedding, 1.0)
        _uniform(self.field_weight, 1 / self.field_weight.size(-1))
        _uniform(self.map_weight, 1 / self.map_weight.size(-1))
        _uniform(self.read_out, 1 / (self.read_out.size(-1) * self.embedding.size(0)))

    def forward(self, x: Tensor) -> Tensor:
        """Transform each row of ``x``."""
        # All projections in one matrix product: nothing is as large as rows x features x width.
        weight = self.field_weight.unsqueeze(-2) * self.embedding
        fields = torch.unflatten(x @ weight.flatten(0, -2).T, -1, weight.shape[:-1])
        first, second, *others = fields.unbind(-3)
        maps = [first * second]
        for weight, field in zip(self.map_weight, others, strict=True):
            maps.append((weight @ maps[-1]) * field)
        pooled = torch.cat([each.sum(-1) for each in maps], dim=-1)
        out: Tensor = self.linear(x) + pooled @ self.read_out.T
        return out


class HigherOrderFM(nn.Module):
    r"""A factorisation machine of order K for each output (Blondel et al., 2016).

    .. math::
        z_e = \mathbf{w}_e^\top\mathbf{x} + \sum_{k=2}^{K} A_k(\mathbf{p}^k_e \odot \mathbf{x})
        + b_e, \qquad A_k(\mathbf{u}) = \sum_{d_1 < \dots < d_k} u_{d_1} \cdots u_{d_k}

    The ANOVA kernel :math:`A_k` multiplies k *different* features. Newton's identities compute it
    from power sums :math:`S_t = \sum_d u_d^t`:

    .. math:: A_k = \frac{1}{k}\sum_{t=1}^{k} (-1)^{t+1} A_{k-t}\,S_t

    They subtract, so rounding errors are relative to :math:`|S_1|^k`.

    Args:
        order: Highest order K of the products, at least 2.

    Shapes:
        - **factors**: all :math:`\mathbf{p}^k_e`, ``[order - 1, out_channels, in_channels]``.
    """

    def __init__(
        self, in_channels: int, out_channels: int, order: int = 2, *, bias: bool = False
    ) -> None:
        super().__init__()
        _check_order(order)
        self.linear = nn.Linear(in_channels, out_channels, bias=bias)
        self.factors = nn.Parameter(torch.empty(order - 1, out_channels, in_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights."""
        _glorot(self.linear)
        for order, factors in enumerate(self.factors.detach(), 2):
            _uniform(factors, len(self.factors) ** (-1 / order) / factors.size(-1))

    def forward(self, x: Tensor) -> Tensor:
        """Transform each row of ``x``."""
        out: Tensor = self.linear(x)
        for order, factors in enumerate(self.factors, 2):
            sums = [x.pow(power) @ factors.pow(power).T for power in range(1, order + 1)]
            kernels = [torch.ones_like(out)]
            for degree in range(1, order + 1):
                terms = [
                    (-1) ** (power + 1) * kernels[degree - power] * sums[power - 1]
                    for power in range(1, degree + 1)
                ]
                kernels.append(torch.stack(terms).sum(0) / degree)
            out = out + kernels[order]
        return out


def _check_order(order: int) -> None:
    if order < 2:
        raise ValueError(f"order must be at least 2, for products of two features; got {order}")


def _glorot(linear: nn.Linear) -> None:
    nn.init.xavier_uniform_(linear.weight)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


def _uniform(weight: Tensor, variance: float) -> None:
    bound = math.sqrt(3 * variance)
    nn.init.uniform_(weight, -bound, bound)
