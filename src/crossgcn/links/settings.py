"""Settings of link prediction, and the models that can be encoders.

Nothing here imports torch: the command line shows these defaults and names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from crossgcn.errors import BadInput, unknown_name
from crossgcn.models.catalogue import PRESETS, get_preset

NUM_EDGE_SPLITS = 10
VALIDATION_SHARE, TEST_SHARE = 0.05, 0.1
"""Shares of all edges; the rest trains."""


def encoder_names() -> list[str]:
    """Return the presets that can be encoders.

    The others have a loss of their own, or inputs learned from all edges, including those to
    be predicted.
    """
    return [name for name, preset in PRESETS.items() if preset.predicts_links]


def check_encoder(name: str) -> None:
    """Refuse a model that is not known or cannot be an encoder."""
    if not get_preset(name).predicts_links:
        raise BadInput(
            f"model {name!r} cannot predict links, because its loss is about classes or its inputs "
            f"are learned from all edges: use one of {', '.join(encoder_names())}"
        )


def check_at_least(least: int, **values: int) -> None:
    """Refuse values below a minimum."""
    for name, value in values.items():
        if value < least:
            raise BadInput(f"{name} is {value}; give at least {least}")


Decoder = Literal["dot", "hadamard"]
DECODERS: tuple[Decoder, ...] = get_args(Decoder)

LINK_DEFAULTS: Mapping[str, Any] = {"hidden_channels": 64, "epochs": 300, "weight_decay": 0.0}
"""Defaults of a configuration that differ from those for classification."""

DEFAULT_RANKS = (10, 50, 100)
"""Default ranks K of Hits@K; those above the number of test negatives are left out."""


@dataclass(frozen=True)
class LinkSettings:
    """How links are predicted; the same for all models of a comparison.

    Attributes:
        embedding_channels: Width of a node's embedding, the output of the last layer.
        decoder: Score of two embeddings: ``dot`` is their inner product, ``hadamard`` has a
            learned weight for each channel.
        folds: Parts of the training edges; in each step one of them is predicted and the others
            carry messages.
        hits_at: The ranks of Hits@K; by default those of :data:`DEFAULT_RANKS` that fit.
    """

    embedding_channels: int = 64
    decoder: Decoder = "dot"
    folds: int = 10
    hits_at: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.decoder not in DECODERS:
            raise unknown_name("decoder", self.decoder, DECODERS)
        check_at_least(1, embedding_channels=self.embedding_channels)
        check_at_least(2, folds=self.folds)
        for k in self.ranks:
            check_at_least(1, hits_at=k)
        if len(set(self.ranks)) < len(self.ranks):
            raise BadInput(f"hits_at is {list(self.ranks)}; give every rank once")

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of Hits@K, given or default."""
        return DEFAULT_RANKS if self.hits_at is None else self.hits_at

    def fit_ranks(self, negatives: int, name: str) -> LinkSettings:
        """Return settings without default ranks above the number of test negatives."""
        if self.hits_at is None:
            return replace(self, hits_at=tuple(k for k in DEFAULT_RANKS if k <= negatives))
        for k in self.hits_at:
            if k > negatives:
                raise BadInput(
                    f"{name}: Hits@{k} ranks edges among {k} negatives or more, and the test set "
                    f"has {negatives}; ask for a smaller K, for more negatives, or for a larger "
                    "test share"
                )
        return self

    def describe(self) -> dict[str, Any]:
        """Return the settings for a record."""
        return asdict(self) | {"hits_at": list(self.ranks)}
