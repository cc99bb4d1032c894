"""What a model is given for each node: the data's features, or embeddings of the graph."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.graph import PreparedGraph
from crossgcn.models.deep_walk import DeepWalkSettings, embed_nodes
from crossgcn.models.presets import get_preset
from crossgcn.training.config import RunConfig
from crossgcn.training.records import digest

__all__ = ["Inputs"]


class Inputs:
    """One graph, made ready once for each kind of input that models take.

    Embeddings know no label, so one set for each seed of an experiment serves all
    its splits. They are learned by :meth:`prepare`, or when first asked for.

    Args:
        data: The graph.
        deep_walk: How embeddings are learned.
    """

    def __init__(self, data: Data, deep_walk: DeepWalkSettings | None = None) -> None:
        self.deep_walk = deep_walk or DeepWalkSettings()
        self._edge_index: Tensor = data.edge_index
        self._features = PreparedGraph(data.x, data.edge_index, getattr(data, "edge_weight", None))
        self._embedded: dict[int, PreparedGraph] = {}

    def prepare(self, configs: Iterable[RunConfig]) -> None:
        """Learn the embeddings that these configurations take and that are not there yet.

        Raises:
            BadInput: If they cannot be learned here.
        """
        for config in configs:
            if _takes_embedding(config) and config.seed not in self._embedded:
                vectors = _embedding(
                    self._edge_index.numpy().tobytes(),
                    self._features.x.size(0),
                    config.seed,
                    self.deep_walk,
                )
                self._embedded[config.seed] = PreparedGraph(vectors, self._edge_index)

    def of(self, config: RunConfig) -> PreparedGraph:
        """The graph as the configuration's model sees it."""
        if not _takes_embedding(config):
            return self._features
        self.prepare([config])
        return self._embedded[config.seed]

    def identity(self, config: RunConfig) -> dict[str, Any]:
        """What a record says of inputs that are not the data's own, known before they are."""
        if not _takes_embedding(config):
            return {}
        return {"embedding": self.deep_walk.describe() | {"seed": config.seed}}

    def fingerprint(self, config: RunConfig) -> dict[str, Any]:
        """What a record says of them once they are there."""
        if not _takes_embedding(config):
            return {}
        vectors = self.of(config).x
        assert isinstance(vectors, Tensor)
        return {"embedding_sha256": digest(vectors)}


def _takes_embedding(config: RunConfig) -> bool:
    return get_preset(config.model).inputs == "embedding"


@lru_cache(maxsize=8)
def _embedding(edges: bytes, num_nodes: int, seed: int, settings: DeepWalkSettings) -> Tensor:
    """One set of embeddings for all experiments of this process on the same graph."""
    edge_index = torch.from_numpy(np.frombuffer(edges, np.int64).reshape(2, -1).copy())
    return embed_nodes(edge_index, num_nodes, seed, settings)
