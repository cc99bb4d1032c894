"""Cross-GCN as a scikit-learn estimator: parameters, training, scores of rows, the saved folder."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import Tags, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.validation import _check_sample_weight, check_is_fitted
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.splits import Split
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.estimator.folder import describe_estimator, read_estimator
from crossgcn.estimator.graph_input import FittedGraph, GraphArguments, row_names
from crossgcn.estimator.labels import Labels, hold_out, tidy_labels
from crossgcn.estimator.scoring import RowScores
from crossgcn.graph import PreparedGraph
from crossgcn.graph.hops import HopColumns
from crossgcn.graph.neighbourhood import NeighbourLabels, neighbour_labels
from crossgcn.models.catalogue import build_model, first_layer_crosses, get_preset, has_orders
from crossgcn.models.cross_hops import CrossHops
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.checkpoints import save_model
from crossgcn.training.config import RunConfig
from crossgcn.training.full_batch import FullBatchStep
from crossgcn.training.inputs import rows_of_hops, takes_hops
from crossgcn.training.loop import fit
from crossgcn.training.metrics import DEFAULT_METRICS, METRICS, check_metric, task_of_outputs
from crossgcn.training.objective import fit_target_scale
from crossgcn.training.rows import train_rows
from crossgcn.training.selection import Diverged, TrainedModel
from crossgcn.training.trainer import seeded

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
        strata: Class of each row, 0 for any number; -1 if not known.
        classes: The classes; ``None`` for a number.
        config: The parameters, with the weights of the classes.
    """

    values: Tensor
    strata: Tensor
    classes: Labels | None
    config: RunConfig


@dataclass(kw_only=True, eq=False, repr=False)
class CrossGCNEstimator(RowScores, BaseEstimator):  # type: ignore[misc]
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
    num_layers: int = 2
    hidden_channels: int | None = None
    order: int | Sequence[int] | None = None
    order_weights: str | Sequence[float] | None = None
    first_order: str | None = None
    aggregate_first: bool | None = None
    bias: bool | None = True
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
    warm_start: bool = False
    random_state: int | np.random.RandomState | None = 0
    n_jobs: int | None = None
    device: str = "cpu"

    def _configure(self) -> RunConfig:
        """Return the checked parameters."""
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        parameters = self.get_params().items()
        settings = {name: value for name, value in parameters if name in RunConfig.model_fields}
        if isinstance(settings.get("class_weight"), Mapping):
            settings["class_weight"] = None  # by class, so only the labels give it an order
        if get_preset(self.model).inputs == "hops":
            if self.num_layers not in (None, 1, 2):
                raise BadInput(
                    f"num_layers is {self.num_layers}, but model {self.model!r} has one layer; "
                    "leave it out (hops is how far it reaches)"
                )
            # These defaults are those of the other models.
            settings |= {
                name: None
                for name, default in (("num_layers", 2), ("bias", True))
                if settings[name] == default
            }
            if self.validation_fraction is None and self.epochs is None:
                settings["epochs"] = _EPOCHS_WITHOUT_VALIDATION
        for name in ("patience", "metric") if self.validation_fraction is None else ():
            if settings[name] is not None:
                raise BadInput(
                    f"{name} is {settings[name]!r}, but no rows are held out; give "
                    f"validation_fraction, for example 0.2, or leave out {name}"
                )
        config = RunConfig.create(defaults={"dropout": 0.2}, seed=seed, **settings)
        if config.order is None and has_orders(config.model):
            config = config.model_copy(update={"order": first_layer_crosses(2, config.num_layers)})
        return config

    def _read_targets(self, y: Any, config: RunConfig) -> Targets:
        """Check what ``fit`` is to predict."""
        raise NotImplementedError

    def _known_targets(self, y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return what ``score`` compares with, and which rows have it."""
        raise NotImplementedError

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
            edge_index: Pairs of neighbours, which are made undirected and unique. One of:

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
        X, targets = self._validate(X), self._read_targets(y, config)
        check_consistent_length(X, targets.values)
        rows, held_out = torch.nonzero(targets.strata >= 0).flatten(), None
        if self.validation_fraction is not None:
            rows, held_out = hold_out(targets.strata, self.validation_fraction, config.seed)
        rows, row_weights = _weigh(rows, X, sample_weight)
        given = GraphArguments(edge_index, edge_weight, node_index)
        if edge_index is None and edge_weight is None:
            given = given._replace(edge_index=self.graph)
        graph, places = FittedGraph.read(X, given, index)
        if graph.num_edges == 0 and given.edge_index is not None:
            warnings.warn(
                "no edge of edge_index joins two rows of X: the model is fitted without neighbours",
                stacklevel=2,
            )
        y_nodes, nodes = targets.values, torch.from_numpy(places)
        if not np.array_equal(places, np.arange(len(graph.ids))):
            unknown = torch.nan if y_nodes.is_floating_point() else -1
            y_nodes = torch.full((len(graph.ids),), unknown).to(y_nodes)
            y_nodes[nodes] = targets.values
        with self._threads():
            self._train(
                targets._replace(values=y_nodes),
                graph,
                nodes[rows],
                None if held_out is None else nodes[held_out],
                row_weights,
            )
        self.validation_rows_ = None if held_out is None else held_out.numpy()
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

    def _train(
        self,
        targets: Targets,
        graph: FittedGraph,
        train: Tensor,
        held_out: Tensor | None,
        weights: Tensor | None,
    ) -> None:
        """Train a model on nodes and set the fitted attributes.

        Args:
            targets: With values for all nodes of the graph.
            held_out: The nodes that select the epoch; without them, the last epoch is kept.
            weights: Weight of each training node in the loss.
        """
        config, y, data = targets.config, targets.values, graph.to_data()
        out_channels = 1 if targets.classes is None else len(targets.classes)
        settings, task = config.model_settings(), task_of_outputs(out_channels)
        if config.metric is not None:
            check_metric(config.metric, task)
        elif takes_hops(config) or task == "regression":
            config = config.model_copy(update={"metric": DEFAULT_METRICS[task]})
        with seeded(config.seed):
            model = build_model(config.model, data.x.size(1), out_channels, **settings)
        if self.warm_start and hasattr(self, "model_"):
            self._continue_from(self.model_, model, targets.classes)
        if task == "regression":
            fit_target_scale(model, y[train])
        if isinstance(model, CrossHops):
            labels = neighbour_labels(y, train, out_channels) if model.plan.num_labels else None
            if labels is not None:
                prior = labels.values[labels.known].double().mean(dim=0)
                graph = replace(graph, labels=labels._replace(prior=prior))
            result = self._train_rows(model, data, y, labels, train, held_out, weights, config)
        else:
            step = FullBatchStep(
                model,
                PreparedGraph(data.x, data.edge_index, data.get("edge_weight")),
                y,
                train,
                config,
                seed=config.seed,
                device=self.device,
                node_weights=weights,
            )
            result = fit(step, validation=None if held_out is None else step.scorer(held_out))
        if isinstance(result, Diverged):
            raise WorkFailed(
                f"{result.reason}; standardise X (StandardScaler in a Pipeline), or lower "
                "learning_rate or order"
            )
        model.load_state_dict(result.state)
        self.model_: NodeClassifier = model.cpu().eval()
        self.preset_ = config.model
        self.settings_: dict[str, Any] = config.model_dump(mode="json", include=set(settings))
        self.n_edges_ = graph.num_edges
        self.graph_: FittedGraph | None = graph if graph.num_edges else None
        self.n_iter_ = len(result.history)
        self.best_epoch_ = result.best_epoch
        self.loss_curve_ = [epoch.train_loss for epoch in result.history]
        self.validation_scores_: list[float] | None = None
        if held_out is not None:
            sign = 1 if METRICS[config.metric or "accuracy"].grows else -1
            self.validation_scores_ = [sign * e.validation_score for e in result.history]

    def _train_rows(
        self,
        model: CrossHops,
        data: Data,
        y: Tensor,
        labels: NeighbourLabels | None,
        train: Tensor,
        held_out: Tensor | None,
        weights: Tensor | None,
        config: RunConfig,
    ) -> TrainedModel | Diverged:
        """Train a model of neighbourhoods on batches of rows."""
        columns = HopColumns(
            data.x,
            data.edge_index,
            data.get("edge_weight"),
            hops=model.plan.hops,
        )
        nobody = torch.empty(0, dtype=torch.long)
        return train_rows(
            model,
            rows_of_hops(model, columns, y, labels),
            Split(train, nobody if held_out is None else held_out, nobody),
            config,
            seed=config.seed,
            read_test=False,
            device=self.device,
            node_weights=weights,
        )

    def _continue_from(
        self, fitted: NodeClassifier, model: NodeClassifier, classes: Labels | None
    ) -> None:
        """Start from the weights of the previous fit."""
        old, new = fitted.state_dict(), model.state_dict()
        shapes = [{name: value.shape for name, value in each.items()} for each in (old, new)]
        is_same = type(fitted) is type(model) and shapes[0] == shapes[1]
        if not is_same or (classes is not None and not np.array_equal(classes, self.classes_)):
            raise BadInput(
                "warm_start continues the previous fit, but the model, the number of features or "
                "the classes are others; set warm_start=False"
            )
        model.load_state_dict(old)

    def save(self, folder: Path | str) -> None:
        """Write the estimator to a folder, for :meth:`load`.

        ``crossgcn.load_model`` reads the model in it. The commands ``crossgcn explain`` and
        ``crossgcn predict`` take the folder of ``crossgcn train`` instead, which also holds the
        graph and all runs. :meth:`load` returns lists as tuples, and a ``RandomState`` and
        ``graph`` as ``None``.

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


def _weigh(rows: Tensor, X: Any, sample_weight: ArrayLike | None) -> tuple[Tensor, Tensor | None]:
    """Return the rows whose weight is not zero, and their weights."""
    if sample_weight is None:
        return rows, None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float32, ensure_non_negative=True)
    weights = torch.from_numpy(np.array(weight))[rows]
    if not (weights > 0).any():
        raise BadInput("sample_weight is zero for all labelled rows; give some a positive one")
    return rows[weights > 0], weights[weights > 0]
