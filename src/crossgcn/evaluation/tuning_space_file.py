"""A search space in a TOML file, and settings in the words of the command line.

A space of one's own reads::

    hidden_channels = [16, 32, 64]
    dropout = { low = 0.0, high = 0.8 }
    weight_decay = { low = 1e-5, high = 1e-2, log = true }
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any, get_args

from crossgcn.errors import BadInput
from crossgcn.evaluation.search_space import Choices, Entry, Range, Space
from crossgcn.training.config import RunConfig

__all__ = ["parse_setting", "read_space"]


def read_space(path: Path) -> Space:
    """Read a space from a TOML file; whether its settings exist is not looked at here.

    Raises:
        BadInput: If it cannot be read, naming the setting at fault.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: is not valid TOML: {error}") from None
    if not content:
        raise BadInput(f"{path}: names no setting; {_HOW}")
    return {name: _read_entry(name, entry, path) for name, entry in content.items()}


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE``, the value as TOML has it; a word needs no quotes."""
    name, equals, value = text.partition("=")
    name, value = name.strip().replace("-", "_"), value.strip()
    if not (name and equals and value):
        raise BadInput(f"--fix takes NAME=VALUE, such as dropout=0.5; got {text!r}")
    try:
        read = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value
    return name, _frozen(read)


_HOW = (
    "write choices as name = [16, 32], and ranges as name = { low = 0.1, high = 0.7 }, with "
    "log = true where factors count"
)


def _read_entry(name: str, entry: Any, path: Path) -> Entry:
    if isinstance(entry, list) and entry:
        return Choices(tuple(map(_frozen, entry)))
    if not isinstance(entry, dict) or not {"low", "high"} <= entry.keys() <= {"low", "high", "log"}:
        raise BadInput(f"{path}: {name} = {entry!r} is neither choices nor a range; {_HOW}")
    low, high, log = entry["low"], entry["high"], entry.get("log", False)
    numbers = all(type(end) in (int, float) and math.isfinite(end) for end in (low, high))
    if not numbers or not isinstance(log, bool) or low > high or (log and low <= 0):
        raise BadInput(
            f"{path}: {name} = {entry!r} is no range: low is a number and at most high, and above "
            "0 where log is true"
        )
    return Range(low, high, log, whole=_is_whole(name, path, low, high))


def _is_whole(name: str, path: Path, low: float, high: float) -> bool:
    """Whether a setting counts something; one that has no number cannot have a range."""
    field = RunConfig.model_fields.get(name)
    if field is None:
        return False
    kinds = set(get_args(field.annotation) or (field.annotation,))
    if float in kinds:
        return False
    if int not in kinds:
        raise BadInput(f"{path}: {name} is no number and has no range; list its choices")
    if not isinstance(low, int) or not isinstance(high, int):
        raise BadInput(f"{path}: {name} is a whole number; its range is {low} to {high}")
    return True


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
