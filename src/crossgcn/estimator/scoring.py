"""Scores of rows: of nodes of the graph of the fit, and of rows with a graph of their own."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.errors import BadInput
from crossgcn.estimator.graph_input import FittedGraph, GraphArguments, row_names
from crossgcn.experiments.predict import double
from crossgcn.graph import PreparedGraph
from crossgcn.graph.neighbourhood import NeighbourLabels
from crossgcn.models.cross_hops import CrossHops
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.trainer import using_threads


class RowScores:
    """What a fitted estimator does with rows: place them in a graph, and score them there."""

    n_jobs: int | None
    model_: NodeClassifier
    graph_: FittedGraph | None

    def _validate(self, X: Any, *, reset: bool = True) -> Any:
        """Return features as a 32-bit array or CSR matrix; ``fit``, which keeps them, resets."""
        return validate_data(
            self, X, accept_sparse="csr", dtype=np.float32, reset=reset, copy=reset
        )

    def _score_rows(self, X: Any, *edges: Any) -> NDArray[np.float64]:
        """Return the output of the model for every row, ``[rows, channels]``.

        Without edges, rows are nodes of the graph of the fit.

        Args:
            *edges: The members of :class:`GraphArguments`.
        """
        check_is_fitted(self, "model_")
        index = row_names(X)
        X = self._validate(X, reset=False)
        given = GraphArguments(*edges)
        if given.edge_index is not None or given.edge_weight is not None or self.graph_ is None:
            graph, places = self._read_graph(X, index, given)
            return self._score_graph(graph)[places]
        places = self.graph_.find(X, index, given.node_index)
        scores = np.empty((len(places), self.model_.num_outputs))
        # Rows that are the same node with different features are scored one after another.
        repeats = pd.Series(places).groupby(places).cumcount().to_numpy()
        for repeat in range(repeats.max(initial=0) + 1):
            rows = np.flatnonzero(repeats == repeat)
            graph = self.graph_.with_rows(X[rows], places[rows])
            scores[rows] = self._score_graph(graph)[places[rows]]
        return scores

    def _read_graph(
        self, X: Any, index: pd.Index[Any] | None, given: GraphArguments
    ) -> tuple[FittedGraph, NDArray[np.int64]]:
        """Return the graph that users give with rows, and the node that each row is."""
        graph, places = FittedGraph.read(X, given, index)
        if isinstance(self.model_, CrossHops) and self.model_.plan.num_labels:
            labels = unknown_labels(self.model_, len(graph.ids))
            if self.graph_ is not None:
                named = given.node_index is not None or not isinstance(graph.ids, pd.RangeIndex)
                labels = self.graph_.shown_labels(graph, named=named)
            if graph.num_edges and not labels.known.any():
                warnings.warn(
                    "no row of X is known as a training row, so the labels of neighbours are left "
                    "out; give the training rows among X, all rows of the fit in their order, or "
                    "with the node_index of the fit",
                    stacklevel=4,
                )
            graph = replace(graph, labels=labels)
        return graph, places

    @torch.no_grad()
    def _score_graph(self, graph: FittedGraph) -> NDArray[np.float64]:
        """Return the output of the model for every node.

        It is computed in 64 bits, so that rounding does not depend on how many nodes are scored
        together.
        """
        data, exact = graph.to_data(), deepcopy(self.model_).double().eval()
        weight = data.get("edge_weight")
        with self._threads():
            if isinstance(exact, CrossHops):
                scores: Tensor = exact(data.x.double(), data.edge_index, weight, graph.labels)
                return scores.numpy()
            prepared = PreparedGraph(data.x, data.edge_index, weight)
            edges = [double(prepared.edges(kind)) for kind in exact.propagations]
            scores = exact(double(prepared.x), edges)
            return scores.numpy()

    def _threads(self) -> AbstractContextManager[None]:
        """Use as many threads within a block as ``n_jobs`` says."""
        if self.n_jobs is None:
            return nullcontext()
        return using_threads(effective_n_jobs(self.n_jobs))

    def explained_graph(
        self, X: Any = None, edge_index: Any = None
    ) -> tuple[Data, NDArray[np.int64] | None]:
        """Return a graph for :func:`crossgcn.explain`, and the node that each row of ``X`` is.

        Args:
            X: As in ``predict``, likewise ``edge_index``; the graph of the fit by default.
        """
        check_is_fitted(self, "model_")
        graph, places, index = self.graph_, None, row_names(X)
        if X is not None:
            X = self._validate(X, reset=False)
            if edge_index is not None or graph is None:
                graph, places = self._read_graph(X, index, GraphArguments(edge_index))
            else:
                places = graph.find(X, index)
                graph = graph.with_rows(X, places)
        if graph is None:
            raise BadInput(
                "the fit had no edges, so its graph was not kept; give the rows to explain"
            )
        data = graph.to_data()
        if graph.labels is not None:
            values, data.train_mask = graph.labels.values, graph.labels.known
            one = values[:, 0] if self.model_.num_outputs == 1 else values[:, 0].long()
            data.y = one if values.size(1) == 1 else values.argmax(dim=1)
        return data, places


def unknown_labels(model: CrossHops, num_rows: int) -> NeighbourLabels:
    """Return labels of which none is known, for a model without its training labels.

    In place of the mean label, the mean over nodes of their neighbours' labels is shown.
    """
    plan = model.plan
    first = plan.num_columns - plan.label_hops * (plan.num_labels + 1) * (1 + plan.directed)
    return NeighbourLabels(
        torch.zeros(num_rows, plan.num_labels),
        torch.zeros(num_rows, dtype=torch.bool),
        model.center[first : first + plan.num_labels].double(),
    )
