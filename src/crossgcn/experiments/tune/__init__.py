"""Search for settings on the validation nodes, with Optuna."""

from crossgcn.errors import BadInput

try:
    import optuna as _optuna  # noqa: F401
except ImportError:
    raise BadInput(
        "crossgcn tune searches with Optuna, which is not installed: pip install 'crossgcn[tune]'"
    ) from None
