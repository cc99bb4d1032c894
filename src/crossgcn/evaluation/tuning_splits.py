"""Splits for a search: what tests in one of them trains and validates in none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.splits import VALIDATION_SHARE, Split, make_splits
from crossgcn.errors import BadInput

__all__ = ["check_sealed", "deal_out_sealed"]


def deal_out_sealed(
    data: Data, *, num_splits: int, train: int | Literal["all"] | None, seed: int
) -> Tensor:
    """Stratified splits that share their test nodes, as ``roles``.

    Stratified splits deal all nodes out anew, so that a node which tests in one validates in
    another, and settings chosen by the mean over splits have seen the labels of all. Here the
    test nodes are those of the first stratified split, and only the others are dealt out
    again: of every class a quarter validates, and the rest, or ``train`` of them, train.

    Args:
        data: The graph, with ``y`` and ``num_classes``.
        num_splits: How many.
        train: Training nodes per class, or ``"all"``.
        seed: Which draw.

    Returns:
        ``[num_splits, nodes]``: 1 trains, 2 validates, 3 tests.
    """
    (first,) = make_splits(data, "stratified", num_splits=1, train=train, seed=seed)
    roles = torch.zeros(num_splits, len(data.y), dtype=torch.int8)
    roles[:, first.test] = 3
    for index, row in enumerate(roles):
        generator = np.random.default_rng([seed, index, len(data.y)])
        for label in range(data.num_classes):
            nodes = torch.nonzero((data.y == label) & (row != 3)).flatten()
            nodes = nodes[torch.from_numpy(generator.permutation(len(nodes)))]
            validation = max(1, round(_SHARE * len(nodes)))
            kept = validation + train if isinstance(train, int) else None
            row[nodes[validation:kept]] = 1
            row[nodes[:validation]] = 2
    return roles


def check_sealed(splits: Sequence[Split], name: str) -> None:
    """Refuse splits of which one tests on what another trains or validates with.

    Args:
        splits: Over which settings are to be chosen.
        name: Of the data.
    """
    tested = torch.cat([split.test for split in splits])
    for index, split in enumerate(splits):
        for role, nodes in (("trains", split.train), ("validates", split.validation)):
            seen = nodes[torch.isin(nodes, tested)]
            if len(seen):
                raise BadInput(
                    f"{name}: node {int(seen[0])} {role} in split {index} and tests in another, so "
                    "that settings chosen over all splits would have seen its label; use --splits "
                    "stratified, which keeps test nodes apart here, or --num-splits 1"
                )


_SHARE = VALIDATION_SHARE / (1 - VALIDATION_SHARE)
