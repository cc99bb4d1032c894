"""The base class of models: layers in a row, with dropout and ReLU between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch_geometric.utils import trim_to_layer

from crossgcn.errors import BadInput, check_count, unknown_name
from crossgcn.graph import EdgeKind, PreparedGraph, SparseMatrix
from crossgcn.graph.sampling.sampler import CSRSampler
from crossgcn.graph.sampling.source import sampled_blocks, source_of
from crossgcn.kernels.sampling import ALL
from crossgcn.layers import CrossFeatureTransform, FeatureDropout
from crossgcn.layers.feature_transform import reset_parameters

if TYPE_CHECKING:
    from crossgcn.models.cross_gcn import Stack

Edges = Any
Residual = Literal["none", "add", "norm"]


class NodeClassifier(nn.Module):
    """Layers in a row, with dropout before each and ReLU between them.

    A model whose loss has a term besides cross-entropy and weight decay overrides
    :attr:`penalty_reason` and :meth:`penalty`.

    Args:
        dropout: Probability of dropping an entry of a layer's input.
        input_dropout: The same for the first layer; ``dropout`` by default.
        residual: ``"add"`` adds the input of a layer to its output before the next ReLU, if both
            have the same width. ``"norm"`` also normalises the rows that enter every layer but
            the first to length 1, so that models of any depth and order can be trained.
        stack: Activation, normalisation and jumping knowledge, if they are not ReLU and none.

    Attributes:
        num_models: How many models' weights it holds, if it is several models stacked (see
            :mod:`crossgcn.training.model_batch`); else ``None``.
        num_scores: How many outputs of the last layer are class scores, which come first; all
            if ``None``.
        target_scale: Mean and standard deviation of the number that the model predicts, ``[2]``;
            ``None`` if it predicts classes. See :meth:`predict_number`.
        draws: How many forward passes a training step makes; see :meth:`choose_draw`.
    """

    num_models: int | None = None
    num_scores: int | None = None
    target_scale: Tensor | None
    draws: int = 1

    def __init__(
        self,
        layers: Iterable[nn.Module],
        dropout: float,
        *,
        input_dropout: float | None = None,
        residual: Residual = "none",
        stack: Stack | None = None,
    ) -> None:
        super().__init__()
        if residual not in get_args(Residual):
            raise unknown_name("residual", str(residual), get_args(Residual))
        self.layers = nn.ModuleList(layers)
        for layer in self.layers:
            flow = getattr(layer, "flow", "source_to_target")
            if flow != "source_to_target":
                raise BadInput(
                    f"a model aggregates from source to target; got flow={flow!r}: reverse the "
                    "edges instead, edge_index.flip(0)"
                )
        self.dropout = FeatureDropout(dropout)
        self.input_dropout = (
            self.dropout if input_dropout is None else FeatureDropout(input_dropout)
        )
        self.residual = residual
        self.stack = stack
        self.register_buffer("target_scale", None)

    def predict_number(self, mean: float = 0.0, deviation: float = 1.0) -> None:
        """Make this a model of a number: in evaluation, its scores are in the number's unit.

        In training, scores are standardised: ``(number - mean) / deviation``.
        """
        self.target_scale = torch.tensor([mean, deviation])

    def in_unit(self, scores: Tensor) -> Tensor:
        """Convert standardised scores to the unit of the target, in evaluation."""
        if self.training or self.target_scale is None:
            return scores
        return scores * self.target_scale[1] + self.target_scale[0]

    @property
    def is_calibrated(self) -> bool:
        """Whether no layer still needs :func:`calibrate`."""
        scales = (getattr(module, "projection_scale", None) for module in self.layers.modules())
        return all(scale is None or bool((scale != 1.0).any()) for scale in scales)

    @property
    def propagations(self) -> tuple[EdgeKind, ...]:
        """The kind of edges of each hop, all layers together."""
        return tuple(kind for layer in self.layers for kind in _propagations(layer))

    @property
    def num_outputs(self) -> int:
        """Number of classes; 1 for a number."""
        return self.num_scores or self.out_channels

    @property
    def in_channels(self) -> int:
        """Features per node, -1 while not yet known."""
        return int(self.layers[0].in_channels)  # type: ignore[arg-type]

    @property
    def out_channels(self) -> int:
        """Width of the output."""
        last: Any = self.layers[-1]
        if self.stack is not None and self.stack.lin is not None:
            last = self.stack.lin
        return int(last.out_channels)

    @property
    def num_layers(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @property
    def convs(self) -> nn.ModuleList:
        """The layers, by PyG's name."""
        return self.layers

    @property
    def num_hops(self) -> int:
        """Number of hops, all layers together."""
        return len(self.propagations)

    @property
    def penalty_reason(self) -> str | None:
        """Why the loss depends on the predictions of all nodes; ``None`` if it does not.

        It completes "the model ... in each step", for a message that refuses mini-batches.
        """
        return None

    def penalty_matrix(self, graph: PreparedGraph) -> SparseMatrix | None:
        """Return a constant matrix of all nodes that :meth:`penalty` multiplies with, if any."""
        return None

    def penalty(
        self, draws: Sequence[Tensor], matrix: SparseMatrix | None, step: Tensor | None
    ) -> Tensor | None:
        """Return a term to add to the loss; only called if there is a :attr:`penalty_reason`.

        Args:
            draws: Class scores of all nodes, ``[..., nodes, classes]``, one for each draw.
            matrix: From :meth:`penalty_matrix`, on the model's device.
            step: Number of the training step, if known.
        """
        return None

    def choose_draw(self, draw: int) -> None:
        """Choose which draw of a training step the next forward pass is."""
        for module in self.modules():
            if isinstance(module, FeatureDropout):
                module.draw = draw

    def reset_parameters(self) -> None:
        """Draw all parameters."""
        for layer in self.layers:
            layer.reset_parameters()  # type: ignore[operator]
        if self.stack is not None:
            reset_parameters(self.stack)

    def forward(
        self,
        x: Tensor | SparseMatrix,
        edge_index: Edges = None,
        edge_weight: Tensor | None = None,
        *,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        num_sampled_nodes_per_hop: list[int] | None = None,
        num_sampled_edges_per_hop: list[int] | None = None,
    ) -> Tensor:
        """Compute class scores of each node, before any softmax.

        Args:
            edge_index: What a graph layer takes; or a sequence of one matrix per hop, whose
                receptive field may shrink from hop to hop. A model without hops ignores it.
            edge_weight: One weight per edge of a COO ``edge_index``.
            batch: The graph that each node belongs to, in a batch of graphs, for a ``norm`` that
                normalises each of them; ``batch_size`` is their number.
            num_sampled_nodes_per_hop: ``num_sampled_nodes`` of a batch of
                :class:`~crossgcn.NeighborLoader` or PyG's. Layers then leave out nodes and edges
                that the seed nodes no longer depend on, as in PyG's models; normalised edges count
                the degrees in what is left.
            num_sampled_edges_per_hop: Its ``num_sampled_edges``.
        """
        if edge_index is None and self.num_hops:
            raise BadInput(f"{type(self).__name__} needs edges: call model(x, edge_index)")
        hidden: Any = x
        hop = 0
        graphs = () if batch is None else (batch, batch_size)
        kept: list[Tensor] = []
        for position, layer in enumerate(self.layers):
            entering = self.enter_layer(position, hidden, *graphs)
            if position > 0 and self.stack is not None:
                kept.append(entering)
            hops = len(_propagations(layer))
            edges = edge_index
            if isinstance(edge_index, Sequence):
                edges = edge_index[hop] if hops == 1 else edge_index[hop : hop + hops]
            hidden = self._through_layer(position, hidden, entering, edges, edge_weight)
            kept = [_at_targets(each, edges) for each in kept]
            sampled = (num_sampled_nodes_per_hop, num_sampled_edges_per_hop)
            if isinstance(sampled[0], list) and position + 1 < self.num_layers:
                for trimmed in range(hop + 1, hop + hops + 1):
                    kept = [trim_to_layer(trimmed, *sampled, each, edge_index)[0] for each in kept]
                    hidden, edge_index, edge_weight = trim_to_layer(
                        trimmed, *sampled, hidden, edge_index, edge_weight
                    )
            hop += hops
        if self.stack is not None and self.stack.lin is not None:
            hidden = self.stack.jump([*kept, self.enter_layer(self.num_layers, hidden, *graphs)])
        return self.in_unit(hidden)

    def _through_layer(
        self, position: int, hidden: Any, entering: Any, edges: Edges, edge_weight: Tensor | None
    ) -> Tensor:
        """Apply a layer and its residual connection."""
        if self.residual == "norm" and position > 0:
            entering = normalize(entering, dim=-1)
        out = self.apply_layer(self.layers[position], entering, edges, edge_weight)
        if self.residual != "none" and position > 0 and hidden.size(-1) == out.size(-1):
            out = out + _at_targets(hidden, edges)
        return out

    @torch.no_grad()
    def inference(
        self,
        loader: Any,
        device: torch.device | str | None = None,
        embedding_device: torch.device | str = "cpu",
        progress_bar: bool = False,
        cache: bool = False,
    ) -> Tensor:
        """Compute the scores of all nodes layer by layer, in batches with all their neighbours.

        The result is that of ``model(x, edge_index)`` on the whole graph. PyG's models compute
        something else there if they normalise edges, because they see part of each degree.

        Args:
            loader: A :class:`~crossgcn.NeighborLoader` or PyG's, for the graph and the batch
                size; neighbours are not sampled.
            device: Where layers are computed; the model's by default.
            embedding_device: Where the outputs of layers are kept.
            progress_bar: Accepted as in PyG's models; nothing is shown.
            cache: Accepted as in PyG's models; nothing is kept.
        """
        if self.training:
            raise BadInput("inference computes predictions without dropout: call model.eval()")
        jumps = self.stack is not None and self.stack.jk is not None
        if jumps or type(self).forward is not NodeClassifier.forward:
            raise BadInput(
                f"{type(self).__name__} {'with this jk ' if jumps else ''}cannot be computed layer "
                "by layer: call model(x, edge_index)"
            )
        device = next(self.parameters()).device if device is None else torch.device(device)
        source = source_of(loader.data)
        hidden: Any = None
        for position, layer in enumerate(self.layers):
            kinds = _propagations(layer)
            sampler = CSRSampler.from_source(source, [ALL] * len(kinds))
            rows, entered = [], None
            if hidden is not None and self.stack is not None and self.stack.mixes_rows:
                entered = self.enter_layer(position, hidden.to(device)).to(embedding_device)
            for nodes in torch.split(torch.arange(source.num_nodes), loader.batch_size):
                output = sampler.sample(nodes)
                blocks = tuple(b.to(device) for b in sampled_blocks(source, output, kinds))
                x = source.features(output.node) if hidden is None else hidden[output.node]
                edges = blocks[0] if len(blocks) == 1 else blocks
                x = x.to(device)
                if entered is None:
                    entering = self.enter_layer(position, x)
                else:
                    entering = entered[output.node].to(device)
                out = self._through_layer(position, x, entering, edges, None)
                rows.append(out.to(embedding_device))
            hidden = torch.cat(rows)
        if self.stack is not None and self.stack.lin is not None:
            hidden = self.stack.jump([self.enter_layer(self.num_layers, hidden.to(device))])
        return self.in_unit(hidden.to(device)).to(embedding_device)

    def enter_layer(self, position: int, hidden: Any, *batch: Any) -> Any:
        """Apply normalisation, activation and dropout to the input of a layer."""
        dropout = self.dropout if position > 0 else self.input_dropout
        if position > 0 and self.stack is not None:
            return dropout(self.stack.activate(position - 1, hidden, *batch), site=position)
        multiplied = (
            self.num_models == 1
            and self.residual != "norm"
            and position < self.num_layers
            and getattr(self.layers[position], "multiplies_first", False)
        )
        return dropout(hidden, site=position, activate=position > 0, to_multiply=multiplied)

    def apply_layer(
        self, layer: nn.Module, x: Any, edge_index: Edges, edge_weight: Tensor | None
    ) -> Tensor:
        """Call one layer, with edges if it has hops."""
        if not _propagations(layer):
            return cast(Tensor, layer(x))
        return cast(Tensor, layer(x, edge_index, edge_weight))


def layer_widths(
    in_channels: int, hidden_channels: int, out_channels: int, num_layers: int
) -> list[tuple[int, int]]:
    """Return input and output width of each layer."""
    check_count("num_layers", num_layers)
    check_count("hidden_channels", hidden_channels)
    widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
    return list(pairwise(widths))


def _propagations(layer: nn.Module) -> tuple[EdgeKind, ...]:
    """Return a layer's hops; a layer of another package has one, of GCN's edges."""
    return cast("tuple[EdgeKind, ...]", getattr(layer, "propagations", ("gcn",)))


def _at_targets(entered: Tensor, edges: Edges) -> Tensor:
    """Select the rows of a layer's input that belong to the nodes of its output."""
    for edge in edges if isinstance(edges, Sequence) else [edges]:
        if isinstance(edge, SparseMatrix):
            entered = edge.own_rows(entered)
    return entered


def check_rows_alone(model: nn.Module) -> None:
    """Refuse a model whose rows cannot be computed without all others."""
    stack = getattr(model, "stack", None)
    if stack is not None and stack.mixes_rows:
        raise BadInput(
            f"norm {stack.norms[0]} normalises over all nodes, but training and predictions in "
            "batches compute only the rows they need: use norm='batch_norm', or 'layer_norm' with "
            "norm_kwargs={'mode': 'node'}; or train model(x, edge_index) in a loop of your own"
        )


@torch.no_grad()
def calibrate(model: nn.Module, x: Tensor | SparseMatrix, edges: Edges) -> None:
    """Scale each layer with ``scaling="unit"`` so that its orders start at the same size.

    One pass without dropout sets the scales, layer by layer. They are constants from then on and
    part of the model's state.

    Args:
        model: A model that is not trained yet; layers without scaling are left as they are.
        x: Node features, as the model takes them, like ``edges``; ``PreparedGraph.view`` gives
            both.
    """
    models = getattr(model, "num_models", None)
    if models is not None:
        raise BadInput(
            f"this model holds the weights of {models} models; calibrate each of them "
            "before they are stacked"
        )
    was_training = model.training
    with ExitStack() as measuring:
        measuring.callback(model.train, was_training)
        for module in model.modules():
            if isinstance(module, CrossFeatureTransform):
                measuring.enter_context(module.calibrating())
        model.eval()(x, edges)
