"""An LSTM or a GRU over the neighbours of a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from crossgcn.graph import SparseMatrix
from crossgcn.layers.aggregation.node_aggregation import NodeAggregation, weigh_messages
from crossgcn.layers.feature_transform import refuse_recurrent


class RecurrentAggregation(NodeAggregation):
    r"""The last state of a recurrent network over the messages :math:`w_{ij}\mathbf{x}_j`.

    Messages are sorted by a fixed linear score of their vectors, so that the result does not
    depend on the numbering of nodes. A linear read-out follows, because states stay within
    (-1, 1) and could not serve as class scores. Sequences are packed, so memory grows with the
    number of edges and not with the largest degree.
    """

    capturable = False
    vectors_per_edge = 8
    weighs_messages = True

    def __init__(self, channels: int, *, cell: Literal["lstm", "gru"] = "lstm") -> None:
        super().__init__(channels)
        network = nn.LSTM if cell == "lstm" else nn.GRU
        self.network = network(channels, channels)
        self.read_out = nn.Linear(channels, channels, bias=False)

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Aggregate; a row without edges is zero."""
        refuse_recurrent(f"aggr={self.name!r}", x, traced=True)
        (hop,) = hops
        last = x.new_zeros(hop.shape[0], self.channels)
        if hop.nonzeros == 0:
            return last
        messages = weigh_messages(x, hop)
        order, batch_sizes, longest_first = _pack(hop, _score(messages))
        _, state = self.network(PackedSequence(messages[order], batch_sizes))
        state = state[0] if isinstance(state, tuple) else state
        read: Tensor = self.read_out(state.squeeze(0))
        return last.index_copy(0, longest_first[: read.size(0)], read)


def _score(messages: Tensor) -> Tensor:
    """Return a number per message to sort by; different vectors rarely share one."""
    direction = torch.arange(1, messages.size(-1) + 1, device=messages.device).sin()
    return (messages.detach() * direction.to(messages.dtype)).sum(dim=-1)


def _pack(hop: SparseMatrix, score: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sort messages as ``PackedSequence`` needs them: all first steps before all second ones.

    Return the order of the messages, the number of rows that have each step, and the rows,
    longest first.
    """
    by_score = score.argsort(stable=True)
    within_rows = by_score[hop.rows[by_score].argsort(stable=True)]
    lengths = hop.row_offsets.long().diff()
    longest_first = lengths.argsort(descending=True, stable=True)
    rank = torch.empty_like(longest_first)
    rank[longest_first] = torch.arange(rank.numel(), device=rank.device)
    step = torch.arange(hop.nonzeros, device=rank.device) - hop.row_offsets.long()[hop.rows]
    turn = (step * rank.numel() + rank[hop.rows]).argsort()
    return within_rows[turn], torch.bincount(step).cpu(), longest_first
