"""The compressed interaction network of xDeepFM (Lian et al., 2018)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crossgcn.errors import BadInput, check_count
from crossgcn.graph import SparseMatrix
from crossgcn.layers.feature_transform import FeatureCrossing, draw, is_dense


class CompressedInteractionNetwork(FeatureCrossing):
    r"""K-1 layers of CIN over features as fields, beside a linear map.

    Feature j is a field with the embedding :math:`\mathbf{X}^0_j = x_j\mathbf{v}_j` of width C.
    Each layer has H feature maps; all of them, summed over the width, are read out:

    .. math::
        \mathbf{X}^{k}_h = \sum_{i}\sum_{j} W^{k}_{hij}\,
        (\mathbf{X}^{k-1}_i \odot \mathbf{X}^0_j), \qquad
        \mathbf{z} = \mathbf{W}\mathbf{x} + \sum_{k=1}^{K-1}\sum_{h} \mathbf{r}_{kh}
        \sum_{c} X^{k}_{hc} + \mathbf{b}

    As in xDeepFM, layers have no activation. Full weights have :math:`HD^2` parameters in the
    first layer and :math:`H^2D` in each other. With ``rank`` they are decomposed, as the paper
    proposes:

    .. math:: W^k_{hij} = \sum_{s=1}^{r} U^k_{his} V^k_{hjs}

    This is a smaller model, with :math:`KHrD` parameters besides the embeddings. It is a function
    of the projections :math:`\sum_j V^k_{hjs}\,v_{jc}\,x_j` for all k, h, s and c, so sparse rows
    stay sparse, with work :math:`KHrC` per entry. Full weights need dense rows, :math:`HD^2C` work
    and :math:`HDC` memory per row.

    :math:`\mathbf{W}` starts by Glorot's rule, embeddings with variance 1, and the others such
    that for features of mean square one each feature map and the read-out have mean square one.

    Args:
        feature_maps: H; ``out_channels`` by default.
        embedding_channels: C.
        rank: r of the decomposed weights; ``None`` for full weights.

    Attributes:
        weight: :math:`\mathbf{W}`, ``[out_channels, in_channels]``.
        embedding: All :math:`\mathbf{v}_j`, ``[embedding_channels, in_channels]``.
        field_weight: With ``rank``, :math:`\mathbf{U}^1` and then all :math:`\mathbf{V}^k`,
            ``[order, feature_maps, rank, in_channels]``; else :math:`\mathbf{W}^1`,
            ``[feature_maps, in_channels, in_channels]``.
        map_weight: With ``rank``, all other :math:`\mathbf{U}^k`,
            ``[order - 2, feature_maps, rank, feature_maps]``; else all other :math:`\mathbf{W}^k`,
            ``[order - 2, feature_maps, feature_maps, in_channels]``.
        read_out: All :math:`\mathbf{r}_{kh}`, ``[out_channels, (order - 1) * feature_maps]``.
    """

    weight: nn.Parameter
    embedding: nn.Parameter
    field_weight: nn.Parameter
    map_weight: nn.Parameter | None
    read_out: nn.Parameter

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 2,
        *,
        feature_maps: int | None = None,
        embedding_channels: int = 8,
        rank: int | None = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, order, bias)
        maps = out_channels if feature_maps is None else check_count("feature_maps", feature_maps)
        width = check_count("embedding_channels", embedding_channels)
        self.feature_maps, self.embedding_channels = maps, width
        self.rank = None if rank is None else check_count("rank", rank)
        if self.rank is None:
            field_shape: tuple[int, ...] = (maps, in_channels, in_channels)
            map_shape = (order - 2, maps, maps, in_channels)
        else:
            field_shape = (order, maps, self.rank, in_channels)
            map_shape = (order - 2, maps, self.rank, maps)
        self.add_parameters(
            weight=(out_channels, in_channels),
            embedding=(width, in_channels),
            field_weight=field_shape,
            map_weight=map_shape if order > 2 else None,
            read_out=(out_channels, (order - 1) * maps),
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters."""
        super().reset_parameters()
        nn.init.xavier_uniform_(self.weight)
        draw(self.embedding, 1.0)
        full, features = self.rank is None, self.in_channels
        draw(self.field_weight, 1 / features**2 if full else 1 / features)
        if self.map_weight is not None:
            draw(self.map_weight, 1 / (self.feature_maps * (self.rank or features)))
        if self.rank is not None:
            with torch.no_grad():
                self.field_weight[0] /= self.rank**0.5
        draw(self.read_out, 1 / (self.read_out.size(-1) * self.embedding_channels))

    @property
    def num_projections(self) -> int:
        """Width of the linear part; with full weights, all features."""
        if self.rank is None:
            return self.in_channels
        fields = self.order * self.feature_maps * self.rank
        return self.out_channels + fields * self.embedding_channels

    @property
    def kept_numbers(self) -> tuple[int, int]:
        """Estimate the numbers kept for backward, per row and per feature of a row."""
        maps = (self.order - 1) * self.feature_maps * self.embedding_channels
        if self.rank is None:
            return self.out_channels + maps, 1 + self.embedding_channels + 2 * maps
        return self.num_projections + maps * (1 + self.rank), 1

    def project(self, x: Tensor | SparseMatrix) -> Tensor:
        """Compute all projections in one matrix product; with full weights, return dense rows."""
        if self.rank is not None:
            embedded = self.field_weight.unsqueeze(-2) * self.embedding[..., None, None, None, :, :]
            return x @ torch.cat([self.weight, embedded.flatten(-5, -2)], dim=-2).mT
        if isinstance(x, Tensor) and is_dense(x):
            return x
        raise BadInput(
            "a CompressedInteractionNetwork with full weights takes dense rows: pass x.to_dense(), "
            "or give a rank, with which rows may be sparse"
        )

    def combine(self, projections: Tensor) -> Tensor:
        """Cross the fields and read out the sums of their maps, without adding the bias."""
        if self.rank is None:
            linear = projections @ self.weight.mT
            maps = self._full_maps(projections)
        else:
            linear, fields = projections.tensor_split([self.out_channels], dim=-1)
            shape = (self.order, self.feature_maps, self.rank, self.embedding_channels)
            maps = self._decomposed_maps(torch.unflatten(fields, -1, shape).unbind(-4))
        pooled = torch.cat([each.sum(-1) for each in maps], dim=-1)
        return linear + pooled @ self.read_out.mT

    def _decomposed_maps(self, fields: Sequence[Tensor]) -> list[Tensor]:
        r"""Return the maps of every layer, ``[..., rows, feature_maps, embedding_channels]``.

        Args:
            fields: The fields, projected by :math:`\mathbf{U}^1` and every :math:`\mathbf{V}^k`,
                each ``[..., rows, feature_maps, rank, embedding_channels]``.
        """
        maps = [(fields[0] * fields[1]).sum(-2)]
        for layer, field in enumerate(fields[2:]):
            assert self.map_weight is not None
            weight = self.map_weight.select(-4, layer).flatten(-3, -2).unsqueeze(-3)
            mixed = torch.unflatten(weight @ maps[-1], -2, field.shape[-3:-1])
            maps.append((mixed * field).sum(-2))
        return maps

    def _full_maps(self, x: Tensor) -> list[Tensor]:
        """Return the maps of every layer from dense rows and full weights."""
        fields = x.unsqueeze(-2) * self.embedding.unsqueeze(-3)
        weights: list[Tensor] = [self.field_weight]
        if self.map_weight is not None:
            weights += self.map_weight.unbind(-4)
        maps, before = [], fields
        for weight in weights:
            partners = fields @ weight.flatten(-3, -2).mT.unsqueeze(-3)
            partners = torch.unflatten(partners, -1, weight.shape[-3:-1])
            before = (partners * before.unsqueeze(-2)).sum(-1)
            maps.append(before.mT)
        return maps
