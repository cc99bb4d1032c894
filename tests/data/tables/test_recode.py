"""Rows that one encoder encoded, as another encoder encodes their table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from shop_tables import make_shop

from crossgcn.data.tables.encode import TableEncoder, recode
from crossgcn.data.tables.plan import TableChoices, make_plan
from crossgcn.data.tables.read import read_table
from crossgcn.data.tables.table import Table


def tables(folder: Path) -> tuple[Table, Table]:
    """Two years of a shop, the second with other numbers, dates, words and gaps."""
    frames = [make_shop(300).nodes, make_shop(260, seed=3).nodes]
    for year, frame in enumerate(frames):
        random = np.random.default_rng(year)
        days = pd.to_timedelta(random.integers(0, 500 + 300 * year, len(frame)), unit="D")
        frame["joined"] = (pd.Timestamp("2021-03-05") + days).strftime("%Y-%m-%d")
        frame.loc[random.random(len(frame)) < 0.1, ["joined", "age"]] = None
        frame["spent"] = np.round(np.exp(random.normal(3, 2.5, len(frame))), 2)
        frame["height"] = np.round(random.normal(170 + year, 9, len(frame)), 1)
        frame.to_csv(folder / f"{year}.csv", index=False)
    first, second = (read_table(folder / f"{year}.csv", "nodes") for year in (0, 1))
    return first, second


def test_another_table_is_encoded_as_its_cells_would_be(tmp_path: Path) -> None:
    read, choices = tables(tmp_path), TableChoices(target="buys")
    encoders = [TableEncoder.fit(each, make_plan(each, None, choices).features) for each in read]
    for given, wanted, table in zip(encoders, encoders[::-1], read, strict=True):
        x, expected = (each.transform(table).toarray() for each in (given, wanted))
        assert given.columns[-3] != wanted.columns[-3]
        found = recode(x, given, wanted)
        assert found.dtype == np.float32
        for place, name in enumerate(wanted.space.names):
            np.testing.assert_allclose(found[:, place], expected[:, place], atol=2e-6, err_msg=name)
        assert recode(x, given, given) == pytest.approx(x, abs=0)
