"""DeepWalk: node embeddings from random walks, without features or labels."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import distributions
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.errors import BadInput

NO_NODE = -1


def random_walks(
    edge_index: Tensor, num_nodes: int, *, walks_per_node: int, walk_length: int, seed: int
) -> NDArray[np.int32]:
    """Draw random walks from every node, as in DeepWalk.

    Edges are undirected and may be given in one direction or both. Neighbours are equally likely,
    and self-loops are not taken.

    Returns:
        A walk per row, ``[walks_per_node * num_nodes, walk_length]``, in rounds that start once
        at every node, in random order. The row of an isolated node is padded with -1.
    """
    for name, value in (("walks_per_node", walks_per_node), ("walk_length", walk_length)):
        if value < 1:
            raise BadInput(f"{name} must be at least 1; got {value}")
    offsets, neighbours = _neighbours(edge_index, num_nodes)
    degrees = np.diff(offsets)
    generator = np.random.default_rng(seed)
    rounds = np.tile(np.arange(num_nodes, dtype=np.int32), (walks_per_node, 1))
    here = generator.permuted(rounds, axis=1).ravel()
    walks = np.full((here.size, walk_length), NO_NODE, dtype=np.int32)
    walks[:, 0] = here
    moving = np.flatnonzero(degrees[here] > 0)
    here = here[moving]
    for step in range(1, walk_length):
        choice = generator.integers(degrees[here])
        here = neighbours[offsets[here] + choice]
        walks[moving, step] = here
    return walks


def _neighbours(edge_index: Tensor, num_nodes: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return offsets and neighbours of all nodes."""
    source, target = edge_index[:, edge_index[0] != edge_index[1]].numpy()
    ends = np.concatenate([source, target]), np.concatenate([target, source])
    graph = sp.coo_array((np.ones(ends[0].size), ends), shape=(num_nodes, num_nodes)).tocsr()
    graph.sum_duplicates()
    return graph.indptr.astype(np.int64), graph.indices.astype(np.int32)


@dataclass(frozen=True)
class DeepWalkSettings:
    """Settings of walks and skip-gram.

    DeepWalk was published with 80 walks of 40 nodes, a window of 10 and 64 to 128 dimensions. Ten
    walks take one core about a minute on Pubmed, and 20 did not raise the validation accuracy on
    Cora. Window, dimensions and scaling to length 1 were chosen by validation accuracy on
    Citeseer.

    Attributes:
        window: Largest distance of a context node on a walk.
        negative: Negative samples per context node.
    """

    walks_per_node: int = 10
    walk_length: int = 40
    window: int = 10
    dimensions: int = 128
    epochs: int = 1
    negative: int = 5

    def describe(self) -> dict[str, Any]:
        """Return the settings for a record, and the version of gensim, if it is installed."""
        found = next(iter(distributions(name="gensim")), None)
        return {"method": "deep-walk", "gensim": found and found.version} | asdict(self)


def embed_nodes(
    edge_index: Tensor, num_nodes: int, seed: int, settings: DeepWalkSettings | None = None
) -> Tensor:
    """Learn an embedding of every node from random walks, by skip-gram.

    Walks are the sentences of gensim's Word2Vec with negative sampling, on one thread, so that the
    same seed gives the same bytes. Vectors are scaled to length 1; that of an isolated node is
    zero.
    """
    settings = settings or DeepWalkSettings()
    try:
        word2vec: Any = importlib.import_module("gensim.models.word2vec")
    except ImportError:
        raise BadInput(
            "deep-walk learns its embeddings with gensim, which is not installed: "
            "pip install 'crossgcn[deepwalk]'"
        ) from None
    walks = random_walks(
        edge_index,
        num_nodes,
        walks_per_node=settings.walks_per_node,
        walk_length=settings.walk_length,
        seed=seed,
    )
    walks = walks[walks[:, -1] >= 0]
    if walks.size == 0:
        raise BadInput(
            "deep-walk learns from edges between nodes, and the graph has none: "
            "use a model that reads features, such as --model mlp"
        )
    trained = word2vec.Word2Vec(
        _Sentences(walks, num_nodes),
        sg=1,
        hs=0,
        negative=settings.negative,
        vector_size=settings.dimensions,
        window=settings.window,
        epochs=settings.epochs,
        min_count=1,
        sample=0,
        workers=1,
        seed=seed,
    ).wv
    nodes = np.array([int(word) for word in trained.index_to_key])
    vectors = np.zeros((num_nodes, settings.dimensions), dtype=np.float32)
    vectors[nodes] = trained.vectors / np.linalg.norm(trained.vectors, axis=1, keepdims=True)
    return torch.from_numpy(vectors)


class _Sentences:
    """Walks as an iterable of sentences for gensim."""

    def __init__(self, walks: NDArray[np.int32], num_nodes: int) -> None:
        self.walks = walks
        self.words = np.array([str(node) for node in range(num_nodes)], dtype=object)

    def __iter__(self) -> Iterator[list[str]]:
        for walk in self.walks:
            yield self.words[walk].tolist()
