from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crossgcn.errors import BadInput
from crossgcn.experiments.tune.space import Choices, Range, parse_setting, read_space


def written(folder: Path, text: str) -> Path:
    path = folder / "space.toml"
    path.write_text(text)
    return path


def test_choices_and_ranges_are_read_as_written(tmp_path: Path) -> None:
    text = """
    hidden_channels = [16, 32]
    dropout = { low = 0, high = 0.8 }
    weight_decay = { low = 1e-5, high = 1e-2, log = true }
    epochs = { low = 100, high = 400 }
    order = [[2, 1], 2]
    order_weights = ["gated", "learned"]
    """
    assert read_space(written(tmp_path, text)) == {
        "hidden_channels": Choices((16, 32)),
        "dropout": Range(0, 0.8),
        "weight_decay": Range(1e-5, 1e-2, log=True),
        "epochs": Range(100, 400, whole=True),
        "order": Choices(((2, 1), 2)),
        "order_weights": Choices(("gated", "learned")),
    }


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("dropout = ", "is not valid TOML"),
        ("", "names no setting; write choices as"),
        ("dropout = 0.5", "dropout = 0.5 is neither choices nor a range"),
        ("dropout = []", "dropout = [] is neither choices nor a range"),
        ("dropout = { low = 0.1 }", "is neither choices nor a range"),
        ("dropout = { low = 0.1, high = 0.2, step = 0.1 }", "is neither choices nor a range"),
        ("dropout = { low = 0.5, high = 0.2 }", "is no range: low is a number and at most high"),
        ("dropout = { low = 'a', high = 0.2 }", "is no range"),
        ("dropout = { low = true, high = 2 }", "is no range"),
        ("dropout = { low = nan, high = 0.2 }", "is no range"),
        ("dropout = { low = 0, high = 0.2, log = true }", "above 0 where log is true"),
        ("dropout = { low = 0.1, high = 0.2, log = 1 }", "is no range"),
        ("epochs = { low = 1.5, high = 3 }", "epochs is a whole number; its range is 1.5 to 3"),
        ("first_order = { low = 1, high = 3 }", "first_order is no number and has no range"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(text: str, fragment: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadInput) as caught:
        read_space(path)
    assert str(caught.value).startswith(f"{path}: ") and fragment in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no\.toml: cannot be read"):
        read_space(tmp_path / "no.toml")


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("dropout=0.5", ("dropout", 0.5)),
        ("hidden-channels = 16", ("hidden_channels", 16)),
        ("order=[2, 1]", ("order", (2, 1))),
        ("bias=true", ("bias", True)),
        ("order_weights=gated", ("order_weights", "gated")),
        ("aggr='a=b'", ("aggr", "a=b")),
    ],
)
def test_a_setting_is_read_as_toml_and_a_word_as_itself(
    text: str, setting: tuple[str, Any]
) -> None:
    assert parse_setting(text) == setting


@pytest.mark.parametrize("text", ["dropout", "=1", "dropout=", " = "])
def test_half_a_setting_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--fix takes NAME=VALUE, such as"):
        parse_setting(text)
