"""Models of scikit-learn, InterpretML, LightGBM and PyTorch Geometric that ``compare`` trains."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.utils.class_weight import compute_sample_weight

from crossgcn.data.splits import Split
from crossgcn.errors import WorkFailed
from crossgcn.experiments.candidates import CANDIDATES, Fitted
from crossgcn.experiments.lightgbm_model import describe_extremes, fit_lightgbm
from crossgcn.training.metrics import (
    METRICS,
    compute,
    evaluate,
    positive_class,
    task_of_outputs,
)
from crossgcn.training.objective import training_weights
from crossgcn.training.records import clear_run, describe_environment, write_record
from crossgcn.training.trainer import OnEpochs, Record, Run, Trainer, using_threads

Array = NDArray[Any]
GainOf = Callable[[Array], float]
"""Returns the validation score for the scores of the validation nodes; greater is better."""

_MOST_ITERATIONS, _ITERATIONS_WITHOUT_GAIN = 500, 40
_BINS, _BINS_OF_MANY, _MANY_COLUMNS = 63, 31, 1000
"""Bins of a column: on Amherst41, 31 validate as well as 63 or 255, and are faster."""
_ROWS_OF_CATEGORY = 4
"""Training rows of a leaf of an EBM."""


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

    def prepare(self, runs: Iterable[Run]) -> None:  # noqa: D102
        named = [(getattr(run, "candidate", ""), run) for run in runs]
        data = self._data
        assert data is not None, "workers get what was prepared"
        names = {name for name, _ in named}
        if "gnn" in names:
            self._gnn_inputs = data.x.to_dense(), data.edge_index
        if "lightgbm-hops" in names:
            self._extremes = describe_extremes(data.x.to_dense(), data.edge_index)
        super().prepare(run for name, run in named if name != "gnn")

    def _fit_estimator(self, run: EstimatorRun, seed: int) -> Record:
        """Fit, select the stage with the best validation score, and test it."""
        from threadpoolctl import threadpool_limits

        split, y = self.splits[run.split], self.y.numpy()
        metric = run.config.metric or "accuracy"
        positive = positive_class(y) if self.num_classes == 2 else None
        validation, test = split.validation.numpy(), split.test.numpy()

        def gain_of(scores: Array) -> float:
            gain = METRICS[metric].sign * compute(metric, y[validation], scores, positive)
            return gain if np.isfinite(gain) else -np.inf

        is_gnn = CANDIDATES[run.candidate].estimator == "gnn"
        fit = self._fit_gnn if is_gnn else self._fit_rows
        with threadpool_limits(self.threads), using_threads(self.threads):
            found = fit(run, split, gain_of, seed)
        tested = evaluate(y[test], found.scores, positive)
        return {
            "best_epoch": found.best_epoch,
            "metric": metric,
            "task": task_of_outputs(self.num_classes),
            "validation_score": found.gain,
            "test_accuracy": tested.get("accuracy"),
            "test": tested,
        }

    def _fit_gnn(self, run: EstimatorRun, split: Split, gain_of: GainOf, seed: int) -> Fitted:
        from crossgcn.experiments.gnn import fit_gnn

        weight, y = run.config.class_weight, self.y
        return fit_gnn(
            *self._gnn_inputs,
            y,
            split,
            CANDIDATES[run.candidate].trials[run.trial],
            num_classes=self.num_classes,
            gain_of=gain_of,
            weights=training_weights(weight, None, y[split.train], self.num_classes),
            seed=seed,
            device=self.device,
        )

    def _fit_rows(self, run: EstimatorRun, split: Split, gain_of: GainOf, seed: int) -> Fitted:
        candidate, columns, y = CANDIDATES[run.candidate], self._columns(run), self.y.numpy()
        settings = {**candidate.trials[run.trial], "random_state": seed}
        weight: Any = run.config.class_weight
        if isinstance(weight, tuple):
            weight = dict(enumerate(weight))  # as scikit-learn takes it
        if candidate.estimator in ("ebm", "lightgbm"):
            settings["n_jobs"] = self.threads
        if candidate.estimator == "lightgbm":
            return fit_lightgbm(columns, y, split, settings, weight, gain_of)
        if candidate.estimator == "constant":
            model: Any = DummyClassifier() if y.dtype.kind != "f" else DummyRegressor()
            model.fit(columns[split.train.numpy()], y[split.train.numpy()])
        elif candidate.estimator == "ebm":
            columns, kinds = _as_categories(columns, self._fields(), split.train.numpy())
            model = _fit_ebm(columns, y, split, settings | {"feature_types": kinds}, weight)
        else:
            model, columns = _fit_boosting(columns, y, split, settings, weight)
        stages = _stages(model, columns[split.validation.numpy()], self.num_classes)
        gains = [gain_of(stage) for stage in stages]
        best = int(np.argmax(gains))
        stages = _stages(model, columns[split.test.numpy()], self.num_classes)
        return Fitted(best + 1, gains[best], next(islice(stages, best, None)))

    def _columns(self, run: EstimatorRun) -> Array:
        """Return the columns that an estimator reads, of all nodes."""
        config, reads = run.config, CANDIDATES[run.candidate].columns
        if reads == "none":
            return np.zeros((len(self.y), 1), np.float32)
        hops = 2 if config.hops is None else config.hops
        labels = reads == "hops" and config.label_features is not False
        columns = self.hop_columns(hops, self.splits[run.split], labels=labels).numpy()
        return np.hstack([columns, self._extremes]) if run.candidate == "lightgbm-hops" else columns

    def _fields(self) -> list[str]:
        """Return the table column of each own feature."""
        space = self.preprocess.space
        return [str(at) for at in range(self.num_features)] if space is None else [*space.fields]


def _as_categories(
    columns: Array, fields: Sequence[str], train: Array
) -> tuple[Array, list[Literal["nominal", "continuous"]]]:
    """Replace the flags of each table column by one column of categories, as an EBM reads them.

    Categories with fewer training rows than a leaf needs are pooled.
    """
    parts: list[Array] = []
    kinds: list[Literal["nominal", "continuous"]] = []
    for field in dict.fromkeys(fields):
        values = columns[:, np.flatnonzero(np.array(fields) == field)]
        flags = np.isin(values, (0, 1)).all(0)
        if flags.sum() > 1 and values[:, flags].sum(1).max() <= 1:
            common = values[:, flags][:, values[train][:, flags].sum(0) >= _ROWS_OF_CATEGORY]
            parts.append(common @ np.arange(1, common.shape[1] + 1, dtype=np.float32)[:, None])
            kinds.append("nominal")
            values = values[:, ~flags]
        parts.append(values)
        kinds += ["continuous"] * values.shape[1]
    rest = columns[:, len(fields) :]
    return np.hstack([*parts, rest]), [*kinds, *["continuous"] * rest.shape[1]]  # type: ignore[list-item]


def _fit_ebm(
    columns: Array, y: Array, split: Split, settings: dict[str, Any], class_weight: Any
) -> Any:
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    kind = ExplainableBoostingRegressor if y.dtype.kind == "f" else ExplainableBoostingClassifier
    train = split.train.numpy()
    x, target = columns[train], y[train]
    weights = None if class_weight is None else compute_sample_weight(class_weight, target)
    return kind(outer_bags=4, **settings).fit(x, target, sample_weight=weights)


def _fit_boosting(
    columns: Array, y: Array, split: Split, settings: dict[str, Any], class_weight: Any
) -> tuple[Any, Array]:
    """Return fitted gradient boosting, and the columns that it reads.

    Columns that cannot be split only cost time, so they are left out: each side of a split needs
    ``min_samples_leaf`` rows, and a rare category has fewer.
    """
    train, validation = split.train.numpy(), split.validation.numpy()
    settings = {
        "max_iter": _MOST_ITERATIONS,
        "early_stopping": True,
        "n_iter_no_change": _ITERATIONS_WITHOUT_GAIN,
        "max_bins": _BINS_OF_MANY if columns.shape[1] > _MANY_COLUMNS else _BINS,
        "min_samples_leaf": 20,
        **settings,
    }
    model: Any
    if y.dtype.kind == "f":
        model = HistGradientBoostingRegressor(**settings)
    else:
        model = HistGradientBoostingClassifier(class_weight=class_weight, **settings)
    commonest = [np.unique(values, return_counts=True)[1].max() for values in columns[train].T]
    usable = len(train) - np.array(commonest) >= settings["min_samples_leaf"]
    usable[0] |= not usable.any()
    columns = columns[:, usable]
    model.fit(columns[train], y[train], X_val=columns[validation], y_val=y[validation])
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
