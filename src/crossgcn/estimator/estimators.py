"""Cross-GCN as a scikit-learn classifier and regressor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin, RegressorMixin

from crossgcn.estimator.base import GRAPH_ARGUMENTS, CrossGCNEstimator
from crossgcn.estimator.labels import Labels


@dataclass(kw_only=True, eq=False, repr=False)
class CrossGCNClassifier(ClassifierMixin, CrossGCNEstimator):  # type: ignore[misc]
    """Classify rows by their features, crosses of features, and neighbours.

    The graph is given to :meth:`fit` and kept, and :meth:`predict` scores rows among their
    neighbours in it, so the tools of scikit-learn, which pass no edges, predict with the graph.
    The node that a row is, is told by ``node_index``; by the index of ``X``, if it is a data frame
    whose index has a name or is not just 0, 1, 2, ...; or by its position, if ``X`` are the rows of
    the fit, unchanged and in order. Other rows are refused. To predict new rows with a graph of
    their own, give ``edge_index`` to :meth:`predict`.

    Rows whose label is ``-1``, NaN or ``None`` are part of the graph but not of the loss. (If all
    other labels are ``1``, then ``-1`` and ``1`` are the two classes. With more classes, give
    ``-1`` another name.) Features are not scaled: put a ``StandardScaler`` or a
    ``OneHotEncoder`` before it.

    ``model="cross-hops"`` (:class:`~crossgcn.CrossHops`) is for tables. It crosses a row's own
    features with the means over its neighbours, scales both by itself, and is trained on batches
    of rows. It also reads the labels of a row's neighbours in the training set. With edges of its
    own, :meth:`predict` knows the training rows by their ``node_index``, or if ``X`` are the rows
    of the fit. A row without neighbours of known label gets the mean label instead.

    Cross-validation selects rows of ``X``. Give the whole graph with the features of all nodes as
    ``graph``, or with metadata routing as ``edge_index``, and the labelled rows as a data frame
    whose index is the number of each node; each fold is then trained on all nodes, without the
    labels of the others::

        graph = Data(x=torch.from_numpy(X), edge_index=edge_index)
        rows = pd.DataFrame(X).iloc[labelled]
        search = GridSearchCV(CrossGCNClassifier(graph=graph), {"order": [1, 2]})
        search.fit(rows, y[labelled])

    Args:
        model: A preset, such as ``"cross-gcn"``, ``"cross-hops"``, ``"gcn"`` or ``"mlp"``. Where
            ``None`` is given for another parameter, the preset decides.
        num_layers: The number of layers, 2 by default; ``"cross-hops"`` has one.
        hidden_channels: Width of the hidden layers; 32 by default, 8 units per bag in
            ``"cross-hops"``.
        order: Highest order of the crosses, for all layers or one per layer. By default the
            first layer crosses pairs and the others nothing, so that every cross is one of the
            features.
        order_weights: How the orders are combined.
        aggregate_first: Aggregate neighbours before the feature transformation.
        bias: Add a bias in each layer, as is done by default; ``"cross-hops"`` always has one.
        dropout: Dropout probability of a layer's input; 0.2 by default.
        hops: How far neighbourhoods reach in ``"cross-hops"``, 2 by default; 0 for own columns
            alone, as always in a fit without edges.
        label_features: Show a row the training labels of its neighbours, for ``"cross-hops"``;
            true by default.
        bags: Models on subsets of the training rows whose mean is the model, for
            ``"cross-hops"``; 8 by default.
        columns: Columns that ``"cross-hops"`` reads; a feature of the row, of its neighbours or of
            two hops counts apart. A number; or ``"auto"``, the fewest, at most 16, whose score
            on the held-out rows is at most 0.3 standard errors below the best, which needs
            ``validation_fraction``; or ``"all"``, as is done by default.
        crosses: Pairs of columns that ``"cross-hops"`` of order 2 multiplies where ``columns``
            restricts it: a number, 24 by default, or ``"all"``.
        tuning: Settings of dropout, weight decay and start that ``"cross-hops"`` tries, 1 to 4;
            the held-out rows choose. Probabilities are then calibrated on these rows. By default
            nothing is tried, and ``dropout``, ``weight_decay`` and ``learning_rate`` are used.
        epochs: Steps of the optimiser, each over all rows; 500 by default. In ``"cross-hops"``
            passes over the rows in batches; 30 by default, 200 with ``validation_fraction``.
        patience: Stop after this many epochs without a better score on the held-out rows; never
            by default, after 20 in ``"cross-hops"``.
        metric: The score that selects the epoch, such as ``"roc_auc"``, ``"f1_macro"`` or
            ``"log_loss"``. Accuracy by default; ROC-AUC in ``"cross-hops"`` of two classes.
        learning_rate: Of Adam; 0.01 by default, 0.003 in ``"cross-hops"``.
        weight_decay: Of the matrices; 5e-4 by default, 1e-3 in ``"cross-hops"``.
        class_weight: Weights of the classes in the loss: ``"balanced"``, or a mapping from class
            to weight.
        validation_fraction: Fraction of each class that is held out to select the epoch by
            ``metric``. With ``None`` all labelled rows are trained on and the last epoch is kept,
            which is better if labels are few.
        graph: The graph, for tools that cannot pass ``edge_index`` to :meth:`fit`; in any of
            its forms.
        random_state: Decides the initial weights, the dropped entries and the held-out rows.
            The same number gives the same weights to the last bit.
        device: Where training takes place: ``"cpu"``, ``"cuda"`` or ``"auto"``.

    Attributes:
        classes_: The sorted classes, of the type they have in ``y``.
        model_: The trained model, on the CPU, in evaluation mode.
        n_features_in_: Features per row.
        feature_names_in_: Their names, if ``X`` was a data frame.
        graph_: The graph of the fit, if it had edges.
        n_iter_: Epochs done.
        best_epoch_: The epoch whose weights are kept, counted from 1.
        loss_curve_: Mean cross-entropy of the training rows in each epoch.
        validation_scores_: The metric on the held-out rows in each epoch, if there are any.
        validation_rows_: The held-out rows of ``X``, if there are any.
        misses_: How far they are missed, for :meth:`predict_set`, if there are any.
        columns_: The columns that ``columns`` chose, the most important first: a name as in
            ``feature_names_in_`` (``x0``, ... without names), alone or after ``neighbours: `` or
            ``2 hops: ``. ``None`` if the model reads all columns.
        columns_path_: Pairs of a number of columns that was tried and its score on the held-out
            rows, negated where smaller is better, NaN without such rows. ``None`` if the model
            reads all columns.
        preset_: Name of the fitted model.
        settings_: Its arguments of :func:`~crossgcn.models.catalogue.build_model`.
    """

    __metadata_request__predict_proba = GRAPH_ARGUMENTS
    __metadata_request__decision_function = GRAPH_ARGUMENTS

    kind = "classifier"

    class_weight: str | Mapping[Any, float] | None = None

    score = CrossGCNEstimator.score  # not the mixin's, which counts rows without a label

    def decision_function(
        self, X: Any, edge_index: Any = None, *, node_index: Any = None
    ) -> NDArray[np.float64]:
        """Return the scores of each row before the softmax; with two classes, their difference.

        Without ``edge_index``, rows are found in the graph of the fit. With it, the arguments are
        those of :meth:`fit`, for these rows, which may be new ones.
        """
        scores, _ = self._score_rows(X, edge_index, node_index)
        return scores if scores.shape[1] > 2 else scores[:, 1] - scores[:, 0]

    def predict_proba(
        self, X: Any, edge_index: Any = None, *, node_index: Any = None
    ) -> NDArray[np.float64]:
        """Return the probability of each class; for arguments see :meth:`decision_function`."""
        scores, _ = self._score_rows(X, edge_index, node_index)
        return np.asarray(softmax(scores, axis=1))

    def predict(self, X: Any, edge_index: Any = None, *, node_index: Any = None) -> Labels:
        """Return the most probable class of each row, as :meth:`decision_function` takes them."""
        scores, _ = self._score_rows(X, edge_index, node_index)
        return np.asarray(self.classes_[scores.argmax(axis=1)])

    def predict_set(
        self, X: Any, edge_index: Any = None, *, node_index: Any = None, coverage: float = 0.9
    ) -> list[Labels]:
        """Return for each row classes that hold the true one with probability ``coverage``.

        It is so for rows of the same population as the held-out ones, whose probabilities tell
        which classes to leave out: give ``validation_fraction``. A row has no class if none is
        likely enough. ``coverage`` is 0.5 to 0.999; for the others see :meth:`decision_function`.
        """
        rows = self._answer(X, edge_index, node_index, coverage)
        return [self.classes_[row] for row in rows]


@dataclass(kw_only=True, eq=False, repr=False)
class CrossGCNRegressor(RegressorMixin, CrossGCNEstimator):  # type: ignore[misc]
    """Predict a number for each row by its features, crosses of features, and neighbours.

    It minimises the squared error on the standardised target and predicts in the target's unit.
    Rows whose target is NaN are part of the graph but not of the loss. Everything else is as in
    :class:`~crossgcn.CrossGCNClassifier`: the graph, the parameters (without ``class_weight``)
    and the fitted attributes (without ``classes_``). ``metric`` is ``"r2"`` by default; ``"rmse"``
    and ``"mae"`` are the others. ``validation_fraction`` is the fraction of the rows with a target
    that is held out.
    """

    kind = "regressor"

    score = CrossGCNEstimator.score  # not the mixin's, which refuses NaN

    def predict(
        self, X: Any, edge_index: Any = None, *, node_index: Any = None
    ) -> NDArray[np.float64]:
        """Return the number of each row, in the unit of the target.

        Without ``edge_index``, rows are found in the graph of the fit. With it, the arguments are
        those of :meth:`fit`, for these rows, which may be new ones.
        """
        return self._score_rows(X, edge_index, node_index)[0][:, 0]

    def predict_interval(
        self, X: Any, edge_index: Any = None, *, node_index: Any = None, coverage: float = 0.9
    ) -> NDArray[np.float64]:
        """Return intervals, ``[rows, 2]``, that hold the truth with probability ``coverage``.

        It is so for rows of the same population as the held-out ones, whose errors tell how wide
        intervals are: give ``validation_fraction``. They are wider where bags differ. ``coverage``
        is 0.5 to 0.999; for the other arguments see :meth:`predict`.
        """
        return np.asarray(self._answer(X, edge_index, node_index, coverage))
