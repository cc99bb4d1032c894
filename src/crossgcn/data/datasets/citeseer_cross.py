"""Citeseer-Cross: only products of features tell the classes apart."""

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
    r"""Draw normal features ``[N, order * num_classes]`` whose products give the class.

    Columns :math:`iK, \ldots, iK + K - 1` belong to class :math:`i`. Their product is positive
    for the nodes of that class and for no others:

    .. math::
        \prod_{k=0}^{K-1} x_{v,\,iK+k} > 0 \iff y_v = i

    Where the sign of a product is wrong, a random one of its columns changes sign. Any
    :math:`K - 1` columns of a group stay independent normals, so crosses of lower order say
    nothing about the class. Unlabelled nodes (-1) have no positive product.

    Args:
        order: Columns of a class (:math:`K`).
        generator: A generator on the CPU.
    """
    if order < 1:
        raise BadInput(f"order is {order}; a cross needs at least 1 column")
    shape = (len(y), num_classes, order)
    # In 64 bits a draw of exactly zero, whose sign cannot change, is practically impossible.
    x = torch.randn(shape, dtype=torch.float64, generator=generator)
    picked = torch.randint(order, shape[:2], generator=generator).unsqueeze(-1)
    positive = x.signbit().sum(dim=-1) % 2 == 0
    wanted = y.unsqueeze(-1) == torch.arange(num_classes)
    sign = torch.where(positive == wanted, 1.0, -1.0).to(x).unsqueeze(-1)
    x.scatter_(-1, picked, x.gather(-1, picked) * sign)
    return x.flatten(1).float()


def citeseer_cross(order: int = 2, seed: int = 0) -> Data:
    """Return Citeseer with features drawn by :func:`plant_crosses`.

    The command line uses seed 0; ``crossgcn data get citeseer-cross --seed N --out DIR`` writes
    another draw to a file.

    NOTE[D8]: the paper gives this graph a label rate of 0.036 and the release no
    script, so results are reported with 20 training nodes per class and with all.
    """
    data = read_bundled_citeseer()
    generator = torch.Generator().manual_seed(seed)
    data.x = plant_crosses(data.y, data.num_classes, order, generator=generator)
    data.name = "citeseer-cross" if order == 2 else f"citeseer-cross-{order}"
    return data


MAX_COLUMNS = 1_000_000
"""Crosses that are written out at most: a layer of 32 units then has 32 million weights."""

MAX_ENTRIES = 2**28
"""Numbers that are written out at most: 1 GiB; computing them takes about three times that."""


def cross_columns(num_features: int, order: int = 2) -> Tensor:
    """Return the columns that each cross multiplies, ``[crosses, order]``.

    Crosses are in lexicographic order: 01, 02, 03, 12, 13, 23 for four features and order 2.
    There may be at most 1,000,000.
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
    # torch.combinations makes a table of num_features ** order first.
    flat = chain.from_iterable(combinations(range(num_features), order))
    return torch.from_numpy(np.fromiter(flat, np.int64, count * order).reshape(count, order))


def explicit_crosses(x: Tensor, order: int = 2) -> Tensor:
    r"""Multiply every ``order`` different columns with each other.

    .. math:: z_{(j_1, \ldots, j_K)} = \prod_{k=1}^{K} x_{j_k},
        \qquad j_1 < j_2 < \cdots < j_K

    Powers and lower orders are left out; ``order=1`` returns ``x``. :func:`cross_columns`
    returns which column is which cross.

    Args:
        x: Dense features ``[rows, features]``.
        order: Columns of one cross (:math:`K`).
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
    """Return Citeseer-Cross with the 66 products of two features instead of the 12 features.

    A model without crosses gets them ready-made, as in the paper's Figure 2. The six pairs
    that decide the classes are those of the columns ``(0, 1)``, ``(2, 3)`` and so on.
    """
    data = citeseer_cross(order=2, seed=seed)
    data.x = explicit_crosses(data.x, order=2)
    data.name = "citeseer-cross-pairs"
    return data
