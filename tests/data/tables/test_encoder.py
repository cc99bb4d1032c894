from __future__ import annotations

import math
import re
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from crossgcn.data.tables.encode import TableEncoder
from crossgcn.data.tables.kinds.numeric import NumberEncoder
from crossgcn.data.tables.kinds.words import FlagEncoder
from crossgcn.data.tables.plan import TableChoices, make_plan
from crossgcn.data.tables.read import read_table
from crossgcn.data.tables.table import Table
from crossgcn.errors import BadInput

CHOICES = TableChoices(
    id_column="id", categorical=("city",), numeric=("age",), lists=("tags",), ignored=("note",)
)
words = st.sampled_from(["a", "b", "c", "(other)", "(missing)", " a ", "", "NA", "b=c", "7", "7.0"])
numbers = st.one_of(
    st.sampled_from(["", "0", "0", "-0", "1", "2.5", "-3"]),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
lists = st.lists(st.sampled_from("abcdef"), max_size=4).map(";".join)
rows = st.lists(st.tuples(words, numbers, lists), min_size=1, max_size=30)


def table_of(cells: list[tuple[str, str, str]], name: str = "nodes.csv") -> Table:
    frame = pd.DataFrame(cells, columns=["city", "age", "tags"], dtype="str")
    frame.insert(0, "id", [f"n{i}" for i in range(len(cells))])
    frame["note"] = "x"
    return Table(name, frame.astype("str"), 2)


def fit(nodes: Table, choices: TableChoices = CHOICES) -> TableEncoder:
    plan = make_plan(nodes, None, choices)
    return TableEncoder.fit(plan.with_missing_words(nodes), plan.features)


def encode_slowly(nodes: Table, encoder: TableEncoder) -> list[dict[str, float]]:
    """Each row's features by name, cell by cell, trusting nothing but the names of features."""
    encoded = []
    ages = [float(cell) for cell in map(str.strip, nodes.frame["age"]) if cell]
    ages = [age for age in ages if math.isfinite(age)]
    for _, row in nodes.frame.iterrows():
        features: dict[str, float] = {}
        for column in encoder.columns:
            cell = str(row[column.column]).strip()
            is_missing = cell.lower() in ("", "na", "n/a", "nan", "null", "none")
            if column.kind == "categorical":
                known = [name.split("=", 1)[1] for name in column.feature_names]
                known = known[: len(column.words)]
                same = [
                    word for word in (cell, cell.removesuffix(".0"), f"{cell}.0") if word in known
                ]
                word = "(other)" if is_missing or not same else same[0]
                at = known.index(word) if not is_missing and same else len(known)
                at += is_missing and column.has_missing
                features[column.feature_names[at]] = 1.0
                assert column.feature_names[at].startswith(f"{column.column}=")
            elif column.kind == "list":
                for item in filter(None, map(str.strip, [] if is_missing else cell.split(";"))):
                    word = item if item in column.words else "(other)"
                    features[f"{column.column}:{word}"] = 1.0
            elif column.kind == "numeric":
                number = math.nan if is_missing else float(cell)
                if math.isfinite(number):
                    features |= dict.fromkeys(buckets_of(column.feature_names, number), 1.0)
                    standard = (number / 2 - column.mean / 2) / column.deviation * 2
                    features[column.column] = min(max(standard, -5.0), 5.0)
                    below, equal = sum(age < number for age in ages), ages.count(number)
                    features[f"{column.column} rank"] = (below + equal / 2) / len(ages) - 0.5
                elif column.has_missing:
                    features[f"{column.column}=(missing)"] = 1.0
        encoded.append({name: value for name, value in features.items() if np.float32(value)})
    return encoded


def buckets_of(names: list[str], number: float) -> list[str]:
    found = []
    for name in names[:-2]:
        rule = name.removeprefix("age")
        if interval := re.fullmatch(r"=([\[(])(.+), (.+)\)", rule):
            low, high = float(interval[2]), float(interval[3])
            inside = low < number < high or (interval[1] == "[" and number == low)
        elif rule in ("=(missing)", "=(any)"):
            inside = rule == "=(any)"
        else:
            bound = float(rule[1:])
            inside = {
                "=": number == bound,
                "<": number < bound,
                ">": number > bound,
                "≥": number >= bound,
            }[rule[0]]
        found += [name] * inside
    return found


def as_dicts(matrix: sparse.csr_array, names: list[str]) -> list[dict[str, float]]:
    return [
        {
            names[matrix.indices[at]]: float(matrix.data[at])
            for at in range(matrix.indptr[row], matrix.indptr[row + 1])
        }
        for row in range(matrix.shape[0])
    ]


@given(rows)
@example([("a", "0", ""), ("a", "5e-324", ""), ("a", "1.7e308", "")])
@settings(max_examples=150, deadline=None)
def test_the_matrix_is_what_its_names_say(cells: list[tuple[str, str, str]]) -> None:
    nodes = table_of(cells)
    encoder = fit(nodes)
    names = [name for column in encoder.columns for name in column.feature_names]
    wanted = encode_slowly(nodes, encoder)
    if len(set(names)) < len(names):  # a category is called (other) or (missing)
        return
    for found, expected in zip(as_dicts(encoder.transform(nodes), names), wanted, strict=True):
        assert found.keys() == expected.keys()
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-30)


def same(first: sparse.csr_array, second: sparse.csr_array) -> bool:
    return all(
        getattr(first, part).tobytes() == getattr(second, part).tobytes()
        for part in ("indptr", "indices", "data")
    )


@given(rows, rows)
@example([("a", "1.7e308", ""), ("a", "-1.7e308", "")], [("a", "1e308", "")])
@example([("a", "5e-324", ""), ("a", "1e-323", "")], [("a", "0", "")])
@example([("a", "9007199254740993", ""), ("a", "18446744073709551615", "")], [("a", "3", "")])
def test_each_row_has_one_category_and_one_bucket(
    cells: list[tuple[str, str, str]], others: list[tuple[str, str, str]]
) -> None:
    encoder = fit(table_of(cells))
    kinds = np.array([name.partition(":")[0] for name in encoder.space.fields])
    for nodes, is_new in ((table_of(cells), False), (table_of(others), True)):
        x = encoder.transform(nodes)
        assert x.dtype == np.float32
        assert x.has_canonical_format
        assert bool(np.isfinite(x.data).all())
        dense = x.toarray()
        assert bool((dense[:, kinds == "city"].sum(axis=1) == 1).all())
        in_buckets = dense[:, kinds == "age"][:, :-2].sum(axis=1)
        assert bool((abs(dense[:, kinds == "age"][:, -2]) <= 0.5).all())
        assert bool((in_buckets == 1).all() if not is_new else (in_buckets <= 1).all())
        assert bool((abs(dense[:, kinds == "age"][:, -1]) <= 5).all())


@given(rows, rows)
def test_json_changes_no_bit(
    cells: list[tuple[str, str, str]], others: list[tuple[str, str, str]]
) -> None:
    encoder = fit(table_of(cells))
    again = TableEncoder.model_validate_json(encoder.model_dump_json())
    assert again == encoder
    assert again.space == encoder.space
    for nodes in (table_of(cells), table_of(others)):
        assert same(encoder.transform(nodes), again.transform(nodes))


@given(rows, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(cells: list[tuple[str, str, str]], random: Any) -> None:
    order = list(range(len(cells)))
    random.shuffle(order)
    shuffled = [cells[at] for at in order]
    encoder, other = fit(table_of(cells)), fit(table_of(shuffled))
    assert encoder.model_dump_json() == other.model_dump_json()
    x = encoder.transform(table_of(cells))[np.array(order)]
    assert same(x, other.transform(table_of(shuffled)))


SET, NOT_SET = ["1", "1.0", "TRUE", " true "], ["0", "0.0", "False"]
flag_cells = st.lists(st.sampled_from([*SET, *NOT_SET, "", "NA"]), min_size=1, max_size=20)


def flags(cells: list[str]) -> Table:
    return Table("n", pd.DataFrame({"x": cells}, dtype="str"), 2)


@given(flag_cells)
def test_flags_are_one_feature(cells: list[str]) -> None:
    column = flags(cells).distinct("x")
    encoder = FlagEncoder.fit("x", column)
    wanted = {"x": [float(cell in SET) for cell in cells]}
    if {"", "NA"} & set(cells):
        wanted["x=(missing)"] = [float(cell in ("", "NA")) for cell in cells]
    found = encoder.encode_values(column)[column.codes].toarray().T.tolist()
    assert dict(zip(encoder.feature_names, found, strict=True)) == wanted


@pytest.mark.parametrize("word", ["2", "maybe", "-", "yes", "inf"])
def test_a_cell_that_is_not_a_flag_is_found(word: str) -> None:
    encoder = FlagEncoder.fit("x", flags(["1", "0"]).distinct("x"))
    ((wrong, message, _),) = encoder.find_wrong(flags(["true", word, "0", ""]).distinct("x"))
    assert wrong.tolist() == [False, True, False, False] and "is not a flag" in message


def test_features_are_named_as_people_write_them() -> None:
    ages = [17, 18, 19, 20, 22, 24, 25, 28, 31, 36, 40, 45, 50, 60, 70, None] * 4
    n = len(ages)
    frame = pd.DataFrame(
        {
            "id": range(100, 100 + n),
            "gender": [("female", "male", "female", None, "x")[i % 5] for i in range(n)],
            "age": ages,
            "news": [i % 2 for i in range(n)],
            "tags": [("sale;garden", "garden", "", "tools|x;sale")[i % 4] for i in range(n)],
        }
    )
    space = fit(read_table(frame, "nodes"), TableChoices()).space
    assert space.names == (
        *("gender=female", "gender=male", "gender=x"),
        *("gender=(other)", "gender=(missing)"),
        *("age<20", "age=[20, 30)", "age=[30, 50)", "age≥50"),
        *("age=(missing)", "age rank", "age", "news"),
        *("tags:garden", "tags:sale", "tags:tools|x", "tags:(other)"),
    )
    assert space.fields == ("gender",) * 5 + ("age",) * 7 + ("news",) + ("tags",) * 4


def test_categories_of_one_node_are_pooled_unless_the_column_is_chosen() -> None:
    frame = pd.DataFrame({"id": range(3, 63), "maker": [f"m{i % 40}" for i in range(60)]})
    nodes = read_table(frame, "nodes")
    pooled, kept = fit(nodes, TableChoices()), fit(nodes, TableChoices(categorical=("maker",)))
    assert len(pooled.space) == 21 and "maker=m39" not in pooled.space.names
    assert len(kept.space) == 41 and "maker=m39" in kept.space.names
    assert pooled.transform(nodes).toarray()[39].tolist() == [0.0] * 20 + [1.0]


def test_names_that_would_collide_are_numbered() -> None:
    frame = pd.DataFrame(
        {
            "id": range(100, 140),
            "a": ["b=c", "(other)"] * 20,
            "a=b": ["c", "d"] * 20,
            "a=b=c": [0, 1] * 20,
            "a=b=c (2)": [0, 1] * 20,
        }
    )
    names = fit(read_table(frame, "nodes"), TableChoices()).space.names
    assert len(set(names)) == len(names)
    assert names == (
        *("a=(other)", "a=b=c", "a=(other) (2)"),
        *("a=b=c (3)", "a=b=d", "a=b=(other)", "a=b=c (4)", "a=b=c (2)"),
    )


def test_numbers_are_standardised_and_held_within_five_deviations() -> None:
    ages = [str(float(i)) for i in range(100)]
    encoder = fit(table_of([("a", age, "") for age in ages]))
    x = encoder.transform(table_of([("a", age, "") for age in [*ages, "1e300", "-1e308", ""]]))
    standard = x.toarray()[:, encoder.space.names.index("age")]
    wanted = (np.arange(100.0) - 49.5) / np.arange(100.0).std()
    assert standard[:100] == pytest.approx(wanted, rel=1e-6)
    assert standard[100:].tolist() == [5.0, -5.0, 0.0]


def test_ranks_of_many_numbers_are_interpolated() -> None:
    ages = np.exp(np.random.default_rng(0).normal(0, 3, 5_000))
    encoder = fit(table_of([("a", repr(float(age)), "") for age in ages]))
    new = np.quantile(ages, np.linspace(0, 1, 77)).tolist()
    x = encoder.transform(table_of([("a", str(age), "") for age in [*new, 0, 1e300, ""]]))
    ranks = x.toarray()[:, encoder.space.names.index("age rank")]
    np.testing.assert_allclose(ranks[:77], np.linspace(-0.5, 0.5, 77), atol=2e-3)
    np.testing.assert_allclose(ranks[77:], [-0.4999, 0.4999, 0], atol=1e-6)


def test_columns_are_found_by_name() -> None:
    cells = [("a", "1", "x"), ("b", "2", "y")] * 5
    encoder = fit(table_of(cells))
    frame = table_of(cells).frame
    turned = Table("t", frame[["tags", "age", "id", "city"]].assign(surplus="1"), 2)
    assert same(encoder.transform(turned), encoder.transform(table_of(cells)))
    with pytest.raises(BadInput, match=r"t.csv: there is no column 'age': .* add the column"):
        encoder.transform(Table("t.csv", frame[["id", "city"]], 2))


def test_wide_tables_stay_sparse() -> None:
    generator = np.random.default_rng(0)
    flags = {f"w{i}": (generator.random(2_000) < 0.02).astype(int) for i in range(300)}
    cities = [f"city {i}" for i in generator.integers(600, size=2_000)]
    nodes = read_table(pd.DataFrame({"id": range(7, 2_007), "city": cities, **flags}), "nodes")
    encoder = fit(nodes, TableChoices(categorical=("city",)))
    encoder.transform(nodes)
    tracemalloc.start()
    x = encoder.transform(nodes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert x.nnz < 2_000 * 10
    assert peak < x.shape[0] * x.shape[1] * 4


def ranges(numbers: list[float]) -> list[str]:
    frame = pd.DataFrame({"x": numbers}, dtype="float64")
    names = NumberEncoder.fit("x", read_table(frame, "nodes").distinct("x")).feature_names
    return [name.removeprefix("x") for name in names[:-2]]


def test_numbers_are_cut_as_people_would() -> None:
    generator = np.random.default_rng(0)
    bands = np.array([[16, 20], [20, 25], [25, 35], [35, 50]])
    low, high = bands[generator.integers(4, size=2000)].T
    assert ranges(generator.integers(low, high).tolist()) == [
        "<20",
        "=[20, 25)",
        "=[25, 35)",
        "≥35",
    ]
    visits = [0.0] * 40 + [float(i) for i in range(1, 61)]
    assert ranges(visits) == ["=0", "=(0, 30)", "≥30"]
    assert ranges([-1.0] * 10 + [-3.0] * 10 + [0.0] * 60 + [2.5] * 20) == ["<0", "=0", ">0"]
    assert ranges([0.5, 1.0, 2.25] * 9) == ["=0.5", "=1", "=2.25"]
    assert ranges([3.0] * 9) == ["=3"]
