"""Models of scikit-learn and InterpretML that ``compare`` trains."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.splits import Split
from crossgcn.errors import WorkFailed
from crossgcn.experiments.candidates import CANDIDATES
from crossgcn.training.metrics import (
    METRICS,
    compute,
    evaluate,
    positive_class,
    task_of_outputs,
)
from crossgcn.training.records import clear_run, describe_environment, write_record
from crossgcn.training.trainer import OnEpochs, Record, Run, Trainer

Array = NDArray[Any]

_MOST_ITERATIONS, _ITERATIONS_WITHOUT_GAIN = 500, 40
_BINS, _BINS_OF_MANY, _MANY_COLUMNS = 63, 31, 1000
"""Bins of a column: on Amherst41, 31 validate as well as 63 or 255, and are faster."""


@dataclass(frozen=True)
class EstimatorRun(Run):
    """The fit of an estimator on one split.

    Attributes:
        config: Configuration of a network on the same columns; its training settings are ignored.
        candidate: Name in :data:`~crossgcn.experiments.candidates.CANDIDATES`.
        trial: Position among the trials of the candidate.
    """

    candidate: str = ""
    trial: int = 0


class CandidateTrainer(Trainer):
    """Trains networks, and estimators on the same graph and splits."""

    def identity(self, run: Run) -> Record:  # noqa: D102
        if not isinstance(run, EstimatorRun):
            return super().identity(run)
        settings = dict(CANDIDATES[run.candidate].trials[run.trial])
        return super().identity(run) | {"model": run.candidate, "settings": settings}

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
        """Fit, select the stage with the best validation score, and test it."""
        from threadpoolctl import threadpool_limits

        split, y = self.splits[run.split], self.y.numpy()
        metric = run.config.metric or "accuracy"
        positive = positive_class(y) if self.num_classes == 2 else None
        validation, test = split.validation.numpy(), split.test.numpy()
        with threadpool_limits(self.threads):
            model, columns = _fit(run, self._columns(run), y, split, seed, self.threads)
            scores = [
                compute(metric, y[validation], stage, positive)
                for stage in _stages(model, columns[validation], self.num_classes)
            ]
            gains = METRICS[metric].sign * np.array(scores)
            best = int(np.argmax(np.nan_to_num(gains, nan=-np.inf)))
            stages = _stages(model, columns[test], self.num_classes)
            tested = evaluate(y[test], next(islice(stages, best, None)), positive)
        return {
            "best_epoch": best + 1,
            "metric": metric,
            "task": task_of_outputs(self.num_classes),
            "validation_score": float(gains[best]),
            "test_accuracy": tested.get("accuracy"),
            "test": tested,
        }

    def _columns(self, run: EstimatorRun) -> Array:
        """Return the columns that an estimator reads, of all nodes."""
        config, reads = run.config, CANDIDATES[run.candidate].columns
        if reads == "none":
            return np.zeros((len(self.y), 1), np.float32)
        hops = 2 if config.hops is None else config.hops
        labels = reads == "hops" and config.label_features is not False
        columns = self.hop_columns(hops, self.splits[run.split], labels=labels)
        return np.asarray(columns.numpy())


def _fit(
    run: EstimatorRun, columns: Array, y: Array, split: Split, seed: int, threads: int
) -> tuple[Any, Array]:
    """Return a fitted estimator, and the columns that it reads."""
    candidate, weight = CANDIDATES[run.candidate], run.config.class_weight
    train, validation = split.train.numpy(), split.validation.numpy()
    is_number = y.dtype.kind == "f"
    x, target, settings = columns[train], y[train], dict(candidate.trials[run.trial])
    class_weight = dict(enumerate(weight)) if isinstance(weight, tuple) else weight
    model: Any
    if candidate.estimator == "constant":
        from sklearn.dummy import DummyClassifier, DummyRegressor

        return (DummyRegressor() if is_number else DummyClassifier()).fit(x, target), columns
    if candidate.estimator == "ebm":
        from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor
        from sklearn.utils.class_weight import compute_sample_weight

        kind = ExplainableBoostingRegressor if is_number else ExplainableBoostingClassifier
        model = kind(outer_bags=4, random_state=seed, n_jobs=threads, **settings)
        weights = None if weight is None else compute_sample_weight(class_weight, target)
        return model.fit(x, target, sample_weight=weights), columns
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    settings = {
        "max_iter": _MOST_ITERATIONS,
        "early_stopping": True,
        "n_iter_no_change": _ITERATIONS_WITHOUT_GAIN,
        "max_bins": _BINS_OF_MANY if x.shape[1] > _MANY_COLUMNS else _BINS,
        "min_samples_leaf": 20,
        "random_state": seed,
        **settings,
    }
    if is_number:
        model = HistGradientBoostingRegressor(**settings)
    else:
        model = HistGradientBoostingClassifier(class_weight=class_weight, **settings)
    # Columns that cannot be split only cost time, so they are left out: each side of a split needs
    # `min_samples_leaf` rows, and a rare category has fewer.
    commonest = [np.unique(values, return_counts=True)[1].max() for values in x.T]
    usable = len(x) - np.array(commonest) >= settings["min_samples_leaf"]
    usable[0] |= not usable.any()
    columns = columns[:, usable]
    model.fit(columns[train], target, X_val=columns[validation], y_val=y[validation])
    return model, columns


def _stages(model: Any, rows: Array, num_classes: int) -> Iterator[Array]:
    """Yield the scores of rows after each stage, ``[rows, classes]``, or numbers, ``[rows, 1]``.

    Every class must have training nodes. A single margin belongs to the second of two classes.
    """
    staged = getattr(model, "staged_decision_function", getattr(model, "staged_predict", None))
    if staged is None:
        names = ("decision_function", "predict_log_proba", "predict")
        predict = getattr(model, next(name for name in names if hasattr(model, name)))
    for raw in [predict(rows)] if staged is None else staged(rows):
        scores = raw.reshape(len(rows), -1)
        if num_classes == 2 and scores.shape[1] == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        yield scores
