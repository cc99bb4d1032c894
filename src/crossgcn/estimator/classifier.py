"""Cross-GCN as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from crossgcn.errors import BadInput
from crossgcn.estimator.fit import fit_all_epochs, fit_best_epoch, hold_out
from crossgcn.estimator.folder import HISTORY, describe_classifier, read_classifier
from crossgcn.estimator.inputs import (
    AUTO,
    encode_labels,
    find_unlabelled,
    prepare_graph,
    score_rows,
    tidy_labels,
)
from crossgcn.models.catalogue import build_model, first_layer_crosses, get_preset, has_orders
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.checkpoints import save_model
from crossgcn.training.config import RunConfig

Array = NDArray[Any]

_GRAPH = {"edge_index": True, "edge_weight": True, "node_index": True}


class CrossGCNClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify rows by their features, crosses of features, and neighbours.

    Any scikit-learn tool takes it: pipelines, grid searches, cross-validation. The graph is
    an argument of :meth:`fit`, :meth:`predict` and :meth:`score`; without one, each row stands
    for itself. Rows whose label is ``-1`` take part in the graph but not in the loss. Features
    are taken as they are: put a ``StandardScaler`` or a ``OneHotEncoder`` before it.

    Cross-validation cuts ``X`` and leaves ``edge_index`` whole, so give ``node_index`` there as
    well: it is cut with ``X`` and says which nodes are left. Edges to others are left out, so
    that a fold is scored as a graph of its own::

        with sklearn.config_context(enable_metadata_routing=True):
            cross_val_score(
                CrossGCNClassifier(), X, y,
                params={"edge_index": edge_index, "node_index": np.arange(len(X))},
            )

    A grid search is fitted with the same two arguments; its own ``predict`` takes no edges,
    that of its ``best_estimator_`` does.

    Args:
        model: A preset, such as ``"cross-gcn"``, ``"gcn"`` or ``"mlp"``.
        num_layers: How many layers.
        hidden_channels: Width of the hidden layers; 32 when left out, or the preset's.
        order: Highest order of the crosses, for all layers or one per layer. When left out,
            the first layer crosses pairs and the others nothing, so that every cross is one of
            the features.
        order_weights: How orders are aggregated; the preset's when left out.
        first_order: Likewise.
        aggregate_first: Likewise.
        bias: Give each layer a bias; ``None`` for the preset's choice.
        laplacian_weight: How much neighbours are made to agree, for ``"semi-emb"``.
        aggr: How neighbours are joined; GCN's normalised sum when left out.
        feature_transform: What crosses features; the paper's transformation when left out.
            (``transform`` elsewhere, which scikit-learn takes for a method.)
        scaling: ``"unit"`` evens out the orders' magnitudes at the start.
        residual: ``"add"`` or ``"norm"`` for layers that add to what enters them.
        dropout: Probability of dropping an entry of a layer's input; 0.2 when left out, or
            the preset's.
        input_dropout: Of the features, for ``"cross-grand"`` and ``"grand"``, as are those up
            to ``warm_up``: see :class:`~crossgcn.CrossGrand`.
        hops: How far random propagation reaches.
        node_drop: Probability of leaving a node out of one.
        draws: Random propagations per step.
        consistency: How much their predictions are made to agree.
        temperature: How sharp the prediction is that they are made to agree with.
        warm_up: Steps over which that weight grows from nothing.
        epochs: Steps of the optimiser, each over all rows; 500 when left out, or the preset's.
        learning_rate: Adam's; 0.01 when left out, or the preset's.
        weight_decay: Of the matrices; 5e-4 when left out, or the preset's.
        validation_fraction: Part of each class's rows that is not trained on but chooses the
            epoch, by accuracy. With ``None`` all labelled rows are trained on and the last
            epoch is kept, which is the better choice where labels are few.
        unlabelled: The value in ``y`` that stands for no label, or ``None`` where every row has
            one. ``"auto"`` is ``-1``, unless all other labels are ``1``: then these are the
            two classes.
        random_state: Decides the first weights, what is dropped and what is held out. The same
            number gives the same weights to the last bit.
        device: Where training takes place: ``"cpu"``, ``"cuda"`` or ``"auto"``.

    Attributes:
        classes_: The classes, sorted, of the type they have in ``y``.
        model_: The trained model, on the CPU and ready to predict.
        n_features_in_: Features per row.
        feature_names_in_: Their names, where ``X`` was a data frame.
        n_iter_: Epochs done.
        best_epoch_: The epoch whose weights are kept, counted from 1.
        loss_curve_: Mean cross-entropy of the training rows in each epoch.
        validation_scores_: Accuracy on the held-out rows in each epoch; ``None`` without any.
        validation_rows_: Which rows of ``X`` were held out, likewise.
        preset_: Name of the model, as it was when fitted.
        settings_: Its arguments of :func:`~crossgcn.models.catalogue.build_model`.

    A classifier loaded from a model of the command line does not know how that was trained: it
    has no ``n_iter_``, ``best_epoch_``, ``loss_curve_``, ``validation_scores_`` and
    ``validation_rows_``, nor ``feature_names_in_``.
    """

    __metadata_request__fit = _GRAPH
    __metadata_request__predict = _GRAPH
    __metadata_request__predict_proba = _GRAPH
    __metadata_request__decision_function = _GRAPH
    __metadata_request__score = _GRAPH

    def __init__(
        self,
        *,
        model: str = "cross-gcn",
        num_layers: int = 2,
        hidden_channels: int | None = None,
        order: int | Sequence[int] | None = None,
        order_weights: str | Sequence[float] | None = None,
        first_order: str | None = None,
        aggregate_first: bool | None = None,
        bias: bool | None = True,
        laplacian_weight: float | None = None,
        aggr: str | None = None,
        feature_transform: str | Sequence[str] | None = None,
        scaling: str | None = None,
        residual: str | None = None,
        dropout: float | None = None,
        input_dropout: float | None = None,
        hops: int | None = None,
        node_drop: float | None = None,
        draws: int | None = None,
        consistency: float | None = None,
        temperature: float | None = None,
        warm_up: int | None = None,
        epochs: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        validation_fraction: float | None = None,
        unlabelled: Any = AUTO,
        random_state: int | np.random.RandomState | None = 0,
        device: str = "cpu",
    ) -> None:
        self.model = model
        self.num_layers = num_layers
        self.hidden_channels = hidden_channels
        self.order = order
        self.order_weights = order_weights
        self.first_order = first_order
        self.aggregate_first = aggregate_first
        self.bias = bias
        self.laplacian_weight = laplacian_weight
        self.aggr = aggr
        self.feature_transform = feature_transform
        self.scaling = scaling
        self.residual = residual
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.hops = hops
        self.node_drop = node_drop
        self.draws = draws
        self.consistency = consistency
        self.temperature = temperature
        self.warm_up = warm_up
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.validation_fraction = validation_fraction
        self.unlabelled = unlabelled
        self.random_state = random_state
        self.device = device

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        edge_index: Any = None,
        *,
        edge_weight: Any = None,
        node_index: Any = None,
    ) -> Self:
        """Train on the rows that have a label.

        Args:
            X: Features ``[rows, features]``: array, data frame or SciPy sparse matrix, which
                stays sparse.
            y: Class of each row: numbers, texts or truth values; ``-1`` where it is not known.
            edge_index: Which rows are neighbours, integers ``[2, edges]``, or a SciPy sparse
                adjacency. Edges are made undirected and unique.
            edge_weight: One weight per edge, not negative.
            node_index: The number by which ``edge_index`` knows each row, where that is not its
                position. Edges to numbers that are not among them are left out.

        Raises:
            ValueError: If something given cannot be used; the message says what to give.
            WorkFailed: If training diverges.
        """
        config = self._configure()
        _refuse_missing_labels(y)
        X, labels = validate_data(self, X, y, accept_sparse="csr", dtype=np.float32)
        classes, codes = encode_labels(labels, self.unlabelled)
        graph = prepare_graph(X, edge_index, edge_weight, node_index)
        settings = config.model_settings()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            model = build_model(config.model, X.shape[1], len(classes), **settings)
        held = None
        if self.validation_fraction is None:
            rows = torch.nonzero(codes >= 0).flatten()
            fitted = fit_all_epochs(model, graph, codes, rows, config, self.device)
        else:
            rows, held = hold_out(codes, self.validation_fraction, config.seed)
            fitted = fit_best_epoch(model, graph, codes, rows, held, config, self.device)
        self.classes_: Array = classes
        self.model_: NodeClassifier = model.eval()
        self.preset_ = config.model
        self.settings_: dict[str, Any] = config.model_dump(mode="json", include=set(settings))
        self.n_iter_ = len(fitted.losses)
        self.best_epoch_ = fitted.epoch
        self.loss_curve_ = fitted.losses
        self.validation_scores_ = fitted.validation_accuracies
        self.validation_rows_: Array | None = None if held is None else held.numpy()
        return self

    def decision_function(
        self, X: Any, edge_index: Any = None, *, edge_weight: Any = None, node_index: Any = None
    ) -> NDArray[np.float64]:
        """Scores of each row before the softmax; with two classes, of the second over the first.

        Args:
            X: Features of rows, new ones or those of :meth:`fit`.
            edge_index: As for :meth:`fit`, between these rows.
            edge_weight: As for :meth:`fit`.
            node_index: As for :meth:`fit`.
        """
        scores = self._score_classes(X, edge_index, edge_weight, node_index)
        return scores if scores.shape[1] > 2 else scores[:, 1] - scores[:, 0]

    def predict_proba(
        self, X: Any, edge_index: Any = None, *, edge_weight: Any = None, node_index: Any = None
    ) -> NDArray[np.float64]:
        """Probability of each class, in the order of ``classes_``.

        Args:
            X: As for :meth:`decision_function`.
            edge_index: Likewise.
            edge_weight: Likewise.
            node_index: Likewise.
        """
        scores = self._score_classes(X, edge_index, edge_weight, node_index)
        probabilities: NDArray[np.float64] = softmax(scores, axis=1)
        return probabilities

    def predict(
        self, X: Any, edge_index: Any = None, *, edge_weight: Any = None, node_index: Any = None
    ) -> Array:
        """The most probable class of each row.

        Args:
            X: As for :meth:`decision_function`.
            edge_index: Likewise.
            edge_weight: Likewise.
            node_index: Likewise.
        """
        scores = self._score_classes(X, edge_index, edge_weight, node_index)
        predicted: Array = self.classes_[scores.argmax(axis=1)]
        return predicted

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
        """Accuracy on the rows that have a label.

        Args:
            X: As for :meth:`decision_function`.
            y: Class of each row; rows marked as unlabelled are predicted but not counted.
            edge_index: As for :meth:`decision_function`.
            edge_weight: Likewise.
            node_index: Likewise.
            sample_weight: How much each row counts.
        """
        predicted = self.predict(X, edge_index, edge_weight=edge_weight, node_index=node_index)
        truth: Array = column_or_1d(y)
        if len(truth) != len(predicted):
            raise BadInput(f"y has {len(truth)} labels for {len(predicted)} rows; give one per row")
        labelled = ~find_unlabelled(truth, self.unlabelled, self.classes_)
        if not labelled.any():
            raise BadInput("y marks all rows as unlabelled; give some that have a label")
        weight = None if sample_weight is None else column_or_1d(sample_weight)[labelled]
        known = tidy_labels(truth[labelled])
        return float(accuracy_score(known, predicted[labelled], sample_weight=weight))

    def save(self, folder: Path | str) -> None:
        """Write the classifier as a folder that :meth:`load` gives back whole.

        ``crossgcn.load_model`` reads the model in it. The commands ``crossgcn explain`` and
        ``crossgcn predict`` do not: they take the folder of ``crossgcn train``, which holds the
        graph and all runs as well.

        Parameters are kept as they were given, except that a list comes back as a tuple, and a
        ``RandomState`` as ``None``.

        Args:
            folder: Made if it is not there.

        Raises:
            BadInput: If a parameter is nothing that a file can hold.
        """
        check_is_fitted(self, "model_")
        names = getattr(self, "feature_names_in_", None)
        history = {name: getattr(self, name) for name in HISTORY if hasattr(self, name)}
        save_model(
            Path(folder),
            self.model_.state_dict(),
            preset=self.preset_,
            in_channels=self.n_features_in_,
            settings=self.settings_,
            preprocess=describe_classifier(self.classes_, names, self.get_params(), history),
        )

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """Read what :meth:`save` or ``crossgcn train`` wrote, ready to predict.

        What was saved by :meth:`save` has the same parameters and attributes as before. Of a
        model of the command line only those that describe the model itself are known; the
        parameters of training, such as ``epochs``, are at their defaults. If it came from
        tables, it takes features as :func:`~crossgcn.data.tables.graph.load_tables` encodes
        them (``.matrix``). Its classes are texts.

        Args:
            folder: With ``config.json``, ``model.safetensors`` and ``preprocess.json``.

        Raises:
            BadInput: If a file is missing, damaged, changed or does not belong to the others.
        """
        parameters, fitted = read_classifier(folder, cls._get_param_names())
        loaded = cls(**parameters)
        for name, value in fitted.items():
            setattr(loaded, name, value)
        return loaded

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _configure(self) -> RunConfig:
        """The parameters, checked."""
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        parameters = self.get_params().items()
        settings = {name: value for name, value in parameters if name in RunConfig.model_fields}
        config = RunConfig.create(
            defaults={"dropout": 0.2}, seed=seed, transform=self.feature_transform, **settings
        )
        if config.order is None and has_orders(config.model, config.transform):
            config = config.model_copy(update={"order": first_layer_crosses(2, config.num_layers)})
        if get_preset(config.model).inputs != "features":
            raise BadInput(
                f"model {config.model!r} sees no features, only the graph; take another one"
            )
        return config

    def _score_classes(
        self, X: Any, edge_index: Any, edge_weight: Any, node_index: Any
    ) -> NDArray[np.float64]:
        check_is_fitted(self, "model_")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=False)
        return score_rows(self.model_, prepare_graph(X, edge_index, edge_weight, node_index))


def _refuse_missing_labels(y: Any) -> None:
    """Say how pandas' missing labels are marked; scikit-learn says only that there are some."""
    if not hasattr(y, "isna"):
        return
    missing = np.flatnonzero(np.asarray(y.isna()).reshape(len(y), -1).any(axis=1))
    if len(missing):
        raise BadInput(
            f"y row {missing[0]} is missing ({len(missing)} such in all); mark rows without a "
            "label by -1, for example with y.fillna(-1)"
        )
