from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossgcn.data.tables.table import Separator, find_separator, split_words

word = st.text("abcdefg h", min_size=1, max_size=4).map(str.strip).filter(bool)


@given(st.lists(word, unique=True))
def test_words_survive_every_way_of_writing_them(words: list[str]) -> None:
    separators: tuple[Separator, ...] = (";", "|", ",")
    for separator in separators:
        for space in ("", " "):
            assert split_words((separator + space).join(words), separator) == words
    assert split_words(json.dumps(words), "json") == words
    assert split_words(str(words), "json") == words


@pytest.mark.parametrize(
    ("cell", "separator", "words"),
    [
        ("red;blue;red", ";", ["red", "blue"]),
        (";red;;", ";", ["red"]),
        (" ", ";", []),
        ("", "json", []),
        ('["a,b", "c", 3, true]', "json", ["a,b", "c", "3", "true"]),
        ("[a, 'b']", "json", ["a", "b"]),
        ("red  blue\tgreen", " ", ["red", "blue", "green"]),
    ],
)
def test_words_are_cleaned(cell: str, separator: Separator, words: list[str]) -> None:
    assert split_words(cell, separator) == words


@pytest.mark.parametrize(
    ("cells", "separator"),
    [
        (["a;b", "a"], ";"),
        (["a|b", "b|c", "x;y"], "|"),
        (["a, b", "b"], ","),
        (['["a"]', "[]", "x"], "json"),
        (["red blue", "red"], " "),
        ([], " "),
    ],
)
def test_the_separator_is_what_most_cells_hold(cells: list[str], separator: Separator) -> None:
    assert find_separator(cells) == separator
