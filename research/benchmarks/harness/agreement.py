"""Checks that both sides compute the same function; without agreement nothing is timed."""

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
"""Tolerance for scores and gradients, relative to their norm."""

SAME_LOSSES: Final[dict[Precision, float]] = {"fp32": 1e-3, "tf32": 1e-2, "bf16": 3e-2}
"""Tolerance for the first losses; Adam amplifies rounding errors of gradients near zero."""

STEPS: Final = 5


@dataclass(frozen=True)
class Check:
    """The difference between two sides.

    Attributes:
        case: The case, such as a graph.
        what: The sides and the compared quantity.
        error: Norm of the difference, relative to the peer's norm.
        tolerance: Largest error allowed.
    """

    case: str
    what: str
    error: float
    tolerance: float

    def require(self) -> Check:
        """Return the check if the sides agree.

        Raises:
            WorkFailed: If the error exceeds the tolerance.
        """
        # Written with <= so that NaN fails.
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
    """Compare a peer with our timed step, from the same weights and without dropout.

    Compared are the scores of the training nodes, the gradients of every weight (of order
    weights in ``fp32`` only), and the losses of the first training steps.

    Args:
        case: Name of the case in messages.
        name: Name of the peer.
        hidden_channels: Width of the hidden layer.
        device: Device of both sides.
        precision: Precision of both sides.
        graph: The prepared graph; prepared from ``data`` if omitted.

    Raises:
        WorkFailed: If the sides disagree.
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
        # No weight decay: it would hide a small gradient in Adam's first moment.
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
            # A scalar gradient: its terms cancel, their rounding errors do not.
            single = what.startswith("alpha")
            if not single or precision == "fp32":
                what = f"gradients of {what} of ours and {name}"
                checks.append(Check(case, what, error, 10 * values if single else values))
        losses = [step().detach().reshape(()).clone() for _ in range(STEPS)]
        error = apart(torch.stack(losses), torch.stack([peer.step() for _ in range(STEPS)]))
    what = f"losses of the first {STEPS} steps of ours and {name}"
    checks.append(Check(case, what, error, SAME_LOSSES[precision]))
    return [check.require() for check in checks]
