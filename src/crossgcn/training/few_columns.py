"""Choose settings, columns and crosses of cross-hops on the validation nodes of a split.

A column is a table column of the node itself, of its neighbours or of a further hop; its encoded
features stay together. The search starts with all columns. Relations, then neighbours' columns, and
crosses, are dropped first if the model is as good without them. The importance of a column is the
training loss when its values are replaced by their mean. The least important columns are dropped,
the model is trained again, and so on. Finally, crosses are restricted to few pairs of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crossgcn.data.splits import Split
from crossgcn.errors import BadInput
from crossgcn.graph.standardise import HopRows
from crossgcn.models.cross_hops import CrossHops
from crossgcn.training.calibration import calibrate
from crossgcn.training.config import RunConfig
from crossgcn.training.few_crosses import Pair, keep_pairs, rank_pairs
from crossgcn.training.loop import Diverged, SharedProgress, TrainedModel
from crossgcn.training.metrics import (
    OF_PROBABILITIES,
    compute,
    positive_class,
    selecting_metric,
)
from crossgcn.training.objective import compute_loss
from crossgcn.training.rows import RowScorer, train_rows
from crossgcn.training.trials import Trial, is_wide, list_trials

_SIZES = (*(2**power for power in range(16, 4, -1)), 24, 16, 12, 8, 6, 4, 3, 2, 1)
"""Numbers of columns to try, where they are smaller than the number of all columns."""

_LARGEST_RATIO = 0.8
"""The next number of columns is at most this share of the last."""
_MOST_STAGES = 14
"""Number of trainings on fewer columns that the progress bar assumes."""
_LEAST_OF_AUTO, _MOST_OF_AUTO = 4, 16
"""Fewest and most columns that ``auto`` chooses."""
_SMALL_TABLE, _MOST_OF_SMALL = 24, 12
"""A table with at most 24 columns is small; ``auto`` then chooses at most 12."""
_MORE_PER_RELATION = 8
"""Further columns that ``auto`` chooses of each relation but the first."""
_TOLERANCE = 0.3
"""Standard errors by which fewer columns, or earlier weights, may score below the best model."""
_CROSSES = 24
"""Pairs of columns that are multiplied by default."""
_MOST_RANKED = 100
"""With more columns, which form many thousands of pairs, all pairs are multiplied by default."""
_UNITS_OF_CROSSES = 32
"""Units per bag that multiply the chosen pairs."""
_RESAMPLES = 50
"""Bootstrap samples of the validation nodes from which a standard error is estimated."""
_RANKING_ENTRIES = 1 << 24
"""Entries of the sample of training rows on which columns and pairs are ranked."""
_RANKING_ROWS = 4096


@dataclass(frozen=True)
class _Trained:
    """A model trained on some columns.

    Attributes:
        scores: Scores of the validation nodes.
        epochs: Epochs since the random initialisation, including those of earlier models.
        crosses: The pairs that are multiplied, as positions in ``columns``, the strongest first;
            ``None`` for all.
        resampled: The validation metric on each bootstrap sample, once it is computed.
    """

    trial: Trial
    columns: Tensor
    model: CrossHops
    rows: HopRows
    result: TrainedModel
    scores: Tensor
    epochs: int
    crosses: Sequence[Pair] | None = None
    resampled: list[float] = field(default_factory=list)


def train_hops(
    model: CrossHops,
    rows: HopRows,
    split: Split,
    config: RunConfig,
    names: Sequence[str],
    *,
    without: int | None = None,
    seed: int,
    device: str | torch.device = "cpu",
    node_weights: Tensor | None = None,
    on_epochs: Callable[[int], None] | None = None,
) -> TrainedModel:
    """Train a model with the settings, columns and crosses that score best on validation nodes.

    The chosen model alone scores the test nodes, before and after its calibration. The result's
    ``chosen`` has ``settings``, ``epochs_from_start`` and ``calibration``; ``columns``, by name,
    the most important first; ``path``, each number of columns that was tried, with its validation
    score; and ``crosses``, the pairs of columns that are multiplied, the strongest first, or
    ``None`` for all or no pairs.

    Args:
        model: Trained in place. Weights of columns that were dropped are 0 afterwards.
        names: For each encoded feature, the name of its column.
        without: Number of a relation whose columns are not read.
        seed: As for :func:`~crossgcn.training.rows.train_rows`, like the arguments after it.

    Raises:
        BadInput: If a choice needs validation nodes and there are none.
        Diverged: If no trial ends with finite weights.
    """
    wanted = config.columns or "all"
    trials = list_trials(config, split.train.numel(), rows.num_columns)
    shared: dict[str, Any] = {"seed": seed, "device": device, "node_weights": node_weights}
    if wanted == "all" and len(trials) == 1 and not trials[0] and without is None:
        return train_rows(model, rows, split, config, **shared, on_epochs=on_epochs)
    _check_choice(wanted, trials, split)
    stages = (config.tuning or 1) + (_MOST_STAGES if config.drops_columns else 0)
    progress = SharedProgress(config.epochs, stages, on_epochs)
    search = _HopsSearch(model, rows, split, config, names, shared, progress)
    all_columns = torch.arange(search.num_columns)
    if without is not None:
        all_columns = all_columns[~torch.isin(all_columns, search.columns_of(without))]
    chosen, choices = search.choose_trial(all_columns), dict[str, Any]()
    if wanted != "all":
        starts = search.choose_starts(chosen) if wanted == "auto" else [chosen]
        results = [search.choose_columns(start, wanted) for start in starts]
        chosen, path = results[0]
        if search.is_below(chosen, results[-1][0]):
            chosen, path = results[-1]
        chosen = search.train_anew(chosen)
        chosen = search.choose_trial(chosen.columns, search.choose_crosses(chosen))
        choices = {"columns": search.names(search.rank(chosen)), "path": path}
        pairs = chosen.crosses
        choices["crosses"] = pairs and [search.names(chosen.columns[list(pair)]) for pair in pairs]
    search.progress.finish()
    is_weighted = config.class_weight is not None or node_weights is not None
    if config.tuning and model.num_outputs > 1 and split.validation.numel() and not is_weighted:
        before = search.test(chosen) or {}
        choices["calibration"] = {
            **calibrate(chosen.model, chosen.scores, search.labels),
            "before": {name: before[name] for name in OF_PROBABILITIES if name in before},
        }
    choices["settings"] = {
        **chosen.trial,
        "order": chosen.model.order,
        "hidden_channels": chosen.model.readout.in_channels,
    }
    choices["epochs_from_start"] = chosen.epochs
    return replace(search.finish(chosen), chosen=choices)


def _check_choice(wanted: int | str, trials: Sequence[Trial], split: Split) -> None:
    if split.validation.numel():
        return
    remedy = "hold nodes out for validation"
    if wanted == "auto":
        raise BadInput(
            f"columns is 'auto', but there are no validation nodes to choose them: give a number "
            f"or all, or {remedy}"
        )
    if len(trials) > 1:
        raise BadInput(
            f"tuning is {len(trials)}, but there are no validation nodes to choose settings: leave "
            f"it out, or {remedy}"
        )


class _HopsSearch:
    """Trains a model on subsets of its columns, and compares these on the validation nodes."""

    def __init__(
        self,
        model: CrossHops,
        rows: HopRows,
        split: Split,
        config: RunConfig,
        names: Sequence[str],
        shared: Mapping[str, Any],
        progress: SharedProgress,
    ) -> None:
        self.model, self.rows, self.split, self.config = model, rows, split, config
        self.shared, self.progress = shared, progress
        self.titles = list(dict.fromkeys(names))
        number = {title: position for position, title in enumerate(self.titles)}
        self._column_of = torch.tensor([number[name] for name in names])
        self.num_columns = len(self.titles)
        self.num_relations = len({number for number, _ in model.plan.sides})
        is_small = self.num_columns <= _SMALL_TABLE
        self._most_of_auto = _MOST_OF_SMALL if is_small else _MOST_OF_AUTO
        self._most_of_auto += _MORE_PER_RELATION * max(0, self.num_relations - 1)
        self.labels = rows.labels[split.validation].numpy()
        self._metric = selecting_metric(config.metric, model.num_outputs)
        is_binary = model.num_outputs == 2
        self._positive = positive_class(rows.labels.numpy()) if is_binary else None
        count = len(self.labels)
        self._samples = np.random.default_rng(0).integers(count, size=(_RESAMPLES, count))

    def choose_trial(self, columns: Tensor, last: _Trained | None = None) -> _Trained:
        """Train on some columns with each trial, and return the best by validation score.

        Training starts from the initial weights, or from ``last``, which is then compared as well.
        """
        places = torch.isin(self._column_of, columns)
        trials = list_trials(self.config, self.split.train.numel(), int(places.sum()))
        trained, failure = [] if last is None else [last], None
        for trial in trials:
            if last is not None and trial == last.trial:
                continue
            try:
                trained.append(self._train(trial, columns, last))
            except Diverged as error:
                failure = error
        if failure is not None and not trained:
            raise failure
        return _best(trained)

    def choose_starts(self, whole: _Trained) -> list[_Trained]:
        """Return the models from which columns are dropped, the simplest first.

        Neighbours' columns are dropped at once unless they raise the validation score by more than
        one standard error. Unless crosses do so too, a model without crosses is the first start.
        """
        start, own = self._choose_relations(whole), self.columns_of(-1)
        if len(own) < len(start.columns):
            alone = self._train(start.trial, own, start)
            if not self.is_below(alone, start):
                start = self.choose_trial(own)
        if self.model.order == 1:
            return [start]
        # With few rows, crosses have distorted the linear part, so it is trained from scratch.
        wide = is_wide(self.split.train.numel(), start.rows.num_columns)
        linear = self._train(start.trial, start.columns, None if wide else start, order=1)
        return [start] if self.is_below(linear, start) else [linear, start]

    def _choose_relations(self, whole: _Trained) -> _Trained:
        """Return a model without the relations without which it validates better.

        Without a relation the model is trained from its start: one with very many columns has
        learned chance.
        """
        relations = [self.columns_of(number) for number in range(self.num_relations)]
        relations = [each for each in relations if torch.isin(each, whole.columns).all()]
        while len(relations) > 1:
            kept = [whole.columns[~torch.isin(whole.columns, each)] for each in relations]
            tried = [self.choose_trial(columns) for columns in kept]
            best = max(range(len(tried)), key=lambda at: tried[at].result.validation_score)
            if tried[best].result.validation_score < whole.result.validation_score:
                break
            whole = tried[best]
            del relations[best]
        return whole

    def columns_of(self, relation: int) -> Tensor:
        """Return the columns of a relation; of the node itself for -1."""
        sides = [*(number for number, _ in self.model.plan.sides), -1]
        places = [sides[side] == relation for side in self.model.plan.side_of]
        columns: Tensor = torch.unique(self._column_of[torch.tensor(places)])
        return columns

    def choose_columns(
        self, start: _Trained, wanted: int | str
    ) -> tuple[_Trained, list[tuple[int, float]]]:
        """Return a model on fewer columns, and each size tried with its validation score.

        Each training starts from the last model's weights, which saves time and keeps the score.
        ``auto`` continues at least to 16 columns (12 of a small table), and then until the score is
        clearly below the best.
        """
        tried, chosen = [start], start
        for size in _sizes(len(start.columns), _LEAST_OF_AUTO if wanted == "auto" else int(wanted)):
            last = tried[-1]
            tried.append(self._train(last.trial, self.rank(last)[:size].sort().values, last))
            is_few = wanted == "auto" and len(chosen.columns) <= self._most_of_auto
            if is_few and self.is_below(tried[-1], _best(tried), _TOLERANCE):
                break
            chosen = tried[-1]
        return chosen, [(len(each.columns), each.result.validation_score) for each in tried]

    def train_anew(self, chosen: _Trained) -> _Trained:
        """Return a model on the same columns trained from initial weights, if it is better.

        Weights that once read all columns may keep what they learned by chance, and crosses that
        did not pay among all columns may pay among few.
        """
        anew = self._train(chosen.trial, chosen.columns)
        return anew if self.is_below(chosen, anew, _TOLERANCE) else chosen

    def choose_crosses(self, whole: _Trained) -> _Trained:
        """Return a model on the same columns that multiplies few pairs of them."""
        most = self.config.crosses
        if most is None:
            most = _CROSSES if len(whole.columns) <= _MOST_RANKED else "all"
        if whole.model.order != 2 or most == "all":
            return whole
        places = self._places(whole.columns)
        ranked = rank_pairs(whole.model, self._ranking_rows(whole)[0], places)
        if most >= len(ranked):
            return whole
        model, pairs = keep_pairs(whole.model, ranked, places, most, _UNITS_OF_CROSSES)
        start = replace(whole, model=model, crosses=pairs)
        return self._train(whole.trial, whole.columns, start)

    def rank(self, trained: _Trained) -> Tensor:
        """Return the columns of a model, the most important first."""
        x, labels = self._ranking_rows(trained)
        losses = _losses_without(trained.model, x, labels, self._places(trained.columns))
        return trained.columns[losses.argsort(descending=True, stable=True).cpu()]

    def names(self, columns: Tensor) -> list[str]:
        return [self.titles[column] for column in columns.tolist()]

    def finish(self, chosen: _Trained) -> TrainedModel:
        """Copy the chosen weights into the full model, and score the test nodes."""
        kept = torch.isin(self._column_of, chosen.columns)
        self.model.widen(chosen.model, kept)
        test = self.test(chosen)
        state = {name: value.cpu() for name, value in self.model.state_dict().items()}
        return replace(chosen.result, state=state, test=test)

    def test(self, chosen: _Trained) -> dict[str, float] | None:
        """Return every metric of the test nodes, if there are any."""
        if not self.split.test.numel():
            return None
        device = next(chosen.model.parameters()).device
        scorer = RowScorer(chosen.model, chosen.rows, self.split.test, self.config, device)
        return scorer.evaluate()

    def _train(
        self,
        trial: Trial,
        columns: Tensor,
        last: _Trained | None = None,
        order: int | None = None,
    ) -> _Trained:
        """Train on some columns, from the initial weights or from those of ``last``.

        ``last`` must read these columns, with at least this order. Its weights are close to the
        best ones, so the patience is halved.
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
        result = train_rows(model, rows, sealed, config, **self.shared, on_epochs=self.progress)
        scores = torch.empty(0)
        if sealed.validation.numel():
            device = next(model.parameters()).device
            scorer = RowScorer(model, rows, sealed.validation, config, device)
            scores = scorer.score()[2].detach().double().cpu()
        epochs = result.best_epoch + (0 if last is None else last.epochs)
        crosses = None if last is None else last.crosses
        return _Trained(trial, columns, model, rows, result, scores, epochs, crosses)

    def _places(self, columns: Tensor) -> list[Tensor]:
        """Return the positions of each column's features in a model of these columns alone."""
        own = self._column_of[torch.isin(self._column_of, columns)]
        device = self.shared["device"]
        return [(own == column).nonzero().flatten().to(device) for column in columns]

    def _ranking_rows(self, trained: _Trained) -> tuple[Tensor, Tensor]:
        """Return dense rows and labels of a sample of the training nodes."""
        nodes, rows = self.split.train, trained.rows
        most = max(1, min(_RANKING_ROWS, _RANKING_ENTRIES // rows.num_columns))
        nodes = nodes[:: max(1, -(-nodes.numel() // most))]
        x, model = rows.rows(nodes.to(rows.device)), trained.model
        return x.to(model.center), rows.labels[nodes].to(model.center.device)

    def is_below(self, one: _Trained, best: _Trained, times: float = 1.0) -> bool:
        """Return whether a score is more than ``times`` standard errors below the best one."""
        gap = best.result.validation_score - one.result.validation_score
        return gap > 0 and gap > times * self._standard_error(one, best)

    def _standard_error(self, one: _Trained, other: _Trained) -> float:
        """Return the standard error of the difference of two validation scores."""
        return float(np.nanstd(self._resampled(one) - self._resampled(other)))

    def _resampled(self, trained: _Trained) -> NDArray[np.float64]:
        """Return the metric on bootstrap samples of validation nodes that all models share."""
        if not len(trained.resampled):
            scores = trained.scores.numpy()
            trained.resampled[:] = [
                compute(self._metric, self.labels[sample], scores[sample], self._positive)
                for sample in self._samples
            ]
        return np.array(trained.resampled)


def _best(tried: Sequence[_Trained]) -> _Trained:
    return max(tried, key=lambda each: each.result.validation_score)


def _sizes(num_columns: int, least: int) -> Iterator[int]:
    """Yield decreasing numbers of columns, down to ``least``."""
    size = num_columns
    while size > least:
        following = [each for each in _SIZES if each <= _LARGEST_RATIO * size]
        size = max([least, *following[:1]])
        yield size


@torch.no_grad()
def _losses_without(
    model: CrossHops, x: Tensor, labels: Tensor, columns: Sequence[Tensor]
) -> Tensor:
    """Return the loss with each column in turn replaced by its mean over the rows."""
    model.eval()
    weight = model.transform.weight.flatten(0, 1)
    projections, centered = x @ weight.t(), x - x.mean(dim=0)
    losses = []
    for places in columns:
        without = projections - centered[:, places] @ weight[:, places].t()
        scores = model.readout(model.hidden(without)).mean(0)
        loss, *_ = compute_loss(scores, labels, len(labels), target_scale=model.target_scale)
        losses.append(loss)
    return torch.stack(losses)
