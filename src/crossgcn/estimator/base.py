"""What the estimators share: parameters, training, scores of rows, the saved folder."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import Tags, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data
from torch_geometric.data import Data

from crossgcn.data.features import FeatureSpace, Preprocess
from crossgcn.data.relations import relations_of, shape_of
from crossgcn.data.splits import Split
from crossgcn.data.tables.graph import as_matrix
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.estimator.folder import read_estimator, write_estimator
from crossgcn.estimator.graph_input import (
    RowGraph,
    graph_of_rows,
    match_relations,
    read_names,
)
from crossgcn.estimator.labels import (
    Labels,
    expand,
    hold_out,
    read_known,
    read_targets,
    refuse_contradictions,
    weigh_rows,
)
from crossgcn.experiments.predict import class_scores
from crossgcn.graph.neighbourhood import NeighbourLabels
from crossgcn.models.catalogue import first_layer_crosses, get_preset, has_orders
from crossgcn.models.cross_hops import CrossHops
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.calibration import Answers, Misses
from crossgcn.training.config import RunConfig
from crossgcn.training.loop import Diverged
from crossgcn.training.metrics import DEFAULT_METRICS, METRICS, check_metric, task_of_outputs
from crossgcn.training.trainer import Run, Trainer, check_columns

# Arguments that scikit-learn passes on, if metadata routing is on. Rows are scored in the graph of
# the fit. Bagging draws rows by weights if it can; rows that it repeats would not be those of the
# edges.
GRAPH_ARGUMENTS: dict[str, bool] = {"edge_index": True, "node_index": True}
_FIT_ARGUMENTS = GRAPH_ARGUMENTS | {"sample_weight": True}
_SCORE_ARGUMENTS = GRAPH_ARGUMENTS | {"edge_index": False}

_EPOCHS_WITHOUT_VALIDATION = 30
"""Epochs of a model of neighbourhoods that no held-out rows stop early."""


@dataclass(kw_only=True, eq=False, repr=False)
class CrossGCNEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class of the estimators; :class:`~crossgcn.CrossGCNClassifier` lists the parameters."""

    kind: ClassVar[str]
    """``"classifier"`` or ``"regressor"``."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = _FIT_ARGUMENTS
    __metadata_request__predict = GRAPH_ARGUMENTS
    __metadata_request__score: ClassVar[dict[str, bool]] = _SCORE_ARGUMENTS

    model: str = "cross-gcn"
    num_layers: int | None = None
    hidden_channels: int | None = None
    order: int | Sequence[int] | None = None
    order_weights: str | Sequence[float] | None = None
    aggregate_first: bool | None = None
    bias: bool | None = None
    dropout: float | None = None
    hops: int | None = None
    label_features: bool | None = None
    bags: int | None = None
    columns: int | str | None = None
    crosses: int | str | None = None
    tuning: int | None = None
    epochs: int | None = None
    patience: int | None = None
    metric: str | None = None
    learning_rate: float | None = None
    weight_decay: float | None = None
    validation_fraction: float | None = None
    graph: Any = None
    random_state: int | np.random.RandomState | None = 0
    device: str = "cpu"

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        edge_index: Any = None,
        *,
        node_index: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on the rows whose target is known.

        Args:
            X: Features ``[rows, features]``: array, data frame or SciPy sparse matrix, which
                stays sparse.
            y: Class of each row: numbers, texts or booleans; ``-1``, NaN or ``None`` where it is
                not known. For a regressor the number of each row, or NaN.
            edge_index: Pairs of neighbours, which are made undirected and unique; by default those
                of ``graph``. One of:

                - integers ``[2, edges]``, an array or a tensor;
                - several relations by name: a dictionary of such edges, ``{"ties": edge_index}``,
                  or PyG's ``HeteroData`` with one type of nodes;
                - PyG's ``Data``, with weights as its ``edge_weight`` (``edge_attr`` is not read).
                  If it has features ``x``, its nodes are the graph, and ``X`` are some of them:
                  all in order, or those whose numbers are the ``node_index`` or the index of a
                  data frame.
            node_index: The node of ``edge_index`` that each row is, if not its position. Edges
                to other nodes are left out.
            sample_weight: Weight of each row in the loss; a row of weight 0 is part of the graph
                only.

        Raises:
            ValueError: If an argument cannot be used; the message says what to give.
            WorkFailed: If training diverges.
        """
        names = read_names(X, node_index)
        X = self._validate(X, reset=True)
        targets, classes = read_targets(y, self.kind)
        check_consistent_length(X, targets)
        edges = self.graph if edge_index is None else edge_index
        graph, places = graph_of_rows(X, names, edges, names_in_edges=node_index is not None)
        if edges is not None and not graph.has_edges:
            warnings.warn(
                "no edge of edge_index joins two rows of X: the model is fitted without neighbours",
                stacklevel=2,
            )
        config = self._configure(classes, graph.has_edges)
        class_weight = getattr(self, "class_weight", None)
        rows, row_weights = weigh_rows(targets, classes, X, sample_weight, class_weight)
        held_out = rows[:0]
        if self.validation_fraction is not None:
            strata = None if classes is None else classes[targets[rows]]
            rows, held_out = hold_out(rows, strata, self.validation_fraction, config.seed)
        nodes, data = torch.from_numpy(places), graph.data
        data.num_classes = 1 if classes is None else len(classes)
        data.y = expand(targets, nodes, len(graph.names))
        columns = getattr(self, "feature_names_in_", None)
        space = (
            FeatureSpace.unnamed(self.n_features_in_)
            if columns is None
            else FeatureSpace.named(list(columns))
        )
        preprocess = Preprocess(("target",) if classes is None else tuple(map(str, classes)), space)
        trainer = Trainer(
            data,
            [Split(nodes[rows], nodes[held_out], nodes[:0])],
            device=self.device,
            preprocess=preprocess,
            node_weights=None if row_weights is None else row_weights[rows],
        )
        run = Run(config, split=0)
        model = trainer.build(run)
        check_columns([config], [model], preprocess, relations_of(data))
        try:
            result = trainer.fit(run, model)
        except Diverged as error:
            raise WorkFailed(
                f"{error.reason}; standardise X (StandardScaler in a Pipeline), or lower "
                "learning_rate or order"
            ) from None
        data.y = expand(targets[rows], nodes[rows], len(graph.names))
        model.load_state_dict(result.state)
        self.model_: NodeClassifier = model.cpu().eval()
        self.preset_ = config.model
        units = result.chosen.get("settings", {}).get("hidden_channels", config.hidden_channels)
        self.settings_: dict[str, Any] = config.model_dump(
            mode="json", include=set(config.model_settings())
        )
        self.settings_ |= {"hidden_channels": units}
        if config.takes_hops:
            self.settings_ |= shape_of(relations_of(data))
        self.graph_: RowGraph | None = graph if graph.has_edges else None
        self.n_iter_ = len(result.history)
        self.best_epoch_ = result.best_epoch
        self.loss_curve_ = [epoch.train_loss for epoch in result.history]
        self.validation_scores_: list[float] | None = None
        self.validation_rows_: NDArray[np.int64] | None = None
        self.misses_: Misses | None = None
        if len(held_out):
            sign = METRICS[config.metric or "accuracy"].sign
            self.validation_scores_ = [sign * e.validation_score for e in result.history]
            self.validation_rows_ = held_out.numpy()
            scores = class_scores(self.model_, data, nodes[held_out], self._labels(self.graph_))
            self.misses_ = Misses.measure(targets[held_out].numpy(), *(s.numpy() for s in scores))
        self.columns_: list[str] | None = result.chosen.get("columns")
        self.columns_path_: list[tuple[int, float]] | None = result.chosen.get("path")
        if classes is not None:
            self.classes_: Labels = classes
        return self

    def _configure(self, classes: Labels | None, has_edges: bool) -> RunConfig:
        """Return the checked parameters, with the defaults for these targets and edges."""
        refuse_contradictions(self.get_params())
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        settings = {
            name: value
            for name, value in self.get_params().items()
            if name in RunConfig.model_fields and name != "class_weight"
        }
        takes_hops = get_preset(self.model).inputs == "hops"
        task = task_of_outputs(1 if classes is None else len(classes))
        defaults: dict[str, Any] = {"dropout": 0.2}
        if not takes_hops:
            defaults["bias"] = True
        elif self.validation_fraction is None:
            defaults["epochs"] = _EPOCHS_WITHOUT_VALIDATION
        if self.metric is not None:
            check_metric(self.metric, task)
        elif takes_hops or task == "regression":
            defaults["metric"] = DEFAULT_METRICS[task]
        config = RunConfig.create(defaults=defaults, seed=seed, **settings)
        if takes_hops and not has_edges:
            config = config.model_copy(update={"hops": 0})
        if config.order is None and has_orders(config.model):
            config = config.model_copy(update={"order": first_layer_crosses(2, config.num_layers)})
        return config

    def _validate(self, X: Any, *, reset: bool) -> Any:
        """Return features as a 32-bit array or CSR matrix.

        ``fit`` resets the number and the names of the features.
        """
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=reset, copy=True)
        if not isinstance(X, np.ndarray):
            # Dropout would treat a stored zero, or one entry in two parts, unlike other entries.
            X.sum_duplicates()
            X.eliminate_zeros()
        return X

    def score(
        self,
        X: Any,
        y: ArrayLike,
        edge_index: Any = None,
        *,
        node_index: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the accuracy, or R² of a regressor, on the rows whose target is known.

        The arguments are those of :meth:`fit`, for these rows, and the weight of each row.
        """
        predicted = self.predict(X, edge_index, node_index=node_index)
        truth, known = read_known(y, self.kind, getattr(self, "classes_", None))
        check_consistent_length(known, predicted)
        weight = None if sample_weight is None else column_or_1d(sample_weight)[known]
        score = accuracy_score if self.kind == "classifier" else r2_score
        return float(score(truth, predicted[known], sample_weight=weight))

    def _score_rows(
        self, X: Any, edge_index: Any, node_index: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the scores of rows, ``[rows, channels]``, and how far the bags of each differ."""
        data, places, labels = self._locate(X, edge_index, node_index)
        data.x = data.x.double()  # rounding must not depend on how many nodes are scored together
        scores, spread = class_scores(self.model_, data, labels=labels)
        return scores.numpy()[places], spread.numpy()[places]

    def _answer(self, X: Any, edge_index: Any, node_index: Any, coverage: float) -> Answers:
        """Return intervals or sets of classes, by how far the held-out rows are missed."""
        check_is_fitted(self, "model_")
        if self.misses_ is None:
            raise BadInput("no rows were held out; give validation_fraction, for example 0.2")
        return self.misses_.predict(*self._score_rows(X, edge_index, node_index), coverage)

    def _locate(
        self, X: Any, edge_index: Any, node_index: Any = None
    ) -> tuple[Data, NDArray[np.int64], NeighbourLabels | None]:
        """Return the graph in which rows are scored, the node of each row, and shown labels.

        Without edges, rows are nodes of the graph of the fit.
        """
        check_is_fitted(self, "model_")
        names = read_names(X, node_index)
        X = self._validate(X, reset=False)
        fitted = self.graph_
        if fitted is not None and edge_index is None:
            places = fitted.find(X, names)
            return fitted.with_rows(X, places).data, places, self._labels(fitted)
        graph, places = graph_of_rows(X, names, edge_index, names_in_edges=node_index is not None)
        if fitted is None and graph.has_edges:
            raise BadInput(
                "the model was fitted without edges and has no use for any; leave them out, or "
                "give them to fit"
            )
        if fitted is not None and graph.has_edges:
            match_relations(graph, fitted)
        labels = self._labels(fitted, graph)
        if labels is not None and graph.has_edges and not labels.known.any():
            warnings.warn(
                "no row of X is known as a training row, so the labels of neighbours are left "
                "out; give the training rows among X, all rows of the fit in their order, or "
                "with the node_index of the fit",
                stacklevel=4,
            )
        return graph.data, places, labels

    def _labels(
        self, fitted: RowGraph | None, other: RowGraph | None = None
    ) -> NeighbourLabels | None:
        """Return the labels of training rows in the graph of the fit, or in another graph."""
        sees_labels = isinstance(self.model_, CrossHops) and self.model_.plan.num_labels
        if fitted is None or not sees_labels:
            return None
        return fitted.labels if other is None else fitted.labels_in(other)

    def explained_graph(
        self, X: Any = None, edge_index: Any = None, node_index: Any = None
    ) -> tuple[
        Data,
        NDArray[np.int64] | None,
        NeighbourLabels | None,
        tuple[Data, NeighbourLabels | None] | None,
    ]:
        """Return a graph for :func:`crossgcn.explain`, the node of each row, and shown labels.

        The last is the graph of the fit with its labels, if it is another graph. Features of
        cross-hops are in 64 bits, as for ``predict``.

        Args:
            X: As in ``predict``, likewise ``edge_index`` and ``node_index``; the graph of the fit
                by default.
        """
        check_is_fitted(self, "model_")
        known, dtype = None, torch.float32
        if isinstance(self.model_, CrossHops):
            dtype = torch.float64
        if self.graph_ is not None:
            fit = copy(self.graph_.data)
            fit.x = fit.x.to(dtype)
            known = fit, self._labels(self.graph_)
        if X is not None:
            data, places, labels = self._locate(X, edge_index, node_index)
            data.x = data.x.to(dtype)
            if known and edge_index is None and not abs(as_matrix(data.x) - as_matrix(fit.x)).nnz:
                known = None  # the rows of the fit, unchanged
            return data, places, labels, known
        if known is None:
            raise BadInput(
                "the fit had no edges, so its graph was not kept; give the rows to explain"
            )
        return known[0], None, known[1], None

    def save(self, folder: Path | str) -> None:
        """Write the estimator to a folder, for :meth:`load`.

        ``crossgcn.load_model`` reads the model in it. The commands ``crossgcn explain`` and
        ``crossgcn predict`` take the folder of ``crossgcn train`` instead, which also holds the
        graph and all runs. :meth:`load` returns lists as tuples, a ``RandomState`` and ``graph``
        as ``None``, and nothing about the epochs and the choice of columns.
        """
        write_estimator(self, Path(folder))

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Return the fitted estimator that :meth:`save` wrote.

        Raises:
            BadInput: If a file is missing, damaged, changed or does not belong to the others.
        """
        loaded: Self = read_estimator(cls, Path(folder))
        return loaded

    def __sklearn_clone__(self) -> Self:
        """Copy the parameters; all clones share one graph, which none of them changes."""
        without = copy(self)
        without.graph = None  # PyTorch cannot copy sparse CSR tensors
        cloned: Self = super(CrossGCNEstimator, without).__sklearn_clone__()
        cloned.graph = self.graph
        return cloned

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
