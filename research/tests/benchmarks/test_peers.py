from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data

from crossgcn.errors import WorkFailed
from crossgcn.graph import edges_of_kind
from crossgcn.models.node_classifier import NodeClassifier
from research.benchmarks.harness.agreement import check_peer
from research.benchmarks.harness.gradients import (
    Gradients,
    first_gradients,
    gradient_errors,
    peer_gradients,
)
from research.benchmarks.harness.ours import build_ours, prepare, raise_crosses, training_step
from research.benchmarks.harness.peer_training import PeerTraining
from research.benchmarks.harness.peers import Peer, csr_adjacency

pytestmark = pytest.mark.usefixtures("one_thread")
TRAIN = torch.arange(0, 90, 2)
NAMES = (*Peer.NAMES, *Peer.COMPILED)


def in_double(data: Data) -> Data:
    double = data.clone()
    double.x = data.x.to(torch.float64)
    return double


@pytest.mark.parametrize("name", NAMES)
def test_a_peer_is_our_layers_in_scores_and_gradients(name: str, small_graph: Data) -> None:
    data = in_double(small_graph)
    ours = build_ours(data, Peer(name).order, hidden_channels=5, dropout=0.0).double()
    raise_crosses(ours)
    peer = PeerTraining(name, ours, data, TRAIN)
    theirs, their_gradients = peer_gradients(peer)
    scores = ours(data.x, data.edge_index)[TRAIN]
    cross_entropy(scores, data.y[TRAIN]).backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(scores, theirs, rtol=1e-10, atol=1e-12)
    for layer, gradients in zip(ours.layers, their_gradients, strict=True):
        weight = layer.transform.weight.grad  # type: ignore[union-attr]
        for order, mine in enumerate(weight, 1):  # type: ignore[arg-type]
            torch.testing.assert_close(mine, gradients[f"W{order}"], rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dense", [True, False])
def test_the_step_that_is_timed_agrees_with_every_peer(
    name: str, dense: bool, small_graph: Data
) -> None:
    if dense:
        small_graph.x = small_graph.x.to_dense()
    checks = check_peer("small", name, small_graph, TRAIN, hidden_channels=8)
    per_layer = 3 if Peer(name).order == 2 else 1
    assert len(checks) == 2 + 2 * per_layer
    assert all(check.error <= check.tolerance for check in checks)


def test_a_peer_that_computes_something_else_stops_the_benchmark(
    small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Peer.build

    def wrong(self: Peer, ours: torch.nn.Module) -> torch.nn.Module:
        model = build(self, ours)  # type: ignore[arg-type]
        with torch.no_grad():
            model.convolutions[1].second.weight.mul_(1.01)  # type: ignore[union-attr, operator]
        return model

    monkeypatch.setattr(Peer, "build", wrong)
    with pytest.raises(WorkFailed, match="nothing was timed"):
        check_peer("small", "naive Cross-GCN", small_graph, TRAIN)


def test_without_crosses_in_the_check_the_second_weights_would_go_unseen(
    small_graph: Data,
) -> None:
    ours = build_ours(small_graph, 2, dropout=0.0)
    assert float(_gradients(ours, small_graph)[0]["W2"].abs().max()) < 1e-8
    raise_crosses(ours)
    gradients = _gradients(ours, small_graph)
    assert float(gradients[0]["W2"].abs().max()) > 1e-4
    _, theirs = peer_gradients(PeerTraining("naive Cross-GCN", ours, small_graph, TRAIN))
    assert max(gradient_errors(gradients, theirs).values()) < 1e-4


def _gradients(ours: NodeClassifier, data: Data) -> Gradients:
    step = training_step(ours, prepare(data), data, TRAIN)
    step()
    return first_gradients(step, ours)


def test_peers_train_on_the_small_graph_with_dropout(small_graph: Data) -> None:
    for name in NAMES:
        ours = build_ours(small_graph, Peer(name).order)
        peer = PeerTraining(name, ours, small_graph, TRAIN, torch.arange(1, 90, 2))
        first = float(peer.step())
        accuracy = [peer.epoch() for _ in range(40)][-1]
        assert float(peer.step()) < first
        assert accuracy > 0.5


def test_the_tuned_peer_has_the_graphs_normalised_adjacency(small_graph: Data) -> None:
    theirs = csr_adjacency(small_graph.edge_index, 90, torch.float32).to_dense()
    ours = edges_of_kind("gcn", small_graph.edge_index, 90).to_scipy().toarray()
    torch.testing.assert_close(theirs, torch.from_numpy(ours))
