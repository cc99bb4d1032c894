"""Options that several commands share, in groups: a command takes a group as one argument."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from crossgcn.cli import options
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    from crossgcn.data.tables.graph import TableGraph
    from crossgcn.data.tables.plan import TableChoices

_TABLES = "Your own tables"

TABLE_ENDINGS = (".csv", ".tsv", ".tab", ".csv.gz", ".tsv.gz", ".tab.gz", ".parquet", ".pq")
"""How the names of files end that are read as tables."""

NodesArgument = Annotated[
    Path, typer.Argument(help="Table of nodes: CSV, TSV or Parquet.", metavar="NODES")
]
EdgesArgument = Annotated[
    Path | None,
    typer.Argument(
        help="Table of edges: CSV, TSV or Parquet, a row an edge. Nodes stand alone without it.",
        metavar="EDGES",
    ),
]


def _named(help: str, metavar: str = "COLUMN") -> Any:
    return typer.Option(help=help, metavar=metavar, rich_help_panel=_TABLES)


TargetOption = Annotated[str | None, _named("Column of NODES to predict.")]
IdColumnOption = Annotated[
    str | None, _named("Column of NODES that names a node. \\[default: found by looking]")
]
SourceColumnOption = Annotated[
    str | None, _named("Column of EDGES with one end of an edge. \\[default: found by looking]")
]
DestinationColumnOption = Annotated[
    str | None, _named("Column of EDGES with the other end. \\[default: found by looking]")
]
WeightColumnOption = Annotated[
    str | None, _named("Column of EDGES with weights. \\[default: weight, if there is one]")
]
SplitColumnOption = Annotated[
    str | None,
    _named("Column of NODES that says train, validation or test. \\[default: splits are drawn]"),
]
CategoricalOption = Annotated[
    str | None, _named("Columns to take as categories, separated by commas.", "COLUMNS")
]
NumericOption = Annotated[str | None, _named("Columns to take as numbers.", "COLUMNS")]
ListsOption = Annotated[
    str | None, _named("Columns to take as lists of words, such as red;blue.", "COLUMNS")
]
IgnoreOption = Annotated[str | None, _named("Columns to leave out.", "COLUMNS")]
MissingOption = Annotated[
    str | None,
    _named(
        "Words that stand for a missing value, besides empty cells. "
        "\\[default: NA, N/A, NaN, null, None; in the target, empty cells only]",
        "WORDS",
    ),
]
HashFeaturesOption = Annotated[
    int | None,
    _named(
        "Hash categories and words into 2^BITS features, for values without end. "
        "\\[default: a feature for each that three nodes have]",
        "BITS",
    ),
]


def is_table(dataset: str | None) -> bool:
    """Whether a dataset argument names a table and not a dataset."""
    return dataset is not None and dataset.lower().endswith(TABLE_ENDINGS)


def table_choices(
    *,
    target: str | None = None,
    id_column: str | None = None,
    source_column: str | None = None,
    destination_column: str | None = None,
    weight_column: str | None = None,
    split_column: str | None = None,
    categorical: str | None = None,
    numeric: str | None = None,
    lists: str | None = None,
    ignore: str | None = None,
    missing: str | None = None,
    hash_features: int | None = None,
) -> TableChoices:
    """What the options say, for :func:`crossgcn.data.tables.plan.make_plan`."""
    from crossgcn.data.tables.plan import TableChoices

    return TableChoices(
        target=target,
        id_column=id_column,
        source_column=source_column,
        destination_column=destination_column,
        weight_column=weight_column,
        split_column=split_column,
        categorical=_names(categorical),
        numeric=_names(numeric),
        lists=_names(lists),
        ignored=_names(ignore),
        missing=None if missing is None else _names(missing),
        hash_features=hash_features,
    )


def refuse_table_options(dataset: str | None, edges: Path | None, given: dict[str, Any]) -> None:
    """A second file, or options for tables, make no sense with a dataset that has a name."""
    name = dataset or "citeseer"
    if (given or edges is not None) and Path(name).exists():
        endings = ", ".join(TABLE_ENDINGS)
        raise BadInput(f"{name}: cannot tell that it is a table: end its name in one of {endings}")
    remedy = f"give two files, NODES.csv and EDGES.csv (or .tsv, .parquet), in place of {name}"
    if edges is not None:
        raise BadInput(f"{edges} is one argument too many for {name}: {remedy}, or leave it out")
    for option, value in given.items():
        words = f"--{option.replace('_', '-')} {value}"
        raise BadInput(f"{words} is for tables of your own: {remedy}")


def _names(text: str | None) -> tuple[str, ...]:
    r"""Column names from ``a,b``; a comma within a name is written ``\,``."""
    if text is None:
        return ()
    hidden = text.replace("\\,", "\0").split(",")
    return tuple(name.strip().replace("\0", ",") for name in hidden if name.strip())


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

    target: TargetOption = None
    id_column: IdColumnOption = None
    source_column: SourceColumnOption = None
    destination_column: DestinationColumnOption = None
    weight_column: WeightColumnOption = None
    split_column: SplitColumnOption = None
    categorical: CategoricalOption = None
    numeric: NumericOption = None
    lists: ListsOption = None
    ignore: IgnoreOption = None
    missing: MissingOption = None
    hash_features: HashFeaturesOption = None

    def choices(self) -> TableChoices:
        """For :func:`crossgcn.data.tables.load_tables`."""
        return table_choices(**self._given())

    def load(
        self, dataset: str | None, edges: Path | None, *, out: Path | None, splits: str | None
    ) -> tuple[TableGraph | None, dict[str, Any]]:
        """The user's tables and the settings that suit them; nothing for a named dataset."""
        if not is_table(dataset):
            self.refuse(dataset, edges)
            return None, {}
        from crossgcn.cli.running import load_user_tables, table_defaults

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
        refuse_table_options(dataset, edges, given)

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
