"""Both sides compute the same function, or nothing is timed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.errors import WorkFailed
from crossgcn.graph import PreparedGraph
from crossgcn.training.config import Precision
from research.benchmarks.harness.gradients import (
    apart,
    first_gradients,
    gradient_errors,
    our_scores,
    peer_gradients,
)
from research.benchmarks.harness.ours import build_ours, prepare, raise_crosses, training_step
from research.benchmarks.harness.peer_training import PeerTraining, matmul_precision
from research.benchmarks.harness.peers import Peer

__all__ = ["Check", "check_peer"]

SAME_VALUES: Final[dict[Precision, float]] = {"fp32": 3e-4, "tf32": 3e-2, "bf16": 1e-1}
"""Of scores and gradients, relative to their norm."""

SAME_LOSSES: Final[dict[Precision, float]] = {"fp32": 1e-3, "tf32": 1e-2, "bf16": 3e-2}
"""Of the losses of the first steps; Adam enlarges rounding where a gradient is almost zero."""

STEPS: Final = 5


@dataclass(frozen=True)
class Check:
    """How far two sides are apart.

    Attributes:
        case: On what.
        what: Which sides and what of them.
        error: The norm of the difference, relative to the peer's.
        tolerance: What is allowed.
    """

    case: str
    what: str
    error: float
    tolerance: float

    def require(self) -> Check:
        """Itself, if the sides agree.

        Raises:
            WorkFailed: If they do not.
        """
        # A NaN is not at most anything.
        if self.error <= self.tolerance:
            return self
        raise WorkFailed(
            f"{self.case}: {self.what} differ by {self.error:.2g}, more than "
            f"{self.tolerance:.2g}, so their times cannot be compared; nothing was timed"
        )


def check_peer(
    case: str,
    name: str,
    data: Data,
    train: Tensor,
    *,
    hidden_channels: int = 32,
    device: str = "cpu",
    precision: Precision = "fp32",
    graph: PreparedGraph | None = None,
) -> list[Check]:
    """Compare a peer with the step of ours that is timed, from the same weights.

    Without dropout: scores of the training nodes, gradients of every weight (of order
    weights in ``fp32`` only), and the losses of the first steps of training.

    Args:
        case: What to call the place in messages.
        name: Of the peer.
        data: The graph.
        train: Training nodes.
        hidden_channels: Width of the hidden layer.
        device: Where both run.
        precision: Of both.
        graph: The same graph, prepared; prepared here when left out.

    Raises:
        WorkFailed: If they do not agree.
    """
    ours = build_ours(data, Peer(name).order, hidden_channels=hidden_channels, dropout=0.0)
    raise_crosses(ours)
    values = SAME_VALUES[precision]
    with matmul_precision(precision):
        peer = PeerTraining(name, ours, data, train, device=device, precision=precision)
        step = training_step(
            ours, graph or prepare(data), data, train, device=device, precision=precision
        )
        theirs = peer_gradients(peer)
        checks = [
            Check(case, f"scores of ours and {name}", apart(our_scores(step), theirs[0]), values)
        ]
        # Without decay, beside which a small gradient would be lost in Adam's mean.
        bare = training_step(
            ours,
            graph or prepare(data),
            data,
            train,
            device=device,
            precision=precision,
            weight_decay=0.0,
        )
        bare()
        for what, error in gradient_errors(first_gradients(bare, ours), theirs[1]).items():
            # A single number, in which terms of both signs cancel and rounding does not.
            single = what.startswith("alpha")
            if not single or precision == "fp32":
                what = f"gradients of {what} of ours and {name}"
                checks.append(Check(case, what, error, 10 * values if single else values))
        losses = [step().detach().reshape(()).clone() for _ in range(STEPS)]
        error = apart(torch.stack(losses), torch.stack([peer.step() for _ in range(STEPS)]))
    what = f"losses of the first {STEPS} steps of ours and {name}"
    checks.append(Check(case, what, error, SAME_LOSSES[precision]))
    return [check.require() for check in checks]
