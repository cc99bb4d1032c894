"""Splits for a search: no node that tests in one split trains or validates in another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.splits import VALIDATION_SHARE, Split, make_splits, strata
from crossgcn.errors import BadInput

_SHARE_OF_REST = VALIDATION_SHARE / (1 - VALIDATION_SHARE)


def draw_sealed_roles(
    data: Data, *, num_splits: int, train: int | Literal["all"] | None, seed: int
) -> Tensor:
    """Draw stratified splits that share their test nodes.

    Ordinary stratified splits redraw all nodes: a test node of one split validates in another,
    and settings chosen by the mean over splits have seen the labels of every node. Here the
    test nodes are those of the first stratified split, and only the other nodes are redrawn.
    A quarter of each class, or of all nodes with a number, validates, and the rest, or ``train``
    nodes per class, train.
    Return roles ``[num_splits, nodes]``: 1 trains, 2 validates, 3 tests.
    """
    (first,) = make_splits(data, "stratified", num_splits=1, train=train, seed=seed)
    roles = torch.zeros(num_splits, len(data.y), dtype=torch.int8)
    roles[:, first.test] = 3
    labels = strata(data.y)
    for index, row in enumerate(roles):
        generator = np.random.default_rng([seed, index, len(data.y)])
        for label in range(data.num_classes):
            nodes = torch.nonzero((labels == label) & (row != 3)).flatten()
            nodes = nodes[torch.from_numpy(generator.permutation(len(nodes)))]
            validation = max(1, round(_SHARE_OF_REST * len(nodes)))
            kept = validation + train if isinstance(train, int) else None
            row[nodes[validation:kept]] = 1
            row[nodes[:validation]] = 2
    return roles


def check_sealed(splits: Sequence[Split], name: str) -> None:
    """Refuse splits of the data ``name`` in which a test node of one trains in another."""
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
