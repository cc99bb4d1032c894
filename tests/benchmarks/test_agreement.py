from __future__ import annotations

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from benchmarks import peers
from benchmarks.ours import build_ours, check_peer, weights_of
from benchmarks.peers import PEERS, PeerTraining, order_of
from crossgcn import WorkFailed

TRAIN = torch.arange(0, 90, 2)


@pytest.fixture(autouse=True)
def without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """``torch.compile`` traces the peers as always, but runs no C++ compiler on them."""
    monkeypatch.setattr(peers, "BACKEND", "aot_eager")


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("dense", [True, False])
def test_the_step_that_is_timed_agrees_with_every_peer(
    name: str, dense: bool, small_graph: Data
) -> None:
    if dense:
        small_graph.x = small_graph.x.to_dense()
    checks = check_peer("small", name, small_graph, TRAIN, hidden_channels=8)
    assert len(checks) == 2 + 2 * (3 if order_of(name) == 2 else 1)


def test_a_peer_that_computes_something_else_stops_the_benchmark(
    small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_of = peers._convolution

    def wrong(*arguments: object) -> nn.Module:
        layer = copy_of(*arguments)  # type: ignore[arg-type]
        with torch.no_grad():
            layer.second.weight.mul_(1.01)  # type: ignore[union-attr, operator]
        return layer

    monkeypatch.setattr(peers, "_convolution", wrong)
    with pytest.raises(WorkFailed, match="cannot be compared"):
        check_peer("small", "naive Cross-GCN", small_graph, TRAIN)


@pytest.mark.parametrize("name", PEERS)
def test_peers_learn_with_dropout(name: str, small_graph: Data) -> None:
    weights = weights_of(build_ours(small_graph, order_of(name)))
    peer = PeerTraining(name, weights, small_graph, TRAIN, torch.arange(1, 90, 2))
    first = float(peer.step())
    assert [peer.epoch() for _ in range(40)][-1] > 0.5
    assert float(peer.step()) < first
