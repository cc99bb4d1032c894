"""Settings of a training run, in one frozen, validated object.

The command line imports this module, so it must not import torch: ``crossgcn train --help`` would
take seconds.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, model_validator

from crossgcn.errors import BadInput, unknown_name
from crossgcn.models.catalogue import MODEL_OPTIONS, PRESETS, get_preset
from crossgcn.training.metrics import METRICS

Precision = Literal["fp32", "tf32", "bf16"]
OrderWeightsName = Literal["fixed", "learned", "gated", "per-unit"]

_PAPERS_PROTOCOL: dict[str, Any] = {"num_splits": 20, "train": 20}
_PROTOCOLS: dict[str, dict[str, Any]] = {
    "random": _PAPERS_PROTOCOL,
    "authors": _PAPERS_PROTOCOL,
    "stratified": {"num_splits": 5, "train": "all"},
}

SECTIONS = {
    "num_layers": "The model",
    "hops": "cross-hops, the model of tables",
    "dropout": "Training",
    "splits": "Splits: by default the paper's protocol, or 10 stratified ones of tables",
}
"""Headings of the settings, by the first field of each section."""


class RunConfig(BaseModel):
    """Settings of one model on one dataset, over all its splits.

    Precedence of a setting: given, file, preset, default. The defaults are the paper's protocol,
    or those for tables. ``crossgcn train --settings`` shows the descriptions of the fields. Where
    ``None`` is the default, the description names the value that is used.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    dataset: str = Field("citeseer", description="Name of a dataset, or the path of a graph file.")
    model: str = Field("cross-gcn", description=f"Preset: {', '.join(PRESETS)}.")
    num_layers: int = Field(2, ge=1, description="Number of graph convolutions.")
    hidden_channels: int = Field(
        32, ge=1, description="Width of the hidden layers. [default: 32; cross-hops 8]"
    )
    order: int | tuple[int, ...] | None = Field(
        None,
        description="Highest order of the crosses, for all layers (3) or one per layer (2,1). "
        "[default: 2; for tables 2,1, and 3 means 3,1]",
    )
    order_weights: OrderWeightsName | tuple[float, ...] | None = Field(
        None,
        description=f"How the orders are combined: {', '.join(get_args(OrderWeightsName))}, or one "
        "number per order (1,0.5). [default: the model's]",
    )
    aggregate_first: bool | None = Field(
        None,
        description="Aggregate neighbours before or after the feature transformation. "
        "[default: the model's]",
    )
    bias: bool | None = Field(None, description="Add a bias in each layer. [default: the model's]")
    hops: int | None = Field(
        None,
        ge=0,
        le=10,
        description="Hops that neighbourhoods reach (cross-hops), at most 10; 0: own columns "
        "only. [default: 2; 0 without edges]",
    )
    label_features: bool | None = Field(
        None,
        description="Use the training labels of neighbours as features (cross-hops). "
        "[default: the model's]",
    )
    bags: int | None = Field(
        None,
        ge=1,
        description="Number of models that are averaged, each trained on a random part of the "
        "training nodes (cross-hops). [default: the model's]",
    )
    columns: StrictInt | Literal["auto", "all"] | None = Field(
        None,
        description="Table columns that cross-hops reads, neighbours' columns counted separately: "
        "a number, all, or auto (at most 16, and 8 for each further relation; the fewest whose "
        "validation score is close to the best). [default: all; auto for tables]",
    )
    crosses: StrictInt | Literal["all"] | None = Field(
        None,
        description="Pairs of columns that cross-hops of order 2 multiplies: a number, or all. "
        "[default: 24 if columns were chosen and at most 100 remain, else all]",
    )
    without: str | None = Field(
        None, description="Name of a relation whose columns cross-hops does not read."
    )
    tuning: int | None = Field(
        None,
        ge=1,
        le=4,
        description="Number of combinations of dropout, weight decay and initial scale that "
        "cross-hops tries in each split; the best on the validation nodes is kept. [default: "
        "none; for tables 2, unless dropout, weight decay or the learning rate is given]",
    )
    batch_size: int | None = Field(
        None, ge=1, description="Training nodes per step (cross-hops). [default: 512]"
    )
    dropout: float = Field(0.5, ge=0, lt=1, description="Dropout probability before each layer.")
    epochs: int = Field(
        500,
        ge=1,
        description="Full-batch steps; for cross-hops, passes over the training nodes. "
        "[default: 500; cross-hops 200]",
    )
    patience: int | None = Field(
        None,
        ge=1,
        description="Stop after this many epochs without a better validation score. "
        "[default: never stop early; 50 for tables; 20 for cross-hops]",
    )
    metric: str | None = Field(
        None,
        description=f"Metric that selects epochs and settings: {', '.join(METRICS)}. [default: "
        "accuracy; r2 for numbers; on tables roc_auc for two classes]",
    )
    class_weight: Literal["balanced"] | tuple[float, ...] | None = Field(
        None,
        description="Weights of the classes in the loss: balanced (the same total weight for "
        "every class), or one number per class, in the order of the classes (1,10).",
    )
    learning_rate: float = Field(
        0.01, gt=0, allow_inf_nan=False, description="Learning rate of Adam."
    )
    weight_decay: float = Field(
        5e-4, ge=0, allow_inf_nan=False, description="L2 regularisation, the paper's λ."
    )
    precision: Precision = Field("fp32", description="Precision of matrix products on a GPU.")
    splits: Literal["random", "authors", "public", "stratified", "time"] = Field(
        "random",
        description="random: a few training nodes per class, drawn by seed; authors: released "
        "with the paper; public: the data's own; stratified: every class divided 60 / 20 / 20 % "
        "by seed; time: the oldest 60 % train, the newest 20 % test.",
    )
    num_splits: int | None = Field(
        None,
        ge=1,
        description="Number of runs, each on its own split; a single public split is repeated "
        "with other seeds. [default: 20; 5 stratified; 10 for tables; all public ones]",
    )
    train: int | Literal["all"] | Annotated[str, Field(pattern=r"^[0-9.]+%$")] | None = Field(
        None,
        description="Training nodes per class, or all; of stratified splits also a share (10%), "
        "which validate on as many nodes and test on the others. [default: 20; all if stratified]",
    )
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of the splits and of every run.")

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_protocol(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        given = {name: value for name, value in values.items() if value is not None}
        protocol = _PROTOCOLS.get(str(given.get("splits", "random")), {})
        model = given.get("model", cls.model_fields["model"].default)
        training = get_preset(model).training if isinstance(model, str) else {}
        return {**protocol, **training, **given}

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if isinstance(self.columns, int) and self.columns < 1:
            raise BadInput(f"columns is {self.columns}; give at least 1, auto or all")
        if isinstance(self.crosses, int) and self.crosses < 1:
            raise BadInput(f"crosses is {self.crosses}; give at least 1, or all")
        if isinstance(self.crosses, int) and not self.drops_columns:
            raise BadInput(
                f"crosses is {self.crosses}, but the model reads all columns: also give columns, "
                "auto or a number"
            )
        for name in ("columns", "tuning", "batch_size", "without"):
            value = getattr(self, name)
            if value not in (None, "all") and not self.takes_hops:
                raise BadInput(
                    f"{name} is {value}, which is for cross-hops; leave it out for {self.model}"
                )
        return self

    @classmethod
    def create(
        cls,
        *,
        config_file: Path | None = None,
        defaults: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Self:
        """Merge a file and keyword settings; ``None`` means not given.

        Args:
            config_file: A TOML file whose keys are fields of this class, or the ``config.json``
                of a trained model.
            defaults: Override the defaults of the preset and of this class.
            **settings: Override the settings of the file.
        """
        try:
            return cls(**(dict(defaults or {}) | given_settings(config_file, settings)))
        except ValidationError as error:
            raise BadInput(_describe(error)) from None

    @property
    def drops_columns(self) -> bool:
        """Whether columns are chosen, so that the model reads fewer than all."""
        return self.columns not in (None, "all")

    @property
    def takes_hops(self) -> bool:
        """Whether the model reads columns of neighbourhoods, not a graph."""
        return get_preset(self.model).inputs == "hops"

    def model_settings(self, shape: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the arguments of :func:`~crossgcn.models.catalogue.build_model`.

        Args:
            shape: What :func:`~crossgcn.data.relations.shape_of` says of the relations of a graph;
                only cross-hops takes it.
        """
        settings = {name: getattr(self, name) for name in MODEL_SETTINGS}
        return settings | (dict(shape or {}) if self.takes_hops else {})

    def identity(self) -> dict[str, Any]:
        """Return the settings that one run depends on."""
        return self.model_dump(mode="json", exclude={"num_splits"})

    def run_seed(self, split: int) -> int:
        """Return the seed of one run; all models have the same one on a split."""
        return self.seed + split


MODEL_SETTINGS = tuple(
    name
    for name in RunConfig.model_fields
    if name in MODEL_OPTIONS or name in ("num_layers", "hidden_channels", "dropout")
)
"""The settings that are arguments of a model; the others concern the training."""


def given_settings(config_file: Path | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings given in a file and as keywords; keywords override the file."""
    values = _read_settings(config_file) if config_file is not None else {}
    settings = {name: value for name, value in settings.items() if value is not None}
    for name in (*values, *settings):
        if name not in RunConfig.model_fields:
            where = f" in {config_file}" if name in values else ""
            raise unknown_name(f"setting{where}", name, RunConfig.model_fields)
    return values | settings


def _read_settings(path: Path) -> dict[str, Any]:
    """Read a TOML file, or the settings in the ``config.json`` of a trained model."""
    if path.suffix == ".json":
        return dict(read_training(path)["settings"])
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: is not valid TOML: {error}") from None


def read_training(path: Path) -> dict[str, Any]:
    """Return how a model was trained, from the ``config.json`` that ``crossgcn train`` wrote."""
    from crossgcn.data.files import read_json_object  # imports NumPy

    remedy = "give the config.json in a folder that crossgcn train made, or a TOML file"
    training = read_json_object(path, remedy, remedy).get("training")
    if not isinstance(training, dict) or not isinstance(training.get("settings"), dict):
        raise BadInput(f"{path}: does not say how the model was trained; {remedy}")
    return training


def _describe(error: ValidationError) -> str:
    """Return the first error; if the setting takes several types, with its description."""
    errors = error.errors()
    first = errors[0]
    if not first["loc"]:  # raised by a validator of this class
        return first["msg"].removeprefix("Value error, ")
    name = str(first["loc"][0])
    if len([each for each in errors if each["loc"][0] == name]) > 1:
        words = (RunConfig.model_fields[name].description or "").partition(" [default")[0]
        return f"{name} cannot be {first['input']!r}: {words}"
    message = first["msg"].removeprefix("Input should be ")
    return f"{name} should be {message}; got {first['input']!r}"
