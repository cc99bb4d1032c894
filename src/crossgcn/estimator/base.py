"""Cross-GCN as a scikit-learn estimator: parameters, training, scores of rows, the saved folder."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import Tags, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.graph import is_labelled
from crossgcn.data.splits import Split
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.estimator.folder import describe_estimator, read_estimator
from crossgcn.estimator.graph_input import FittedGraph, GraphArguments, row_names
from crossgcn.estimator.labels import Labels, hold_out, tidy_labels, unknown_labels, weigh_rows
from crossgcn.experiments.predict import class_scores
from crossgcn.models.catalogue import first_layer_crosses, get_preset, has_orders
from crossgcn.models.cross_hops import CrossHops
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.checkpoints import save_model
from crossgcn.training.config import RunConfig
from crossgcn.training.loop import Diverged
from crossgcn.training.metrics import DEFAULT_METRICS, METRICS, check_metric, task_of_outputs
from crossgcn.training.trainer import Run, Trainer

GRAPH_ARGUMENTS: dict[str, bool] = {"edge_index": True, "edge_weight": True, "node_index": True}
"""Arguments that scikit-learn passes on, if metadata routing is on."""
SCORE_ARGUMENTS: dict[str, bool] = {"edge_index": False, "edge_weight": False, "node_index": True}
"""As above, for ``score``: rows are scored in the graph of the fit."""

_EPOCHS_WITHOUT_VALIDATION = 30
"""Epochs of a model of neighbourhoods that no held-out rows stop early."""


class Targets(NamedTuple):
    """What an estimator is fitted to.

    Attributes:
        values: Class of each row, -1 if not known; or its number, NaN if not known.
        classes: The classes; ``None`` for a number.
        class_weight: As :class:`~crossgcn.RunConfig` takes it.
    """

    values: Tensor
    classes: Labels | None = None
    class_weight: str | tuple[float, ...] | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class CrossGCNEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class of the estimators; :class:`~crossgcn.CrossGCNClassifier` lists the parameters.

    A subclass reads targets (:meth:`_read_targets`, :meth:`_known_targets`); its predictions
    start from :meth:`_score_rows`.
    """

    kind: ClassVar[str]
    """What a saved estimator is."""

    # Bagging draws rows by weights if it can; rows that it repeats would not be those of the edges.
    __metadata_request__fit: ClassVar[dict[str, bool]] = GRAPH_ARGUMENTS | {"sample_weight": True}
    __metadata_request__predict = GRAPH_ARGUMENTS
    __metadata_request__score = SCORE_ARGUMENTS

    model: str = "cross-gcn"
    num_layers: int | None = None
    hidden_channels: int | None = None
    order: int | Sequence[int] | None = None
    order_weights: str | Sequence[float] | None = None
    first_order: str | None = None
    aggregate_first: bool | None = None
    bias: bool | None = None
    dropout: float | None = None
    hops: int | None = None
    label_features: bool | None = None
    bags: int | None = None
    epochs: int | None = None
    patience: int | None = None
    metric: str | None = None
    learning_rate: float | None = None
    weight_decay: float | None = None
    validation_fraction: float | None = None
    graph: Any = None
    random_state: int | np.random.RandomState | None = 0
    device: str = "cpu"

    def _configure(self) -> RunConfig:
        """Return the checked parameters, without weights of classes."""
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        settings = {
            name: value
            for name, value in self.get_params().items()
            if name in RunConfig.model_fields and name != "class_weight"
        }
        defaults: dict[str, Any] = {"dropout": 0.2}
        if get_preset(self.model).inputs == "features":
            defaults["bias"] = True
        if self.validation_fraction is None:
            if get_preset(self.model).inputs == "hops":
                defaults["epochs"] = _EPOCHS_WITHOUT_VALIDATION
            for name in ("patience", "metric"):
                if settings[name] is not None:
                    raise BadInput(
                        f"{name} is {settings[name]!r}, but no rows are held out; give "
                        f"validation_fraction, for example 0.2, or leave out {name}"
                    )
        config = RunConfig.create(defaults=defaults, seed=seed, **settings)
        if config.order is None and has_orders(config.model):
            config = config.model_copy(update={"order": first_layer_crosses(2, config.num_layers)})
        return config

    def _read_targets(self, y: Any) -> Targets:
        """Check what ``fit`` is to predict."""
        raise NotImplementedError

    def _known_targets(self, y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return what ``score`` compares with, and which rows have it."""
        raise NotImplementedError

    def _validate(self, X: Any, *, reset: bool = True) -> Any:
        """Return features as a 32-bit array or CSR matrix; ``fit``, which keeps them, resets."""
        return validate_data(
            self, X, accept_sparse="csr", dtype=np.float32, reset=reset, copy=reset
        )

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        edge_index: Any = None,
        *,
        edge_weight: Any = None,
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

                - integers ``[2, edges]``: an array, a tensor, or PyG's ``EdgeIndex``;
                - a square sparse adjacency of SciPy or PyTorch, whose values are weights unless
                  all are 1;
                - PyG's ``Data``, with weights as its ``edge_weight`` (``edge_attr`` is not read).
                  If it has features ``x``, its nodes are the graph, and ``X`` are those of them
                  whose labels are given: all in order, or those that ``node_index`` or the index
                  of a data frame names by number.
            edge_weight: One weight per edge, not negative.
            node_index: The node of ``edge_index`` that each row is, if not its position. Edges
                to other nodes are left out.
            sample_weight: Weight of each row in the loss; a row of weight 0 is part of the graph
                only.

        Raises:
            ValueError: If an argument cannot be used; the message says what to give.
            WorkFailed: If training diverges.
        """
        config, index = self._configure(), row_names(X)
        X, targets = self._validate(X), self._read_targets(y)
        check_consistent_length(X, targets.values)
        labelled = is_labelled(targets.values)
        rows, held_out = torch.nonzero(labelled).flatten(), None
        if self.validation_fraction is not None:
            classes = torch.where(labelled, 0, -1) if targets.classes is None else targets.values
            rows, held_out = hold_out(classes, self.validation_fraction, config.seed)
        rows, row_weights = weigh_rows(rows, X, sample_weight)
        if edge_index is None and edge_weight is None:
            edge_index = self.graph
        given = GraphArguments(edge_index, edge_weight, node_index)
        graph, places = FittedGraph.read(X, given, index)
        if not graph.edge_index.numel() and edge_index is not None:
            warnings.warn(
                "no edge of edge_index joins two rows of X: the model is fitted without neighbours",
                stacklevel=2,
            )
        nodes = torch.from_numpy(places)
        unknown = torch.nan if targets.values.is_floating_point() else -1
        y_nodes = torch.full((len(graph.ids),), unknown).to(targets.values)
        y_nodes[nodes] = targets.values
        num_outputs = 1 if targets.classes is None else len(targets.classes)
        task = task_of_outputs(num_outputs)
        metric = config.metric and check_metric(config.metric, task)
        if metric is None and (task == "regression" or config.takes_hops):
            metric = DEFAULT_METRICS[task]
        config = config.model_copy(update={"metric": metric, "class_weight": targets.class_weight})
        train, nobody = nodes[rows], torch.empty(0, dtype=torch.long)
        split = Split(train, nobody if held_out is None else nodes[held_out], nobody)
        data = graph.to_data(y_nodes, num_outputs)
        run = Run(config, split=0)
        trainer = Trainer(data, [split], device=self.device, node_weights=row_weights)
        model = trainer.build(run)
        if isinstance(model, CrossHops) and model.plan.num_labels:
            seen = torch.full_like(y_nodes, unknown)
            seen[train] = y_nodes[train]
            graph = graph.showing(seen, num_outputs)
        result = trainer.fit(run, model)
        if isinstance(result, Diverged):
            raise WorkFailed(
                f"{result.reason}; standardise X (StandardScaler in a Pipeline), or lower "
                "learning_rate or order"
            )
        model.load_state_dict(result.state)
        self.model_: NodeClassifier = model.cpu().eval()
        self.preset_ = config.model
        self.settings_: dict[str, Any] = config.model_dump(
            mode="json", include=set(config.model_settings())
        )
        self.graph_: FittedGraph | None = graph if graph.edge_index.numel() else None
        self.n_iter_ = len(result.history)
        self.best_epoch_ = result.best_epoch
        self.loss_curve_ = [epoch.train_loss for epoch in result.history]
        self.validation_scores_: list[float] | None = None
        self.validation_rows_: NDArray[np.int64] | None = None
        if held_out is not None:
            sign = METRICS[metric or "accuracy"].sign
            self.validation_scores_ = [sign * e.validation_score for e in result.history]
            self.validation_rows_ = held_out.numpy()
        if targets.classes is not None:
            self.classes_: Labels = targets.classes
        return self

    def score(
        self,
        X: Any,
        y: ArrayLike,
        edge_index: Any = None,
        *,
        edge_weight: Any = None,
        node_index: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Return the accuracy, or R² of a regressor, on the rows whose target is known.

        The arguments are those of :meth:`fit`, for these rows, and the weight of each row.
        """
        predicted = self.predict(X, edge_index, edge_weight=edge_weight, node_index=node_index)
        truth, known = self._known_targets(y)
        if len(truth) != len(predicted):
            raise BadInput(f"y has {len(truth)} labels for {len(predicted)} rows; give one per row")
        if not known.any():
            raise BadInput("the target is unknown in all rows of y; give rows that have one")
        weight = None if sample_weight is None else column_or_1d(sample_weight)[known]
        score = accuracy_score if self.kind == "classifier" else r2_score
        return float(score(tidy_labels(truth[known]), predicted[known], sample_weight=weight))

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
            if graph.edge_index.numel() and not labels.known.any():
                warnings.warn(
                    "no row of X is known as a training row, so the labels of neighbours are left "
                    "out; give the training rows among X, all rows of the fit in their order, or "
                    "with the node_index of the fit",
                    stacklevel=4,
                )
            graph = replace(graph, labels=labels)
        return graph, places

    def _score_graph(self, graph: FittedGraph) -> NDArray[np.float64]:
        """Return the output of the model for every node.

        It is computed in 64 bits, so that rounding does not depend on how many nodes are scored
        together.
        """
        data = graph.to_data()
        data.x = data.x.double()
        return class_scores(self.model_, data, labels=graph.labels).numpy()

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

    def save(self, folder: Path | str) -> None:
        """Write the estimator to a folder, for :meth:`load`.

        ``crossgcn.load_model`` reads the model in it. The commands ``crossgcn explain`` and
        ``crossgcn predict`` take the folder of ``crossgcn train`` instead, which also holds the
        graph and all runs. :meth:`load` returns lists as tuples, a ``RandomState`` and ``graph``
        as ``None``, and nothing about the epochs.

        Raises:
            BadInput: If a parameter cannot be saved.
        """
        check_is_fitted(self, "model_")
        save_model(
            Path(folder),
            self.model_.state_dict(),
            preset=self.preset_,
            in_channels=self.n_features_in_,
            settings=self.settings_,
            preprocess=describe_estimator(self, Path(folder)),
        )

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Return the fitted estimator that :meth:`save` wrote.

        Raises:
            BadInput: If a file is missing, damaged, changed or does not belong to the others.
        """
        parameters, fitted = read_estimator(Path(folder), cls.kind, cls._get_param_names())
        loaded = cls(**parameters)
        for name, value in fitted.items():
            setattr(loaded, name, value)
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
