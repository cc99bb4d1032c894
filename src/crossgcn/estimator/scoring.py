"""Scores of rows: rows of the fit, found again in its graph, and rows with their own graph."""

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
from crossgcn.estimator.inputs import GraphArguments
from crossgcn.estimator.kept_graph import KeptGraph, Places, unknown_labels
from crossgcn.experiments.predict import double
from crossgcn.graph import PreparedGraph
from crossgcn.models.cross_hops import CrossHops
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.trainer import using_threads

_UNKNOWN_ROWS = (
    "no row of X is known as a training row, so the labels of neighbours (label_features) are left "
    "out; give the training rows among X: all rows of the fit in their order, or with the "
    "node_index of the fit"
)


class RowScores:
    """What a fitted estimator does with rows: find them in a graph, and score them there."""

    n_jobs: int | None
    model_: NodeClassifier
    graph_: KeptGraph | None

    def _validate(self, X: Any, *, reset: bool = True) -> Any:
        """Return features as a 32-bit array or CSR matrix; ``fit``, which keeps them, resets."""
        return validate_data(
            self, X, accept_sparse="csr", dtype=np.float32, reset=reset, copy=reset
        )

    def _score_rows(self, X: Any, *edges: Any) -> NDArray[np.float64]:
        """Return the output of the model for every row, ``[rows, channels]``.

        Without edges, rows are found again in the graph of the fit.

        Args:
            *edges: The members of :class:`GraphArguments`.
        """
        check_is_fitted(self, "model_")
        index = row_names(X)
        X = self._validate(X, reset=False)
        given = GraphArguments(*edges)
        if given.edge_index is None and given.edge_weight is None and self.graph_ is not None:
            places: Places = self._find_rows(X, index, given.node_index)
            scores = np.empty((len(places), self.model_.num_outputs))
            # Rows that are the same node with different features are scored one after another.
            counted = pd.Series(places).groupby(places).cumcount().to_numpy()
            repeats = np.where(places < 0, 0, counted)
            for repeat in range(repeats.max(initial=0) + 1):
                rows = np.flatnonzero(repeats == repeat)
                graph, positions = self.graph_.with_rows(X[rows], places[rows])
                scores[rows] = self._score_graph(graph)[positions]
            return scores
        graph, places = self._read_graph(X, index, given)
        return self._score_graph(graph)[places]

    def _read_graph(
        self, X: Any, index: pd.Index[Any] | None, given: GraphArguments
    ) -> tuple[KeptGraph, Places]:
        """Return the graph that users give with rows, and the node that each row is."""
        graph, places = KeptGraph.read(X, given, index)
        if graph.num_edges == 0 and self._reads_neighbours:
            self._warn_of_missing_edges(X, given.edge_index)
        if isinstance(self.model_, CrossHops) and self.model_.plan.num_labels:
            node_index = given.node_index if graph.x is X else graph.ids
            labels = unknown_labels(self.model_, len(graph.ids))
            if self.graph_ is not None:
                labels = self.graph_.shown_labels(graph.x, node_index)
            if graph.num_edges and not labels.known.any():
                warnings.warn(_UNKNOWN_ROWS, stacklevel=4)
            graph = replace(graph, labels=labels)
        return graph, places

    def _find_rows(self, X: Any, index: pd.Index[Any] | None, node_index: Any) -> Places:
        """Return the nodes that rows are in the graph of the fit; warn of rows that are none."""
        assert self.graph_ is not None
        places: Places = self.graph_.find(X, index, node_index)
        lost = int((places < 0).sum())
        if lost and self._reads_neighbours:
            many = "all" if lost == len(places) else f"{lost} of"
            warnings.warn(
                f"{many} {len(places)} rows of X are not known as nodes of the graph of the fit, "
                "so their neighbours are left out; give edge_index for them, or node_index, or X "
                "as a data frame with the index of the fit (in cross-validation, fit with "
                "edge_index=Data(x=X, edge_index=edges))",
                stacklevel=4,
            )
        return places

    @torch.no_grad()
    def _score_graph(self, graph: KeptGraph) -> NDArray[np.float64]:
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
            x = double(prepared.x)
            scores = exact(x, [double(prepared.edges(kind)) for kind in exact.propagations])
            return scores.numpy()

    def _threads(self) -> AbstractContextManager[None]:
        """Use as many threads within a block as ``n_jobs`` says."""
        if self.n_jobs is None:
            return nullcontext()
        return using_threads(effective_n_jobs(self.n_jobs))

    @property
    def _reads_neighbours(self) -> bool:
        return self.model_.num_hops > 0 or isinstance(self.model_, CrossHops)

    def _warn_of_missing_edges(self, X: Any, edge_index: Any) -> None:
        """Warn that rows are scored without neighbours, if the fit had edges."""
        if getattr(self, "n_edges_", None) == 0:
            return
        reason = "without edge_index"
        if edge_index is not None:
            reason = "none of which an edge of edge_index joins to another"
        warnings.warn(
            f"predicting {X.shape[0]} rows, {reason}, by a model that was fitted with edges: the "
            "neighbours of the rows are left out; give edge_index, and node_index where X holds "
            "only some of its nodes",
            stacklevel=5,
        )

    def explained_graph(self, X: Any = None, edge_index: Any = None) -> tuple[Data, Places | None]:
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
                graph, places = graph.with_rows(X, self._find_rows(X, index, None))
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


def row_names(X: Any) -> pd.Index[Any] | None:
    """Return the index of a data frame."""
    if not isinstance(X, pd.DataFrame):
        return None
    return X.index.to_flat_index() if isinstance(X.index, pd.MultiIndex) else X.index
