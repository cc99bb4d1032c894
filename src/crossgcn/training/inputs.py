"""The inputs of models: the features of the data, or embeddings of the graph."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.graph import PreparedGraph
from crossgcn.graph.sampling.source import GraphSource, MemoryGraph, source_of
from crossgcn.models.catalogue import get_preset
from crossgcn.models.deep_walk import DeepWalkSettings, embed_nodes
from crossgcn.training.config import RunConfig
from crossgcn.training.records import digest


class Inputs:
    """One graph, prepared once for each kind of input that models take.

    Embeddings do not depend on labels, so one set for each seed of an experiment serves all its
    splits. They are learned by :meth:`prepare`, or on first use.
    """

    def __init__(self, data: Data, deep_walk: DeepWalkSettings | None = None) -> None:
        self.deep_walk = deep_walk or DeepWalkSettings()
        self._data: Data | None = data
        self._num_features = num_features_of(data)
        self._whole: PreparedGraph | None = None
        self._embedded: dict[int, PreparedGraph] = {}
        self._sources: dict[int | None, GraphSource] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Pickle for other processes what is prepared, without the data."""
        return {**self.__dict__, "_data": None}

    def prepare(self, configs: Iterable[RunConfig]) -> None:
        """Prepare the inputs of these configurations.

        Raises:
            BadInput: If embeddings cannot be learned here.
        """
        for config in configs:
            if config.batch_size is None:
                self.of(config)
            else:
                self.source_of(config)

    def of(self, config: RunConfig) -> PreparedGraph:
        """Return the graph with the inputs of the configuration's model."""
        if _takes_embedding(config):
            if config.seed not in self._embedded:
                self._embedded[config.seed] = self._embed(config.seed)
            return self._embedded[config.seed]
        if self._whole is None:
            graph, stored = self._graph, getattr(self._graph, "stored", None)
            if stored is not None:
                self._whole = PreparedGraph.from_source(source_of(stored))
            else:
                self._whole = PreparedGraph(graph.x, graph.edge_index, graph.edge_weight)
        return self._whole

    def source_of(self, config: RunConfig) -> GraphSource:
        """Return the same as a source of batches; nothing is computed for the whole graph."""
        seed = config.seed if _takes_embedding(config) else None
        if seed not in self._sources:
            if seed is None:
                self._sources[seed] = source_of(getattr(self._graph, "stored", self._graph))
            else:
                vectors = self.of(config).x
                assert isinstance(vectors, Tensor)
                graph = self._graph
                self._sources[seed] = MemoryGraph(vectors, graph.edge_index, None, graph.y)
        return self._sources[seed]

    def num_features(self, config: RunConfig) -> int:
        """Return the number of inputs per node of the configuration's model."""
        return self.of(config).x.size(1) if _takes_embedding(config) else self._num_features

    def identity(self, config: RunConfig) -> dict[str, Any]:
        """Return what a record says of embeddings before they are learned."""
        if not _takes_embedding(config):
            return {}
        return {"embedding": self.deep_walk.describe() | {"seed": config.seed}}

    def fingerprint(self, config: RunConfig) -> dict[str, Any]:
        """Return what a record says of embeddings once they are learned."""
        if not _takes_embedding(config):
            return {}
        return {"embedding_sha256": digest(self.of(config).x)}  # type: ignore[arg-type]

    @property
    def _graph(self) -> Data:
        assert self._data is not None, "the process that started this one should have prepared this"
        return self._data

    def _embed(self, seed: int) -> PreparedGraph:
        edge_index, num_nodes = self._graph.edge_index, self._graph.x.size(0)
        vectors = _embedding(edge_index.numpy().tobytes(), num_nodes, seed, self.deep_walk)
        return PreparedGraph(vectors, edge_index)


def num_features_of(data: Data) -> int:
    """Return the number of features per node, of a graph in memory or on disk."""
    stored = getattr(data, "stored", None)
    return int(data.x.size(1) if stored is None else stored.num_features)


def _takes_embedding(config: RunConfig) -> bool:
    return get_preset(config.model).inputs == "embedding"


@lru_cache(maxsize=8)
def _embedding(edges: bytes, num_nodes: int, seed: int, settings: DeepWalkSettings) -> Tensor:
    """Learn embeddings once for all experiments of this process on the same graph."""
    edge_index = torch.from_numpy(np.frombuffer(edges, np.int64).reshape(2, -1).copy())
    return embed_nodes(edge_index, num_nodes, seed, settings)
