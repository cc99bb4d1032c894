"""The settings that a training of cross-hops tries in each split."""

from __future__ import annotations

from collections.abc import Mapping

from crossgcn.training.config import RunConfig

_FEW_ROWS_PER_COLUMN = 5
"""A table with fewer training rows per encoded column is called wide."""

Trial = Mapping[str, float]
"""Settings of the training; ``initial_scale`` multiplies the initial weights of the read-out."""

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


def list_trials(config: RunConfig, num_rows: int, num_columns: int) -> tuple[Trial, ...]:
    """Return the settings to try, the most promising first; one empty trial without tuning.

    Args:
        num_rows: Training nodes.
        num_columns: Encoded columns of the model.
    """
    if config.tuning is None:
        return ({},)
    trials = _TRIALS_IF_WIDE if is_wide(num_rows, num_columns) else _TRIALS
    return trials[: config.tuning]


def is_wide(num_rows: int, num_columns: int) -> bool:
    """Return whether a table has few training rows per encoded column."""
    return num_rows < _FEW_ROWS_PER_COLUMN * num_columns
