"""Full-batch training of a peer, with the loss over the training mask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Data

from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.config import Precision
from research.benchmarks.harness.peers import Peer

__all__ = ["PeerTraining", "matmul_precision"]

BACKEND = "inductor"
"""The compiler of ``torch.compile``."""

_MANY = 10_000


class PeerTraining:
    """A peer with its optimiser on one graph; :meth:`step` and :meth:`epoch` are timed.

    Args:
        name: Name of the :class:`~research.benchmarks.harness.peers.Peer`.
        ours: Our model of the same order; the peer copies its weights and dropout rate.
        validation: Validation nodes, for :meth:`epoch`.
        device: Device to train on.
        precision: ``bf16`` runs under autocast; ``tf32`` needs :func:`matmul_precision`.
    """

    def __init__(
        self,
        name: str,
        ours: NodeClassifier,
        data: Data,
        train: Tensor,
        validation: Tensor | None = None,
        *,
        device: str = "cpu",
        precision: Precision = "fp32",
    ) -> None:
        peer = Peer(name)
        self.model = peer.build(ours).to(device)
        self.precision = precision
        dtype = torch.bfloat16 if precision == "bf16" else data.x.dtype
        self.inputs = peer.inputs(data.x.to(device), data.edge_index.to(device), dtype)
        self.y: Tensor = data.y.to(device)
        self.train = train.to(device) if peer.fused else _mask(train, self.y)
        self.mode, self._pass = peer.mode, self._run
        if peer.mode is not None:
            # Beyond its limit, PyTorch runs further sizes uncompiled, and only warns.
            torch._dynamo.config.recompile_limit = _MANY
            torch._dynamo.config.accumulated_recompile_limit = _MANY
            self._pass = torch.compile(self._run, mode=peer.mode, backend=BACKEND, dynamic=False)
        self.validation = None if validation is None else _mask(validation, self.y)
        matrices = [p for p in self.model.parameters() if p.dim() >= 2]
        others = [p for p in self.model.parameters() if p.dim() < 2]
        self.optimizer = torch.optim.Adam(
            [
                {"params": matrices, "weight_decay": 5e-4},
                *([{"params": others, "weight_decay": 0.0}] if others else []),
            ],
            lr=0.01,
            fused=peer.fused or None,
        )

    def scores(self) -> Tensor:
        """Return the class scores of the training nodes."""
        return self._forward()[0].clone()

    def loss(self) -> Tensor:
        """Return the mean cross-entropy of the training nodes."""
        return self._forward()[1]

    def _forward(self) -> tuple[Tensor, Tensor]:
        if self.mode == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        with self._autocast():
            return self._pass()

    def _run(self) -> tuple[Tensor, Tensor]:
        scores: Tensor = self.model(*self.inputs)[self.train]
        return scores, functional.cross_entropy(scores, self.y[self.train])

    def step(self) -> Tensor:
        """Run forward, backward and Adam."""
        self.model.train()
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach().clone()

    @torch.no_grad()
    def validate(self) -> float:
        """Return the validation accuracy, from a pass over the whole graph as in PyG's example."""
        assert self.validation is not None
        self.model.eval()
        with self._autocast():
            predicted = self.model(*self.inputs).argmax(dim=1)
        right = predicted[self.validation] == self.y[self.validation]
        return float(right.float().mean())

    def epoch(self) -> float:
        """Run a step and the validation after it."""
        self.step()
        return self.validate()

    def _autocast(self) -> torch.autocast | nullcontext[None]:
        if self.precision != "bf16":
            return nullcontext()
        return torch.autocast(self.y.device.type, dtype=torch.bfloat16)


@contextmanager
def matmul_precision(precision: Precision) -> Iterator[None]:
    """Allow or forbid tf32 in float32 matrix products on GPUs within the block."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    try:
        yield
    finally:
        matmul.fp32_precision = before


def _mask(nodes: Tensor, y: Tensor) -> Tensor:
    mask = torch.zeros(y.numel(), dtype=torch.bool)
    mask[nodes] = True
    return mask.to(y.device)
