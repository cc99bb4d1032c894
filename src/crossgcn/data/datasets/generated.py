"""Generated data: features whose products determine the class, and a graph to measure speed."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.graph import canonical_graph


def plant_crosses(
    y: Tensor, num_classes: int, order: int = 2, *, generator: torch.Generator
) -> Tensor:
    r"""Draw normal features ``[N, order * num_classes]`` whose products determine the class.

    Columns :math:`iK, \ldots, iK + K - 1` belong to class :math:`i`. Their product is positive
    for the nodes of that class and for no others:

    .. math::
        \prod_{k=0}^{K-1} x_{v,\,iK+k} > 0 \iff y_v = i

    Where the sign of a product is wrong, one of its columns, chosen at random, is negated. Any
    :math:`K - 1` columns of a class stay independent normals, so crosses of lower order carry no
    information about the class. Unlabelled nodes (-1) have no positive product.

    Args:
        order: Number of columns per class (:math:`K`).
        generator: A generator on the CPU.
    """
    shape = (len(y), num_classes, order)
    # In 64 bits an exact zero, which cannot be negated, is practically impossible.
    x = torch.randn(shape, dtype=torch.float64, generator=generator)
    picked = torch.randint(order, shape[:2], generator=generator).unsqueeze(-1)
    positive = x.signbit().sum(dim=-1) % 2 == 0
    wanted = y.unsqueeze(-1) == torch.arange(num_classes)
    sign = torch.where(positive == wanted, 1.0, -1.0).to(x).unsqueeze(-1)
    x.scatter_(-1, picked, x.gather(-1, picked) * sign)
    return x.flatten(1).float()


NUM_NODES, NUM_EDGES, NUM_FEATURES, NUM_CLASSES = 30_000, 386_742, 602, 41
NUM_TRAIN, NUM_VALIDATION = 18_000, 3_000

SAME_CLASS = 0.35
"""Share of edges whose second end is drawn from the class of the first, not from all nodes."""

DEGREE_TAIL, MOST_LIKELY = 1.6, 100.0
"""Exponent of the power law of the nodes' sampling weights, and the largest weight."""

SIGNAL = 0.12
"""Standard deviation of a feature's class means; that of its noise is 1."""


def reddit400k_shaped(seed: int = 0) -> Data:
    """Draw a graph with the counts that the paper gives for Reddit400K.

    It has 30,000 nodes, 386,742 distinct undirected edges without self-loops, 602 dense
    features and 41 classes of unequal size. It serves to measure speed; its accuracies say
    nothing about Reddit. Models can learn from it:

    - ends of edges are drawn in proportion to weights from a power law, so that few nodes have
      very many neighbours;
    - a third of the edges are drawn within a class, the others from all nodes;
    - features are a weak class mean plus noise of standard deviation 1, so that neighbours add
      information.

    60 % of the nodes train (the paper's label rate), 10 % validate and 30 % test. Every node is
    labelled. Equal seeds give equal graphs.
    """
    random = np.random.default_rng([seed, NUM_NODES])
    share = 1 / np.sqrt(np.arange(1, NUM_CLASSES + 1))
    sizes = np.floor(NUM_NODES * share / share.sum()).astype(np.int64)
    sizes[0] += NUM_NODES - sizes.sum()
    y = random.permutation(np.repeat(np.arange(NUM_CLASSES), sizes))
    edges = _draw_edges(y, random)
    x = random.standard_normal((NUM_NODES, NUM_FEATURES), dtype=np.float32)
    means = random.standard_normal((NUM_CLASSES, NUM_FEATURES), dtype=np.float32)
    x += np.float32(SIGNAL) * means[y]
    roles = np.full(NUM_NODES, 3, np.int8)
    order = random.permutation(NUM_NODES)
    roles[order[:NUM_TRAIN]] = 1
    roles[order[NUM_TRAIN : NUM_TRAIN + NUM_VALIDATION]] = 2
    data = Data(
        x=torch.from_numpy(x),
        edge_index=torch.from_numpy(edges),
        y=torch.from_numpy(y),
        roles=torch.from_numpy(roles).unsqueeze(0),
        num_classes=NUM_CLASSES,
        name="reddit400k-shaped",
    )
    return canonical_graph(data, "reddit400k-shaped")


def _draw_edges(y: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    """Draw distinct undirected edges without self-loops.

    Each node is an interval on a line, as long as its weight; intervals are sorted by class. A
    uniform position on the line, or within a class, draws a node in proportion to its weight.
    """
    weights = np.minimum((1 - random.random(NUM_NODES)) ** (-1 / DEGREE_TAIL), MOST_LIKELY)
    nodes = np.argsort(y, kind="stable")
    bounds = np.concatenate([[0.0], np.cumsum(weights[nodes])])
    ends = np.cumsum(np.bincount(y))
    low, high = bounds[ends - np.bincount(y)], bounds[ends]

    def node_at(position: NDArray[np.float64]) -> NDArray[np.int64]:
        at = np.searchsorted(bounds, position, side="right") - 1
        return nodes[np.minimum(at, NUM_NODES - 1)]

    pairs = np.empty((2, 0), np.int64)
    while pairs.shape[1] < NUM_EDGES:
        first = node_at(random.random(NUM_EDGES // 2) * bounds[-1])
        same = random.random(len(first)) < SAME_CLASS
        start = np.where(same, low[y[first]], 0.0)
        end = np.where(same, high[y[first]], bounds[-1])
        second = node_at(start + random.random(len(first)) * (end - start))
        pairs = np.concatenate([pairs, np.stack([first, second])], axis=1)
        pairs = pairs[:, pairs[0] != pairs[1]]
        keys = pairs.min(axis=0) * NUM_NODES + pairs.max(axis=0)
        pairs = pairs[:, np.sort(np.unique(keys, return_index=True)[1])]
    return pairs[:, :NUM_EDGES]
