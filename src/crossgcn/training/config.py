"""Settings of a training run, in one frozen, validated object.

The command line reads its options and ``--set NAME=VALUE`` into :class:`RunConfig`, so nothing
here may import torch: ``crossgcn train --help`` would wait for it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, model_validator

from crossgcn.errors import BadInput, unknown_name
from crossgcn.models.catalogue import MODEL_OPTIONS, PRESETS, get_preset
from crossgcn.training.metrics import METRICS

Precision = Literal["fp32", "tf32", "bf16"]
OrderWeightsName = Literal["fixed", "learned", "gated", "per-unit"]

_PAPERS_PROTOCOL: dict[str, Any] = {"num_splits": 20, "train": 20}
_PROTOCOLS: dict[str, dict[str, Any]] = {
    "public": {},
    "stratified": {"num_splits": 5, "train": "all"},
}


class RunConfig(BaseModel):
    """Settings of one model on one dataset, over all its splits.

    Precedence: given, file, preset, default (the paper's protocol, unless the data has others). A
    field's description is what ``crossgcn train --settings`` shows; it names the default where
    ``None`` stands for one that depends on other settings.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    dataset: str = Field("citeseer", description="Name of a dataset, or the path of a graph file.")
    model: str = Field("cross-gcn", description=f"Preset: {', '.join(PRESETS)}.")
    num_layers: int = Field(2, ge=1, description="Number of graph convolutions.")
    hidden_channels: int = Field(32, ge=1, description="Width of the hidden layers.")
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
    first_order: Literal["paper", "release"] | None = Field(
        None,
        description="First-order term as in the paper's text or as in the authors' code. "
        "[default: the model's]",
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
        description="How far neighbourhoods reach (cross-hops), at most 10; 0 for own columns "
        "alone. [default: 2; 0 without edges]",
    )
    label_features: bool | None = Field(
        None,
        description="Show a node the training labels of its neighbours (cross-hops). "
        "[default: the model's]",
    )
    bags: int | None = Field(
        None,
        ge=1,
        description="Models on subsets of the training nodes, whose mean is the model "
        "(cross-hops). [default: the model's]",
    )
    columns: StrictInt | Literal["auto", "all"] | None = Field(
        None,
        description="Table columns that cross-hops reads, those of neighbours counted apart: a "
        "number, all, or auto for the fewest whose validation score is within one standard error "
        "of the best. [default: all; auto for tables]",
    )
    tuning: int | None = Field(
        None,
        ge=1,
        le=4,
        description="Settings of dropout, weight decay and start that cross-hops tries in each "
        "split; validation nodes choose. [default: none; for tables 2, unless dropout, weight "
        "decay or the learning rate is given]",
    )
    dropout: float = Field(0.5, ge=0, lt=1, description="Dropout probability before each layer.")
    epochs: int = Field(
        500,
        ge=1,
        description="Steps on the whole graph; of cross-hops, passes over the training nodes.",
    )
    patience: int | None = Field(
        None,
        ge=1,
        description="Stop after this many epochs without a better validation score. "
        "[default: never stop early; for tables 50 full-batch epochs or 15 passes]",
    )
    metric: str | None = Field(
        None,
        description=f"What selects epochs and settings: {', '.join(METRICS)}. [default: accuracy; "
        "for tables roc_auc of two classes, r2 of numbers]",
    )
    class_weight: Literal["balanced"] | tuple[float, ...] | None = Field(
        None,
        description="Weights of the classes in the loss: balanced gives all classes the same "
        "total; or one number per class, in their order (1,10).",
    )
    learning_rate: float = Field(
        0.01, gt=0, allow_inf_nan=False, description="Learning rate of Adam."
    )
    weight_decay: float = Field(
        5e-4, ge=0, allow_inf_nan=False, description="L2 regularisation, the paper's λ."
    )
    splits: Literal["random", "authors", "public", "stratified"] = Field(
        "random",
        description="Training sets: random draws a few nodes per class by seed, authors are "
        "those released with the paper, public are the data's own, stratified divides every "
        "class 60 / 20 / 20 % by seed.",
    )
    num_splits: int | None = Field(
        None,
        ge=1,
        description="Number of runs, each on its own training set; a single public one is taken "
        "again with other seeds. [default: 20; 5 stratified; 10 for tables; all public ones]",
    )
    train: int | Literal["all"] | None = Field(
        None,
        description="Training nodes per class, or all. [default: 20; all if stratified]",
    )
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of the splits and of every run.")
    precision: Precision = Field("fp32", description="Precision of matrix products on a GPU.")
    batch_size: int | None = Field(
        None,
        ge=1,
        description="Of cross-hops: training nodes per step. [default: 512]",
    )

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if isinstance(self.columns, int) and self.columns < 1:
            raise BadInput(f"columns is {self.columns}; give at least 1, auto or all")
        for name in ("columns", "tuning"):
            value = getattr(self, name)
            if value not in (None, "all") and self.model in PRESETS and not self.takes_hops:
                raise BadInput(
                    f"{name} is {value}, which is for cross-hops; leave it out for {self.model}"
                )
        return self

    @model_validator(mode="after")
    def _check_batch_size(self) -> Self:
        if self.batch_size is not None and self.model in PRESETS and not self.takes_hops:
            raise BadInput(
                f"batch_size is for cross-hops, and {self.model} is trained on the whole graph in "
                "each step: leave it out (examples/mini_batches.py has a loop over batches)"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_protocol(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        given = {name: value for name, value in values.items() if value is not None}
        protocol = _PROTOCOLS.get(str(values.get("splits")), _PAPERS_PROTOCOL)
        return protocol | _training_of(given) | given

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
            defaults: Used instead of the preset's and of this class's.
            **settings: They override those of the file.
        """
        try:
            config = cls(**(dict(defaults or {}) | given_settings(config_file, settings)))
        except ValidationError as error:
            raise BadInput(_describe(error)) from None
        get_preset(config.model)
        return config

    @property
    def drops_columns(self) -> bool:
        """Whether the model is restricted to few columns."""
        return self.columns not in (None, "all")

    @property
    def takes_hops(self) -> bool:
        """Whether the model reads columns of neighbourhoods, not a graph."""
        return get_preset(self.model).inputs == "hops"

    def model_settings(self) -> dict[str, Any]:
        """Return the arguments of :func:`~crossgcn.models.catalogue.build_model`."""
        return {name: getattr(self, name) for name in MODEL_SETTINGS}

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
"""Arguments of a model; the other settings are about its training."""


def given_settings(config_file: Path | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a file and keywords give; keywords override those of the file."""
    values = _read_settings(config_file) if config_file is not None else {}
    for name in (*values, *settings):
        if name not in RunConfig.model_fields:
            where = f" in {config_file}" if name in values else ""
            raise unknown_name(f"setting{where}", name, RunConfig.model_fields)
    return values | {name: value for name, value in settings.items() if value is not None}


def _training_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the training settings of the preset; an unknown model is refused later."""
    model = given.get("model", RunConfig.model_fields["model"].default)
    return dict(PRESETS[model].training) if isinstance(model, str) and model in PRESETS else {}


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
    """Return the first complaint: of a setting of several kinds, with what it takes."""
    errors = error.errors()
    first = errors[0]
    if not first["loc"]:  # of several settings together, in words of our own
        return first["msg"].removeprefix("Value error, ")
    name = str(first["loc"][0])
    if len([each for each in errors if each["loc"][0] == name]) > 1:
        words = (RunConfig.model_fields[name].description or "").partition(" [default")[0]
        return f"{name} cannot be {first['input']!r}: {words}"
    message = first["msg"].removeprefix("Input should be ")
    return f"{name} should be {message}; got {first['input']!r}"
