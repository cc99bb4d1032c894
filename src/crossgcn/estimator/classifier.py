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
from crossgcn.estimator.fit import fit_model, hold_out
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

    It works with scikit-learn's pipelines, grid searches and cross-validation. The graph is an
    argument of :meth:`fit`, :meth:`predict` and :meth:`score`; without one, rows have no
    neighbours. Rows whose label is ``-1`` are part of the graph but not of the loss. Features
    are not scaled: put a ``StandardScaler`` or a ``OneHotEncoder`` before it.

    Cross-validation selects rows of ``X`` but not of ``edge_index``, so give ``node_index`` there
    as well: it is selected with ``X`` and says which nodes are left. Edges to other nodes are
    left out, so each fold is scored as a graph of its own::

        with sklearn.config_context(enable_metadata_routing=True):
            cross_val_score(
                CrossGCNClassifier(), X, y,
                params={"edge_index": edge_index, "node_index": np.arange(len(X))},
            )

    A grid search is fitted with the same two arguments; its own ``predict`` takes no edges,
    that of its ``best_estimator_`` does.

    Args:
        model: A preset, such as ``"cross-gcn"``, ``"gcn"`` or ``"mlp"``. Where ``None`` is given
            for another parameter, the preset decides.
        num_layers: The number of layers.
        hidden_channels: Width of the hidden layers; 32 by default.
        order: Highest order of the crosses, for all layers or one per layer. By default the
            first layer crosses pairs and the others nothing, so that every cross is one of the
            features.
        order_weights: How the orders are combined.
        first_order: First-order term as in the paper (``"paper"``) or its released code.
        aggregate_first: Aggregate neighbours before the feature transformation.
        bias: Add a bias in each layer.
        laplacian_weight: Weight of the loss that makes neighbours agree, for ``"semi-emb"``.
        aggr: How neighbours are aggregated; GCN's normalised sum by default.
        feature_transform: What crosses features; the paper's transformation by default.
            (``transform`` elsewhere, which scikit-learn takes for a method.)
        scaling: ``"unit"`` gives all orders the same magnitude at the start.
        residual: ``"add"`` or ``"norm"`` for residual connections.
        dropout: Dropout probability of a layer's input; 0.2 by default.
        input_dropout: Dropout probability of the features, for ``"cross-grand"`` and ``"grand"``.
            The parameters down to ``warm_up`` are for these too: see :class:`~crossgcn.CrossGrand`.
        hops: Hops of a random propagation.
        node_drop: Probability of dropping a node in a random propagation.
        draws: Random propagations per step.
        consistency: Weight of the consistency loss.
        temperature: Temperature that sharpens the target of the consistency loss.
        warm_up: Steps until the consistency loss has its full weight.
        epochs: Steps of the optimiser, each over all rows; 500 by default.
        learning_rate: Of Adam; 0.01 by default.
        weight_decay: Of the matrices; 5e-4 by default.
        validation_fraction: Fraction of each class that is held out to select the epoch by
            accuracy. With ``None`` all labelled rows are trained on and the last epoch is kept,
            which is better if labels are few.
        unlabelled: The value in ``y`` that means no label, or ``None`` if every row has one.
            ``"auto"`` is ``-1``, unless all other labels are ``1``: then these are the two
            classes.
        random_state: Decides the initial weights, the dropped entries and the held-out rows.
            The same number gives the same weights to the last bit.
        device: Where training takes place: ``"cpu"``, ``"cuda"`` or ``"auto"``.

    Attributes:
        classes_: The sorted classes, of the type they have in ``y``.
        model_: The trained model, on the CPU, in evaluation mode.
        n_features_in_: Features per row.
        feature_names_in_: Their names, if ``X`` was a data frame.
        n_iter_: Epochs done.
        best_epoch_: The epoch whose weights are kept, counted from 1.
        loss_curve_: Mean cross-entropy of the training rows in each epoch.
        validation_scores_: Accuracy on the held-out rows in each epoch, if there are any.
        validation_rows_: The held-out rows of ``X``, if there are any.
        preset_: Name of the fitted model.
        settings_: Its arguments of :func:`~crossgcn.models.catalogue.build_model`.

    A classifier loaded from a model of the command line has no ``n_iter_``, ``best_epoch_``,
    ``loss_curve_``, ``validation_scores_``, ``validation_rows_`` and ``feature_names_in_``.
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
            y: Class of each row: numbers, texts or booleans; ``-1`` where it is not known.
            edge_index: Pairs of neighbours, integers ``[2, edges]``, or a SciPy sparse adjacency.
                Edges are made undirected and unique.
            edge_weight: One weight per edge, not negative.
            node_index: The node of ``edge_index`` that each row is, if not its position. Edges
                to other nodes are left out.

        Raises:
            ValueError: If an argument cannot be used; the message says what to give.
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
        rows, held = torch.nonzero(codes >= 0).flatten(), None
        if self.validation_fraction is not None:
            rows, held = hold_out(codes, self.validation_fraction, config.seed)
        fitted = fit_model(model, graph, codes, rows, held, config, self.device)
        self.classes_: Array = classes
        self.model_: NodeClassifier = model.eval()
        self.preset_ = config.model
        self.settings_: dict[str, Any] = config.model_dump(mode="json", include=set(settings))
        self.n_iter_ = len(fitted.history)
        self.best_epoch_ = fitted.best_epoch
        self.loss_curve_ = [epoch.train_loss for epoch in fitted.history]
        self.validation_scores_: list[float] | None = None
        self.validation_rows_: Array | None = None
        if held is not None:
            self.validation_scores_ = [epoch.validation_accuracy for epoch in fitted.history]
            self.validation_rows_ = held.numpy()
        return self

    def decision_function(
        self, X: Any, edge_index: Any = None, *, edge_weight: Any = None, node_index: Any = None
    ) -> NDArray[np.float64]:
        """Return the scores of each row before the softmax; with two classes, their difference.

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
        """Return the probability of each class; for arguments see :meth:`decision_function`."""
        scores = self._score_classes(X, edge_index, edge_weight, node_index)
        probabilities: NDArray[np.float64] = softmax(scores, axis=1)
        return probabilities

    def predict(
        self, X: Any, edge_index: Any = None, *, edge_weight: Any = None, node_index: Any = None
    ) -> Array:
        """Return the most probable class of each row, as :meth:`decision_function` takes them."""
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
        """Return the accuracy on the rows that have a label.

        Args:
            X: As for :meth:`decision_function`, like the graph.
            y: Class of each row; rows without a label are predicted but not counted.
            edge_index: Edges between these rows.
            edge_weight: One weight per edge.
            node_index: The node that each row is.
            sample_weight: Weight of each row.
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
        """Write the classifier to a folder, for :meth:`load`.

        ``crossgcn.load_model`` reads the model in it. The commands ``crossgcn explain`` and
        ``crossgcn predict`` do not: they take the folder of ``crossgcn train``, which also holds
        the graph and all runs.

        :meth:`load` returns lists as tuples, and a ``RandomState`` as ``None``.

        Raises:
            BadInput: If a parameter cannot be saved.
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
        """Return the fitted classifier that :meth:`save` or ``crossgcn train`` wrote.

        One written by :meth:`save` has the same parameters and attributes as before. One written
        by the command line has the parameters of its model; those of training, such as
        ``epochs``, are at their defaults. If it was trained on tables, it takes features as
        :func:`~crossgcn.data.tables.graph.load_tables` encodes them (``.matrix``). Its classes
        are texts.

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
        """Return the checked parameters."""
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
                f"model {config.model!r} uses only the graph, not the features; choose another one"
            )
        return config

    def _score_classes(
        self, X: Any, edge_index: Any, edge_weight: Any, node_index: Any
    ) -> NDArray[np.float64]:
        check_is_fitted(self, "model_")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=False)
        return score_rows(self.model_, prepare_graph(X, edge_index, edge_weight, node_index))


def _refuse_missing_labels(y: Any) -> None:
    """Tell users of pandas how to mark missing labels; scikit-learn's message does not."""
    if not hasattr(y, "isna"):
        return
    missing = np.flatnonzero(np.asarray(y.isna()).reshape(len(y), -1).any(axis=1))
    if len(missing):
        raise BadInput(
            f"y row {missing[0]} is missing ({len(missing)} such in all); mark rows without a "
            "label by -1, for example with y.fillna(-1)"
        )
