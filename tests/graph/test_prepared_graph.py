"""A graph made ready from edges or from rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sampling_cases import KINDS, draw_edges, memory_graph

from crossgcn.graph import PreparedGraph, edges_of_kind
from crossgcn.graph.normalise import EdgeKind


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_weighed_as_edges_are(kind: EdgeKind, weighted: bool) -> None:
    x, edges, weight = draw_edges()
    graph = PreparedGraph.from_source(memory_graph(weighted=weighted))
    expected = edges_of_kind(
        kind, edges, x.size(0), weight.double() if weighted else None, dtype=torch.float64
    )
    found = graph.edges(kind)
    assert torch.equal(found.row_offsets, expected.row_offsets)
    assert torch.equal(found.columns, expected.columns)
    assert np.allclose(found.values, expected.values, rtol=1e-6)
    assert torch.equal(torch.as_tensor(graph.x), x)


def test_all_nodes_of_a_whole_graph_need_no_copy_of_it() -> None:
    graph = PreparedGraph.from_source(memory_graph())
    _, blocks = graph.view(torch.arange(60), 2)
    assert all(block is graph.adjacency for block in blocks)
