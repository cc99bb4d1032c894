"""The link predictor, an encoder of nodes and a decoder of pairs, and its metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score
from torch import Tensor, nn

from crossgcn.graph import SparseMatrix
from crossgcn.links.settings import Decoder, LinkSettings
from crossgcn.models.catalogue import build_model
from crossgcn.models.node_classifier import NodeClassifier


class PairDecoder(nn.Module):
    r"""Score of a pair of nodes, from their embeddings.

    .. math:: s_{ij} = \sum_c w_c\, z_{ic}\, z_{jc}

    Args:
        kind: ``dot`` fixes every :math:`w_c` at 1; ``hadamard`` learns them, starting at 1.
    """

    def __init__(self, kind: Decoder, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels)) if kind == "hadamard" else None

    def forward(self, embeddings: Tensor, pairs: Tensor) -> Tensor:
        """Return the scores ``[pairs]`` of ``pairs [2, pairs]``; the order of the nodes is free."""
        first, second = (_pick_rows(embeddings, ends) for ends in pairs)
        product = first * second
        return (product if self.weight is None else product * self.weight).sum(dim=-1)


class LinkPredictor(nn.Module):
    """A model of the package as encoder, whose last layer returns embeddings, and a decoder."""

    def __init__(
        self, preset: str, in_channels: int, settings: LinkSettings, **encoder_settings: Any
    ) -> None:
        super().__init__()
        channels = settings.embedding_channels
        self.encoder: NodeClassifier = build_model(
            preset, in_channels, channels, **encoder_settings
        )
        self.decoder = PairDecoder(settings.decoder, channels)

    def forward(
        self, x: Tensor | SparseMatrix, edges: Sequence[SparseMatrix], pairs: Tensor
    ) -> Tensor:
        """Return the scores of ``pairs [2, pairs]``.

        ``edges`` is the message graph, once for each of the encoder's propagations.
        """
        scores: Tensor = self.decoder(self.encoder(x, edges), pairs)
        return scores


def _pick_rows(matrix: Tensor, rows: Tensor) -> Tensor:
    """Select rows by a sparse product, whose gradient is summed in a fixed order.

    The gradient of indexing on a GPU is not: equal seeds would give different weights.
    """
    count = rows.numel()
    offsets = torch.arange(count + 1, device=rows.device)
    ones = torch.ones(count, dtype=matrix.dtype, device=rows.device)
    return SparseMatrix(offsets, rows, ones, (count, matrix.size(0))) @ matrix


Scores = NDArray[np.floating]


def metric_names(hits_at: Sequence[int]) -> tuple[str, ...]:
    """Return the names of the metrics of :func:`link_metrics`, in its order."""
    return ("auc", "ap", *(f"hits@{k}" for k in hits_at), "mrr")


def link_metrics(positives: Scores, negatives: Scores, hits_at: Sequence[int]) -> dict[str, float]:
    r"""Return all metrics of scores of edges and negative pairs, each from 0 to 1.

    ``auc`` is the area under the ROC curve; ``ap`` is the average precision, whose level depends
    on the number of negatives; ``hits@k`` is the share of edges with rank at most :math:`k`
    among the negatives, and ``mrr`` the mean reciprocal rank. Ties get their mean over all orders.
    """
    above, level = _count_negatives(positives, negatives)
    labels = np.repeat([1, 0], [len(positives), len(negatives)])
    harmonic = np.cumsum(1 / np.arange(1, len(negatives) + 2))
    harmonic = np.concatenate([[0.0], harmonic])
    reciprocal = (harmonic[above + level + 1] - harmonic[above]) / (level + 1)
    hits = {f"hits@{k}": np.clip((k - above) / (level + 1), 0, 1).mean() for k in hits_at}
    return {
        "auc": area_under_curve(positives, negatives),
        "ap": float(average_precision_score(labels, np.concatenate([positives, negatives]))),
        **{name: float(value) for name, value in hits.items()},
        "mrr": float(reciprocal.mean()),
    }


def area_under_curve(positives: Scores, negatives: Scores) -> float:
    """Return the probability that an edge scores above a negative pair; ties count half."""
    above, level = _count_negatives(positives, negatives)
    return float(1 - (above + level / 2).mean() / len(negatives))


def _count_negatives(
    positives: Scores, negatives: Scores
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each positive how many negatives score above it, and how many the same."""
    ordered = np.sort(negatives)
    below = np.searchsorted(ordered, positives, side="left")
    not_above = np.searchsorted(ordered, positives, side="right")
    return len(ordered) - not_above, not_above - below
