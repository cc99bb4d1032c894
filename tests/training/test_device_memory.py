from __future__ import annotations

import pytest
import torch

from crossgcn.data.features import csr_tensor
from crossgcn.errors import WorkFailed
from crossgcn.graph import PreparedGraph
from crossgcn.layers.order_weights import ORDER_WEIGHTS
from crossgcn.models.catalogue import PRESETS, build_model
from crossgcn.models.cross_gcn import CrossGCN
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.device import (
    check_memory,
    describe_sizes,
    enough_memory,
    estimate_bytes,
)

GPU = torch.device("cuda")


def model(hidden: int = 8, layers: int = 2, order: int = 2, features: int = 24) -> NodeClassifier:
    return CrossGCN(features, hidden, layers, 3, order=order)


def ring(nodes: int, features: int = 24, neighbours: int = 1) -> PreparedGraph:
    """Every node joined with the next ones; dense features."""
    source = torch.arange(nodes).repeat_interleave(neighbours)
    target = (source + torch.arange(neighbours).repeat(nodes) + 1) % nodes
    edges = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    return PreparedGraph(torch.ones(nodes, features), edges)


def _with_features(graph: PreparedGraph, sparse: bool) -> PreparedGraph:
    """The same graph, each node with one feature where they are sparse."""
    if not sparse:
        return graph
    nodes = graph.x.size(0)
    offsets, columns = torch.arange(nodes + 1), torch.arange(nodes) % 24
    x = csr_tensor(offsets, columns, torch.ones(nodes), (nodes, 24))
    edges = torch.stack([graph.adjacency.columns, graph.adjacency.rows])
    return PreparedGraph(x, edges)


def free_memory(monkeypatch: pytest.MonkeyPatch, free: int, total: int = 2**37) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, total))


def test_more_of_anything_needs_more_memory() -> None:
    least = estimate_bytes(model(), ring(50))
    assert estimate_bytes(model(), ring(100)) > least
    assert estimate_bytes(model(), ring(50, neighbours=4)) > least
    assert estimate_bytes(model(hidden=16), ring(50)) > least
    assert estimate_bytes(model(layers=3), ring(50)) > least
    assert estimate_bytes(model(order=3), ring(50)) > least
    assert estimate_bytes(model(features=48), ring(50, features=48)) > least


def test_each_further_node_needs_more_with_wider_deeper_and_higher_crosses() -> None:
    def per_node(network: NodeClassifier, features: int = 24) -> int:
        return estimate_bytes(network, ring(101, features)) - estimate_bytes(
            network, ring(100, features)
        )

    least = per_node(model())
    assert per_node(model(hidden=16)) > least
    assert per_node(model(layers=3)) > least
    assert per_node(model(order=3)) > least
    assert per_node(model(features=48), 48) > least


def test_sparse_features_need_less_than_the_same_made_dense() -> None:
    """And what they need hangs on their entries, not on how wide the matrix is."""
    nodes, edges = 500, torch.arange(500).repeat(2, 1)
    offsets, columns = torch.arange(nodes + 1), torch.zeros(nodes, dtype=torch.long)
    sizes = {}
    for width in (40, 80):
        sparse = csr_tensor(offsets, columns, torch.ones(nodes), (nodes, width))
        weights = sum(weight.numel() for weight in model(features=width).parameters())
        for x in (sparse, sparse.to_dense()):
            size = estimate_bytes(model(features=width), PreparedGraph(x, edges))
            sizes[width, x is sparse] = size - 8 * 4 * weights
    assert sizes[40, True] < sizes[40, False]
    assert sizes[40, True] == sizes[80, True]


def test_the_estimate_covers_what_a_step_keeps_at_least() -> None:
    """Weights, gradient and two means; features; projections and outputs of each layer."""
    nodes, order, hidden, features, classes = 300, 3, 16, 24, 3
    weights = order * (features * hidden + hidden * classes)
    between = nodes * (features + (order + 1) * (hidden + classes))
    assert estimate_bytes(model(hidden, order=order), ring(nodes)) > 4 * (4 * weights + between)


@pytest.mark.parametrize("sparse", [True, False])
def test_every_model_needs_memory_for_each_node_and_feature(sparse: bool) -> None:
    small, large = (_with_features(ring(nodes), sparse) for nodes in (60, 120))
    models = [build_model(name, 24, 3) for name in PRESETS]
    models += [CrossGCN(24, 8, 2, 3, order_weights=name) for name in ORDER_WEIGHTS]
    for network in models:
        weights = 4 * sum(weight.numel() for weight in network.parameters())
        least = estimate_bytes(network, small)
        assert least > weights
        assert estimate_bytes(network, large) > least


def test_what_cannot_fit_is_refused_with_sizes_and_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, graph = model(), ring(50)
    free_memory(monkeypatch, estimate_bytes(network, graph) - 1, total=3 * 2**30)
    with pytest.raises(WorkFailed) as error:
        check_memory(network, graph, GPU)
    for fragment in (
        *("CrossGCN with 2 layers", "50 nodes", "150 directed edges", "24 features"),
        *("cuda has 0.0 GiB free of 3.0 GiB", "--hidden-channels", "--order", "--device cpu"),
    ):
        assert fragment in str(error.value)
    free_memory(monkeypatch, estimate_bytes(network, graph))
    check_memory(network, graph, GPU)


def test_the_sizes_in_the_message_are_those_of_the_model_and_graph() -> None:
    weights = 2 * (24 * 8 + 8 * 3) + 8 + 3 + 2 + 2
    assert describe_sizes(model(), ring(1500)) == (
        f"CrossGCN with 2 layers and {weights} weights on 1,500 nodes, 4,500 directed edges "
        "(self-loops included) and 24 features"
    )


def test_the_memory_of_the_cpu_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    free_memory(monkeypatch, 0)
    check_memory(model(), ring(50), torch.device("cpu"))


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9 bytes"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        MemoryError("Unable to allocate 3 TiB"),
        MemoryError(),
    ],
    ids=["torch", "its allocator", "cublas", "numpy", "python"],
)
def test_every_lack_of_memory_is_said_in_the_same_words(error: Exception) -> None:
    with (
        pytest.raises(WorkFailed, match=r"^work of 7 nodes does not fit.*cpu;.*--device cpu"),
        enough_memory("work of 7 nodes", torch.device("cpu")),
    ):
        raise error


def test_real_lack_of_memory_is_recognised() -> None:
    with (
        pytest.raises(WorkFailed, match="does not fit"),
        enough_memory("a very long vector", torch.device("cpu")),
    ):
        torch.empty(2**60)


@pytest.mark.parametrize(
    "error", [RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ValueError("memory")]
)
def test_other_errors_are_left_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)), enough_memory("work", GPU):
        raise error
