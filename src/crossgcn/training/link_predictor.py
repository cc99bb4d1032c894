"""An encoder of nodes and a decoder of pairs: what is trained to predict links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from crossgcn.graph import SparseMatrix
from crossgcn.models.registry import build_model
from crossgcn.models.stack import Stack
from crossgcn.training.link_settings import Decoder, LinkSettings

__all__ = ["LinkPredictor", "PairDecoder"]


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
        **encoder_settings: As of :func:`~crossgcn.models.registry.build_model`.
    """

    def __init__(
        self, preset: str, in_channels: int, settings: LinkSettings, **encoder_settings: Any
    ) -> None:
        super().__init__()
        channels = settings.embedding_channels
        self.encoder: Stack = build_model(preset, in_channels, channels, **encoder_settings)
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
