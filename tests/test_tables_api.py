from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from architectures import one_thread  # noqa: F401
from conftest_fixtures import Command, result_of

from crossgcn import (
    BadInput,
    TableModel,
    from_tables,
)


def customers(size: int = 300) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Customers, what they buy, and who recommended the shop to whom."""
    random = np.random.default_rng(0)
    age = random.integers(18, 80, size)
    nodes = pd.DataFrame(
        {
            "customer": [f"u_{number}" for number in range(size)],
            "gender": random.choice(["female", "male"], size),
            "age": age,
            "city": random.choice(["Porto", "Faro", "Lagos"], size),
            "buys": np.where(age + random.normal(0, 15, size) > 50, "books", "toys"),
        }
    )
    ends = random.integers(size, size=(2, 900))
    ends = np.unique(np.sort(ends[:, ends[0] != ends[1]], axis=0), axis=1)
    named = nodes["customer"].to_numpy()
    return nodes, pd.DataFrame({"customer": named[ends[0]], "friend": named[ends[1]]})


FEW, EDGES = customers()
QUICK: dict[str, Any] = {"num_splits": 2, "epochs": 8, "hidden_channels": 4, "bags": 2}


@pytest.fixture(scope="module")
def fitted() -> TableModel:
    return from_tables(FEW, EDGES, "buys", **QUICK).fit()


@pytest.fixture(scope="module")
def whole() -> TableModel:
    """A model of all columns, those of neighbours included."""
    return from_tables(FEW, EDGES, "buys", columns="all", **QUICK).fit()


def test_it_trains_as_the_command_does(
    fitted: TableModel, crossgcn: Command, tmp_path: Path
) -> None:
    FEW.to_csv(tmp_path / "nodes.csv", index=False)
    EDGES.to_csv(tmp_path / "edges.csv", index=False)
    settings = [word for name, value in QUICK.items() for word in (_option(name), str(value))]
    tables = [str(tmp_path / "nodes.csv"), str(tmp_path / "edges.csv"), "--target", "buys"]
    trained = result_of(
        crossgcn("train", *tables, *settings, "--workers", "1", "--json", "--out", "run")
    )
    assert fitted.scores[trained["metric"]].tolist() == trained["test"][trained["metric"]]
    result_of(crossgcn("predict", "run", "--out", "predicted.csv", "--json"))
    predicted = pd.read_csv(tmp_path / "predicted.csv")
    assert fitted.predict()["predicted"].tolist() == predicted["predicted"].tolist()
    loaded = TableModel.load(tmp_path / "run")
    assert loaded.predict().equals(fitted.predict())


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def test_new_tables_explanations_reports_and_folders(
    fitted: TableModel, whole: TableModel, tmp_path: Path
) -> None:
    new = FEW.head(3).drop(columns="buys").assign(customer=["x", "y", "z"])
    edges = EDGES.head(2).copy()
    edges.iloc[:, 0], edges.iloc[:, 1] = ["x", "y"], FEW["customer"].tolist()[5:7]
    with_edges = whole.predict(new, edges)
    assert with_edges["customer"].tolist() == ["x", "y", "z"]
    with pytest.warns(UserWarning, match="trained with edges, and none are given"):
        alone = whole.predict(new)
    assert alone.iloc[2].equals(with_edges.iloc[2]) and not alone.iloc[0].equals(with_edges.iloc[0])
    with pytest.warns(UserWarning, match="column gender: 3 values not seen.* such as 'martian'"):
        fitted.predict(new.assign(gender="martian"), edges)
    one = fitted.explain(FEW["customer"].iloc[0])
    assert "age" in repr(one)
    page = fitted.report(tmp_path / "report.html")
    assert "<html" in page.read_text()
    whole.save(tmp_path / "saved")
    assert TableModel.load(tmp_path / "saved").predict(new, edges).equals(with_edges)
    with pytest.raises(BadInput, match="exists and is not empty"):
        fitted.save(tmp_path / "saved")
    with pytest.raises(BadInput, match="a loaded model has no tables to train on"):
        TableModel.load(tmp_path / "saved").fit()


@pytest.mark.parametrize("files", [True, False], ids=["files", "frames"])
def test_the_command_repeats_a_fit(files: bool, crossgcn: Command, tmp_path: Path) -> None:
    FEW.to_csv(tmp_path / "nodes.csv", index=False)
    EDGES.to_csv(tmp_path / "edges.csv", index=False)
    paths = (tmp_path / "nodes.csv", tmp_path / "edges.csv")
    nodes, edges = paths if files else (FEW, EDGES)
    model = from_tables(nodes, edges, "buys", ignored=("city",), **QUICK).fit(tmp_path / "run")
    words = ("--config", "run/config.json", "--workers", "1", "--json", "--out", "again")
    if not files:
        done = crossgcn("train", *words)
        assert done.returncode == 2 and "trained on data frames; write them" in done.stderr
    again = result_of(crossgcn("train", *(() if files else paths), *words))
    assert again["test"][again["metric"]] == model.scores[again["metric"]].tolist()
    columns = json.loads((tmp_path / "again" / "preprocess.json").read_text())["feature_names"]
    assert columns and not any("city" in name for name in columns)


def test_the_relation_names_neighbours_in_explanations() -> None:
    model = from_tables(FEW, EDGES, "buys", relation="friends", columns="all", **QUICK).fit()
    told = repr(model.explain())
    assert "friends: " in told and "neighbours: " not in told


def test_numbers_to_predict_may_be_huge_or_tiny() -> None:
    random = np.random.default_rng(0)
    rows = FEW.assign(x=random.normal(size=len(FEW)))
    scores = []
    for shift, scale in ((0.0, 1.0), (1.7e9, 300.0), (0.0, 1e-8)):
        target = shift + scale * (rows["x"] + 0.1 * random.normal(size=len(FEW)))
        model = from_tables(rows.assign(buys=target), EDGES, "buys", **{**QUICK, "epochs": 60})
        predicted = model.fit().predict()
        assert predicted["predicted"].nunique() > 0.9 * len(FEW)
        assert np.array_equal(predicted["true"], target)
        scores.append(model.scores["r2"].mean())
        strongest = model.explain().to_frame().iloc[0]
        assert strongest["term"] == "x" and strongest["importance"] > 0.3 * scale
    assert min(scores) > 0.5


def test_few_columns_are_chosen_in_every_split(fitted: TableModel) -> None:
    assert fitted.columns is not None and len(fitted.columns) == 2
    assert all(0 < len(columns) <= 16 for columns in fitted.columns)
    two = from_tables(FEW, EDGES, "buys", columns=2, tuning=1, **QUICK).fit()
    assert two.columns is not None and [len(columns) for columns in two.columns] == [2, 2]
    assert two.columns[0][0] == "age" == two.columns[1][0]
    assert from_tables(FEW, EDGES, "buys", columns="all", **QUICK).fit().columns is None
    with pytest.raises(BadInput, match="columns is 99, but there are 14"):
        from_tables(FEW, EDGES, "buys", columns=99, **QUICK).fit()
    with pytest.raises(BadInput, match="tuning should be less than or equal to 4; got 9"):
        from_tables(FEW, EDGES, "buys", tuning=9, **QUICK).fit()


def test_before_the_fit() -> None:
    model = from_tables(FEW, EDGES, "buys", model="cross-gcn", num_splits=1, epochs=3)
    assert "not trained yet" in repr(model)
    uses: list[Callable[[], object]] = [model.predict, model.explain, lambda: model.scores]
    uses.append(lambda: model.columns)
    for use in uses:
        with pytest.raises(BadInput, match=r"fit\(\)"):
            use()
    assert "age" in repr(model.fit().explain())
    assert "cross-gcn, trained on 300 nodes" in repr(model)


def test_a_comparison_on_tables(fitted: TableModel, tmp_path: Path) -> None:
    summary = fitted.compare(
        ["linear", "cross-hops-1", "cross-hops-2"],
        tuning=1,
        num_splits=2,
        epochs=3,
        out=tmp_path / "compared",
    )
    assert [model["model"] for model in summary["models"]] == [
        "linear",
        "cross-hops-1",
        "cross-hops-2",
    ]
    assert set(summary["answers"]) == {"crosses", "graph", "black_box"}
    written = json.loads((tmp_path / "compared" / "result.json").read_text())
    assert written["recommended"] == summary["recommended"]
    page = fitted.report(tmp_path / "page.html", comparison=tmp_path / "compared")
    (card,) = re.findall(r"Does the graph matter\?</dt><dd>(.*?)</dd>", page.read_text())
    assert re.search(r"cross-hops-\d against linear", card), "linear was trained without edges"
    with pytest.raises(BadInput, match="gcn is not among"):
        fitted.compare(["linear"], baseline="gcn")
