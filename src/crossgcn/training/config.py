"""Everything a set of runs depends on, in one frozen, validated object."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from crossgcn.data.splits import NUM_STRATIFIED_SPLITS
from crossgcn.errors import BadInput, unknown_name
from crossgcn.models.catalogue import PRESETS, get_preset
from crossgcn.training.device import Precision

_PAPERS_PROTOCOL: dict[str, Any] = {"num_splits": 20, "train": 20}
_PROTOCOLS: dict[str, dict[str, Any]] = {
    "public": {},
    "stratified": {"num_splits": NUM_STRATIFIED_SPLITS, "train": "all"},
}
_YOUNGER_MODEL_SETTINGS = (
    "laplacian_weight",
    "aggr",
    "transform",
    "scaling",
    "residual",
    "input_dropout",
    "hops",
    "node_drop",
    "draws",
    "consistency",
    "temperature",
    "warm_up",
)
MODEL_SETTINGS = (
    "num_layers",
    "hidden_channels",
    "dropout",
    "order",
    "order_weights",
    "first_order",
    "aggregate_first",
    "bias",
    *_YOUNGER_MODEL_SETTINGS,
)
"""What a model is made with; the rest is how it is trained."""

_YOUNGER = (
    "test_curve",
    "precision",
    "batch_size",
    "fanout",
    "evaluate_every",
    *_YOUNGER_MODEL_SETTINGS,
)
_NO_PART_OF_A_RUN = {"num_splits", "repeats", "checkpoint_every"}


class RunConfig(BaseModel):
    """Settings of one model on one dataset, over all its splits.

    Precedence: the command line over a TOML file over the preset over these
    defaults, which are the paper's protocol.

    Attributes:
        dataset: A known name or the path of a graph file.
        model: A preset of :mod:`crossgcn.models.catalogue`.
        num_layers: Graph convolutions.
        hidden_channels: Width of the hidden layers.
        order: Highest order of the crosses, for all layers or one per layer.
        order_weights: How orders are aggregated; the preset's when left out.
        first_order: Likewise.
        aggregate_first: Likewise.
        bias: Likewise.
        laplacian_weight: How much neighbours are made to agree, for ``semi-emb``; likewise.
        aggr: How neighbours are joined; GCN's normalised sum when left out.
        transform: What crosses features, in all layers or in each; the paper's transformation
            when left out.
        scaling: How the orders' magnitudes are evened out at the start; likewise.
        residual: Whether layers add to what enters them; likewise.
        hops: How far random propagation reaches, for ``cross-grand``; likewise, and so on.
        node_drop: Probability of leaving a node out of a random propagation.
        draws: Random propagations per step.
        consistency: How much their predictions are made to agree.
        temperature: How sharp the prediction is that they are made to agree with.
        warm_up: Steps over which that weight grows from nothing.
        dropout: Probability of dropping an entry of a layer's input.
        input_dropout: The same for the first layer's, where it is another one.
        epochs: Full-batch steps, or passes over the training nodes in batches; there is no
            early stop (NOTE[D6]).
        learning_rate: Adam's.
        weight_decay: The paper's λ; see :mod:`crossgcn.training.objective`.
        splits: Which training sets: ``random``, ``authors``, ``public`` or ``stratified``.
        num_splits: How many of them; 20, 5 stratified ones, or all the data has with ``public``.
        train: Training nodes per class, or ``all``; 20, all of a stratified split's, or the
            data's own with ``public``.
        repeats: Runs per split, each with its own seed.
        seed: Draws the random splits, and is added to in each run.
        test_curve: Record the test accuracy of every epoch, for figures; it decides nothing.
        precision: How exactly a GPU multiplies: ``fp32``, ``tf32`` or ``bf16``.
        batch_size: Training nodes per step, over all processes together; all of them when left
            out, and nothing is sampled then.
        fanout: In batches, how many neighbours are drawn for a node, in each hop or one number
            per hop, nearest first; -1 is all of them. What
            :func:`~crossgcn.training.batches.train.hop_fanouts` says when left out.
        evaluate_every: In batches, epochs from one look at the validation nodes to the next.
        checkpoint_every: In batches, epochs from one resume point to the next; 0 writes none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str = "citeseer"
    model: str = "cross-gcn"
    num_layers: int = Field(2, ge=1)
    hidden_channels: int = Field(32, ge=1)
    order: int | tuple[int, ...] | None = None
    order_weights: str | tuple[float, ...] | None = None
    first_order: str | None = None
    aggregate_first: bool | None = None
    bias: bool | None = None
    laplacian_weight: float | None = Field(None, ge=0, allow_inf_nan=False)
    aggr: str | None = None
    transform: str | tuple[str, ...] | None = None
    scaling: str | None = None
    residual: str | None = None
    hops: int | None = Field(None, ge=1)
    node_drop: float | None = Field(None, ge=0, lt=1)
    draws: int | None = Field(None, ge=1)
    consistency: float | None = Field(None, ge=0, allow_inf_nan=False)
    temperature: float | None = Field(None, gt=0, le=1)
    warm_up: int | None = Field(None, ge=0)
    dropout: float = Field(0.5, ge=0, lt=1)
    input_dropout: float | None = Field(None, ge=0, lt=1)
    epochs: int = Field(500, ge=1)
    learning_rate: float = Field(0.01, gt=0, allow_inf_nan=False)
    weight_decay: float = Field(5e-4, ge=0, allow_inf_nan=False)
    splits: Literal["random", "authors", "public", "stratified"] = "random"
    num_splits: int | None = Field(None, ge=1)
    train: int | Literal["all"] | None = None
    repeats: int = Field(1, ge=1)
    seed: int = Field(0, ge=0, lt=2**32)
    test_curve: bool = False
    precision: Precision = "fp32"
    batch_size: int | None = Field(None, ge=1)
    fanout: int | tuple[int, ...] | None = None
    evaluate_every: int = Field(1, ge=1)
    checkpoint_every: int = Field(1, ge=0)

    @model_validator(mode="after")
    def _check_batches(self) -> Self:
        fanouts = self.fanout if isinstance(self.fanout, tuple) else (self.fanout,)
        if any(fanout is not None and fanout < 1 and fanout != -1 for fanout in fanouts):
            raise BadInput(
                f"fanout is {self.fanout}; give neighbours to draw per hop, at least 1, or -1 "
                "for all of them"
            )
        for name in ("fanout", "evaluate_every", "checkpoint_every"):
            if self.batch_size is None and getattr(self, name) != _default(name):
                raise BadInput(
                    f"{name} is of training in batches: give batch_size too, or leave it out"
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
        """Merge a TOML file and keyword settings; ``None`` means not given.

        Args:
            config_file: A TOML file whose keys are the attributes above.
            defaults: In place of this class's, for settings that neither anybody gave nor
                the preset has.
            **settings: Override the file's.
        """
        values = _read_toml(config_file) if config_file is not None else {}
        for name in (*values, *settings):
            if name not in cls.model_fields:
                where = f" in {config_file}" if name in values else ""
                raise unknown_name(f"setting{where}", name, cls.model_fields)
        values |= {name: value for name, value in settings.items() if value is not None}
        values = dict(defaults or {}) | _training_of(values) | values
        try:
            config = cls(**values)
        except ValidationError as error:
            raise BadInput(_describe(error)) from None
        get_preset(config.model)
        return config

    def model_settings(self) -> dict[str, Any]:
        """The arguments of :func:`~crossgcn.models.catalogue.build_model`."""
        return {name: getattr(self, name) for name in MODEL_SETTINGS}

    def identity(self) -> dict[str, Any]:
        """The settings that one run depends on, as its record holds them.

        Those in ``_YOUNGER`` are left out where they are at their default, so that a
        run finished before they existed is still known for the same.
        """
        at_default = {name for name in _YOUNGER if getattr(self, name) == _default(name)}
        return self.model_dump(mode="json", exclude=_NO_PART_OF_A_RUN | at_default)

    def run_seed(self, split: int, repeat: int) -> int:
        """The seed of one run; models compared on a split share it."""
        return self.seed + split + 1000 * repeat


def _default(name: str) -> Any:
    return RunConfig.model_fields[name].default


def _training_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """What suits the model that was named; an unknown one is found out elsewhere."""
    model = given.get("model", RunConfig.model_fields["model"].default)
    return dict(PRESETS[model].training) if isinstance(model, str) and model in PRESETS else {}


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: is not valid TOML: {error}") from None


def _describe(error: ValidationError) -> str:
    """The first complaint, in the words of the command line."""
    first = error.errors()[0]
    if not first["loc"]:  # of several settings together, in words of our own
        return first["msg"].removeprefix("Value error, ")
    name = str(first["loc"][0])
    message = first["msg"].removeprefix("Input should be ")
    return f"{name} should be {message}; got {first['input']!r}"
