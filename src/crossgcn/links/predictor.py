"""An encoder of nodes and a decoder of pairs: what is trained to predict links."""

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
    r"""Scores pairs of nodes by their embeddings.

    .. math:: s_{ij} = \sum_c w_c\, z_{ic}\, z_{jc}

    Args:
        kind: ``dot`` keeps every :math:`w_c` at 1; ``hadamard`` learns them, from 1.
        channels: Width of an embedding.
    """

    def __init__(self, kind: Decoder, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels)) if kind == "hadamard" else None

    def forward(self, embeddings: Tensor, pairs: Tensor) -> Tensor:
        """Scores, ``[pairs]``, of ``pairs [2, pairs]``; which node comes first is all the same."""
        first, second = (_pick_rows(embeddings, ends) for ends in pairs)
        product = first * second
        return (product if self.weight is None else product * self.weight).sum(dim=-1)


class LinkPredictor(nn.Module):
    """A model of the package as encoder, whose last layer gives embeddings, and a decoder.

    Args:
        preset: The encoder's name.
        in_channels: Features per node.
        settings: The embeddings' width and the decoder.
        **encoder_settings: As of :func:`~crossgcn.models.catalogue.build_model`.
    """

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
        """Scores of pairs.

        Args:
            x: Features of all nodes.
            edges: The message graph, once for each of the encoder's propagations.
            pairs: ``[2, pairs]``.
        """
        scores: Tensor = self.decoder(self.encoder(x, edges), pairs)
        return scores


def _pick_rows(matrix: Tensor, rows: Tensor) -> Tensor:
    """Some rows, by a product whose gradient is summed in the same order every time.

    A GPU's own gradient of indexing is not: equal seeds would give unequal weights.
    """
    count = rows.numel()
    offsets = torch.arange(count + 1, device=rows.device)
    ones = torch.ones(count, dtype=matrix.dtype, device=rows.device)
    return SparseMatrix(offsets, rows, ones, (count, matrix.size(0))) @ matrix


Scores = NDArray[np.floating]


def metric_names(hits_at: Sequence[int]) -> tuple[str, ...]:
    """What :func:`link_metrics` gives, in its order."""
    return ("auc", "ap", *(f"hits@{k}" for k in hits_at), "mrr")


def link_metrics(positives: Scores, negatives: Scores, hits_at: Sequence[int]) -> dict[str, float]:
    r"""All metrics of one set of scores, each from 0 to 1.

    ``auc`` is the chance that an edge scores above a pair that is none; ``ap`` is
    scikit-learn's average precision, whose level depends on how many negatives there are;
    ``hits@k`` is the share of edges with rank at most :math:`k`, and ``mrr`` the mean of one
    over the rank.

    Args:
        positives: Scores of edges.
        negatives: Scores of pairs that are none.
        hits_at: The ranks :math:`k`.
    """
    above, level = _count_rivals(positives, negatives)
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
    """The chance that an edge scores above a pair that is none; half of it where level."""
    above, level = _count_rivals(positives, negatives)
    return float(1 - (above + level / 2).mean() / len(negatives))


def _count_rivals(
    positives: Scores, negatives: Scores
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each positive, how many negatives are above it and how many level with it."""
    ordered = np.sort(negatives)
    below = np.searchsorted(ordered, positives, side="left")
    not_above = np.searchsorted(ordered, positives, side="right")
    return len(ordered) - not_above, not_above - below
