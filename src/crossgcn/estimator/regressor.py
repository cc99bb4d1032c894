"""Cross-GCN as a scikit-learn regressor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from crossgcn.data.graph import is_labelled
from crossgcn.errors import BadInput
from crossgcn.estimator.base import CrossGCNEstimator, row_names
from crossgcn.estimator.inputs import GraphArguments
from crossgcn.estimator.labels import hold_out


@dataclass(kw_only=True, eq=False, repr=False)
class CrossGCNRegressor(RegressorMixin, CrossGCNEstimator):  # type: ignore[misc]
    """Predict a number for each row by its features, crosses of features, and neighbours.

    It minimises the squared error on the standardised target and predicts in the target's unit.
    Rows whose target is NaN are part of the graph but not of the loss. Everything else is as in
    :class:`~crossgcn.CrossGCNClassifier`: the graph, the parameters (without ``class_weight`` and
    ``unlabelled``) and the fitted attributes (without ``classes_``). ``metric`` is ``"r2"`` by
    default; ``"rmse"`` and ``"mae"`` are the others. ``validation_fraction`` is the fraction of
    the rows with a target that is held out.
    """

    kind = "regressor"

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
        """Train on the rows that have a target.

        Args:
            X: As in :meth:`CrossGCNClassifier.fit
                <crossgcn.estimator.classifier.CrossGCNClassifier.fit>`; likewise all others but
                ``y``.
            y: The number of each row; NaN where it is not known.

        Raises:
            ValueError: If an argument cannot be used; the message says what to give.
            WorkFailed: If training diverges.
        """
        config, index = self._configure(), row_names(X)
        X, numbers = self._validate(X), _read_numbers(y)
        target = torch.from_numpy(np.array(numbers))
        check_consistent_length(X, numbers)
        labelled = is_labelled(target)
        if not labelled.any():
            raise BadInput(f"y is NaN in all {len(target)} rows; give rows that have a target")
        edges = GraphArguments(edge_index, edge_weight, node_index)
        rows, held_out = torch.nonzero(labelled).flatten(), None
        if self.validation_fraction is not None:
            one_class = torch.where(labelled, 0, -1)
            rows, held_out = hold_out(one_class, self.validation_fraction, config.seed)
        self._train(config, X, target, 1, edges, index, rows, held_out, sample_weight)
        return self

    def predict(
        self, X: Any, edge_index: Any = None, *, edge_weight: Any = None, node_index: Any = None
    ) -> NDArray[np.float64]:
        """Return the number of each row, in the unit of the target.

        Without ``edge_index``, rows are found in the graph of the fit. With it, the arguments are
        those of :meth:`fit`, for these rows, which may be new ones.
        """
        return self._score_rows(X, edge_index, edge_weight, node_index)[:, 0]

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
        """Return R² on the rows that have a target; the others are not counted.

        The arguments are those of :meth:`fit`, for these rows, and the weight of each row.
        """
        predicted = self.predict(X, edge_index, edge_weight=edge_weight, node_index=node_index)
        truth = _read_numbers(y)
        if len(truth) != len(predicted):
            raise BadInput(
                f"y has {len(truth)} numbers for {len(predicted)} rows; give one per row"
            )
        known = ~np.isnan(truth)
        if not known.any():
            raise BadInput("y is NaN in all rows; give some that have a target")
        weight = None if sample_weight is None else column_or_1d(sample_weight)[known]
        return float(r2_score(truth[known], predicted[known], sample_weight=weight))


def _read_numbers(y: Any) -> NDArray[np.float64]:
    """Return targets as an array, in which unknown ones are NaN."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    settings = {"ensure_2d": False, "dtype": np.float64, "ensure_all_finite": "allow-nan"}
    return np.asarray(column_or_1d(check_array(y, input_name="y", **settings), warn=True))
