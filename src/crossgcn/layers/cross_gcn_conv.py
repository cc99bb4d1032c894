"""The cross-feature graph convolution of the paper (Section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch_geometric.nn.conv import GCNConv

from crossgcn.errors import BadInput
from crossgcn.layers.catalogue import ONLY_OF_CROSS, OrderWeights, make_transform
from crossgcn.layers.cross_feature_transform import CrossFeatureTransform, FirstOrder, Scaling
from crossgcn.layers.feature_transform import check_order
from crossgcn.layers.graph_convolution import Aggregation, GraphConvolution


class CrossGCNConv(GraphConvolution):
    r"""Graph convolution that multiplies features explicitly, up to order K.

    .. math::
        \mathbf{Z} = \hat{\mathbf{A}}\,\mathcal{F}(\mathbf{X}) + \mathbf{b}, \qquad
        \mathcal{F}(\mathbf{x}) = \sum_{k=1}^{K} \alpha_k
        (\mathbf{W}^{k}\mathbf{x}) \odot \cdots \odot (\mathbf{W}^{1}\mathbf{x})

    With ``order=1`` this is PyG's ``GCNConv`` (except for a sparse adjacency with self-loops,
    NOTE[D9]). The output is the pre-activation value.

    Args:
        in_channels: Features per node; ``-1`` to infer it from the first input.
        out_channels: Width of the output.
        order: Highest order K of the crosses, at least 1.
        aggregate_first: ``False`` crosses each node's own features and then aggregates, as
            the authors' code does; ``True`` aggregates first, as the paper's text says
            (NOTE[D1]).
        order_weights: See :class:`~crossgcn.CrossFeatureTransform`, also for ``first_order`` and
            ``scaling``.
        bias: Add :math:`\mathbf{b}` after aggregation, before any activation.
        transform: The feature transform, by a name of
            :data:`~crossgcn.layers.catalogue.TRANSFORMS`: ``"cross"`` is the paper's. Others,
            such as ``"dcn-v2"``, have no order weights.
        improved: Give added self-loops the weight 2 instead of 1. As in PyG's ``GCNConv``, this
            has an effect only if edges have weights or are a sparse adjacency.
        add_self_loops: Give nodes without a self-loop one; by default if ``normalize`` is true.
        normalize: Normalise edge weights by the degrees of both ends. ``False`` takes the
            edges as they are and adds no self-loop.
        cached: Keep the normalised edges of the first call, for models that see one graph.
            Otherwise every call normalises them.
        aggr: The aggregation: ``add``, ``mean``, ``max`` and so on as in PyG's ``GCNConv``, or any
            name of :data:`~crossgcn.layers.catalogue.AGGREGATIONS`, such as ``gat``.
        transform_kwargs: Options of another transform: ``{"rank": 8}`` of ``"dcn-v2"``.
        **kwargs: For PyG's ``MessagePassing``, such as ``aggr_kwargs``, the options of ``aggr``:
            ``{"heads": 4}`` of ``"gat"``.

    Shapes:
        - **x**: ``[..., nodes, in_channels]`` dense, ``[nodes, in_channels]``
          sparse CSR, or a pair ``(x_src, x_dst)`` for a bipartite graph.
        - **edge_index**: ``[2, edges]``, or a sparse adjacency (transposed).
        - **edge_weight**: ``[edges]``, optional.
        - **output**: ``[nodes, out_channels]``, or one row per target.
    """

    transform: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 2,
        *,
        aggregate_first: bool = False,
        order_weights: OrderWeights = "gated",
        first_order: FirstOrder = "paper",
        bias: bool = True,
        scaling: Scaling = "none",
        transform: str = "cross",
        improved: bool = False,
        add_self_loops: bool | None = None,
        normalize: bool = True,
        cached: bool = False,
        aggr: Aggregation = "add",
        transform_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        settings: dict[str, Any] = {
            "order_weights": order_weights,
            "first_order": first_order,
            "scaling": scaling,
        }
        if transform != "cross":
            for name, default in ONLY_OF_CROSS.items():
                if settings[name] != default:
                    raise BadInput(
                        f"{name}={settings[name]!r} goes with transform='cross'; {transform!r} has "
                        "no such setting: leave it out"
                    )
            settings = {}
        settings |= transform_kwargs or {}
        super().__init__(
            make_transform(transform, in_channels, out_channels, order, **settings),
            out_channels,
            aggregate_first=aggregate_first,
            bias=bias,
            improved=improved,
            add_self_loops=add_self_loops,
            normalize=normalize,
            cached=cached,
            aggr=aggr,
            **kwargs,
        )
        self.order = check_order(order)

    @property
    def weight(self) -> nn.Parameter | nn.UninitializedParameter:
        """All projections, ``[order, out_channels, in_channels]``."""
        return cast(nn.Parameter, self.transform.weight)

    @property
    def order_weights(self) -> Tensor | None:
        r"""The weights :math:`\alpha`, ``[order]``; ``None`` if the transform has none."""
        return cast("Tensor | None", getattr(self.transform, "order_weights", None))

    @classmethod
    def from_gcn_conv(cls, conv: GCNConv, order: int = 2, **kwargs: Any) -> CrossGCNConv:
        """Make a layer from PyG's ``GCNConv``, with its weight as the first projection.

        With ``"gated"`` order weights, the default, it computes the same as ``conv`` until it is
        trained. ``kwargs`` are further arguments of this class.
        """
        layer = cls(
            conv.in_channels,
            conv.out_channels,
            order,
            bias=conv.bias is not None,
            improved=conv.improved and conv.add_self_loops,
            add_self_loops=conv.add_self_loops,
            normalize=conv.normalize,
            cached=conv.cached,
            aggr=conv.aggr if conv.aggr is not None else conv.aggr_module,
            flow=conv.flow,
            node_dim=conv.node_dim,
            **kwargs,
        )
        if not isinstance(conv.lin.weight, nn.UninitializedParameter):
            layer.to(conv.lin.weight.device, conv.lin.weight.dtype)
            layer.load_state_dict(conv.state_dict())
        layer.train(conv.training)
        return layer

    def _load_from_state_dict(
        self, state_dict: MutableMapping[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        """Also take the parameters of a ``GCNConv``, as the first projection."""
        first = state_dict.get(f"{prefix}lin.weight")
        transform = self.transform
        if first is not None and isinstance(transform, CrossFeatureTransform):
            if isinstance(transform.weight, nn.UninitializedParameter):
                transform._materialize(first.size(1))
            del state_dict[f"{prefix}lin.weight"]
            for name, value in transform.state_dict().items():
                state_dict[f"{prefix}transform.{name}"] = value.detach().clone()
            rest = state_dict[f"{prefix}transform.weight"][1:]
            fits = first.shape == transform.weight.shape[1:]
            state_dict[f"{prefix}transform.weight"] = (
                torch.cat([first.unsqueeze(0).to(rest), rest]) if fits else first.unsqueeze(0)
            )
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, order={self.order})"
