"""Cross-GCN as a scikit-learn regressor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, column_or_1d

from crossgcn.data.graph import is_labelled
from crossgcn.errors import BadInput
from crossgcn.estimator.base import CrossGCNEstimator, Targets
from crossgcn.training.config import RunConfig


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

    score = CrossGCNEstimator.score  # not the mixin's, which refuses NaN

    def _read_targets(self, y: Any, config: RunConfig) -> Targets:
        target = torch.from_numpy(np.array(_read_numbers(y)))
        labelled = is_labelled(target)
        if not labelled.any():
            raise BadInput(f"y is NaN in all {len(target)} rows; give rows that have a target")
        return Targets(target, torch.where(labelled, 0, -1), None, config)

    def _known_targets(self, y: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        truth = _read_numbers(y)
        return truth, ~np.isnan(truth)

    def predict(
        self, X: Any, edge_index: Any = None, *, edge_weight: Any = None, node_index: Any = None
    ) -> NDArray[np.float64]:
        """Return the number of each row, in the unit of the target.

        Without ``edge_index``, rows are found in the graph of the fit. With it, the arguments are
        those of :meth:`fit`, for these rows, which may be new ones.
        """
        return self._score_rows(X, edge_index, edge_weight, node_index)[:, 0]


def _read_numbers(y: Any) -> NDArray[np.float64]:
    """Return targets as an array, in which unknown ones are NaN."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    settings = {"ensure_2d": False, "dtype": np.float64, "ensure_all_finite": "allow-nan"}
    return np.asarray(column_or_1d(check_array(y, input_name="y", **settings), warn=True))
