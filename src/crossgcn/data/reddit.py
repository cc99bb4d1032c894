"""A graph of the shape of Reddit400K, which the paper times models on and nobody published."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from crossgcn.data.adopt import adopt_graph
from crossgcn.errors import BadInput

__all__ = ["SAME_CLASS", "class_sizes", "reddit400k_shaped"]

NUM_NODES, NUM_EDGES, NUM_FEATURES, NUM_CLASSES = 30_000, 386_742, 602, 41
NUM_TRAIN, NUM_VALIDATION = 18_000, 3_000

SAME_CLASS = 0.35
"""How often an edge is drawn within its first end's class; else from all nodes."""

DEGREE_TAIL, MOST_LIKELY = 1.6, 100.0
"""Exponent of the power law of the nodes' drawing power, and where it is cut off."""

SIGNAL = 0.12
"""Standard deviation of the class means, in a feature whose noise has 1."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def reddit400k_shaped(seed: int = 0) -> Data:
    """Draw a graph with the counts that the paper gives for Reddit400K.

    It has 30,000 nodes, 386,742 distinct undirected edges without self-loops, 602
    dense features and 41 classes of unequal size. It serves to measure speed; its
    accuracies say nothing about Reddit. Still, it can be learnt from:

    - every node has a drawing power from a power law, and ends of edges are drawn
      in proportion to it, so that few nodes have very many neighbours;
    - a third of the edges are drawn within a class, the others from all nodes;
    - features are a weak mean of the class plus noise of standard deviation 1, so
      that a node alone says less than it does with its neighbours.

    Sixty in a hundred nodes train, as the paper's label rate has it, ten validate
    and thirty test. Every node is labelled. Equal seeds give equal graphs.

    Args:
        seed: Which draw, 0 or more.
    """
    if seed < 0:
        raise BadInput(f"seed is {seed}; give 0 or more")
    random = np.random.default_rng([seed, NUM_NODES])
    y = random.permutation(np.repeat(np.arange(NUM_CLASSES), class_sizes(NUM_NODES, NUM_CLASSES)))
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
    return adopt_graph(data, "reddit400k-shaped")


def class_sizes(num_nodes: int, num_classes: int) -> Integers:
    """Sizes that fall off as communities' do; rounding is made up for in the largest.

    Args:
        num_nodes: Of all classes together.
        num_classes: How many there are.
    """
    share = 1 / np.sqrt(np.arange(1, num_classes + 1))
    sizes: Integers = np.floor(num_nodes * share / share.sum()).astype(np.int64)
    sizes[0] += num_nodes - sizes.sum()
    return sizes


def _draw_edges(y: Integers, random: np.random.Generator) -> Integers:
    """Distinct pairs of two different nodes, the first of them that come, ``[2, edges]``."""
    power = np.minimum((1 - random.random(NUM_NODES)) ** (-1 / DEGREE_TAIL), MOST_LIKELY)
    by_class = np.argsort(y, kind="stable")
    reach = np.concatenate([[0.0], np.cumsum(power[by_class])])
    last = np.cumsum(np.bincount(y, minlength=NUM_CLASSES))
    start, stop = reach[np.concatenate([[0], last[:-1]])], reach[last]
    keys = np.empty(0, np.int64)
    while len(keys) < NUM_EDGES:
        count = NUM_EDGES // 2
        first = _node_at(random.random(count) * reach[-1], reach, by_class)
        same = random.random(count) < SAME_CLASS
        low = np.where(same, start[y[first]], 0.0)
        high = np.where(same, stop[y[first]], reach[-1])
        second = _node_at(low + random.random(count) * (high - low), reach, by_class)
        key = np.minimum(first, second) * NUM_NODES + np.maximum(first, second)
        keys = np.concatenate([keys, key[first != second]])
        _, when = np.unique(keys, return_index=True)
        keys = keys[np.sort(when)]
    return np.stack(np.divmod(keys[:NUM_EDGES], NUM_NODES))


def _node_at(position: Floats, reach: Floats, by_class: Integers) -> Integers:
    """The node whose stretch of the line of drawing powers a position falls on."""
    at = np.searchsorted(reach, position, side="right") - 1
    nodes: Integers = by_class[np.minimum(at, NUM_NODES - 1)]
    return nodes
