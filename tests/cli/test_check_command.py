from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pandas as pd
import pytest

from crossgcn.data.tables.graph import load_tables
from crossgcn.data.tables.plan import TableChoices
from crossgcn.reports.terminal.check import reading_lines

Command = Callable[..., CompletedProcess[str]]


@pytest.fixture
def tables(tmp_path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Nodes and edges with nothing wrong, written as files too."""
    random = np.random.default_rng(0)
    ids = [f"u{number}" for number in range(80)]
    nodes = pd.DataFrame(
        {
            "id": ids,
            "colour": random.choice(["red", "green", "blue"], 80),
            "size": random.normal(10, 2, 80).round(3),
            "buys": random.choice(["yes", "no"], 80),
        }
    )
    pairs = [(start, (start + step) % 80) for start in range(80) for step in (1, 2, 7)]
    edges = pd.DataFrame([(ids[i], ids[j]) for i, j in pairs], columns=["from", "to"])
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    edges.to_csv(tmp_path / "edges.csv", index=False)
    return nodes, edges


@pytest.mark.usefixtures("tables")
def test_says_how_columns_were_read_and_what_is_next(crossgcn: Command) -> None:
    done = crossgcn("check", "nodes.csv", "edges.csv", "--target", "buys")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == "nodes.csv: 80 nodes, 4 columns; edges.csv: 240 edges"
    assert "colour categorical 3 different values" in lines
    assert any(line.startswith("size numeric numbers from") for line in lines)
    assert any("column id" in line for line in lines)
    assert any("columns from and to" in line for line in lines)
    assert lines[-1] == (
        "no errors, no warnings: crossgcn compare nodes.csv edges.csv --target buys is next"
    )


def test_what_is_next_repeats_the_options_ready_for_a_shell(
    crossgcn: Command, tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    nodes, _ = tables
    nodes.rename(columns={"buys": "buys it"}).to_csv(tmp_path / "my nodes.csv", index=False)
    chosen = ("--target", "buys it", "--id-column", "id", "--ignore", "size")
    done = crossgcn("check", "my nodes.csv", "edges.csv", *chosen)
    assert done.stdout.splitlines()[-1] == (
        "no errors, no warnings: crossgcn compare 'my nodes.csv' edges.csv --target 'buys it' "
        "--id-column id --ignore size is next"
    )
    done = crossgcn("check", "my nodes.csv")
    assert done.stdout.splitlines()[0] == "my nodes.csv: 80 nodes, 4 columns; no edges"
    assert done.stdout.splitlines()[-1].endswith(
        "crossgcn check 'my nodes.csv' --target COLUMN is next"
    )


def test_json_is_one_object_with_everything(
    crossgcn: Command, tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    nodes, _ = tables
    done = crossgcn("check", "nodes.csv", "edges.csv", "--target", "buys", "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0
    assert answer["nodes"]["rows"] == 80 and answer["nodes"]["id_column"] == "id"
    assert answer["edges"]["source_column"] == "from" and answer["edges"]["rows"] == 240
    assert [column["kind"] for column in answer["columns"]] == [
        *("id", "categorical", "numeric", "target")
    ]
    assert (answer["errors"], answer["warnings"], answer["findings"]) == (0, 0, [])
    nodes.loc[4, "size"] = np.inf
    nodes.assign(same=1).to_csv(tmp_path / "nodes.csv", index=False)
    done = crossgcn("check", "nodes.csv", "edges.csv", "--target", "buys", "--json", "--out", "o")
    answer = json.loads(done.stdout)
    assert done.returncode == 2
    assert (answer["errors"], answer["warnings"], answer["next"]) == (1, 1, None)
    first, second = answer["findings"]
    assert (first["kind"], first["row"], first["column"]) == ("infinite-number", 6, "size")
    assert (second["kind"], second["severity"]) == ("constant-column", "warning")
    assert json.loads((tmp_path / "o" / "check.json").read_text()) == answer


def test_errors_end_with_what_to_do_and_code_2(
    crossgcn: Command, tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    nodes, _ = tables
    nodes.loc[[4, 5], "id"] = "u6"
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    done = crossgcn("check", "nodes.csv", "edges.csv", "--target", "buys")
    assert done.returncode == 2
    assert (
        "error nodes.csv, row 7, column id: 'u6' is already the id of row 6 (2 such)"
        in " ".join(done.stdout.split())
    )
    assert done.stdout.splitlines()[-1].endswith("correct the errors and check again")


def test_hostile_names_and_values_stay_text(
    crossgcn: Command, tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    nodes, _ = tables
    nodes["[red]<script>"] = "[link=http://x]\x1b[31m"
    nodes["[/bold]\x1b[2J"] = [f"{number / 7}" for number in range(79)] + ["[/]\n=cmd()"]
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    done = crossgcn("check", "nodes.csv", "edges.csv", "--target", "buys")
    assert done.returncode == 2
    assert "\x1b" not in done.stdout and "Traceback" not in done.stderr
    assert "[red]<script>" in done.stdout
    assert r"'[link=http://x]\x1b[31m'" in done.stdout
    assert r"'[/]\n=cmd()' is not a number" in done.stdout


def test_other_commands_show_warnings_in_lines_of_their_own(
    tables: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    nodes, edges = tables
    graph = load_tables(nodes.assign(same="[red]"), edges, TableChoices(target="buys"))
    lines = [line.plain for line in reading_lines(graph)]
    assert lines[-2] == "columns: 1 categorical, 1 numeric; ignored: same"
    assert lines[-1].startswith("warning: nodes, column same: every cell is '[red]', which does")


@pytest.mark.usefixtures("tables")
def test_an_unwritable_out_is_refused(crossgcn: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = crossgcn("check", "nodes.csv", "edges.csv", "--target", "buys", "--out", "file")
    assert done.returncode == 2 and "give another --out" in done.stderr


@pytest.mark.usefixtures("tables")
def test_many_columns_are_not_all_listed(
    crossgcn: Command, tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    nodes, _ = tables
    random = np.random.default_rng(1)
    words = pd.DataFrame(random.integers(0, 2, (80, 90)), columns=[f"w{i}" for i in range(90)])
    pd.concat([nodes, words], axis=1).to_csv(tmp_path / "nodes.csv", index=False)
    done = crossgcn("check", "nodes.csv", "edges.csv", "--target", "buys")
    assert "and 34 more columns: 34 flag" in done.stdout
    assert "w10 " in done.stdout and "w88" not in done.stdout


def test_balance_and_homophily_of_classes(
    crossgcn: Command, tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    nodes, edges = tables
    nodes["buys"] = ["yes"] * 60 + ["no"] * 15 + [""] * 5
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    class_of = dict(zip(nodes["id"], nodes["buys"], strict=True))
    ends = [(class_of[start], class_of[end]) for start, end in edges.itertuples(index=False)]
    known = [pair for pair in ends if all(pair)]
    done = crossgcn("check", "nodes.csv", "edges.csv", "--target", "buys", "--json")
    found = json.loads(done.stdout)
    assert found["balance"]["classes"] == [
        {"name": "no", "nodes": 15, "share": 0.2},
        {"name": "yes", "nodes": 60, "share": 0.8},
    ]
    same = sum(start == end for start, end in known) / len(known)
    assert found["homophily"]["same_class"] == pytest.approx(same)
    assert found["homophily"]["edges"] == len(known)
    printed = crossgcn("check", "nodes.csv", "edges.csv", "--target", "buys").stdout
    assert "classes: yes 60 (80%), no 15 (20%); 5 nodes without a label" in printed
    assert f"homophily: {same:.0%} of edges join equal classes (by chance " in printed


def test_range_and_correlation_of_numbers(
    crossgcn: Command, tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    nodes, edges = tables
    nodes["spent"] = np.sin(np.arange(80) / 80 * 2 * np.pi).round(6)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    done = crossgcn("check", "nodes.csv", "edges.csv", "--target", "spent", "--json")
    found = json.loads(done.stdout)
    number_of = dict(zip(nodes["id"], nodes["spent"], strict=True))
    ends = np.array([(number_of[one], number_of[two]) for one, two in edges.to_numpy()])
    wanted = np.corrcoef(np.concatenate([ends, ends[:, ::-1]]).T)[0, 1]
    assert found["homophily"]["correlation"] == pytest.approx(wanted, abs=1e-5)
    assert found["balance"]["task"] == "regression"
    assert found["balance"]["mean"] == pytest.approx(0, abs=1e-6)
    printed = crossgcn("check", "nodes.csv", "edges.csv", "--target", "spent").stdout
    assert "numbers: -1 to 1, mean " in printed
    assert f"neighbours correlate by {wanted:.2f}" in printed


def test_lists_that_differ_and_nodes_alike_in_few_columns_are_fine(
    crossgcn: Command, tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    nodes, _ = tables
    words = [f"w{number}" for number in range(12)]
    nodes["games"] = [
        ";".join(words[at] for at in range(12) if (number + 1) >> at & 1 or at == number % 12)
        for number in range(80)
    ]
    nodes.loc[41, ["colour", "size", "games"]] = nodes.loc[40, ["colour", "size", "games"]]
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    chosen = ("--target", "buys", "--lists", "games", "--json")
    found = json.loads(crossgcn("check", "nodes.csv", "edges.csv", *chosen).stdout)
    kinds = {problem["kind"] for problem in found["findings"]}
    assert not kinds & {"id-as-feature", "duplicate-row"}
