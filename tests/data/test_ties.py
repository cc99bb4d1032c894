"""A second relation of the counties: friendship ties, which tests read where they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from crossgcn import TableChoices, from_tables, load_real, paired_difference
from crossgcn.data.datasets.real import read_real

TIES = Path(os.environ.get("CROSSGCN_DATA", "")) / "real" / "us-county-ties" / "edges.csv"
pytestmark = pytest.mark.skipif(not TIES.is_file(), reason="the ties are not here")


def test_ties_are_a_further_relation_of_the_counties() -> None:
    padded = pd.read_csv(TIES, dtype=str)
    strange = pd.DataFrame({"county": ["99999"], "tie": ["1001"], "rank": ["2"]})
    given = {"ties": pd.concat([padded, strange], ignore_index=True)}
    choices = TableChoices(unknown_ids="drop", relation="borders")
    graph = load_real("us-county", "winner", choices, given)
    borders, ties = graph.data.relations
    assert (borders.name, ties.name) == ("borders", "ties")
    assert ties.edge_index.size(1) == 2 * len(
        {frozenset(pair) for pair in padded[["county", "tie"]].itertuples(index=False)}
    )
    assert ties.space.fields[0] == "rank (mean)" and ties.edge_attr.shape[0] == 45728
    told = " ".join(problem.describe() for problem in graph.problems)
    assert "'99999' is not a node: 1 of 75,266 ends" in told and "counts once" in told


def scores(**ties: Any) -> Any:
    counties = read_real("us-county")
    nodes = counties.nodes.drop(columns=["winner", "state"])
    edges: dict[str, Any] = {"borders": counties.edges} | ties
    choices: dict[str, Any] = {"id_column": "fips", "name_column": "name"}
    ignored = ("ties: rank",) if ties else ()
    return from_tables(nodes, edges, "democratic_share", ignored=ignored, **choices).fit().scores


@pytest.mark.slow
def test_ties_tell_more_than_borders() -> None:
    found = scores(ties=TIES)["r2"]
    assert found.mean() >= 0.785
    gain = paired_difference(found, scores()["r2"])
    assert gain.standard_error is not None and gain.mean > 2 * gain.standard_error
