"""Tables as spreadsheets of several countries export them, from check to predictions."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from conftest_fixtures import Command

NUM_NODES = 60


def make_nodes() -> pd.DataFrame:
    rows = range(NUM_NODES)
    return pd.DataFrame(
        {
            "id": [float(row) for row in rows],
            "ort": [("Zürich", "Málaga", "Köln")[row * row % 7 % 3] for row in rows],
            "umsatz": [f"{1 + row % 9}.{row * 37 % 1000:03},{row % 10}" for row in rows],
            "anteil": [f"{row * 7 % 100} %" for row in rows],
            "seit": [f"{1 + row % 28:02}.{1 + row % 12:02}.20{10 + row % 14}" for row in rows],
            "kunde": [("ja", "nein")[row * row % 11 % 2] for row in rows],
            "notiz": [f"erste Zeile\nzweite; Zeile {row % 3}" for row in rows],
            "leer": [None] * NUM_NODES,
            "preis": [f"{(row * 53 % 97) / 4:.2f}".replace(".", ",") + " €" for row in rows],
        }
    )


@pytest.mark.parametrize("kind", ["utf-16", "cp1252", "xlsx"])
def test_a_table_is_read_whatever_wrote_it(kind: str, crossgcn: Command, tmp_path: Path) -> None:
    if kind == "xlsx":
        pytest.importorskip("openpyxl")
    nodes, name = make_nodes(), "nodes.xlsx" if kind == "xlsx" else "nodes.csv"
    if kind == "xlsx":
        nodes.to_excel(name, index=False)
    else:
        Path(name).write_bytes(nodes.to_csv(index=False, sep=";").encode(kind))
    edges = pd.DataFrame({"von": range(NUM_NODES), "nach": [*range(1, NUM_NODES), 0]})
    edges.to_csv("edges.csv", index=False)
    tables = (name, "edges.csv", "--target", "preis")
    checked = json.loads(crossgcn("check", *tables, "--json").stdout)
    assert checked["errors"] == 0
    kinds = {column["name"]: column["kind"] for column in checked["columns"]}
    assert kinds == {
        "id": "id",
        "ort": "categorical",
        "umsatz": "numeric",
        "anteil": "numeric",
        "seit": "date",
        "kunde": "categorical",
        "notiz": "categorical",
        "leer": "ignored",
        "preis": "target",
    }
    quick = ("--num-splits", 1, "--epochs", 2, "--bags", 1, "--workers", 1, "--out", "run")
    trained = crossgcn("train", *tables, *quick, "--json")
    assert trained.returncode == 0, trained.stderr
    assert json.loads(trained.stdout)["task"] == "regression"
    names = json.loads((tmp_path / "run" / "preprocess.json").read_bytes())["feature_names"]
    assert {"ort=Zürich", "kunde=ja", "seit year=2012", "umsatz rank"} <= set(names)
    assert crossgcn("predict", "run", "--out", "p.csv").returncode == 0
    truth = pd.read_csv("p.csv")["true"]
    assert truth[1] == pytest.approx(13.25)
