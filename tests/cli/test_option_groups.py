from __future__ import annotations

from inspect import signature

import pytest

from crossgcn.cli.option_groups import (
    RunOptions,
    TableOptions,
    is_table,
    table_choices,
    with_option_groups,
)


def test_a_command_shows_the_fields_of_its_groups_and_gets_the_groups() -> None:
    seen: list[object] = []

    def command(name: str, more: int = 1, *, run: RunOptions, tables: TableOptions) -> None:
        seen.extend((name, more, run, tables))

    wrapped = with_option_groups(command)
    names = list(signature(wrapped).parameters)
    assert names[:4] == ["name", "more", "out", "resume"]
    assert "tables" not in names and {"target", "ignore", "as_json"} <= set(names)
    defaults = {
        key: parameter.default
        for key, parameter in signature(wrapped).parameters.items()
        if key not in ("name", "more")
    }
    wrapped(name="a", more=2, **(defaults | {"target": "buys", "threads": 3}))
    assert seen == ["a", 2, RunOptions(threads=3), TableOptions(target="buys")]


def test_groups_do_not_share_a_name() -> None:
    from crossgcn.cli.option_groups import ModelOptions, TrainingOptions

    groups = (ModelOptions, TrainingOptions, RunOptions, TableOptions)
    names = [name for group in groups for name in group.__dataclass_fields__]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, ()),
        ("a", ("a",)),
        ("a, b ,c", ("a", "b", "c")),
        (r"price\, net,b", ("price, net", "b")),
        (",,", ()),
    ],
)
def test_columns_are_separated_by_commas(text: str | None, names: tuple[str, ...]) -> None:
    assert table_choices(ignore=text).ignored == names


@pytest.mark.parametrize(
    ("dataset", "answer"),
    [(None, False), ("citeseer", False), ("g.npz", False), ("a/N.CSV", True), ("n.parquet", True)],
)
def test_a_table_is_known_by_its_ending(dataset: str | None, answer: bool) -> None:
    assert is_table(dataset) is answer
