"""The paper's two baselines that are no graph convolutions: DeepWalk and SemiEmb."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from crossgcn import BadInput

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


def deep_walk(
    edge_index: Tensor,
    num_nodes: int,
    seed: int,
    *,
    walks_per_node: int = 10,
    walk_length: int = 40,
    dimensions: int = 128,
    window: int = 10,
) -> Tensor:
    """Learn an embedding of every node from random walks, by skip-gram.

    Walks are the sentences of gensim's Word2Vec with 5 negative samples and one pass, on one
    thread, so that the same seed gives the same bytes. Vectors are scaled to length 1; that of an
    isolated node is zero.

    DeepWalk was published with 80 walks of 40 nodes, a window of 10 and 64 to 128 dimensions. Ten
    walks take one core about a minute on Pubmed, and 20 did not raise the validation accuracy on
    Cora. Window, dimensions and scaling to length 1 were chosen by validation accuracy on
    Citeseer.
    """
    try:
        word2vec: Any = importlib.import_module("gensim.models.word2vec")
    except ImportError:
        raise BadInput(
            "DeepWalk learns its embeddings with gensim, which is not installed: pip install gensim"
        ) from None
    walks = random_walks(
        edge_index, num_nodes, walks_per_node=walks_per_node, walk_length=walk_length, seed=seed
    )
    vectors = np.zeros((num_nodes, dimensions), dtype=np.float32)
    walks = walks[walks[:, -1] != NO_NODE]
    if walks.size == 0:
        return torch.from_numpy(vectors)
    trained = word2vec.Word2Vec(
        _Sentences(walks),
        sg=1,
        hs=0,
        negative=5,
        vector_size=dimensions,
        window=window,
        epochs=1,
        min_count=1,
        sample=0,
        workers=1,
        seed=seed,
    ).wv
    nodes = np.array([int(word) for word in trained.index_to_key])
    vectors[nodes] = trained.vectors / np.linalg.norm(trained.vectors, axis=1, keepdims=True)
    return torch.from_numpy(vectors)


class _Sentences:
    """Walks as an iterable of sentences, which gensim goes through twice."""

    def __init__(self, walks: NDArray[np.int32]) -> None:
        self.walks = walks
        self.words = np.array([str(node) for node in range(int(walks.max()) + 1)], dtype=object)

    def __iter__(self) -> Iterator[list[str]]:
        for walk in self.walks:
            yield self.words[walk].tolist()


class SemiEmb(nn.Module):
    """A perceptron with one hidden layer and no biases, which sees no graph.

    Its loss does, see :func:`laplacian_penalty`.

    Shapes:
        - **x**: ``[nodes, in_channels]``, sparse CSR, of which the stored entries are dropped.
        - **output**: class scores, ``[nodes, out_channels]``.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, dropout: float
    ) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.second = nn.Parameter(torch.empty(hidden_channels, out_channels))
        self.dropout = nn.Dropout(dropout)
        for weight in (self.first, self.second):
            nn.init.xavier_uniform_(weight)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return class scores; edges are ignored."""
        hidden = functional.embedding_bag(  # x @ first, with gradients
            x.col_indices(),
            self.first,
            x.crow_indices()[:-1],
            mode="sum",
            per_sample_weights=self.dropout(x.values()),
        )
        scores: Tensor = self.dropout(hidden.relu()) @ self.second
        return scores


def laplacian_penalty(scores: Tensor, edge_index: Tensor) -> Tensor:
    r"""Compute what SemiEmb adds to the loss of a perceptron, to make neighbours agree.

    .. math:: \frac{1}{|E|}\sum_{\{i,j\}\in E}\|\mathbf{p}_i-\mathbf{p}_j\|^2,
        \qquad \mathbf{p}_i = \mathrm{softmax}(\mathbf{z}_i)

    The sum runs over every undirected edge once, labelled or not. The graph enters the objective
    only: a trained model needs no edges. Comparing predictions after the softmax instead of
    scores was chosen by validation accuracy.

    Args:
        scores: :math:`\mathbf{z}`, class scores of all nodes.
        edge_index: Both directions of every edge; self-loops add nothing.
    """
    source, target = edge_index[:, edge_index[0] < edge_index[1]]
    predictions = scores.softmax(dim=-1)
    return (predictions[source] - predictions[target]).square().sum(dim=-1).mean()
