from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossgcn.data.preprocess import Preprocess
from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.encode.words import HashEncoder, hash_word
from crossgcn.data.tables.graph import (
    TableGraph,
    describe_encoding,
    load_new_tables,
    load_tables,
    read_encoding,
)
from crossgcn.data.tables.plan import TableChoices, make_plan
from crossgcn.data.tables.read import read_table
from crossgcn.data.tables.table import Distinct
from crossgcn.errors import BadInput

KNOWN = [f"u{i}" for i in range(40)]
NODES = pd.DataFrame(
    {
        "user": KNOWN,
        "city": ["Porto", "Faro", "Lagos", "Porto"] * 10,
        "tags": ["red;blue", "blue", "red", "green;red"] * 10,
        "age": range(100, 140),
        "buys": ["a", "b"] * 20,
    }
)
CHOICES = TableChoices(target="buys", hash_features=7, categorical=("city",), lists=("tags",))


def distinct_of(cells: list[str]) -> Distinct:
    return Distinct.of(pd.Series(cells, dtype="str"))


def load() -> TableGraph:
    return load_tables(NODES, None, CHOICES)


def test_the_hash_is_murmurhash3_on_every_machine() -> None:
    # What the reference implementation, MurmurHash3_x86_32, gives with seed 0.
    reference = {"": 0, "hello": 0x248BFA47, "hello, world": 0x149BBB7F}
    for word, drawn in reference.items():
        assert hash_word(word, 22) == (drawn % 2**22, -1 if drawn >= 2**31 else 1)
        assert hash_word(word, 3)[0] == drawn % 8


cells = st.lists(st.lists(st.sampled_from("abcdefghij"), max_size=4).map(";".join), max_size=30)


@given(cells, cells, st.integers(1, 5))
def test_a_value_is_the_sum_of_its_words(seen: list[str], later: list[str], bits: int) -> None:
    column = HashEncoder.fit("tags", distinct_of([*seen, "a;b"]), bits=bits, is_list=True)
    counts = Counter(word for cell in [*seen, "a;b"] for word in {*cell.split(";")} - {""})
    for cell, found in zip(
        later,
        column.encode_values(distinct_of(later))[distinct_of(later).codes].toarray(),
        strict=True,
    ):
        expected = np.zeros(2**bits + column.has_missing)
        for word in dict.fromkeys(cell.split(";")):
            if not word:
                continue
            feature, sign = hash_word(word, bits)
            rivals = [other for other in counts if hash_word(other, bits)[0] == feature]
            first = min(rivals, key=lambda other: (-counts[other], other), default=None)
            expected[feature] += sign * (1 if first is None else hash_word(first, bits)[1])
        if column.has_missing and not cell:
            expected[-1] = 1.0
        np.testing.assert_array_equal(found, expected)


def test_names_show_the_most_frequent_words_and_their_signs() -> None:
    often = [word for number, word in enumerate("abcdef") for _ in range(9 - number)]
    column = HashEncoder.fit("city", distinct_of(often), bits=1, is_list=False)
    for feature, name in enumerate(column.feature_names):
        words = [word for word in "abcdef" if hash_word(word, 1)[0] == feature]
        signs = [hash_word(word, 1)[1] * hash_word(words[0], 1)[1] for word in words]
        shown = [("−" if sign < 0 else "") + w for w, sign in zip(words, signs, strict=True)][:3]
        more = ["…"] if len(words) > 3 else []
        assert name == f"city#{feature}=" + ",".join(shown + more)
        assert not shown[0].startswith("−")


def test_numbers_written_with_a_point_are_the_same_codes() -> None:
    column = HashEncoder.fit("code", distinct_of(["7", "12", " 7 "]), bits=9, is_list=False)
    x = column.encode_values(distinct_of(["7", "7.0", "7.00", " 7 ", "7.5"])).toarray()
    assert all((x[0] == row).all() for row in x[1:4]) and not (x[0] == x[4]).all()


def test_features_are_shared_out_among_the_columns_and_new_values_have_one() -> None:
    graph = load()
    hashed = [column for column in graph.encoder.columns if isinstance(column, HashEncoder)]
    assert [column.column for column in hashed] == ["city", "tags"]
    assert sum(column.num_hashed for column in hashed) == 2**7
    new = pd.DataFrame({"user": ["x"], "city": ["Rome"], "tags": ["red;mauve"], "age": [110]})
    read = load_new_tables(new, None, graph.encoder, graph.plan, KNOWN)
    row = read.x.toarray()[0]
    assert read.unseen == ()
    assert abs(row[hash_word("Rome", 6)[0]]) == 1.0
    assert np.count_nonzero(row[64:128]) == 2 and row[64 + hash_word("red", 6)[0]] == 1.0
    assert graph.encoder.space.names[64 + hash_word("red", 6)[0]].endswith("=red")


def test_a_saved_encoding_comes_back_and_encodes_alike() -> None:
    graph = load()
    saved = json.loads(json.dumps(describe_encoding(graph).to_json()))
    encoder, plan = read_encoding(Preprocess.from_json(saved))
    assert encoder == graph.encoder and plan == graph.plan
    nodes = read_table(NODES, "nodes")
    again, before = encoder.transform(nodes), graph.encoder.transform(nodes)
    np.testing.assert_array_equal(again.toarray(), before.toarray())


def test_names_of_hashed_features_are_not_saved_but_derived() -> None:
    choices = TableChoices(target="buys", hash_features=16)
    described = describe_encoding(load_tables(NODES, None, choices))
    saved = json.dumps(described.to_json())
    assert len(saved) < 20_000
    assert Preprocess.from_json(json.loads(saved)) == described


def _fewer_bits(encoding: dict[str, Any]) -> None:
    encoding["plan"]["hash_features"] = 9


def _another_hash(encoding: dict[str, Any]) -> None:
    seen = encoding["encoder"]["columns"][0]["seen"]
    first, second, *_ = seen
    seen[first], seen[second] = seen[second], seen[first]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [(_fewer_bits, "2\\^6 features a column.*hash_features 9"), (_another_hash, "does not fall")],
)
def test_an_encoding_that_does_not_fit_itself_is_refused(change: Any, complaint: str) -> None:
    saved = json.loads(json.dumps(describe_encoding(load()).to_json()))
    change(saved["encoding"])
    with pytest.raises(BadInput, match=complaint):
        read_encoding(Preprocess.from_json(saved))


@pytest.mark.parametrize(
    ("bits", "complaint"),
    [(0, "give 1 to 22"), (23, "give 1 to 22"), (1, "too few .* give 2 or more")],
)
def test_impossible_numbers_of_bits_are_refused(bits: int, complaint: str) -> None:
    choices = TableChoices(target="buys", hash_features=bits, lists=("tags",))
    with pytest.raises(BadInput, match=f"hash_features is {bits}.*{complaint}"):
        make_plan(read_table(NODES, "nodes"), None, choices)


def test_the_order_of_rows_makes_no_difference() -> None:
    one, other = (read_table(frame, "nodes") for frame in (NODES, NODES[::-1]))
    plan = make_plan(one, None, CHOICES)
    assert TableEncoder.fit(one, plan) == TableEncoder.fit(other, plan)
