"""Write runs to TensorBoard, MLflow or Weights & Biases while they train.

Each is an adapter of a few lines: ``epoch`` writes the metrics of an epoch, ``finish`` the results
of the run. TensorBoard writes into the folder of the run, the others where their environment
variables say (``MLFLOW_TRACKING_URI``, ``WANDB_MODE``, ...).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossgcn.errors import BadInput, WorkFailed, unknown_name
from crossgcn.training.distributed import processes
from crossgcn.training.selection import EpochMetrics

if TYPE_CHECKING:
    from crossgcn.training.trainer import Run

_VARIABLE = "CROSSGCN_LOG"
"""An environment variable, because the processes that share the runs inherit it."""

_PROJECT = "crossgcn"


class _TensorBoard:
    def __init__(self, name: str, folder: Path | None, settings: dict[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(folder or Path("runs") / name)
        self.settings = {key: str(value) for key, value in settings.items()}

    def epoch(self, number: int, metrics: dict[str, float]) -> None:
        for key, value in metrics.items():
            self.writer.add_scalar(key, value, number)

    def finish(self, results: dict[str, float], failed: bool) -> None:
        final = {f"result/{key}": value for key, value in results.items()}
        self.writer.add_hparams(self.settings, final, run_name=".")
        self.writer.close()


class _MLflow:
    def __init__(self, name: str, folder: Path | None, settings: dict[str, Any]) -> None:
        import mlflow

        self.client = mlflow.MlflowClient()
        experiment: Any = mlflow.get_experiment_by_name(_mlflow_experiment())
        self.id = self.client.create_run(experiment.experiment_id, run_name=name).info.run_id
        for key, value in settings.items():
            self.client.log_param(self.id, key, value)

    def epoch(self, number: int, metrics: dict[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        values = [Metric(key, value, now, number) for key, value in metrics.items()]
        self.client.log_batch(self.id, metrics=values)

    def finish(self, results: dict[str, float], failed: bool) -> None:
        self.epoch(0, results)
        self.client.set_terminated(self.id, "FAILED" if failed else "FINISHED")


class _WandB:
    def __init__(self, name: str, folder: Path | None, settings: dict[str, Any]) -> None:
        import wandb

        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            name=name,
            config=settings,
            dir=folder,
            reinit="create_new",
            settings=wandb.Settings(silent=True),
        )

    def epoch(self, number: int, metrics: dict[str, float]) -> None:
        self.run.log(metrics, step=number)

    def finish(self, results: dict[str, float], failed: bool) -> None:
        self.run.summary.update(results)
        self.run.finish(exit_code=int(failed))


RunLog = _TensorBoard | _MLflow | _WandB
_LOGS: dict[str, type[RunLog]] = {"tensorboard": _TensorBoard, "mlflow": _MLflow, "wandb": _WandB}


@contextmanager
def log_to(name: str | None) -> Iterator[None]:
    """Write every run that is trained within a block to a logger.

    Args:
        name: ``tensorboard``, ``mlflow`` or ``wandb``; ``None`` changes nothing. Each needs the
            extra of its name.

    Example:
        >>> with log_to("tensorboard"):
        ...     Experiment(configs).run(out=Path("runs"))
    """
    if name is None:
        yield
        return
    if name not in _LOGS:
        raise unknown_name("logger", name, _LOGS)
    if find_spec(name) is None:
        raise BadInput(f"{name} is not installed: pip install 'crossgcn[{name}]'")
    if name == "mlflow":
        import mlflow

        try:  # once, before processes share the runs
            mlflow.set_experiment(_mlflow_experiment())
        except mlflow.exceptions.MlflowException as error:
            raise BadInput(f"mlflow: {error}") from None
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


_hooks: Sequence[Callable[[EpochMetrics], None]] = ()


def epoch_hooks(num_models: int) -> Sequence[Callable[[EpochMetrics], None]]:
    """Return what to call with the metrics of each epoch: one hook for each model, or none."""
    return _hooks if len(_hooks) == num_models else ()


@contextmanager
def logged_runs(
    runs: Sequence[Run],
) -> Iterator[Callable[[Sequence[Mapping[str, Any] | WorkFailed]], None]]:
    """Log the epochs of the runs that are trained together within a block.

    Yields:
        A function to call with the record of each run, or the reason why there is none.
    """
    global _hooks
    name = os.environ.get(_VARIABLE)
    if name is None or not processes().leads:
        yield lambda records: None
        return
    logs = [_open(name, run) for run in runs]
    opened = list(logs)

    def finish(records: Sequence[Mapping[str, Any] | WorkFailed]) -> None:
        while opened:
            log, record = opened.pop(), records[len(opened)]
            failed = isinstance(record, WorkFailed)
            log.finish({} if isinstance(record, WorkFailed) else _results(record), failed)

    _hooks = [_hook(log) for log in logs]
    try:
        yield finish
    finally:
        _hooks = ()
        for log in opened:
            log.finish({}, failed=True)


def _open(name: str, run: Run) -> RunLog:
    label = f"{run.config.model}-split-{run.split:02d}" + f"-repeat-{run.repeat}" * bool(run.repeat)
    if run.folder is not None:
        run.folder.mkdir(parents=True, exist_ok=True)
    return _LOGS[name](label, run.folder, run.config.identity())


def _hook(log: RunLog) -> Callable[[EpochMetrics], None]:
    def write(metrics: EpochMetrics) -> None:
        values = asdict(metrics)
        log.epoch(values.pop("epoch"), _numbers(values))

    return write


def _results(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a record, those of the test nodes as ``test_roc_auc``."""
    test = {f"test_{name}": value for name, value in (record.get("test") or {}).items()}
    names = ("validation_score", "best_epoch", "parameters", "seconds")
    return _numbers({name: record.get(name) for name in names} | test)


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _mlflow_experiment() -> str:
    return os.environ.get("MLFLOW_EXPERIMENT_NAME", _PROJECT)
