"""Aggregations over one hop: sums, means, GraphSAGE, pairs, attention and recurrent networks."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence

from crossgcn.errors import BadInput
from crossgcn.graph import ModelBatchMatrix, SparseMatrix
from crossgcn.kernels.ops import attend
from crossgcn.kernels.plain import softmax_mean
from crossgcn.layers.aggregation import NodeAggregation, weigh_messages
from crossgcn.layers.catalogue import AGGREGATIONS, make_aggregation
from crossgcn.layers.feature_transform import refuse_recurrent


class NeighbourSum(NodeAggregation):
    r"""The sum over a node and its neighbours, :math:`\sum_j w_{ij}\mathbf{x}_j`.

    Edges have their own weights. A node without a self-loop gets one of weight 1.
    """

    linear = True
    is_sum = True
    stackable = True

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Multiply by the matrix of edges."""
        return hops[0] @ x


class GCNSum(NeighbourSum):
    r"""GCN's sum :math:`\hat{\mathbf{A}}\mathbf{X}` over normalised edges."""

    propagations = ("gcn",)


class NeighbourMean(NodeAggregation):
    r"""The weighted mean over a node and its neighbours.

    .. math:: \mathbf{z}_i = \sum_j w_{ij}\mathbf{x}_j \Big/ \sum_j |w_{ij}|

    A node without a self-loop gets one of weight 1, so an isolated node keeps its own vector.
    """

    linear = True
    stackable = True

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Average; a row without edges is zero."""
        (hop,) = hops
        weights = sum_of_weights(hop.with_values(hop.values.abs()), x)
        return (hop @ x) / weights.masked_fill(weights == 0, 1.0)


def sum_of_weights(hop: SparseMatrix, x: Tensor) -> Tensor:
    """Sum the weights of each row, ``[..., rows, 1]``, with the dimensions and dtype of ``x``."""
    return hop @ x.new_ones((*x.shape[:-1], 1))


class SelfAndNeighbours(NodeAggregation):
    r"""A node's own vector and the aggregate of its neighbours, mapped separately (GraphSAGE).

    .. math:: \mathbf{z}_i = \mathbf{S}\mathbf{x}_i + \mathbf{N}\,
        \mathrm{join}\{\mathbf{x}_j : j \in \mathcal{N}(i) \setminus i\}

    Both maps start as the identity. An isolated node has its own part alone.

    Args:
        join: The aggregation of the neighbours, over one hop of edges with their own weights.
    """

    propagations = ("neighbours",)

    def __init__(self, join: NodeAggregation) -> None:
        super().__init__(join.channels)
        if join.propagations != ("self-loops",):
            raise BadInput(
                f"{type(join).__name__} needs normalised edges or several hops, which 'sage' does "
                "not have: use join='mean', 'sum', 'max' or 'lstm'"
            )
        self.join = join
        self.stackable = join.stackable
        self.weighs_messages = join.weighs_messages
        self.own_map = nn.Parameter(torch.empty(self.channels, self.channels))
        self.neighbour_map = nn.Parameter(torch.empty(self.channels, self.channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set both maps to the identity."""
        nn.init.eye_(self.own_map)
        nn.init.eye_(self.neighbour_map)
        self.join.reset_parameters()

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Map both parts and add them."""
        own = hops[0].own_rows(x)
        joined: Tensor = self.join(x, hops)
        return own @ self.own_map.mT + joined @ self.neighbour_map.mT


def make_sage(channels: int, *, join: str = "mean", **settings: Any) -> SelfAndNeighbours:
    """Make GraphSAGE's aggregation; ``join="mean"`` is ``"raw-mean"`` of the neighbours."""
    name = f"raw-{join}" if f"raw-{join}" in AGGREGATIONS else join
    return SelfAndNeighbours(make_aggregation(name, channels, **settings))


class NeighbourPairs(NodeAggregation):
    r"""The mean elementwise product of all pairs of neighbours.

    .. math:: \mathbf{z}_i = \frac{1}{s_i}\,
        \frac{\sum_{j<k} w_j w_k\, \mathbf{x}_j \odot \mathbf{x}_k}
        {\sum_{j<k} |w_j w_k|}, \qquad
        \sum_{j<k} \mathbf{m}_j \odot \mathbf{m}_k = \tfrac{1}{2}\Bigl[
        \bigl(\textstyle\sum_j \mathbf{m}_j\bigr)^2 - \textstyle\sum_j \mathbf{m}_j^2\Bigr]

    with GCN's weights :math:`w` and :math:`\mathbf{m}_j = w_j\mathbf{x}_j`. The square of
    the sum contains all pairs, so two sparse products are enough. A mean does not grow with
    the number of pairs.

    Products of small numbers are smaller still and would vanish over several layers. They are
    therefore divided by :math:`s_i`, the root mean square of all numbers that reach the node:
    the result is homogeneous of degree 1, as a sum is. Without a pair, as at an isolated node,
    the result is zero.

    Args:
        own: Whether the node itself counts as a neighbour.
    """

    propagations = ("gcn",)
    stackable = True

    def __init__(self, channels: int, *, own: bool = True) -> None:
        super().__init__(channels)
        self.own = own

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Average the products of all pairs."""
        hop = hops[0] if self.own else _without_own(hops[0])
        # In half precision, the weight of a leaf's pair with a hub would be rounded to zero.
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return self._mean_of_pairs(wide, hop).to(x.dtype)

    def _mean_of_pairs(self, x: Tensor, hop: SparseMatrix) -> Tensor:
        limits = torch.finfo(x.dtype)
        squared = hop.with_values(hop.values.square())
        unsigned = hop.with_values(hop.values.abs())
        weights = sum_of_weights(unsigned, x)
        pairs = weights.square() - sum_of_weights(squared, x)
        # A difference within rounding error means that there is no pair.
        none = pairs <= 16 * limits.eps * weights.square()
        products = (hop @ x).square() - squared @ x.square()
        mean = products / pairs.masked_fill(none, 1.0)
        # self.channels and not x's width, because layers may be padded with zero channels.
        squares = unsigned @ x.square().sum(dim=-1, keepdim=True) / self.channels
        size = (squares / weights.masked_fill(none, 1.0) + limits.tiny).sqrt()
        return (mean / size).masked_fill(none, 0.0)


class GCNAndPairs(NeighbourPairs):
    r"""GCN's sum plus gated products of pairs of neighbours.

    .. math:: \mathbf{z}_i = \sum_j w_j\mathbf{x}_j + \gamma\,\mathbf{z}_i^{\mathrm{pairs}}

    The gate :math:`\gamma` is trained from 0 without weight decay, so training starts with
    GCN's sum alone.

    Args:
        own: Whether the node itself is in pairs; it is always in the sum.
    """

    def __init__(self, channels: int, *, own: bool = True) -> None:
        super().__init__(channels, own=own)
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Add the sum and the gated products."""
        return hops[0] @ x + self.gate[..., None, None] * super().forward(x, hops)


def _without_own(hop: SparseMatrix) -> SparseMatrix:
    """Return the same edges with self-loops of weight 0."""
    rows, columns = hop.shape
    device = hop.columns.device
    own = torch.arange(rows, device=device) if hop.own is None else hop.own
    if isinstance(hop, ModelBatchMatrix):
        starts = columns * torch.arange(hop.models, device=device).unsqueeze(-1)
        own = (own + starts).flatten()
    return hop.with_values(hop.values.masked_fill(hop.columns == own[hop.rows], 0.0))


class GraphAttention(NodeAggregation):
    r"""A mean over a node and its neighbours whose weights depend on both ends (GAT).

    .. math:: \mathbf{z}_i = \sum_j a_{ij}\mathbf{x}_j, \qquad
        a_{ij} \propto w_{ij} \exp\bigl(\mathrm{LeakyReLU}
        (\mathbf{s}^{\top}\mathbf{x}_j + \mathbf{t}^{\top}\mathbf{x}_i)\bigr)

    Each head has an equal share of the channels. An edge of weight 2 counts as two edges. An
    isolated node keeps its own vector.

    Args:
        heads: Must divide ``channels``; by default up to 8 heads of at least 4 channels.
        negative_slope: Of the LeakyReLU.
    """

    vectors_per_edge = 3

    def __init__(
        self, channels: int, *, heads: int | None = None, negative_slope: float = 0.2
    ) -> None:
        super().__init__(channels)
        if heads is None:
            heads = gcd(channels, 8)
            while heads > 1 and channels // heads < 4:
                heads //= 2
        if heads < 1 or channels % heads != 0:
            raise BadInput(
                f"heads={heads} does not divide {channels} channels: give a number that does, "
                "or leave heads out"
            )
        self.heads = heads
        self.negative_slope = negative_slope
        self._make_parameters(heads, channels // heads)
        self.reset_parameters()

    def _make_parameters(self, heads: int, width: int) -> None:
        self.for_source = nn.Parameter(torch.empty(heads, width))
        self.for_target = nn.Parameter(torch.empty(heads, width))

    def reset_parameters(self) -> None:
        """Draw all parameters by Glorot's rule."""
        for parameter in self.parameters():
            nn.init.xavier_uniform_(parameter)

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Aggregate; a row without edges is zero."""
        (hop,) = hops
        by_head = x.view(-1, self.heads, self.channels // self.heads)
        sent = by_head.index_select(0, hop.columns)
        source = (by_head * self.for_source).sum(dim=-1).index_select(0, hop.columns)
        target = hop.own_rows((by_head * self.for_target).sum(dim=-1))[hop.rows]
        scores = functional.leaky_relu(source + target, self.negative_slope)
        return softmax_mean(scores, hop.values, sent, hop.rows, hop.shape[0])


class GraphAttentionV2(GraphAttention):
    r"""Attention that can rank neighbours differently for each node (GATv2).

    .. math:: a_{ij} \propto w_{ij} \exp\bigl(\mathbf{s}^{\top}\,
        \mathrm{LeakyReLU}(\mathbf{x}_j + \mathbf{x}_i)\bigr)

    Both ends share one feature transform, as GATv2's option ``share_weights``.
    """

    def _make_parameters(self, heads: int, width: int) -> None:
        self.attention = nn.Parameter(torch.empty(heads, width))

    def forward(self, x: Tensor, hops: Sequence[SparseMatrix]) -> Tensor:
        """Aggregate; a row without edges is zero."""
        (hop,) = hops
        own = hop.own_rows(x)
        return attend(hop.pattern, hop.values, x, own, self.attention, self.negative_slope)


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
