r"""Constants that let every order start at the same size, whatever the features are like.

A product of :math:`k` projections of size :math:`c` is of size :math:`c^k`: where projections
start small, high orders start at nothing, and where they start large, at infinity. With
``scaling="unit"`` weights of orders from the second on are drawn with deviation 1, so that a
row of length 1 has projections of size 1 and multiplying by one more changes no size. How long
rows really are, and how their products spread, is measured once, on data, and divided out by
one constant :math:`s_k` per order, found one after the other such that

.. math:: \operatorname{rms}(\mathbf{h}^k) = \sqrt{\tfrac{2}{D+E}}, \qquad
    \mathbf{h}^k = (s_k\mathbf{W}^k\mathbf{x}) \odot \mathbf{h}^{k-1}

for all :math:`k`: the size that a linear layer with Glorot's weights gives a row of length 1.
Constants as they are, the transform stays a polynomial.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

__all__ = ["Scaling", "measure_scale"]

Scaling = Literal["none", "unit"]


def measure_scale(projections: Tensor, size: float) -> Tensor:
    """What to multiply each order's projections by, so that all products get one size.

    Rows without features count for nothing; where there are no others, nothing is scaled.

    Args:
        projections: ``[..., order, channels]``, unscaled.
        size: The root mean square that each order's products should have.

    Returns:
        ``[order]``.
    """
    rows = projections.detach().flatten(0, -3).double()
    rows = rows[rows.any(dim=-1).any(dim=-1)]
    product, scales = torch.ones_like(rows[:, 0]), []
    for projection in rows.unbind(-2):
        product = product * projection
        scale = size / product.square().mean().sqrt()
        scale = torch.where(scale.isfinite() & (scale > 0), scale, 1.0)
        product = product * scale
        scales.append(scale)
    return torch.stack(scales).to(projections.dtype)
