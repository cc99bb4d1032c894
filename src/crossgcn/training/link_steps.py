"""Which edges a link predictor sees and which it is to predict, in every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.edge_splits import EdgeSplit, deal_folds, message_edges, training_negatives
from crossgcn.graph import EdgeKind, SparseMatrix, edges_of_kind

__all__ = ["LinkStep", "LinkSteps"]


@dataclass(frozen=True)
class LinkStep:
    """What one step of training is given.

    Attributes:
        edges: The message graph, once for each of the encoder's propagations.
        pairs: To be told apart, ``[2, pairs]``: edges first, then as many that are none.
        labels: 1 for edges and 0 for the others, ``[pairs]``.
    """

    edges: tuple[SparseMatrix, ...]
    pairs: Tensor
    labels: Tensor


class LinkSteps:
    """The steps of one training on one split, and the message graph for scoring afterwards.

    An edge that carries a message gives itself away, so none may do so in a step that is to predict
    it. The training edges are dealt out to folds, once; the folds take turns at being
    predicted, and all edges of the others are the message graph of that step. Negatives are
    drawn anew in each step (see :func:`~crossgcn.data.edge_splits.training_negatives`). Both are
    decided by the seed alone, so models with the same seed are given the same.

    Args:
        data: The graph.
        split: Of its edges.
        propagations: The encoder's.
        folds: How many.
        seed: Deals out the folds and draws the negatives.
        device: Where the predictor is.

    Attributes:
        all_edges: The message graph of all training edges, by which held-out pairs are scored.
    """

    def __init__(
        self,
        data: Data,
        split: EdgeSplit,
        propagations: Sequence[EdgeKind],
        *,
        folds: int,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self._seed, self._device = seed, torch.device(device)
        self._negatives = training_negatives(split, data.num_nodes)
        self._folds = deal_folds(split.train, folds, np.random.default_rng([seed, 0, 1]))

        def prepare(pairs: Sequence[Tensor]) -> tuple[SparseMatrix, ...]:
            edge_index, edge_weight = message_edges(data, torch.cat(list(pairs), dim=1))
            matrices = {
                kind: edges_of_kind(kind, edge_index, data.num_nodes, edge_weight).to(self._device)
                for kind in set(propagations)
            }
            return tuple(matrices[kind] for kind in propagations)

        self._messages = [
            prepare([other for other in self._folds if other is not fold]) for fold in self._folds
        ]
        self.all_edges = prepare(self._folds)

    def step(self, epoch: int) -> LinkStep:
        """What an epoch, counted from 1, is given."""
        turn = (epoch - 1) % len(self._folds)
        positives = self._folds[turn]
        generator = np.random.default_rng([self._seed, epoch, 1])
        negatives = self._negatives.draw(positives.size(1), generator)
        labels = torch.arange(2 * positives.size(1)) < positives.size(1)
        return LinkStep(
            self._messages[turn],
            torch.cat([positives, negatives], dim=1).to(self._device),
            labels.float().to(self._device),
        )
