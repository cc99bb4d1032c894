from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pandas as pd
import pytest

Command = Callable[..., CompletedProcess[str]]
SETTINGS = (
    *("--splits", "stratified", "--num-splits", 1, "--epochs", 3, "--order", "2,1"),
    *(
        "--model",
        "cross-gcn",
        "--dropout",
        0.2,
        "--set",
        "bias=true",
        "--workers",
        1,
        "--device",
        "cpu",
    ),
)
CLASSES = ["books", "garden", "sports", "toys"]
SHOP = ("shop/nodes.csv", "shop/edges.csv", "--target", "buys")
NEW = ("shop/new_nodes.csv", "shop/new_edges.csv")


@pytest.fixture
def shop(crossgcn: Command) -> Command:
    """The command line beside a shop's tables, and the same shop as a graph folder."""
    assert crossgcn("example", "--nodes", 300).returncode == 0
    nodes, edges, *target = SHOP
    done = crossgcn("data", "import", edges, "--nodes", nodes, *target, "--out", "graph")
    assert done.returncode == 0, done.stderr
    return crossgcn


@pytest.mark.parametrize("batches", [(), ("--set", "batch_size=32")], ids=["whole", "batches"])
def test_a_model_of_a_folder_knows_the_names_that_one_of_the_tables_knows(
    shop: Command, batches: tuple[object, ...]
) -> None:
    for name, source in (("folder", ("graph",)), ("tables", SHOP)):
        done = shop("train", *source, *SETTINGS, *batches, "--out", name)
        assert done.returncode == 0, done.stderr
    told = [json.loads(shop("explain", name, "--json").stdout) for name in ("folder", "tables")]
    assert told[0]["classes"] == told[1]["classes"] == CLASSES
    crosses = [
        {" & ".join(term["columns"]): term["importance"] for term in one["terms"]} for one in told
    ]
    assert len(crosses[0]) > 20 and "gender & age" in crosses[0]
    assert crosses[0] == pytest.approx(crosses[1], rel=1e-3)

    node = json.loads(shop("explain", "folder", "--node", "u_3", "--json").stdout)
    assert (node["node"], node["class"] in CLASSES) == ("u_3", True)
    assert {near["node"] for near in node["neighbours"]} <= {
        f"u_{number}" for number in range(1, 301)
    }
    wrong = shop("explain", "folder", "--node", "3")
    assert wrong.returncode == 2 and "the first are 'u_1', 'u_2', 'u_3'" in wrong.stderr

    for new in ((), NEW):
        for name in ("folder", "tables"):
            done = shop("predict", name, *new, "--out", f"{name}.csv")
            assert done.returncode == 0, done.stderr
        ours, theirs = (pd.read_csv(f"{name}.csv") for name in ("folder", "tables"))
        assert list(ours.columns[:4]) == ["customer", "true", "predicted", "probability"]
        scores = [f"p({name})" for name in CLASSES]
        pd.testing.assert_series_equal(ours["customer"], theirs["customer"])
        pd.testing.assert_frame_equal(ours[scores], theirs[scores], rtol=0, atol=1e-4)
    assert set(ours["customer"]) == set(pd.read_csv(NEW[0])["customer"])
    known = shop("predict", "folder", "shop/nodes.csv", "shop/edges.csv")
    assert known.returncode == 2 and "the model was trained on 'u_1'" in known.stderr


def test_a_graph_folder_that_was_moved_is_asked_for(shop: Command) -> None:
    assert shop("train", "graph", *SETTINGS, "--out", "run").returncode == 0
    before = shop("explain", "run", "--json").stdout
    Path("graph").rename("elsewhere")
    done = shop("explain", "run")
    assert done.returncode == 2
    assert "graph_folder.json: the model was trained on the graph folder" in done.stderr
    assert "graph, which is not there any more; move it back, put a link to it" in done.stderr
    Path("graph").symlink_to("elsewhere", target_is_directory=True)
    assert shop("explain", "run", "--json").stdout == before
    Path("graph").unlink()
    nodes, edges, *target = SHOP
    again = ("data", "import", edges, "--nodes", nodes, *target, "--directed", "--out", "graph")
    assert shop(*again).returncode == 0
    other = shop("explain", "run")
    assert other.returncode == 2
    assert "graph: is not the graph the model was trained on" in other.stderr


def test_check_sends_a_graph_folder_to_where_it_is_checked(shop: Command) -> None:
    done = shop("check", "graph")
    assert done.returncode == 2
    assert "to check it: crossgcn data show graph --verify" in done.stderr


def test_a_last_line_without_an_end_is_pointed_out(crossgcn: Command) -> None:
    whole, cut = Path("whole.csv"), Path("cut.csv")
    whole.write_bytes(b"source,target\r\n0,1\r\n1,12\r\n")
    cut.write_bytes(b"source,target\n0,1\n2,1")
    done = crossgcn("data", "import", whole, cut, "--out", "graph", "--json")
    assert done.returncode == 0, done.stderr
    (warning,) = json.loads(done.stdout)["warnings"]
    assert warning.startswith("cut.csv: the last line does not end in a newline")
    assert f"warning: {warning}" in " ".join(done.stderr.split())
    done = crossgcn("data", "import", whole, "--out", "clean", "--json")
    assert json.loads(done.stdout)["warnings"] == [] and "warning" not in done.stderr
    refused = crossgcn("data", "import", cut, "--num-nodes", 2, "--out", "refused")
    assert refused.returncode == 2 and "warning: cut.csv" in refused.stderr
