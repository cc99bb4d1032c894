"""A graph made ready for any number of models."""

from __future__ import annotations

import torch

from crossgcn.graph import PreparedGraph


def test_all_nodes_of_a_whole_graph_need_no_copy_of_it() -> None:
    graph = PreparedGraph(torch.rand(60, 3), torch.randint(60, (2, 300)))
    _, blocks = graph.view(torch.arange(60), 2)
    assert all(block is graph.adjacency for block in blocks)
