"""Models of scikit-learn and InterpretML that ``compare`` trains beside networks."""

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
from crossgcn.experiments.candidates import CANDIDATES, Candidate
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

_UNSEEN = -30.0
"""Score of a class without training nodes."""
_MOST_ITERATIONS, _ITERATIONS_WITHOUT_GAIN = 500, 40
_BINS, _BINS_OF_MANY, _MANY_COLUMNS = 63, 31, 1000
"""Bins of a column: 31 are as good as 63 or 255 on validation nodes of Amherst41, and faster."""


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

        config, split, y = run.config, self.splits[run.split], self.y.numpy()
        metric = config.metric or "accuracy"
        positive = positive_class(y) if self.num_classes == 2 else None
        columns, weight = self._columns(run), config.class_weight
        validation, test = split.validation.numpy(), split.test.numpy()
        with threadpool_limits(self.threads):
            model, columns = _fit(
                *(CANDIDATES[run.candidate], run.trial, columns, y, split),
                class_weight=dict(enumerate(weight)) if isinstance(weight, tuple) else weight,
                seed=seed,
                threads=self.threads,
            )
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
        dense: Array = (
            columns.to_scipy().toarray() if isinstance(columns, SparseMatrix) else columns.numpy()
        )
        return dense


def _fit(
    candidate: Candidate,
    trial: int,
    columns: Array,
    y: Array,
    split: Split,
    *,
    class_weight: str | dict[int, float] | None,
    seed: int,
    threads: int,
) -> tuple[Any, Array]:
    """Return a fitted estimator, and the columns that it reads."""
    settings = dict(candidate.trials[trial])
    train, validation = split.train.numpy(), split.validation.numpy()
    x, target, is_number = columns[train], y[train], y.dtype.kind == "f"
    if candidate.estimator == "constant":
        from sklearn.dummy import DummyClassifier, DummyRegressor

        return (DummyRegressor() if is_number else DummyClassifier()).fit(x, target), columns
    model: Any
    if candidate.estimator == "ebm":
        from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor
        from sklearn.utils.class_weight import compute_sample_weight

        kind = ExplainableBoostingRegressor if is_number else ExplainableBoostingClassifier
        model = kind(outer_bags=4, random_state=seed, n_jobs=threads, **settings)
        weights = None if class_weight is None else compute_sample_weight(class_weight, target)
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
        # The validation loss cannot be computed for a class that was not trained.
        validation = validation[np.isin(y[validation], target)]
    # Columns that cannot be split are left out, which takes time and changes nothing: each side of
    # a split needs enough rows, so that of a one-hot column does.
    most = [np.unique(values, return_counts=True)[1].max() for values in x.T]
    usable = len(x) - np.array(most) >= settings["min_samples_leaf"]
    usable[0] |= not usable.any()
    columns = columns[:, usable]
    model.fit(columns[train], target, X_val=columns[validation], y_val=y[validation])
    return model, columns


def _stages(model: Any, rows: Array, num_classes: int) -> Iterator[Array]:
    """Yield the scores of rows after each stage of a fit: of each class, or numbers ``[rows, 1]``.

    Margins are for the second of two classes, or for each class.
    """
    staged = getattr(model, "staged_decision_function", getattr(model, "staged_predict", None))
    if staged is None:
        names = ("decision_function", "predict_log_proba", "predict")
        predict = getattr(model, next(name for name in names if hasattr(model, name)))
    for raw in [predict(rows)] if staged is None else staged(rows):
        if num_classes == 1:
            yield raw.reshape(-1, 1)
            continue
        if raw.ndim == 1 or raw.shape[1] == 1:
            raw = np.stack([np.zeros(len(raw)), raw.reshape(-1)], axis=1)
        scores = np.full((len(raw), num_classes), _UNSEEN)
        scores[:, model.classes_] = raw[:, : len(model.classes_)]
        yield scores
