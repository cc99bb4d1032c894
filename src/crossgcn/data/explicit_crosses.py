"""Cross features written out as columns, for a model that does not make its own."""

from __future__ import annotations

from itertools import chain, combinations
from math import comb

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.citeseer_cross import citeseer_cross
from crossgcn.errors import BadInput

__all__ = ["citeseer_cross_pairs", "cross_columns", "explicit_crosses"]

MAX_COLUMNS = 1_000_000
"""Of the result: a first layer of 32 units would have 32 million weights, 128 MB of them."""

MAX_ENTRIES = 2**28
"""Of the whole result: 1 GiB in 32 bits, and products need about three times that."""


def cross_columns(num_features: int, order: int = 2) -> Tensor:
    """The columns that each cross multiplies, in the order of the crosses.

    Columns ascend within a cross and crosses ascend like words in a dictionary: for
    four features and order 2, they are 01, 02, 03, 12, 13, 23.

    Args:
        num_features: Columns to choose from.
        order: Columns of one cross.

    Returns:
        ``[crosses, order]``, int64.

    Raises:
        BadInput: If there is no cross of this order, or more than 1,000,000.
    """
    if not 1 <= order <= num_features:
        raise BadInput(
            f"order is {order}, with {num_features} features; a cross takes different columns, "
            f"so give 1 to {num_features}"
        )
    count = comb(num_features, order)
    if count > MAX_COLUMNS:
        raise BadInput(
            f"{num_features} features have {count:,} crosses of order {order}, more than the "
            f"{MAX_COLUMNS:,} columns that can be written out; lower the order, choose fewer "
            "features, or use CrossFeatureTransform, which learns crosses without listing them"
        )
    flat = chain.from_iterable(combinations(range(num_features), order))
    columns = np.fromiter(flat, np.int64, count * order).reshape(count, order)
    return torch.from_numpy(columns)


def explicit_crosses(x: Tensor, order: int = 2) -> Tensor:
    r"""Multiply every ``order`` different columns with each other.

    .. math:: z_{(j_1, \ldots, j_K)} = \prod_{k=1}^{K} x_{j_k},
        \qquad j_1 < j_2 < \cdots < j_K

    There is no square or other power among them, and lower orders are left out;
    ``order=1`` gives back ``x``. :func:`cross_columns` says which column is which.

    Args:
        x: Features, dense ``[rows, features]``.
        order: Columns of one cross (:math:`K`).

    Returns:
        ``[rows, crosses]``, in the type of ``x``.

    Raises:
        BadInput: Naming how many crosses there would be, if they are too many.
    """
    if x.layout != torch.strided or x.dim() != 2:
        raise BadInput(
            f"x has layout {x.layout} and shape {list(x.shape)}; give it dense and with two "
            "dimensions, for a sparse one x.to_dense()"
        )
    columns = cross_columns(x.shape[1], order).to(x.device)
    if len(x) * len(columns) > MAX_ENTRIES:
        raise BadInput(
            f"{len(columns):,} crosses of order {order} for {len(x):,} rows are "
            f"{len(x) * len(columns):,} numbers, more than the {MAX_ENTRIES:,} that can be written "
            "out; lower the order, choose fewer features, or cross some rows at a time"
        )
    products = x[:, columns[:, 0]]
    for k in range(1, order):
        products = products * x[:, columns[:, k]]
    return products


def citeseer_cross_pairs(seed: int = 0) -> Data:
    """Citeseer-Cross with the 66 products of two features instead of the 12 features.

    The six pairs that decide the classes are among them, at the columns where
    :func:`cross_columns` has ``(0, 1)``, ``(2, 3)`` and so on. A model that cannot
    cross features gets them ready-made, as in the paper's Figure 2.

    Args:
        seed: Which draw of Citeseer-Cross.
    """
    data = citeseer_cross(order=2, seed=seed)
    data.x = explicit_crosses(data.x, order=2)
    data.name = "citeseer-cross-pairs"
    return data
