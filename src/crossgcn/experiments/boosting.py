"""Models of scikit-learn and InterpretML that ``compare`` trains beside networks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgcn.errors import WorkFailed
from crossgcn.experiments.candidates import CANDIDATES
from crossgcn.graph import SparseMatrix
from crossgcn.training.metrics import (
    METRICS,
    compute,
    evaluate,
    positive_class,
    task_of_outputs,
)
from crossgcn.training.records import clear_run, describe_environment, describe_split, write_record
from crossgcn.training.trainer import OnEpochs, Record, Run, Trainer

Array = NDArray[Any]
Predict = Callable[[Array], Array]
"""Returns scores of some rows: ``[rows, classes]`` before softmax, or ``[rows, 1]`` numbers."""

_UNSEEN = -30.0
"""Score of a class without training nodes."""
_MOST_ITERATIONS, _ITERATIONS_WITHOUT_GAIN = 300, 10
_BINS, _BINS_OF_MANY, _MANY_COLUMNS = 63, 31, 1000
"""Bins of a column: 31 are as good as 63 or 255 on validation nodes of Amherst41, and faster."""
_LEAF = 20
"""Fewest rows in a leaf of gradient boosting, scikit-learn's default."""


@dataclass(frozen=True)
class EstimatorRun(Run):
    """The fit of an estimator on one split.

    Attributes:
        config: Of a network that reads the same columns; the training settings are not used.
        candidate: Name in :data:`~crossgcn.experiments.candidates.CANDIDATES`.
        trial: Position among its trials.
    """

    candidate: str = ""
    trial: int = 0


class CandidateTrainer(Trainer):
    """Trains networks, and estimators on the same graph and splits."""

    def identity(self, run: Run) -> Record:  # noqa: D102
        if not isinstance(run, EstimatorRun):
            return super().identity(run)
        config = run.config
        return {
            "model": run.candidate,
            "settings": dict(CANDIDATES[run.candidate].trials[run.trial]),
            **config.model_dump(
                mode="json",
                include={"metric", "hops", "label_features", "class_weight"},
            ),
            "dataset": self.description,
            "split": {"index": run.split} | describe_split(self.splits[run.split]),
            "seed": config.run_seed(run.split),
        }

    def train(  # noqa: D102
        self, run: Run, on_epochs: OnEpochs | None = None
    ) -> Record | WorkFailed:
        if not isinstance(run, EstimatorRun):
            return super().train(run, on_epochs)
        started = time.perf_counter()
        record = self.identity(run) | {"environment": describe_environment()}
        record |= self._fit_estimator(run, record["seed"])
        record |= {"status": "done", "seconds": time.perf_counter() - started}
        if run.folder is not None:
            clear_run(run.folder)
            write_record(run.folder, record)
        return record

    def _fit_estimator(self, run: EstimatorRun, seed: int) -> Record:
        """Fit, keep the stage with the best score on the validation nodes, and test it."""
        from threadpoolctl import threadpool_limits

        candidate, config, split = CANDIDATES[run.candidate], run.config, self.splits[run.split]
        fits: dict[str | None, Callable[..., Stages]] = {
            "constant": _fit_constant,
            "boosting": _fit_boosting,
            "ebm": _fit_ebm,
        }
        metric = config.metric or "accuracy"
        columns, y = self._columns(run), self.y.numpy()
        train, validation, test = (
            nodes.numpy() for nodes in (split.train, split.validation, split.test)
        )
        positive = positive_class(y) if self.num_classes == 2 else None
        weight: Any = config.class_weight
        best, epoch, predict = -np.inf, 0, None
        with threadpool_limits(self.threads):
            stages = fits[candidate.estimator](
                *(columns[train], y[train], columns[validation], y[validation]),
                self.num_classes,
                class_weight=dict(enumerate(weight)) if isinstance(weight, tuple) else weight,
                seed=seed,
                threads=self.threads,
                **candidate.trials[run.trial],
            )
            for number, (scores, stage) in enumerate(stages, 1):
                score = METRICS[metric].sign * compute(metric, y[validation], scores, positive)
                if predict is None or score > best:
                    best, epoch, predict = score, number, stage
            assert predict is not None
            tested = evaluate(y[test], predict(columns[test]), positive)
        return {
            "best_epoch": epoch,
            "task": task_of_outputs(self.num_classes),
            "validation_score": float(best),
            "test_accuracy": tested.get("accuracy"),
            "test": tested,
        }

    def _columns(self, run: EstimatorRun) -> Array:
        """Return the columns that an estimator reads, of all nodes."""
        config, reads = run.config, CANDIDATES[run.candidate].columns
        if reads == "none":
            return np.zeros((len(self.y), 1), np.float32)
        columns = self.graph().x
        if reads == "hops":
            columns = self.hop_columns(
                config.hops or 2,
                self.splits[run.split],
                labels=config.label_features is not False,
            )
        dense: Array = (
            columns.to_scipy().toarray() if isinstance(columns, SparseMatrix) else columns.numpy()
        )
        return dense


Stages = Iterator[tuple[Array, Predict]]
"""The validation scores of each stage of a fit, and the stage itself."""


def _fit_constant(
    x: Array, y: Array, x_val: Array, y_val: Array, num_classes: int, **settings: Any
) -> Stages:
    if num_classes == 1:
        row = np.array([y.mean()])
    else:
        row = np.log(np.maximum(np.bincount(y, minlength=num_classes), 1e-9) / len(y))

    def predict(rows: Array) -> Array:
        return np.tile(row, (len(rows), 1))

    yield predict(x_val), predict


def _fit_boosting(
    x: Array,
    y: Array,
    x_val: Array,
    y_val: Array,
    num_classes: int,
    *,
    class_weight: str | dict[int, float] | None,
    seed: int,
    threads: int,
    **settings: Any,
) -> Stages:
    """Fit gradient boosting until the validation loss no longer falls."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    settings |= {
        "max_iter": _MOST_ITERATIONS,
        "early_stopping": True,
        "n_iter_no_change": _ITERATIONS_WITHOUT_GAIN,
        "min_samples_leaf": _LEAF,
        "max_bins": _BINS_OF_MANY if x.shape[1] > _MANY_COLUMNS else _BINS,
        "random_state": seed,
    }
    usable = _can_be_split(x)
    model: Any
    if num_classes == 1:
        model, seen = HistGradientBoostingRegressor(**settings), np.ones(len(y_val), bool)
    else:
        model = HistGradientBoostingClassifier(class_weight=class_weight, **settings)
        # The validation loss cannot be computed for a class that was not trained.
        seen = np.isin(y_val, y)
    model.fit(x[:, usable], y, X_val=x_val[seen][:, usable], y_val=y_val[seen])
    staged = model.staged_predict if num_classes == 1 else model.staged_decision_function

    def predict(rows: Array, stage: int) -> Array:
        raw = next(islice(staged(rows[:, usable]), stage, None))
        return _as_scores(raw, model, num_classes)

    for stage, raw in enumerate(staged(x_val[:, usable])):
        yield _as_scores(raw, model, num_classes), partial(predict, stage=stage)


def _can_be_split(x: Array) -> Array:
    """Return which columns gradient boosting can split; without the others it fits the same.

    Each side of a split needs :data:`_LEAF` rows, so that of a one-hot column does.
    """
    usable = np.ones(x.shape[1], bool)
    for column, values in enumerate(x.T):
        usable[column] = len(x) - np.unique(values, return_counts=True)[1].max() >= _LEAF
    if not usable.any():
        usable[0] = True
    return usable


def _fit_ebm(
    x: Array,
    y: Array,
    x_val: Array,
    y_val: Array,
    num_classes: int,
    *,
    class_weight: str | dict[int, float] | None,
    seed: int,
    threads: int,
    **settings: Any,
) -> Stages:
    """Fit InterpretML's explainable boosting machine, which stops early by itself."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor
    from sklearn.utils.class_weight import compute_sample_weight

    kind = ExplainableBoostingRegressor if num_classes == 1 else ExplainableBoostingClassifier
    model = kind(outer_bags=8, random_state=seed, n_jobs=threads, **settings)
    weights = None if class_weight is None else compute_sample_weight(class_weight, y)
    model.fit(x, y, sample_weight=weights)

    def predict(rows: Array) -> Array:
        raw = model.predict(rows) if num_classes == 1 else model.decision_function(rows)
        return _as_scores(raw, model, num_classes)

    yield predict(x_val), predict


def _as_scores(raw: Array, model: Any, num_classes: int) -> Array:
    """Return one score per class, of margins for the second of two classes or of each class."""
    if num_classes == 1:
        return raw.reshape(-1, 1)
    if raw.ndim == 1 or raw.shape[1] == 1:
        margin = raw.reshape(-1)
        raw = np.stack([np.zeros_like(margin), margin], axis=1)
    scores = np.full((len(raw), num_classes), _UNSEEN)
    scores[:, model.classes_] = raw[:, : len(model.classes_)]
    return scores
