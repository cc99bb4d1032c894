"""What could be meant in two ways is refused or said, never guessed in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from crossgcn.data.files import write_table
from crossgcn.data.tables.graph import TableGraph, load_new_tables, load_tables
from crossgcn.data.tables.plan import TableChoices
from crossgcn.data.tables.read import read_table
from crossgcn.errors import BadInput

N = 60
IDS = [f"u{i}" for i in range(N)]


def nodes_with(**columns: Any) -> pd.DataFrame:
    """Sixty nodes with a class, and other columns."""
    town = [("Oslo", "Lima", "Porto")[i * i % 7 % 3] for i in range(N)]
    own = {"id": IDS, "town": town, "buys": ["yes", "no"] * (N // 2)}
    return pd.DataFrame(own | columns)


def edges_with(**columns: Any) -> pd.DataFrame:
    """A ring, and other columns."""
    return pd.DataFrame({"who": IDS, "whom": IDS[1:] + IDS[:1]} | columns)


def load(nodes: pd.DataFrame, edges: pd.DataFrame | None = None, **choices: Any) -> TableGraph:
    return load_tables(nodes, edges, TableChoices(**{"target": "buys", **choices}))


def new_rows(graph: TableGraph, nodes: pd.DataFrame, edges: Any = None) -> Any:
    return load_new_tables(nodes, edges, graph.encoder, graph.plan, graph.ids)


def test_two_columns_that_could_be_the_id_are_refused() -> None:
    numbers = {"id": range(N), "place": np.random.default_rng(0).permutation(N)}
    edges = pd.DataFrame({"who": range(N - 1), "whom": range(1, N)})
    with pytest.raises(BadInput, match=r"columns id and place could both be the ids.*--id-column"):
        load(nodes_with(**numbers), edges)
    assert load(nodes_with(**numbers), edges, id_column="id").plan.id_column == "id"
    one = load(nodes_with(place=range(N)), edges_with())
    assert one.plan.id_column == "id"


def test_three_columns_that_could_be_ends_are_refused() -> None:
    via = edges_with(via=IDS[::-1])
    with pytest.raises(BadInput, match=r"'u0' are in who and whom and via of .*--source-col"):
        load(nodes_with(), via)
    with pytest.raises(BadInput, match=r"are in who and via of .*--destination-column"):
        load(nodes_with(), via, source_column="whom")
    chosen = load(nodes_with(), via, source_column="who", destination_column="whom")
    assert "not used: edges, columns via" in chosen.plan.reasons
    named = via.rename(columns={"who": "source", "whom": "target"})
    assert load(nodes_with(), named).plan.relations[0].source_column == "source"


def test_numbers_are_never_parsed_as_text() -> None:
    graph = load(nodes_with(price=[f"{i},123" for i in range(1, N + 1)]))
    assert graph.plan.columns[-1].reason.startswith("numbers with ',' between thousands")
    rows = pd.DataFrame({"id": ["a"], "town": ["Oslo"], "price": [5.123]})
    at = graph.encoder.space.names.index("price")
    as_float = new_rows(graph, rows).x.toarray()[0, at]
    as_text = new_rows(graph, rows.assign(price="5,123")).x.toarray()[0, at]
    assert as_float < -1.5 < as_text  # 5.123 is far below all, 5,123 among them


@pytest.mark.parametrize(
    ("trained", "given", "reason"),
    [
        ([f"{i / 4}" for i in range(N)], "5,123", "has ',' between digits"),
        ([f"{i},5" for i in range(N)], "5.123", r"has '\.' between digits.*decimal commas"),
        ([f"{i % 37} %" for i in range(N)], "0.05", "has no percent sign"),
        ([f"{i % 37} %" for i in range(N)], 0.05, "has no percent sign"),
        ([f"{i / 4}" for i in range(N)], "5 %", "has a percent sign"),
        ([f"{i / 4}" for i in range(N)], "1e400", "is not a finite number"),
        ([f"{i / 4}" for i in range(N)], np.inf, "is not a finite number"),
        ([f"{i % 28 + 1}/5/2024" for i in range(N)], "5/17/2024", "not a date .* as others are"),
        ([f"{i % 28 + 1}/5/2024" for i in range(N)], "2024-05-17", "such as 17/05/2024"),
    ],
)
def test_new_cells_that_contradict_training_are_named(
    trained: list[str], given: Any, reason: str
) -> None:
    graph = load(nodes_with(x=trained))
    rows = pd.DataFrame({"id": ["a", "b"], "town": "Oslo", "x": [trained[5], given]})
    if not isinstance(given, str):
        rows = rows.assign(x=given)
    row = 2 if isinstance(given, str) else 1
    with pytest.raises(BadInput, match=rf"nodes, row {row}, column x: .*{reason}"):
        new_rows(graph, rows)


def test_a_typo_in_a_split_does_not_make_it_a_feature() -> None:
    split = ["train", "train", "validation", "test"] * 15
    split[7] = "tset"
    with pytest.raises(BadInput, match=r"row 8, column split: 'tset' is none of train"):
        load(nodes_with(split=split))


def test_numbers_to_predict_keep_all_their_digits() -> None:
    stamps = [1_700_000_000 + i * 17 for i in range(N)]
    graph = load(nodes_with(buys=stamps))
    assert graph.data.y.dtype == torch.float64
    assert graph.data.y.tolist() == stamps


def test_formulas_without_a_value_are_named(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["id", "size"])
    book.active.append(["a", "=1+1"])
    book.save(tmp_path / "n.xlsx")
    with pytest.raises(BadInput, match=r"n\.xlsx, row 2: the formula '=1\+1' has no value; open"):
        read_table(tmp_path / "n.xlsx", "nodes")


def test_ids_in_csv_files_are_what_they_were(tmp_path: Path) -> None:
    written = ["007", "7.0", "1e3", " a ", "=1+1", "NA", *IDS[6:]]
    trained = load(nodes_with(id=written), id_column="id")
    new = new_rows(trained, pd.DataFrame({"id": ["08", "8.50"], "town": "Oslo"}))
    for ids, expected in ((trained.ids, written), (new.ids, ["08", "8.50"])):
        write_table(tmp_path / "scores.csv", pd.DataFrame({"id": ids, "predicted": 0.5}))
        assert [*read_table(tmp_path / "scores.csv", "nodes").frame["id"]] == expected


def test_unknown_ids_are_refused_or_dropped_and_counted() -> None:
    edges = edges_with()
    edges.loc[[3, 9], "who"] = "nobody"
    with pytest.raises(BadInput, match=r"row 4, column who: 'nobody' is not a node.*--unknown-ids"):
        load(nodes_with(), edges)
    graph = load(nodes_with(), edges, unknown_ids="drop")
    (problem,) = [each for each in graph.problems if each.kind == "unknown-edge-end"]
    assert problem.count == 2 and graph.data.edge_index.shape[1] == 2 * (N - 2)
    new = pd.DataFrame({"id": ["a"], "town": ["Oslo"]})
    more = pd.DataFrame({"who": ["a", "a"], "whom": ["u1", "nobody"]})
    assert new_rows(graph, new, more).num_dropped == 1


def test_nested_brackets_are_words() -> None:
    deep = "[" * 100_000
    graph = load(nodes_with(tags=[f'["a", "b{i % 5}"]' for i in range(N - 1)] + [deep + "]"]))
    assert "tags:a" in graph.encoder.space.names


def test_a_word_among_numbers_is_missing_if_it_is_added_to_the_words() -> None:
    ages = [str(20 + i % 37) for i in range(N)]
    ages[5], ages[6] = "unknown", "NA"
    with pytest.raises(BadInput, match=r"row 6, column age: 'unknown'.*give --missing unknown"):
        load(nodes_with(age=ages))
    graph = load(nodes_with(age=ages), missing=("unknown",))
    at = graph.encoder.space.names.index("age=(missing)")
    assert np.flatnonzero(graph.data.x.to_dense().numpy()[:, at]).tolist() == [5, 6]
    kept = load(nodes_with(grade=["none", "some"] * 30), missing=("-none",))
    assert "grade=none" in kept.encoder.space.names


def test_counts_are_numbers_and_codes_are_not() -> None:
    random = np.random.default_rng(0)
    few = np.minimum(random.poisson(1.2, 300), 5)
    nodes = pd.DataFrame(
        {
            "id": [f"n{i}" for i in range(300)],
            "guests": 1 + np.minimum(random.poisson(2.0, 300), 9),
            "beds": few,
            "numDoors": 1 + few % 3,
            "zone": few,
            "gender": random.integers(1, 3, 300),
            "district": random.choice([3, 7, 9], 300),
            "buys": random.choice(["yes", "no"], 300),
        }
    )
    kinds = {column.name: column.kind for column in load(nodes).plan.columns}
    counts = [name for name, kind in kinds.items() if kind == "numeric"]
    assert counts == ["guests", "beds", "numDoors"]
    codes = [name for name, kind in kinds.items() if kind == "categorical"]
    assert codes == ["zone", "gender", "district"]
