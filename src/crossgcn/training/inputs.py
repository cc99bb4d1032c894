"""The inputs of models: features, or columns of neighbourhoods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.splits import Split
from crossgcn.graph import PreparedGraph
from crossgcn.graph.hops import HopColumns, HopPlan
from crossgcn.graph.neighbourhood import NeighbourLabels, neighbour_labels
from crossgcn.graph.sparse_matrix import Features
from crossgcn.graph.standardise import HopRows, Scale, fit_scale
from crossgcn.models.catalogue import get_preset
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.config import RunConfig


class Inputs:
    """One graph, prepared once for each kind of input that models take.

    Args:
        columns: Columns of neighbourhoods that were computed before; those of another number of
            hops are computed here.
        device: Where models are trained. On a GPU with enough memory, columns of neighbourhoods
            are computed there, and stay there.

    Attributes:
        num_features: Number of features per node.
    """

    def __init__(
        self,
        data: Data,
        columns: HopColumns | None = None,
        device: torch.device | None = None,
    ) -> None:
        self._device = device
        self._data: Data | None = data
        self._y: Tensor = data.y
        self.num_features = int(data.x.size(1))
        self._whole: PreparedGraph | None = None
        self._hops: dict[int, HopColumns] = {}
        if columns is not None:
            self._hops[columns.plan.hops] = columns
        self._num_classes: int = data.get("num_classes") or 0
        self._is_directed = data.get("directed") is True

    def __getstate__(self) -> dict[str, Any]:
        """Pickle for other processes what is prepared, without the data."""
        return {**self.__dict__, "_data": None}

    def prepare(self, configs: Iterable[RunConfig]) -> None:
        """Prepare the inputs of these configurations."""
        for config in configs:
            if takes_hops(config):
                self._columns(config.hops or HopPlan.hops)
            else:
                self.graph()

    def graph(self) -> PreparedGraph:
        """Return the graph, prepared for models that take its features and edges."""
        if self._whole is None:
            graph = self._graph
            self._whole = PreparedGraph(graph.x, graph.edge_index, graph.edge_weight)
        return self._whole

    def hop_rows(self, model: CrossHops, split: Split) -> HopRows:
        """Return a model's standardised columns.

        The scale of the columns is set in the model. Neighbours show the labels of the training
        nodes only.
        """
        labels = None
        if model.plan.num_labels:
            labels = neighbour_labels(self._y, split.train, self._num_classes)
        return rows_of_hops(model, self._columns(model.plan.hops), self._y, labels)

    def hop_columns(self, hops: int, split: Split, *, labels: bool) -> Features:
        """Return the columns of all nodes and their neighbourhoods, not standardised.

        With ``labels``, neighbours show those of the split's training nodes.
        """
        columns = self._columns(hops)
        if not labels:
            return columns.without_labels.to("cpu")
        shown = neighbour_labels(self._y, split.train, self._num_classes)
        return columns.with_labels(shown)

    def is_directed(self, config: RunConfig) -> bool:
        """Return whether a model keeps in-neighbours and out-neighbours apart."""
        return self._is_directed and takes_hops(config)

    def _columns(self, hops: int) -> HopColumns:
        if hops not in self._hops:
            graph = self._graph
            fits = _fits_on(self._device, graph, hops)
            self._hops[hops] = HopColumns(
                graph.x,
                graph.edge_index,
                graph.get("edge_weight"),
                hops=hops,
                directed=self._is_directed,
                device=self._device if fits else None,
            )
        return self._hops[hops]

    @property
    def _graph(self) -> Data:
        assert self._data is not None, "the process that started this one should have prepared this"
        return self._data


_COPIES, _SHARE = 3, 0.5
"""Copies of columns that exist at once, and the share of a GPU's free memory that they may take."""


def _fits_on(device: torch.device | None, data: Data, hops: int) -> bool:
    """Return whether a GPU has room for the graph and the columns of neighbourhoods."""
    if device is None or device.type != "cuda":
        return False
    num_nodes, num_features = data.x.shape
    columns = 4 * num_nodes * HopPlan(num_features, hops, directed=True).num_columns
    edges = 32 * data.edge_index.size(1)
    return bool(_COPIES * columns + edges <= _SHARE * torch.cuda.mem_get_info(device)[0])


def rows_of_hops(
    model: CrossHops, hops: HopColumns, y: Tensor, labels: NeighbourLabels | None
) -> HopRows:
    """Return a model's standardised columns; their scale and smoothing are set in the model.

    ``labels`` are those that neighbours show, if the model reads them.
    """
    parts, scale = [hops.without_labels], hops.scale
    if labels is not None:
        shown = hops.label_columns(labels)
        parts.append(shown)
        both = zip(scale, fit_scale(shown, 0), strict=True)
        scale = Scale(*(torch.cat(pair) for pair in both))
    model.set_scale(scale, hops.smoothing)
    return HopRows(parts, scale, y)


def takes_hops(config: RunConfig) -> bool:
    """Return whether a model reads columns of neighbourhoods."""
    return get_preset(config.model).inputs == "hops"
