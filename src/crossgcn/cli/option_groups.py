"""Options that several commands share, in groups: a command takes a group as one argument."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from crossgcn.cli import options, table_options

if TYPE_CHECKING:
    from crossgcn.data.tables.graph import TableGraph
    from crossgcn.data.tables.plan import TableChoices

__all__ = ["ModelOptions", "RunOptions", "TableOptions", "TrainingOptions", "with_option_groups"]


@dataclass(frozen=True)
class ModelOptions:
    """What a model is like in detail; its name and depth are each command's own."""

    hidden_channels: options.HiddenOption = None
    order: options.OrderOption = None
    order_weights: options.OrderWeightsOption = None
    first_order: options.FirstOrderOption = None
    aggregate_first: options.AggregateFirstOption = None
    bias: options.BiasOption = None
    laplacian_weight: options.LaplacianWeightOption = None
    aggr: options.AggrOption = None
    transform: options.TransformOption = None
    scaling: options.ScalingOption = None
    residual: options.ResidualOption = None
    dropout: options.DropoutOption = None
    input_dropout: options.InputDropoutOption = None
    hops: options.HopsOption = None
    node_drop: options.NodeDropOption = None
    draws: options.DrawsOption = None
    consistency: options.ConsistencyOption = None
    temperature: options.TemperatureOption = None
    warm_up: options.WarmUpOption = None

    def shared(self) -> dict[str, Any]:
        """What every model has."""
        return {"hidden_channels": self.hidden_channels, "dropout": self.dropout}

    def variants(self) -> dict[str, Any]:
        """What only some models have."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        given |= {
            "order": options.parse_order(self.order),
            "order_weights": options.parse_order_weights(self.order_weights),
            "transform": options.parse_transform(self.transform),
        }
        return {name: value for name, value in given.items() if name not in self.shared()}


@dataclass(frozen=True)
class TrainingOptions:
    """How models are trained, and on which nodes."""

    epochs: options.EpochsOption = None
    learning_rate: options.LearningRateOption = None
    weight_decay: options.WeightDecayOption = None
    precision: options.PrecisionOption = None
    batch_size: options.BatchSizeOption = None
    fanout: options.FanoutOption = None
    evaluate_every: options.EvaluateEveryOption = None
    checkpoint_every: options.CheckpointEveryOption = None
    splits: options.SplitsOption = None
    num_splits: options.NumSplitsOption = None
    train: options.TrainOption = None
    repeats: options.RepeatsOption = None
    seed: options.SeedOption = None

    def settings(self) -> dict[str, Any]:
        """As :class:`~crossgcn.RunConfig` takes them."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return given | {
            "train": options.parse_train(self.train),
            "fanout": options.parse_fanout(self.fanout),
        }


@dataclass(frozen=True)
class RunOptions:
    """Where the work is done and where its results go."""

    out: options.OutOption = None
    resume: options.ResumeOption = False
    workers: options.WorkersOption = None
    threads: options.ThreadsOption = 1
    device: options.DeviceOption = "auto"
    as_json: options.JsonOption = False


@dataclass(frozen=True)
class TableOptions:
    """What the columns of a user's tables are."""

    target: table_options.TargetOption = None
    id_column: table_options.IdColumnOption = None
    source_column: table_options.SourceColumnOption = None
    destination_column: table_options.DestinationColumnOption = None
    weight_column: table_options.WeightColumnOption = None
    split_column: table_options.SplitColumnOption = None
    categorical: table_options.CategoricalOption = None
    numeric: table_options.NumericOption = None
    lists: table_options.ListsOption = None
    ignore: table_options.IgnoreOption = None
    missing: table_options.MissingOption = None
    hash_features: table_options.HashFeaturesOption = None

    def choices(self) -> TableChoices:
        """For :func:`crossgcn.data.tables.load_tables`."""
        return table_options.table_choices(**self._given())

    def load(
        self, dataset: str | None, edges: Path | None, *, out: Path | None, splits: str | None
    ) -> tuple[TableGraph | None, dict[str, Any]]:
        """The user's tables and the settings that suit them; nothing for a named dataset."""
        if not table_options.is_table(dataset):
            self.refuse(dataset, edges)
            return None, {}
        from crossgcn.cli.tables import load_user_tables, table_defaults

        assert dataset is not None
        graph = load_user_tables(dataset, edges, self, out)
        return graph, table_defaults(graph, splits)

    def command(self, name: str, nodes: str | Path, edges: Path | None, *more: str) -> str:
        """What to type for another command on the same tables, with the same options."""
        words = ["crossgcn", name, str(nodes), *([] if edges is None else [str(edges)])]
        for option, value in self._given().items():
            if value is not None:
                words += [f"--{option.replace('_', '-')}", str(value)]
        return shlex.join([*words, *more])

    def refuse(self, dataset: str | None, edges: Path | None) -> None:
        """They make no sense with a dataset that has a name."""
        given = {name: value for name, value in self._given().items() if value is not None}
        table_options.refuse_table_options(dataset, edges, given)

    def _given(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Show the command line every option of a command's groups, in place of the groups."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    parameters = []
    for name, parameter in signature(command).parameters.items():
        if not is_dataclass(hints[name]):
            parameters.append(parameter.replace(annotation=hints[name], kind=_BY_NAME))
            continue
        groups[name] = hints[name]
        of_fields = get_type_hints(hints[name], include_extras=True)
        for field in fields(hints[name]):
            assert field.default is not MISSING
            option = Parameter(
                field.name, _BY_NAME, default=field.default, annotation=of_fields[field.name]
            )
            parameters.append(option)

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            given = {field.name: values.pop(field.name) for field in fields(group)}
            values[name] = group(**given)
        command(**values)

    del run.__wrapped__
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


_BY_NAME = Parameter.KEYWORD_ONLY
