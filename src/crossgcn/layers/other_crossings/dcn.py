"""The cross network of DCN (Wang et al., 2017)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crossgcn.graph import SparseMatrix
from crossgcn.layers.feature_transform import FeatureCrossing, draw


class CrossNetwork(FeatureCrossing):
    r"""K-1 cross layers of DCN, and a linear read-out.

    .. math::
        \mathbf{x}_{l+1} = \mathbf{x}_0\,(\mathbf{w}_l^\top\mathbf{x}_l) + \mathbf{b}_l
        + \mathbf{x}_l, \qquad \mathbf{z} = \mathbf{R}\,\mathbf{x}_{K-1} + \mathbf{b}

    A layer only scales and shifts the row: :math:`\mathbf{x}_l = s_l\mathbf{x}_0 + \mathbf{c}_l`.
    So it is enough to compute K-1 inner products and one number per row and layer:

    .. math::
        s_{l+1} = s_l + s_l\,\mathbf{w}_l^\top\mathbf{x}_0 + \mathbf{w}_l^\top\mathbf{c}_l, \qquad
        \mathbf{c}_{l+1} = \mathbf{c}_l + \mathbf{b}_l, \qquad
        \mathbf{z} = s_{K-1}\,\mathbf{R}\mathbf{x}_0 + \mathbf{R}\,\mathbf{c}_{K-1} + \mathbf{b}

    Work and parameters are :math:`D(E + K)`. All outputs share one scale :math:`s`, so there is
    not a separate cross per output unit.

    Biases start at 0, :math:`\mathbf{R}` by Glorot's rule, and :math:`\mathbf{w}_l` with variance
    :math:`1/(D(K-1))`: for features of mean square one, the mean square of the scale is then
    :math:`(1 + \frac{1}{K-1})^{K-1} < e` for every order.

    Args:
        cross_bias: Use :math:`\mathbf{b}_l`.

    Attributes:
        read_out: :math:`\mathbf{R}`, ``[out_channels, in_channels]``.
        cross_weight: All :math:`\mathbf{w}_l`, ``[order - 1, in_channels]``.
        cross_bias: All :math:`\mathbf{b}_l` in a row, ``[(order - 1) * in_channels]``, or none.
    """

    read_out: nn.Parameter
    cross_weight: nn.Parameter
    cross_bias: nn.Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 2,
        *,
        cross_bias: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, order, bias)
        self.add_parameters(
            read_out=(out_channels, in_channels),
            cross_weight=(order - 1, in_channels),
            cross_bias=((order - 1) * in_channels,) if cross_bias else None,
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters."""
        super().reset_parameters()
        nn.init.xavier_uniform_(self.read_out)
        draw(self.cross_weight, 1 / (self.in_channels * (self.order - 1)))

    @property
    def num_projections(self) -> int:
        """Width of the linear part."""
        return self.out_channels + self.order - 1

    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        """Compute read-out and inner products, ``[..., rows, out_channels + order - 1]``."""
        return x @ torch.cat([self.read_out, self.cross_weight], dim=-2).mT

    def combine(self, projections: Tensor) -> Tensor:
        """Scale and shift the read-out, without adding the bias."""
        read, inner = projections.tensor_split([self.out_channels], dim=-1)
        products = inner.unbind(-1)
        scale = torch.ones_like(products[0])
        if self.cross_bias is None:
            for product in products:
                scale = scale + scale * product
            return scale.unsqueeze(-1) * read

        by_layer = torch.unflatten(self.cross_bias, -1, (self.order - 1, self.in_channels))
        shifts = by_layer.cumsum(-2)
        before = torch.cat([torch.zeros_like(shifts[..., :1, :]), shifts[..., :-1, :]], dim=-2)
        shifted = (self.cross_weight * before).sum(-1, keepdim=True).unbind(-2)
        for product, constant in zip(products, shifted, strict=True):
            scale = scale + scale * product + constant
        return scale.unsqueeze(-1) * read + shifts[..., -1:, :] @ self.read_out.mT
