"""Which models can be encoders of a link predictor.

Nothing here imports torch: the command line lists these.
"""

from __future__ import annotations

from crossgcn.errors import BadInput
from crossgcn.models.presets import PRESETS, get_preset

__all__ = ["check_encoder", "encoder_names"]

_ENCODERS = ("CrossGCN", "GCN", "GIN", "MLP")
"""Classes whose training is the minimisation of a loss of their output and nothing besides."""


def encoder_names() -> list[str]:
    """The presets that can be encoders.

    Others bring a way of training of their own, which is about classes, or inputs learned
    from all edges, those to be predicted among them.
    """
    return [name for name in PRESETS if _is_encoder(name)]


def check_encoder(name: str) -> None:
    """Refuse a model that is not known or is no encoder."""
    get_preset(name)
    if not _is_encoder(name):
        raise BadInput(
            f"model {name!r} cannot predict links, because its training is about classes "
            f"or looks at all edges beforehand: use one of {', '.join(encoder_names())}"
        )


def _is_encoder(name: str) -> bool:
    preset = PRESETS[name]
    return preset.model in _ENCODERS and preset.inputs == "features"
