"""Choose the settings and the columns of cross-hops by validation nodes, within one split.

A column is one of the table, for the node itself, for its neighbours or for a hop further; its
encoded features stay together. The search starts with all columns; those of neighbours, and
crosses, are given up first if the model is as good without them. A column weighs as much as the
training loss grows when its values are replaced by their mean. The lightest ones are dropped, the
model is trained again, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.errors import BadInput
from crossgcn.graph.sparse_matrix import Features, SparseMatrix
from crossgcn.graph.standardise import HopRows
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.config import RunConfig
from crossgcn.training.loop import Diverged, TrainedModel
from crossgcn.training.metrics import compute, positive_class, selecting_metric
from crossgcn.training.objective import compute_loss
from crossgcn.training.rows import RowScorer, train_rows

_SIZES = (*(2**power for power in range(16, 4, -1)), 24, 16, 12, 8, 6, 4, 3, 2, 1)
"""Numbers of columns that are tried, as far as they are below the number of all columns."""

_SMALLEST_STEP = 0.8
"""The next size is at most this share of the last one."""
_MOST_STAGES = 14
"""Trainings on fewer columns that the progress bar expects."""
_LEAST_OF_AUTO, _MOST_OF_AUTO = 4, 16
"""Fewest and most columns that ``auto`` chooses."""
_RESAMPLES = 50
"""Draws of the validation nodes from which a standard error is estimated."""
_WEIGHED_ENTRIES = 1 << 24
"""Entries of the rows on which columns are weighed."""
_WEIGHED_ROWS = 4096

_FEW_ROWS_PER_COLUMN = 5
"""A table with fewer training rows per encoded column is called wide."""

Trial = Mapping[str, float]
"""Settings of the training; ``initial_scale`` multiplies the read-out before training."""

_MILD: Trial = {"dropout": 0.1, "weight_decay": 1e-2}
_NO_PENALTY: Trial = {"dropout": 0.0, "weight_decay": 0.0}
_STRONG_DROPOUT: Trial = {"dropout": 0.5, "weight_decay": 1e-3}
_SMALL_START: Trial = {
    "dropout": 0.1,
    "weight_decay": 0.1,
    "learning_rate": 3e-4,
    "initial_scale": 0.05,
}
_TRIALS = (_MILD, _NO_PENALTY, _STRONG_DROPOUT, _SMALL_START)
_TRIALS_IF_WIDE = (_STRONG_DROPOUT, _SMALL_START, _NO_PENALTY, _MILD)


@dataclass(frozen=True)
class _Trained:
    """A model on some columns, and what its training gave.

    Attributes:
        scores: Of the validation nodes.
        epochs: Since the random start, those of earlier models included.
        resampled: Validation scores on random draws of the nodes.
    """

    trial: Trial
    columns: Tensor
    model: CrossHops
    rows: HopRows
    result: TrainedModel
    scores: Tensor
    epochs: int
    resampled: list[float] = field(default_factory=list)


def list_trials(config: RunConfig, num_rows: int, num_columns: int) -> tuple[Trial, ...]:
    """Return the settings to try, the most promising first; a single empty one if none are tried.

    Args:
        num_rows: Training nodes.
        num_columns: Encoded columns of the model.
    """
    if config.tuning is None:
        return ({},)
    trials = _TRIALS_IF_WIDE if _is_wide(num_rows, num_columns) else _TRIALS
    return trials[: config.tuning]


def _is_wide(num_rows: int, num_columns: int) -> bool:
    return num_rows < _FEW_ROWS_PER_COLUMN * num_columns


def train_hops(
    model: CrossHops,
    rows: HopRows,
    split: Split,
    config: RunConfig,
    names: Sequence[str],
    *,
    seed: int,
    device: str | torch.device = "cpu",
    node_weights: Tensor | None = None,
    on_epochs: Callable[[int], None] | None = None,
) -> TrainedModel:
    """Train a model with the settings and on the columns that the validation nodes choose.

    Test nodes are scored once, by the chosen model. What was chosen is in the result's ``chosen``:
    ``settings``, the epochs from the random start, the names of the ``columns``, the heaviest
    first, and the ``path``: the numbers of columns that were tried, with the validation score of
    each.

    Args:
        model: Trained in place. Weights of columns that it does not read are 0 afterwards.
        names: The column that each encoded column of the model belongs to.
        seed: As for :func:`~crossgcn.training.rows.train_rows`, like the arguments after it.

    Raises:
        BadInput: If there are no validation nodes to choose by.
        Diverged: If no trial ends with finite weights.
    """
    wanted = config.columns or "all"
    trials = list_trials(config, split.train.numel(), rows.num_columns)
    known: dict[str, Any] = {"seed": seed, "device": device, "node_weights": node_weights}
    if wanted == "all" and len(trials) == 1 and not trials[0]:
        return train_rows(model, rows, split, config, **known, on_epochs=on_epochs)
    _check_choice(wanted, trials, split)
    search = _HopsSearch(model, rows, split, config, names, known, _Progress(config, on_epochs))
    every = torch.arange(search.num_columns)
    chosen, about = search.choose_trial(every), dict[str, Any]()
    if wanted != "all":
        starts = search.choose_starts(chosen) if wanted == "auto" else [chosen]
        found = [search.choose_columns(start, wanted) for start in starts]
        chosen, path = max(found, key=lambda each: each[0].result.validation_score)
        chosen = search.choose_trial(chosen.columns, chosen)
        ranked = search.rank(chosen).tolist()
        about = {"columns": [search.titles[column] for column in ranked], "path": path}
    search.progress.finish()
    is_weighted = config.class_weight is not None or node_weights is not None
    if config.tuning and model.num_outputs > 1 and split.validation.numel() and not is_weighted:
        about["calibration"] = search.calibrate(chosen)
    about["settings"] = {**chosen.trial, "order": chosen.model.order}
    about["epochs_from_start"] = chosen.epochs
    return replace(search.finish(chosen), chosen=about)


def _check_choice(wanted: int | str, trials: Sequence[Trial], split: Split) -> None:
    if split.validation.numel():
        return
    remedy = "hold nodes out for validation"
    if wanted == "auto":
        raise BadInput(
            f"columns is 'auto', but no validation nodes can choose: give a number or all, or "
            f"{remedy}"
        )
    if len(trials) > 1:
        raise BadInput(
            f"tuning is {len(trials)}, but no validation nodes can choose: leave it out, or "
            f"{remedy}"
        )


class _Progress:
    """Reports epochs of several trainings as those of one."""

    def __init__(self, config: RunConfig, on_epochs: Callable[[int], None] | None) -> None:
        self._report = on_epochs or (lambda count: None)
        self._total = config.epochs
        self._stages = (config.tuning or 1) + (_MOST_STAGES if config.drops_columns else 0)
        self._done = self._reported = 0

    def __call__(self, epochs: int) -> None:
        self._done += epochs
        self._show(min(self._done // self._stages, self._total))

    def finish(self) -> None:
        self._show(self._total)

    def _show(self, done: int) -> None:
        if done > self._reported:
            self._report(done - self._reported)
            self._reported = done


class _HopsSearch:
    """Trains a model on subsets of its columns, and compares them on the validation nodes."""

    def __init__(
        self,
        model: CrossHops,
        rows: HopRows,
        split: Split,
        config: RunConfig,
        names: Sequence[str],
        known: Mapping[str, Any],
        progress: _Progress,
    ) -> None:
        self.model, self.rows, self.split, self.config = model, rows, split, config
        self.known, self.progress = known, progress
        self.titles = list(dict.fromkeys(names))
        number = {title: position for position, title in enumerate(self.titles)}
        self._column_of = torch.tensor([number[name] for name in names])
        self.num_columns = len(self.titles)
        self._labels = rows.labels[split.validation].numpy()
        self._metric = selecting_metric(config.metric, model.num_outputs)
        is_binary = model.num_outputs == 2
        self._positive = positive_class(rows.labels.numpy()) if is_binary else None
        count = len(self._labels)
        self._draws = np.random.default_rng(0).integers(count, size=(_RESAMPLES, count))

    def choose_trial(self, columns: Tensor, last: _Trained | None = None) -> _Trained:
        """Return the model on some columns of the trial with the best validation score.

        Trainings begin with the initial weights, or with those of ``last``, which then stays if no
        trial is better.
        """
        places = torch.isin(self._column_of, columns)
        trials = list_trials(self.config, self.split.train.numel(), int(places.sum()))
        trained, failure = [] if last is None else [last], None
        for trial in trials:
            try:
                trained.append(self._train(trial, columns, last))
            except Diverged as error:
                failure = error
        if failure is not None and not trained:
            raise failure
        return _best(trained)

    def choose_starts(self, whole: _Trained) -> list[_Trained]:
        """Return models from which columns are dropped: the simplest first.

        Columns of neighbours are dropped at once unless they raise the validation score by more
        than one standard error. There is a second start without crosses, unless crosses do so.
        """
        start, own = whole, torch.unique(self._column_of[: self.model.in_channels])
        if len(own) < self.num_columns:
            alone = self._train(whole.trial, own, whole)
            if not self._is_below(alone, whole):
                start = self.choose_trial(own)
        if self.model.order == 1:
            return [start]
        # Few rows: crosses shape what the linear part has learned, so it is trained on its own.
        is_wide = _is_wide(self.split.train.numel(), start.rows.num_columns)
        linear = self._train(start.trial, start.columns, None if is_wide else start, order=1)
        return [start] if self._is_below(linear, start) else [linear, start]

    def choose_columns(
        self, start: _Trained, wanted: int | str
    ) -> tuple[_Trained, list[tuple[int, float]]]:
        """Return a model on fewer columns, and the sizes tried with their validation scores.

        Each training starts with the weights of the last one, which holds the score and takes less
        time. ``auto`` goes on, at least to :data:`_MOST_OF_AUTO` columns, until the validation
        score is more than one standard error below the best one.
        """
        tried, chosen = [start], start
        for size in _sizes(len(start.columns), _LEAST_OF_AUTO if wanted == "auto" else int(wanted)):
            last = tried[-1]
            tried.append(self._train(last.trial, self.rank(last)[:size].sort().values, last))
            is_few = wanted == "auto" and len(chosen.columns) <= _MOST_OF_AUTO
            if is_few and self._is_below(tried[-1], _best(tried)):
                break
            chosen = tried[-1]
        return chosen, [(len(each.columns), each.result.validation_score) for each in tried]

    def rank(self, trained: _Trained) -> Tensor:
        """Return the columns of a model, those first without which its training loss is largest."""
        step = max(1, -(-self.split.train.numel() // self._num_weighed(trained.rows)))
        nodes = self.split.train[::step]
        x, labels = trained.rows.rows(nodes.to(trained.rows.device)), trained.rows.labels[nodes]
        losses = _losses_without(trained.model, x, labels, self._places(trained.columns))
        return trained.columns[losses.argsort(descending=True, stable=True)]

    def calibrate(self, chosen: _Trained) -> dict[str, float]:
        """Scale the scores, and of two classes shift them, so that probabilities fit.

        It is left out where classes or nodes have weights, whose effect it would take back.
        The scale and the shift minimise the log loss of the validation nodes. They become part of
        the read-out, so that a score stays the same sum of terms. Ranks of nodes do not change.
        """
        scores, labels = chosen.scores.numpy(), self._labels
        margins = scores - scores.mean(axis=1, keepdims=True)
        is_binary = margins.shape[1] == 2

        def log_loss(values: Any) -> float:
            scaled = np.exp(values[0]) * margins
            if is_binary:
                scaled[:, 1] += values[1]
            rows = np.arange(len(labels))
            return float((logsumexp(scaled, axis=1) - scaled[rows, labels]).mean())

        found = minimize(log_loss, np.zeros(2 if is_binary else 1), method="Nelder-Mead").x
        scale, shift = float(np.exp(found[0])), float(found[1]) if is_binary else 0.0
        readout = chosen.model.readout
        with torch.no_grad():
            readout.weight.mul_(scale)
            readout.bias.mul_(scale)
            if is_binary:
                readout.bias.view(readout.bags, 2)[:, 1] += shift
        return {"scale": scale, "shift": shift}

    def finish(self, chosen: _Trained) -> TrainedModel:
        """Put the weights into the whole model, and score the test nodes."""
        kept = torch.isin(self._column_of, chosen.columns)
        self.model.widen(chosen.model, kept)
        test = None
        if self.split.test.numel():
            device = next(chosen.model.parameters()).device
            scorer = RowScorer(chosen.model, chosen.rows, self.split.test, self.config, device)
            test = scorer.evaluate()
        state = {name: value.cpu() for name, value in self.model.state_dict().items()}
        return replace(chosen.result, state=state, test=test)

    def _train(
        self,
        trial: Trial,
        columns: Tensor,
        last: _Trained | None = None,
        order: int | None = None,
    ) -> _Trained:
        """Train on some columns: from the initial weights, or from those of another model.

        ``last`` read these columns and more, with crosses of at least that order. Such a training
        is close to its best from the first epoch, so it is given half the patience.
        """
        settings: dict[str, Any] = dict(trial)
        scale = settings.pop("initial_scale", 1.0)
        kept = torch.isin(self._column_of, columns)
        if last is None:
            model = self.model.narrow(kept, order)
            with torch.no_grad():
                model.transform.weight.div_(sqrt(kept.double().mean()))
                model.readout.weight.mul_(scale)
        else:
            model = last.model.narrow(kept[torch.isin(self._column_of, last.columns)], order)
        model.dropout.p = settings.get("dropout", model.dropout.p)
        rows = self.rows if bool(kept.all()) else self.rows.narrow(kept)
        sealed = Split(self.split.train, self.split.validation, self.split.test[:0])
        if last is not None and self.config.patience is not None:
            settings["patience"] = -(-self.config.patience // 2)
        config = self.config.model_copy(update=settings)
        result = train_rows(model, rows, sealed, config, **self.known, on_epochs=self.progress)
        scores = torch.empty(0)
        if sealed.validation.numel():
            device = next(model.parameters()).device
            scorer = RowScorer(model, rows, sealed.validation, config, device)
            scores = scorer.score()[2].detach().double().cpu()
        epochs = result.best_epoch + (0 if last is None else last.epochs)
        return _Trained(trial, columns, model, rows, result, scores, epochs)

    def _places(self, columns: Tensor) -> list[Tensor]:
        """Return the positions of each column among the encoded columns of a narrow model."""
        own = self._column_of[torch.isin(self._column_of, columns)]
        return [(own == column).nonzero().flatten() for column in columns]

    def _num_weighed(self, rows: HopRows) -> int:
        return max(1, min(_WEIGHED_ROWS, _WEIGHED_ENTRIES // rows.num_columns))

    def _is_below(self, one: _Trained, best: _Trained, times: float = 1.0) -> bool:
        """Return whether a validation score is clearly below the best one."""
        gap = best.result.validation_score - one.result.validation_score
        return gap > 0 and gap > times * self._standard_error(one, best)

    def _standard_error(self, one: _Trained, other: _Trained) -> float:
        """Return the standard error of the difference of two validation scores."""
        return float(np.nanstd(self._resampled(one) - self._resampled(other)))

    def _resampled(self, trained: _Trained) -> NDArray[np.float64]:
        """Return the validation metric of random draws of the nodes, the same for all models."""
        if not len(trained.resampled):
            scores = trained.scores.numpy()
            trained.resampled[:] = [
                compute(self._metric, self._labels[drawn], scores[drawn], self._positive)
                for drawn in self._draws
            ]
        return np.array(trained.resampled)


def _best(tried: Sequence[_Trained]) -> _Trained:
    return max(tried, key=lambda each: each.result.validation_score)


def _sizes(num_columns: int, least: int) -> Iterator[int]:
    """Yield smaller and smaller numbers of columns, down to ``least``."""
    size = num_columns
    while size > least:
        following = [each for each in _SIZES if each <= _SMALLEST_STEP * size]
        size = max([least, *following[:1]])
        yield size


@torch.no_grad()
def _losses_without(
    model: CrossHops, x: Features, labels: Tensor, columns: Sequence[Tensor]
) -> Tensor:
    """Return the loss of some rows without each of the columns, ``[columns]``.

    A column is taken away by replacing its values by their mean over the rows.
    """
    model.eval()
    weight = model.transform.weight.flatten(0, 1)
    if isinstance(x, SparseMatrix):
        dense = torch.from_numpy(x.to_scipy().toarray()).to(weight)
        x = dense - (model.center / model.deviation).to(dense)
    x, labels = x.to(weight), labels.to(weight.device)
    projections, centered = x @ weight.t(), x - x.mean(dim=0)
    losses = []
    for places in columns:
        places = places.to(weight.device)
        without = projections - centered[:, places] @ weight[:, places].t()
        scores = model.readout(model.hidden(without)).mean(0)
        loss, *_ = compute_loss(scores, labels, len(labels), target_scale=model.target_scale)
        losses.append(loss)
    return torch.stack(losses).cpu()
