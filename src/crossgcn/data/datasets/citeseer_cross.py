"""Citeseer-Cross: a graph whose classes show in products of features, and only there."""

from __future__ import annotations

from itertools import chain, combinations
from math import comb

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.datasets.planetoid import read_bundled_citeseer
from crossgcn.errors import BadInput


def plant_crosses(
    y: Tensor, num_classes: int, order: int = 2, *, generator: torch.Generator
) -> Tensor:
    r"""Normal features in which class :math:`i` is the sign of the :math:`i`-th product.

    Columns :math:`iK, \ldots, iK + K - 1` belong to class :math:`i`. Their product
    is positive for the nodes of that class and not for all others:

    .. math::
        \prod_{k=0}^{K-1} x_{v,\,iK+k} > 0 \iff y_v = i

    Where a draw comes out wrong, one of its columns, picked at random, changes
    sign. Any :math:`K - 1` columns of a group stay independent normals, so crosses
    of lower order carry no trace of the class. Unlabelled nodes (-1) have no
    positive product.

    Args:
        y: Class of each node, -1 for unlabelled.
        num_classes: Number of column groups.
        order: Columns in a group (:math:`K`).
        generator: Source of randomness, on the CPU.

    Returns:
        ``[N, order * num_classes]``, 32-bit.
    """
    if order < 1:
        raise BadInput(f"order is {order}; a cross needs at least 1 column")
    shape = (len(y), num_classes, order)
    # In 64 bits a draw of exactly zero, whose sign cannot be flipped, is out of reach.
    x = torch.randn(shape, dtype=torch.float64, generator=generator)
    picked = torch.randint(order, shape[:2], generator=generator).unsqueeze(-1)
    positive = x.signbit().sum(dim=-1) % 2 == 0
    wanted = y.unsqueeze(-1) == torch.arange(num_classes)
    sign = torch.where(positive == wanted, 1.0, -1.0).to(x).unsqueeze(-1)
    x.scatter_(-1, picked, x.gather(-1, picked) * sign)
    return x.flatten(1).float()


def citeseer_cross(order: int = 2, seed: int = 0) -> Data:
    """Citeseer's nodes, edges, labels and roles, with planted crosses for features.

    ``load_dataset("citeseer-cross")`` is draw 0 unless it is given a ``seed``, and
    the command line keeps to draw 0; ``crossgcn data get citeseer-cross --seed N
    --out DIR`` writes another to a file, which is then used by its path.

    NOTE[D8]: the paper gives this graph a label rate of 0.036 and the release no
    script, so results are reported with 20 training nodes per class and with all.

    Args:
        order: How many columns make one cross.
        seed: Which draw of the features.
    """
    data = read_bundled_citeseer()
    generator = torch.Generator().manual_seed(seed)
    data.x = plant_crosses(data.y, data.num_classes, order, generator=generator)
    data.name = "citeseer-cross" if order == 2 else f"citeseer-cross-{order}"
    return data


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
