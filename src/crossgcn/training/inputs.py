"""The inputs of models: features, or columns of neighbourhoods."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.splits import Split
from crossgcn.graph import PreparedGraph
from crossgcn.graph.hops import HopColumns, HopPlan, HopSource, Scale, fit_scale
from crossgcn.graph.neighbourhood import NeighbourLabels, neighbour_labels
from crossgcn.graph.sampling.source import Features, GraphSource, source_of
from crossgcn.models.catalogue import get_preset
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.config import RunConfig
from crossgcn.training.distributed import processes


class Inputs:
    """One graph, prepared once for each kind of input that models take.

    Args:
        folder: Where columns of neighbourhoods of a graph on disk are kept for the next time;
            without it, they are in a temporary file.
        device: Where models are trained. On a GPU with enough memory, columns of neighbourhoods
            are computed there, and stay there.
    """

    def __init__(
        self,
        data: Data,
        folder: Path | None = None,
        device: torch.device | None = None,
    ) -> None:
        self._folder, self._device = folder, device
        self._data: Data | None = data
        self._num_features = num_features_of(data)
        self._whole: PreparedGraph | None = None
        self._own: GraphSource | None = None
        self._hops: dict[tuple[int, float | None], HopColumns] = {}
        self._num_classes: int = data.get("num_classes") or 0
        of_graph = getattr(data, "stored", data)
        self._is_directed = getattr(of_graph, "directed", None) is True

    def __getstate__(self) -> dict[str, Any]:
        """Pickle for other processes what is prepared, without the data."""
        return {**self.__dict__, "_data": None}

    def prepare(self, configs: Iterable[RunConfig]) -> None:
        """Prepare the inputs of these configurations."""
        for config in configs:
            if takes_hops(config):
                self._columns(config.hops or HopPlan.hops, config.smoothing)
            elif config.batch_size is None:
                self.graph()
            else:
                self.source()

    def graph(self) -> PreparedGraph:
        """Return the graph, prepared for models that take its features and edges."""
        if self._whole is None:
            graph, stored = self._graph, getattr(self._graph, "stored", None)
            if stored is not None:
                self._whole = PreparedGraph.from_source(source_of(stored))
            else:
                self._whole = PreparedGraph(graph.x, graph.edge_index, graph.edge_weight)
        return self._whole

    def hop_source(self, model: CrossHops, split: Split) -> GraphSource:
        """Return a model's columns as features of a graph without edges.

        The scale of the columns is set in the model. Neighbours show the labels of the training
        nodes only.
        """
        y, labels = self.source().labels, None
        if model.plan.num_labels:
            labels = neighbour_labels(y, split.train, self._num_classes)
        columns = self._columns(model.plan.hops, model.plan.smoothing)
        return rows_of_hops(model, columns, y, labels)

    def hop_columns(
        self, hops: int, split: Split, *, labels: bool, smoothing: float | None = None
    ) -> Features:
        """Return the columns of all nodes and their neighbourhoods, not standardised.

        With ``labels``, neighbours show those of the split's training nodes.
        """
        columns = self._columns(hops, smoothing)
        if not labels:
            return columns.without_labels.to("cpu")
        shown = neighbour_labels(self.source().labels, split.train, self._num_classes)
        return columns.with_labels(shown)

    def is_directed(self, config: RunConfig) -> bool:
        """Return whether a model keeps in-neighbours and out-neighbours apart."""
        return self._is_directed and takes_hops(config)

    def _columns(self, hops: int, smoothing: float | None) -> HopColumns:
        key = hops, smoothing
        if key not in self._hops:
            source, stored = self.source(), getattr(self._graph, "stored", None)
            settings: dict[str, Any] = {"directed": self._is_directed}
            if _fits_on(self._device, source, hops):
                settings["device"] = self._device
            elif stored is not None and self._folder is not None:
                settings["identity"] = {"graph": stored.fingerprint, "hops": hops, **settings}
                settings["identity"] |= {} if smoothing is None else {"smoothing": smoothing}
            if stored is not None and "device" not in settings:
                settings["folder"] = self._folder or Path(tempfile.gettempdir())

            def compute() -> None:
                self._hops[key] = HopColumns(source, hops, smoothing=smoothing, **settings)

            is_kept = "identity" in settings
            if is_kept:  # the other processes wait for the first, and read what it has written
                processes().share(compute)
            if not is_kept or not processes().leads:
                compute()
        return self._hops[key]

    def source(self) -> GraphSource:
        """Return the same as a source of batches; nothing is computed for the whole graph."""
        if self._own is None:
            self._own = source_of(getattr(self._graph, "stored", self._graph))
        return self._own

    @property
    def num_features(self) -> int:
        """Number of features per node."""
        return self._num_features

    @property
    def _graph(self) -> Data:
        assert self._data is not None, "the process that started this one should have prepared this"
        return self._data


_COPIES, _SHARE = 3, 0.5
"""Copies of columns that exist at once, and the share of a GPU's free memory that they may take."""


def _fits_on(device: torch.device | None, source: GraphSource, hops: int) -> bool:
    """Return whether a GPU has room for the graph and the columns of neighbourhoods."""
    if device is None or device.type != "cuda":
        return False
    columns = 4 * source.num_nodes * HopPlan(source.num_features, hops, directed=True).num_columns
    edges = 32 * source.neighbours.numel()
    return _COPIES * columns + edges <= _SHARE * torch.cuda.mem_get_info(device)[0]


def rows_of_hops(
    model: CrossHops, hops: HopColumns, y: Tensor, labels: NeighbourLabels | None
) -> GraphSource:
    """Return a model's columns as features of a graph without edges.

    Their scale and smoothing are set in the model.

    ``labels`` are those that neighbours show, if the model reads them.
    """
    parts, scale = [hops.without_labels], hops.scale
    if labels is not None:
        shown = hops.label_columns(labels)
        parts.append(shown)
        both = zip(scale, fit_scale(shown, 0), strict=True)
        scale = Scale(*(torch.cat(pair) for pair in both))
    model.set_scale(scale, hops.smoothing)
    return HopSource(parts, scale, y)


def num_features_of(data: Data) -> int:
    """Return the number of features per node, of a graph in memory or on disk."""
    stored = getattr(data, "stored", None)
    return int(data.x.size(1) if stored is None else stored.num_features)


def takes_hops(config: RunConfig) -> bool:
    """Return whether a model reads columns of neighbourhoods."""
    return get_preset(config.model).inputs == "hops"
