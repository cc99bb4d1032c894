"""Folds of a graph whose nodes are partly unlabelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator, KFold, StratifiedKFold
from sklearn.utils.multiclass import type_of_target

from crossgcn.errors import BadInput
from crossgcn.estimator.labels import AUTO, find_unlabelled, read_labels


class TransductiveKFold(BaseCrossValidator):  # type: ignore[misc]
    """Folds for cross-validation on one graph: labels are held out, nodes are not.

    It is for the ``cv`` of ``GridSearchCV``, ``cross_val_score`` and the like. The labelled rows
    are shared out among the folds, classes in proportion. Rows without a label are in no test
    fold, because no score counts them, and in every training set.

    Give ``fit`` the whole graph, ``edge_index=Data(x=X, edge_index=edges)``. An estimator is then
    trained on all nodes and edges, with the labels of the test fold hidden, and predicts the test
    fold among its neighbours.

    Args:
        n_splits: The number of folds.
        shuffle: Shuffle rows before sharing them out.
        random_state: Decides the shuffling.
        unlabelled: The value in ``y`` that means no label; as in
            :class:`~crossgcn.CrossGCNClassifier`. NaN and ``None`` mean it too.
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = True,
        random_state: int | np.random.RandomState | None = 0,
        unlabelled: Any = AUTO,
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state
        self.unlabelled = unlabelled

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds; the arguments are ignored."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the training rows and the test rows of each fold.

        Args:
            X: Only its length counts.
            y: The labels, or the numbers to predict.
            groups: Ignored.
        """
        if y is None:
            raise BadInput("y is missing; give the labels, which decide what can be held out")
        labels = read_labels(y)
        labelled = np.flatnonzero(~find_unlabelled(labels, self.unlabelled))
        if len(labelled) < self.n_splits:
            raise BadInput(
                f"y has {len(labelled)} labelled rows for {self.n_splits} folds; lower n_splits"
            )
        known = labels[labelled]
        is_number = type_of_target(known.tolist()).startswith("continuous")
        folds = (KFold if is_number else StratifiedKFold)(
            self.n_splits,
            shuffle=self.shuffle,
            random_state=self.random_state if self.shuffle else None,
        )
        for _, test in folds.split(labelled, None if is_number else known):
            held = labelled[test]
            yield np.setdiff1d(np.arange(len(labels)), held), held
