"""Graphs of any size to measure with: heavy-tailed, learnable, drawn piece by piece."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.reddit import SAME_CLASS, class_sizes
from crossgcn.data.stored.building_folder import check_free_space
from crossgcn.data.stored.graph_writer import MEMORY_LIMIT, Progress, writing_graph
from crossgcn.data.stored.stored_graph import StoredGraph, open_graph
from crossgcn.errors import BadInput

__all__ = ["large_graph"]

PIECE = 1 << 20
"""Edges or features drawn at once, each piece with a seed of its own."""

TAIL = 0.5
"""How fast the drawing power of a class's nodes falls: as their rank to minus this."""

TRAIN_SHARE, VALIDATION_SHARE = 0.6, 0.1

MEAN_LENGTH = 1.3
"""How far a class's mean is from 0, about, where noise in any one direction has 1."""

Integers = NDArray[np.int64]


def large_graph(
    out: Path | str,
    num_nodes: int,
    num_edges: int,
    num_features: int = 100,
    num_classes: int = 47,
    seed: int = 0,
    *,
    memory_limit: int = MEMORY_LIMIT,
    progress: Progress | None = None,
) -> StoredGraph:
    """Draw a graph straight into a folder; memory grows with the nodes, not with the edges.

    It is made like :func:`~crossgcn.data.reddit400k_shaped`: classes of unequal size, few
    nodes with very many neighbours, a third of the edges within a class, features that are a
    weak mean of the class plus noise. Sixty in a hundred nodes train, ten validate and thirty
    test; every node is labelled and has its place by chance. Equal arguments give equal bytes.

    Edges are drawn one by one. Those drawn twice count once and self-loops not at all, so
    there are somewhat fewer than ``num_edges``: one in a thousand at 25 edges a node.

    Args:
        out: The folder to make, new or empty.
        num_nodes: How many nodes.
        num_edges: How many undirected edges to draw.
        num_features: Of each node, dense.
        num_classes: Each has at least one node.
        seed: Which draw, 0 or more.
        memory_limit: Bytes that sorting may take.
        progress: Told what is being done, how much of it is done, and of how much.
    """
    for name, value, least in (
        ("num_nodes", num_nodes, 2),
        ("num_edges", num_edges, 1),
        ("num_features", num_features, 1),
        ("num_classes", num_classes, 1),
        ("seed", seed, 0),
    ):
        if value < least:
            raise BadInput(f"{name} is {value}; give {least} or more")
    if class_sizes(num_nodes, num_classes).min() < 1:
        raise BadInput(
            f"num_classes is {num_classes}, of which some would have none of {num_nodes:,} nodes; "
            "give fewer classes, or more nodes"
        )
    check_free_space(Path(out), 24 * num_edges + (4 * num_features + 17) * num_nodes)
    random = np.random.default_rng([seed, num_nodes, 0])
    nodes = _Nodes(num_nodes, num_classes, random)
    say = progress or (lambda what, done, total: None)
    with writing_graph(
        out,
        num_nodes=num_nodes,
        keep_self_loops=False,
        memory_limit=memory_limit,
        progress=progress,
    ) as writer:
        writer.set_labels(nodes.labels, num_classes)
        writer.set_roles(_draw_roles(num_nodes, random)[None])
        means = random.standard_normal((num_classes, num_features), dtype=np.float32)
        means *= np.float32(MEAN_LENGTH / num_features**0.5)
        rows = max(1, PIECE // num_features)
        for number, start in enumerate(range(0, num_nodes, rows)):
            labels = nodes.labels[start : start + rows]
            noise = np.random.default_rng([seed, num_nodes, 1, number])
            x = noise.standard_normal((len(labels), num_features), dtype=np.float32)
            writer.add_features(x + means[labels])
            say("drawing features", start + len(labels), num_nodes)
        for number, start in enumerate(range(0, num_edges, PIECE)):
            count = min(PIECE, num_edges - start)
            writer.add_edges(*nodes.draw_edges(count, [seed, num_nodes, 2, number]))
            say("drawing edges", start + count, num_edges)
    return open_graph(out)


class _Nodes:
    """Who is of which class, and who is drawn how often.

    Within a class, the node of rank r is drawn in proportion to r to the minus ``TAIL``. The
    sum of that has a closed form, which is inverted to draw a rank without looking it up.
    """

    def __init__(self, num_nodes: int, num_classes: int, random: np.random.Generator) -> None:
        self._sizes = class_sizes(num_nodes, num_classes)
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._place = random.permutation(num_nodes)
        self.labels: Integers = np.empty(num_nodes, np.int64)
        self.labels[self._place] = np.repeat(np.arange(num_classes), self._sizes)

    def draw_edges(self, count: int, seed: list[int]) -> tuple[Integers, Integers]:
        random = np.random.default_rng(seed)
        first = self._draw_classes(random, count)
        second = np.where(
            random.random(count) < SAME_CLASS, first, self._draw_classes(random, count)
        )
        return self._draw_nodes(random, first), self._draw_nodes(random, second)

    def _draw_classes(self, random: np.random.Generator, count: int) -> Integers:
        """A class in proportion to its size."""
        at = random.integers(self._sizes.sum(), size=count)
        found: Integers = np.searchsorted(self._starts, at, side="right") - 1
        return found

    def _draw_nodes(self, random: np.random.Generator, classes: Integers) -> Integers:
        share = random.random(len(classes)) ** (1 / (1 - TAIL))
        ranks = (share * self._sizes[classes]).astype(np.int64)
        drawn: Integers = self._place[self._starts[classes] + ranks]
        return drawn


def _draw_roles(num_nodes: int, random: np.random.Generator) -> NDArray[np.int8]:
    train = round(TRAIN_SHARE * num_nodes)
    validation = round(VALIDATION_SHARE * num_nodes)
    roles = np.full(num_nodes, 3, np.int8)
    roles[:train] = 1
    roles[train : train + validation] = 2
    shuffled: NDArray[np.int8] = random.permutation(roles)
    return shuffled
