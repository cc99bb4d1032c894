"""What link predictors compared with each other share.

Nothing here imports torch: the command line shows the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from crossgcn.errors import BadInput, unknown_name

__all__ = ["DECODERS", "LINK_DEFAULTS", "Decoder", "LinkSettings"]

Decoder = Literal["dot", "hadamard"]
DECODERS: tuple[Decoder, ...] = get_args(Decoder)

LINK_DEFAULTS: Mapping[str, Any] = {"hidden_channels": 64, "epochs": 300, "weight_decay": 0.0}
"""Of a configuration, in place of those for classes."""


@dataclass(frozen=True)
class LinkSettings:
    """How links are predicted, the same for every model compared.

    Attributes:
        embedding_channels: Width of a node's embedding, which the last layer gives.
        decoder: How two embeddings become a score: ``dot`` is their inner product,
            ``hadamard`` one with a learned weight for each channel.
        folds: Parts that the training edges are dealt out to; in each step one of them is
            to be predicted and the others carry messages.
        hits_at: The ranks of Hits@K.
    """

    embedding_channels: int = 64
    decoder: Decoder = "dot"
    folds: int = 10
    hits_at: tuple[int, ...] = (10, 50, 100)

    def __post_init__(self) -> None:
        if self.decoder not in DECODERS:
            raise unknown_name("decoder", self.decoder, DECODERS)
        for name, value, least in (
            ("embedding_channels", self.embedding_channels, 1),
            ("folds", self.folds, 2),
            *(("hits_at", k, 1) for k in self.hits_at),
        ):
            if value < least:
                raise BadInput(f"{name} is {value}; give at least {least}")
        if len(set(self.hits_at)) < len(self.hits_at):
            raise BadInput(f"hits_at is {list(self.hits_at)}; give every rank once")

    def describe(self) -> dict[str, Any]:
        """As records have it."""
        return asdict(self) | {"hits_at": list(self.hits_at)}
