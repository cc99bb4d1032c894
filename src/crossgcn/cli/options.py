"""Options that several commands share, and how their text is read.

Nothing here imports torch, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from crossgcn.data.datasets.catalogue import DATASET_NAMES
from crossgcn.errors import BadInput
from crossgcn.layers.catalogue import AGGREGATIONS, ORDER_AGGREGATIONS, TRANSFORMS
from crossgcn.models.catalogue import PRESETS

MODEL, VARIANT, _TRAINING, _RUN = "Model", "Model, in detail", "Training", "Run"
BATCHES = "Training in batches"
RECIPE = "cross-grand and grand (default: the model's)"

DatasetArgument = Annotated[
    str | None,
    typer.Argument(
        help=f"{', '.join(DATASET_NAMES)}; a graph file FILE.npz; NAME-G.json with GraphSAGE's "
        "other files beside it; a graph FOLDER, as crossgcn data import makes it; or a table of "
        "nodes, NODES.csv (or TSV, Parquet). "
        "\\[default: citeseer]",
        metavar="DATASET|NODES",
    ),
]
RunArgument = Annotated[Path, typer.Argument(help="The folder that train made.", metavar="RUN")]
ModelOption = Annotated[
    str | None,
    typer.Option(
        help=f"{', '.join(PRESETS)}. \\[default: cross-gcn]",
        metavar="PRESET",
        rich_help_panel=MODEL,
    ),
]
HiddenOption = Annotated[
    int | None,
    typer.Option(
        "--hidden-channels",
        help="Width of the hidden layers. \\[default: 32; 64 in cross-grand and grand]",
        rich_help_panel=MODEL,
    ),
]
OrderOption = Annotated[
    str | None,
    typer.Option(
        help="Highest order of the crosses, for all layers (3) or one per layer (2,1). "
        "\\[default: 2; for tables 2,1, and 3 is 3,1]",
        rich_help_panel=MODEL,
    ),
]
OrderWeightsOption = Annotated[
    str | None,
    typer.Option(
        help=f"How orders are joined: {', '.join(ORDER_AGGREGATIONS)}, or one number per order "
        "(1,0.5). \\[default: the model's]",
        rich_help_panel=VARIANT,
    ),
]
FirstOrderOption = Annotated[
    Literal["paper", "release"] | None,
    typer.Option(help="First-order term. \\[default: the model's]", rich_help_panel=VARIANT),
]
AggregateFirstOption = Annotated[
    bool | None,
    typer.Option(
        "--aggregate-first/--transform-first",
        help="What comes first in a layer. \\[default: the model's]",
        rich_help_panel=VARIANT,
    ),
]
BiasOption = Annotated[
    bool | None,
    typer.Option(
        "--bias/--no-bias",
        help="Add a bias in each layer. \\[default: the model's]",
        rich_help_panel=VARIANT,
    ),
]
LaplacianWeightOption = Annotated[
    float | None,
    typer.Option(
        help="How much neighbours are made to agree (semi-emb). \\[default: the model's]",
        rich_help_panel=VARIANT,
    ),
]
AggrOption = Annotated[
    str | None,
    typer.Option(
        help=f"How neighbours are joined: {', '.join(AGGREGATIONS)}. \\[default: gcn]",
        metavar="NAME",
        rich_help_panel=VARIANT,
    ),
]
TransformOption = Annotated[
    str | None,
    typer.Option(
        help=f"What crosses features: {', '.join(TRANSFORMS)}; for all layers or one per "
        "layer (mlp,linear). \\[default: cross]",
        metavar="NAME",
        rich_help_panel=VARIANT,
    ),
]
ScalingOption = Annotated[
    Literal["none", "unit"] | None,
    typer.Option(
        help="unit starts every order at the same size, for very large or small features and, "
        "with --residual norm, for high orders and deep models. \\[default: none]",
        rich_help_panel=VARIANT,
    ),
]
ResidualOption = Annotated[
    Literal["none", "add", "norm"] | None,
    typer.Option(
        help="add lets layers add to what enters them, norm also evens out its size, for deep "
        "models of any order. \\[default: none]",
        rich_help_panel=VARIANT,
    ),
]
InputDropoutOption = Annotated[
    float | None,
    typer.Option(
        help="Dropout of the features, where it is another than --dropout.",
        rich_help_panel=RECIPE,
    ),
]
HopsOption = Annotated[
    int | None,
    typer.Option(help="Hops of a random propagation.", rich_help_panel=RECIPE),
]
NodeDropOption = Annotated[
    float | None,
    typer.Option(help="Probability of leaving a node out.", rich_help_panel=RECIPE),
]
DrawsOption = Annotated[
    int | None,
    typer.Option(help="Random propagations per step.", rich_help_panel=RECIPE),
]
ConsistencyOption = Annotated[
    float | None,
    typer.Option(help="How much their predictions are made to agree.", rich_help_panel=RECIPE),
]
TemperatureOption = Annotated[
    float | None,
    typer.Option(
        help="How sharp the prediction is that they are to agree with, 0 to 1.",
        rich_help_panel=RECIPE,
    ),
]
WarmUpOption = Annotated[
    int | None,
    typer.Option(help="Steps until agreement counts in full.", rich_help_panel=RECIPE),
]
DropoutOption = Annotated[
    float | None,
    typer.Option(
        help="Dropout before each layer. \\[default: 0.5; 0.2 for tables; 0.4 in cross-grand and "
        "grand]",
        rich_help_panel=MODEL,
    ),
]
EpochsOption = Annotated[
    int | None,
    typer.Option(
        help="Full-batch steps, or passes over the training nodes in batches. "
        "\\[default: 500; 300 in cross-grand and grand]",
        rich_help_panel=_TRAINING,
    ),
]
LearningRateOption = Annotated[
    float | None,
    typer.Option(
        help="Adam's. \\[default: 0.01; 0.05 in cross-grand and grand]", rich_help_panel=_TRAINING
    ),
]
WeightDecayOption = Annotated[
    float | None,
    typer.Option(
        help="The paper's λ. \\[default: 0.0005; 0.001 in cross-grand and grand]",
        rich_help_panel=_TRAINING,
    ),
]
SplitsOption = Annotated[
    Literal["random", "authors", "public", "stratified"] | None,
    typer.Option(
        help="Training sets: a few nodes per class drawn by seed, those released with the paper, "
        "the data's own, or 60 / 20 / 20 % of every class dealt out by seed. "
        "\\[default: random; stratified for tables]",
        rich_help_panel=_TRAINING,
    ),
]
NumSplitsOption = Annotated[
    int | None,
    typer.Option(
        help="How many training sets. \\[default: 20; 5 stratified]", rich_help_panel=_TRAINING
    ),
]
TrainOption = Annotated[
    str | None,
    typer.Option(
        help="Training nodes per class, or all. \\[default: 20; all when stratified]",
        metavar="N|all",
        rich_help_panel=_TRAINING,
    ),
]
RepeatsOption = Annotated[
    int | None,
    typer.Option(
        help="Runs per split, each with its own seed. \\[default: 1]", rich_help_panel=_TRAINING
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(help="Seed of the splits and of every run. \\[default: 0]", rich_help_panel=_RUN),
]
UnusedSeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        help="As every command takes it; nothing is drawn here.",
        rich_help_panel=_RUN,
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Settings from a TOML file; options given here win.",
        rich_help_panel=_RUN,
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder for the records. \\[default: a new one in runs/]", rich_help_panel=_RUN
    ),
]
ResumeOption = Annotated[
    bool,
    typer.Option(
        "--resume", help="Continue in --out; finished runs are kept.", rich_help_panel=_RUN
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        help="Processes that share the runs on a CPU. \\[default: one per core]",
        rich_help_panel=_RUN,
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        help="auto (a GPU where there is one), cpu, cuda or cuda:N. A GPU trains all runs of a "
        "model at once.",
        rich_help_panel=_RUN,
    ),
]
PrecisionOption = Annotated[
    Literal["fp32", "tf32", "bf16"] | None,
    typer.Option(help="How exactly a GPU multiplies. \\[default: fp32]", rich_help_panel=_TRAINING),
]
BatchSizeOption = Annotated[
    int | None,
    typer.Option(
        help="Training nodes per step, over all processes of torchrun together, with sampled "
        "neighbours. \\[default: all nodes at once, nothing sampled]",
        rich_help_panel=BATCHES,
    ),
]
FanoutOption = Annotated[
    str | None,
    typer.Option(
        help="Neighbours drawn for each node, in every hop (10) or per hop, nearest first (15,10); "
        "-1 is all. \\[default: 50; all in models of one hop]",
        rich_help_panel=BATCHES,
    ),
]
EvaluateEveryOption = Annotated[
    int | None,
    typer.Option(
        help="Epochs from one look at the validation nodes to the next. \\[default: 1]",
        rich_help_panel=BATCHES,
    ),
]
CheckpointEveryOption = Annotated[
    int | None,
    typer.Option(
        help="Epochs from one resume point to the next; 0 for none. \\[default: 1]",
        rich_help_panel=BATCHES,
    ),
]
ThreadsOption = Annotated[int, typer.Option(help="Threads of each run.", rich_help_panel=_RUN)]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", help="One JSON object on stdout, all else on stderr.", rich_help_panel=_RUN
    ),
]


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parse_numbers(text: str, option: str) -> list[int]:
    """Read ``2`` or ``2,1``."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(
            f"{option} takes whole numbers separated by commas, such as 2 or 2,1; got {text!r}"
        ) from None


def parse_order(text: str | None) -> int | tuple[int, ...] | None:
    """Read ``--order``: one for all layers, or one per layer."""
    if text is None:
        return None
    orders = parse_numbers(text, "--order")
    return orders[0] if len(orders) == 1 else tuple(orders)


def parse_fanout(text: str | None) -> int | tuple[int, ...] | None:
    """Read ``--fanout``: one for all hops, or one per hop."""
    if text is None:
        return None
    fanouts = parse_numbers(text, "--fanout")
    return fanouts[0] if len(fanouts) == 1 else tuple(fanouts)


def parse_transform(text: str | None) -> str | tuple[str, ...] | None:
    """Read ``--transform``: one for all layers, or one per layer."""
    if text is None or "," not in text:
        return text
    return tuple(part.strip() for part in text.split(","))


def parse_order_weights(text: str | None) -> str | tuple[float, ...] | None:
    """Read ``--order-weights``: a name, or one number per order."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        if "," not in text:
            return text
        raise BadInput(
            f"--order-weights takes a name or numbers separated by commas; got {text!r}"
        ) from None


def parse_train(text: str | None) -> int | str | None:
    """Read ``--train``: nodes per class, or ``all``."""
    if text is None or text == "all":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise BadInput(f"--train takes a number of nodes per class or 'all'; got {text!r}")
    return int(text)
