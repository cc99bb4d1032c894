"""Higher-order factorisation machines (Blondel et al., 2016)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crossgcn.errors import check_count
from crossgcn.graph import SparseMatrix
from crossgcn.layers.feature_transform import draw
from crossgcn.layers.other_crossings.entries import EntryCrossing


class HigherOrderFM(EntryCrossing):
    r"""A factorisation machine of order K for each output unit.

    .. math::
        z_e = \mathbf{w}_e^\top\mathbf{x} + \sum_{k=2}^{K}\sum_{s=1}^{r}
        A_k(\mathbf{p}^k_{es} \odot \mathbf{x}) + b_e, \qquad
        A_k(\mathbf{u}) = \sum_{d_1 < \dots < d_k} u_{d_1} \cdots u_{d_k}

    The ANOVA kernel :math:`A_k` multiplies k *different* features. Newton's identities compute it
    from power sums,

    .. math::
        A_k = \frac{1}{k}\sum_{t=1}^{k} (-1)^{t+1} A_{k-t}\,S_t, \qquad
        S_t = \sum_d (p_d x_d)^t

    and powers of a sparse row are as sparse as the row. There are :math:`DE(1 + (K-1)r)` parameters
    and :math:`E + Er(K+2)(K-1)/2` products per feature, since order k needs k power sums of its
    own factors.

    Newton's identities subtract, so the error is relative to :math:`|S_1|^k` and not to
    :math:`A_k`: a row with fewer than k features has crosses of order k that are zero up to
    rounding. Powers are not linear in a row, so the linear part is the dense row itself.

    :math:`\mathbf{w}` starts by Glorot's rule and factors with variance :math:`1/D`, those of
    order k divided by :math:`((K-1)r)^{1/2k}`: for features of mean square one, all crosses
    together have a mean square of at most 1/2.

    Args:
        rank: r, factor vectors for each output unit and order.

    Attributes:
        weight: All :math:`\mathbf{w}_e`, ``[out_channels, in_channels]``.
        factors: All :math:`\mathbf{p}^k_{es}`, ``[order - 1, out_channels, rank, in_channels]``.
    """

    weight: nn.Parameter
    factors: nn.Parameter

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 2,
        *,
        rank: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, order, bias)
        self.rank = check_count("rank", rank)
        self.add_parameters(
            weight=(out_channels, in_channels),
            factors=(order - 1, out_channels, rank, in_channels),
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters."""
        super().reset_parameters()
        nn.init.xavier_uniform_(self.weight)
        terms = (self.order - 1) * self.rank
        for order, factors in enumerate(self.factors.detach(), 2):
            draw(factors, terms ** (-1 / order) / self.in_channels)

    @property
    def kept_numbers(self) -> tuple[int, int]:
        """Estimate the numbers kept for backward, per row and per feature of a row."""
        sums = self.order * (self.order - 1) // 2
        return self.out_channels * (1 + 3 * self.rank * sums), self.order

    def combine(self, projections: Tensor | SparseMatrix) -> Tensor:
        """Add the linear map and the ANOVA kernels of all orders, without the bias."""
        x = projections
        laid_out = self.factors.movedim(-1, -4)
        first = torch.cat([self.weight.mT, laid_out.flatten(-3)], dim=-1)
        out, sums = (x @ first).tensor_split([self.out_channels], dim=-1)
        # Sums of power t are needed for orders from max(2, t) on.
        power_sums = [torch.unflatten(sums, -1, laid_out.shape[-3:])]
        for power in range(2, self.order + 1):
            needed = laid_out[..., power - 2 :, :, :]
            product = _raise(x, power) @ needed.pow(power).flatten(-3)
            power_sums.append(torch.unflatten(product, -1, needed.shape[-3:]))

        kernels = [torch.ones_like(power_sums[0]), power_sums[0]]
        for degree in range(2, self.order + 1):
            orders = self.order - degree + 1
            terms = [
                (-1) ** (power + 1)
                * kernels[degree - power][..., -orders:, :, :]
                * power_sums[power - 1][..., -orders:, :, :]
                for power in range(1, degree + 1)
            ]
            kernels.append(torch.stack(terms).sum(0) / degree)
            out = out + kernels[degree][..., 0, :, :].sum(-1)
        return out


def _raise(x: Tensor | SparseMatrix, power: int) -> Tensor | SparseMatrix:
    if isinstance(x, SparseMatrix):
        return x.with_values(x.values**power)
    return x**power
