"""Cross-GCN as a scikit-learn estimator: parameters, training, scores and the saved folder."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.errors import BadInput, WorkFailed
from crossgcn.estimator.folder import describe_estimator, read_estimator
from crossgcn.estimator.inputs import read_graph
from crossgcn.estimator.known_rows import KnownRows
from crossgcn.graph import PreparedGraph, SparseMatrix
from crossgcn.graph.hops import HopColumns, NeighbourLabels, neighbour_labels
from crossgcn.graph.sampling.source import source_of
from crossgcn.models.catalogue import build_model, first_layer_crosses, get_preset, has_orders
from crossgcn.models.cross_hops import CrossHops
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.batches.train import train_in_batches
from crossgcn.training.checkpoints import save_model
from crossgcn.training.config import RunConfig
from crossgcn.training.inputs import rows_of_hops, takes_hops
from crossgcn.training.loop import fit
from crossgcn.training.losses import fit_target_scale
from crossgcn.training.metrics import DEFAULT_METRICS, METRICS, check_metric, task_of_outputs
from crossgcn.training.selection import Diverged, TrainedModel
from crossgcn.training.steps.full_batch import FullBatchStep
from crossgcn.training.trainer import seeded

GRAPH_ARGUMENTS = {"edge_index": True, "edge_weight": True, "node_index": True}
"""Arguments of all methods that scikit-learn passes on, if metadata routing is on."""


_UNKNOWN_ROWS = (
    "no row of X is known as a training row, so the labels of neighbours (label_features) are left "
    "out; give the training rows among X: all rows of the fit in their order, or with the "
    "node_index of the fit"
)
_PASSES_WITHOUT_VALIDATION = 30
"""Epochs of a model of neighbourhoods that no held-out rows stop early."""


class GraphArguments(NamedTuple):
    """The graph as users give it to ``fit`` and ``predict``."""

    edge_index: Any = None
    edge_weight: Any = None
    node_index: Any = None


@dataclass(kw_only=True, eq=False, repr=False)
class CrossGCNEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class of the estimators; :class:`~crossgcn.CrossGCNClassifier` lists the parameters.

    A subclass validates the targets in ``fit`` and passes them to :meth:`_train`; its
    predictions start from :meth:`_score_rows`.
    """

    kind: ClassVar[str]
    """What a saved estimator is."""

    __metadata_request__fit = GRAPH_ARGUMENTS
    __metadata_request__predict = GRAPH_ARGUMENTS
    __metadata_request__score = GRAPH_ARGUMENTS

    model: str = "cross-gcn"
    num_layers: int = 2
    hidden_channels: int | None = None
    order: int | Sequence[int] | None = None
    order_weights: str | Sequence[float] | None = None
    first_order: str | None = None
    aggregate_first: bool | None = None
    bias: bool | None = True
    laplacian_weight: float | None = None
    aggr: str | None = None
    feature_transform: str | Sequence[str] | None = None
    scaling: str | None = None
    residual: str | None = None
    dropout: float | None = None
    input_dropout: float | None = None
    hops: int | None = None
    label_features: bool | None = None
    bags: int | None = None
    node_drop: float | None = None
    draws: int | None = None
    consistency: float | None = None
    temperature: float | None = None
    warm_up: int | None = None
    epochs: int | None = None
    patience: int | None = None
    metric: str | None = None
    learning_rate: float | None = None
    weight_decay: float | None = None
    validation_fraction: float | None = None
    random_state: int | np.random.RandomState | None = 0
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
        inputs = get_preset(self.model).inputs
        if inputs == "embedding":
            raise BadInput(
                f"model {self.model!r} uses only the graph, not the features; choose another one"
            )
        if inputs == "hops":
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
                settings["epochs"] = _PASSES_WITHOUT_VALIDATION
        if self.validation_fraction is None:
            for name in ("patience", "metric"):
                if settings[name] is not None:
                    raise BadInput(
                        f"{name} is {settings[name]!r}, but no rows are held out; give "
                        f"validation_fraction, for example 0.2, or leave out {name}"
                    )
        config = RunConfig.create(
            defaults={"dropout": 0.2}, seed=seed, transform=self.feature_transform, **settings
        )
        if inputs != "hops" and config.order is None and has_orders(config.model, config.transform):
            config = config.model_copy(update={"order": first_layer_crosses(2, config.num_layers)})
        return config

    def _train(
        self,
        config: RunConfig,
        X: Any,
        y: Tensor,
        out_channels: int,
        edges: GraphArguments,
        rows: Tensor,
        held_out: Tensor | None,
    ) -> None:
        """Train a model on ``rows`` and set the fitted attributes.

        Args:
            X: Validated features.
            y: Class of each row, or its number.
            out_channels: The number of classes; 1 for a number.
            held_out: The rows that select the epoch; without them, the last epoch is kept.
        """
        data = read_graph(X, *edges)
        settings, task = config.model_settings(), task_of_outputs(out_channels)
        if config.metric is not None:
            check_metric(config.metric, task)
        elif takes_hops(config) or task == "regression":
            config = config.model_copy(update={"metric": DEFAULT_METRICS[task]})
        with seeded(config.seed):
            model = build_model(config.model, data.x.size(1), out_channels, **settings)
        if task == "regression":
            fit_target_scale(model, y[rows])
        known_rows = None
        if isinstance(model, CrossHops):
            labels = neighbour_labels(y, rows, out_channels) if model.plan.num_labels else None
            if labels is not None:
                known_rows = KnownRows.of_fit(X, edges.node_index, labels)
            source = rows_of_hops(model, HopColumns(source_of(data), model.plan.hops), y, labels)
            nobody = torch.empty(0, dtype=torch.long)
            split = Split(rows, nobody if held_out is None else held_out, nobody)
            result: TrainedModel | Diverged = train_in_batches(
                model, source, split, config, seed=config.seed, read_test=False, device=self.device
            )
        else:
            graph = PreparedGraph(data.x, data.edge_index, data.get("edge_weight"))
            step = FullBatchStep(
                [model], graph, y, [rows], config, seeds=[config.seed], device=self.device
            )
            (result,) = fit(step, validation=None if held_out is None else step.scorer([held_out]))
        if isinstance(result, Diverged):
            raise WorkFailed(
                f"{result.reason}; standardise X (StandardScaler in a Pipeline), or lower "
                "learning_rate or order"
            )
        model.load_state_dict(result.state)
        self.model_: NodeClassifier = model.cpu().eval()
        self.preset_ = config.model
        self.settings_: dict[str, Any] = config.model_dump(mode="json", include=set(settings))
        self.n_edges_ = data.edge_index.size(1)
        self.known_rows_ = known_rows
        self.n_iter_ = len(result.history)
        self.best_epoch_ = result.best_epoch
        self.loss_curve_ = [epoch.train_loss for epoch in result.history]
        self.validation_scores_: list[float] | None = None
        self.validation_rows_: NDArray[np.int64] | None = None
        if held_out is not None:
            sign = 1 if METRICS[config.metric or "accuracy"].grows else -1
            self.validation_scores_ = [sign * e.validation_score for e in result.history]
            self.validation_rows_ = held_out.numpy()

    @torch.no_grad()
    def _score_rows(self, X: Any, *edges: Any) -> NDArray[np.float64]:
        """Return the output of the model for every row, ``[rows, channels]``.

        It is computed in 64 bits, so that rounding does not depend on how many rows are scored
        together.

        Args:
            *edges: The members of :class:`GraphArguments`.
        """
        check_is_fitted(self, "model_")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=False)
        data = read_graph(X, *edges)
        exact, x = deepcopy(self.model_).double().eval(), data.x
        is_cut_off = data.edge_index.size(1) == 0
        if is_cut_off and (exact.num_hops or isinstance(exact, CrossHops)):
            self._warn_of_missing_edges(X, *edges)
        if isinstance(exact, CrossHops):
            labels, x = self._shown_labels(X, GraphArguments(*edges)), x.double()
            if labels is not None and not is_cut_off and not labels.known.any():
                warnings.warn(_UNKNOWN_ROWS, stacklevel=4)
            scores: Tensor = exact(x, data.edge_index, data.get("edge_weight"), labels)
            return scores.numpy()
        graph = PreparedGraph(data.x, data.edge_index, data.get("edge_weight"))
        x = _in_64_bits(graph.x) if isinstance(graph.x, SparseMatrix) else graph.x.double()
        scores = exact(x, [_in_64_bits(graph.edges(kind)) for kind in exact.propagations])
        return scores.numpy()

    def _warn_of_missing_edges(self, X: Any, edge_index: Any, *_: Any) -> None:
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

    def _shown_labels(self, X: Any, edges: GraphArguments) -> NeighbourLabels | None:
        """Return the training labels that neighbours show, if the model reads them."""
        assert isinstance(self.model_, CrossHops)
        if not self.model_.plan.num_labels:
            return None
        known_rows = self.known_rows_ or KnownRows.none_of(self.model_)
        return known_rows.show(X, edges.node_index)

    def save(self, folder: Path | str) -> None:
        """Write the estimator to a folder, for :meth:`load`.

        ``crossgcn.load_model`` reads the model in it. The commands ``crossgcn explain`` and
        ``crossgcn predict`` do not: they take the folder of ``crossgcn train``, which also holds
        the graph and all runs.

        :meth:`load` returns lists as tuples, and a ``RandomState`` as ``None``.

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
            preprocess=describe_estimator(self),
        )

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Return the fitted estimator that :meth:`save` or ``crossgcn train`` wrote.

        One written by :meth:`save` has the same parameters and attributes as before. One written
        by the command line has the parameters of its model; those of training, such as
        ``epochs``, are at their defaults. If it was trained on tables, it takes features as
        :func:`~crossgcn.data.tables.graph.load_tables` encodes them (``.matrix``). Its classes
        are texts.

        Raises:
            BadInput: If a file is missing, damaged, changed or does not belong to the others.
        """
        parameters, fitted = read_estimator(folder, cls.kind, cls._get_param_names())
        loaded = cls(**parameters)
        for name, value in fitted.items():
            setattr(loaded, name, value)
        return loaded

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _in_64_bits(matrix: SparseMatrix) -> SparseMatrix:
    return SparseMatrix(matrix.row_offsets, matrix.columns, matrix.values.double(), matrix.shape)
