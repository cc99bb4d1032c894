from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from torch_geometric.data import Data

from crossgcn.data.graph_file import save_graph
from crossgcn.errors import BadInput
from crossgcn.experiments.experiment import Experiment
from research.findings.cells import CellFolder, CellTrainer, collect_table, plan_table
from research.findings.records import Measured, read_record, write_record
from research.findings.tables import Column, FindingsTable, Row, read_table


def small_table(graph: Path, **more: Any) -> FindingsTable:
    """Return a table over a graph file that trains in a moment."""
    settings = {"splits": "random", "train": 5, "num_splits": 2, "epochs": 3, "hidden_channels": 4}
    return FindingsTable(
        name="peers",
        title="A small table",
        compares="crosses against none",
        settings=settings,
        columns=(Column(label="here", settings={"dataset": str(graph)}, target=10.0),),
        rows=(
            Row(label="plain", settings={"model": "cross-gcn", "order": 1}),
            Row(label="crossed", settings={"model": "cross-gcn"}, against=("plain",)),
        ),
        **more,
    )


def test_a_cell_is_what_an_experiment_finds(graph_file: Path, tmp_path: Path) -> None:
    planned = plan_table(small_table(graph_file), tmp_path, {})
    trainer = CellTrainer()
    for cell in planned:
        measured, environment = trainer.measure(cell)
        (runs,) = Experiment([cell.configs[0]]).run()
        assert list(measured.test_accuracy) == runs.test_accuracy
        assert list(measured.validation_accuracy) == runs.validation_accuracy
        assert measured.parameters == runs.records[0]["parameters"]
        assert measured.num_training_sets == 2
        assert measured.settings["epochs"] == 3
        assert environment["versions"]["torch"]


def test_validation_alone_chooses(small_graph: Data, tmp_path: Path) -> None:
    choose = {"dropout": (0.0, 0.9), "epochs": (1, 12)}
    found = []
    for shift in (0, 1):
        graph = small_graph.clone()
        test = graph.roles[0] == 3
        graph.y = graph.y.clone()
        graph.y[test] = (graph.y[test] + shift) % 3
        path = tmp_path / f"graph-{shift}.npz"
        save_graph(path, graph)
        table = small_table(path, choose=choose, choose_splits=1)
        measured, _ = CellTrainer().measure(plan_table(table, tmp_path, {})[1])
        found.append(measured)
    first, second = found
    assert first.candidates == second.candidates
    assert len(first.candidates) == 4
    assert first.chosen == second.chosen
    best = max(first.candidates, key=lambda candidate: candidate.validation_mean or 0)
    assert first.chosen == best.settings
    assert {**first.settings, **first.chosen} == first.settings
    assert len(first.test_accuracy) == 2
    assert first.test_accuracy != second.test_accuracy


def test_a_run_that_diverges_is_a_result(graph_file: Path, tmp_path: Path) -> None:
    overrides = {"learning_rate": 1e30, "epochs": 20}
    planned = plan_table(small_table(graph_file), tmp_path, overrides)[1]
    measured, _ = CellTrainer().measure(planned)
    assert measured.failure is not None and "split 0" in measured.failure
    folder = CellFolder(tmp_path, "cpu")
    with folder.claim(planned) as ours:
        assert ours
        folder.write(planned, measured, {})
    record = collect_table(small_table(graph_file), [planned], folder)
    assert record.cells[0].failure == measured.failure
    assert record.find("crossed", "here") is None


def test_only_one_process_measures_a_cell(graph_file: Path, tmp_path: Path) -> None:
    first, second = plan_table(small_table(graph_file), tmp_path, {})
    mine, theirs = CellFolder(tmp_path, "cpu"), CellFolder(tmp_path, "cpu")
    with mine.claim(first) as ours, theirs.claim(first) as same, theirs.claim(second) as other:
        assert (ours, same, other) == (True, False, True)
    with theirs.claim(first) as again:
        assert again, "nobody finished it"
        theirs.write(first, Measured(settings={}, device="cpu", test_accuracy=(0.5,)), {"a": 1})
    with mine.claim(first) as ours:
        assert not ours, "it is finished"
    assert mine.read(first) == (
        Measured(settings={}, device="cpu", test_accuracy=(0.5,)),
        {"a": 1},
    )
    with CellFolder(tmp_path, "cuda").claim(first) as elsewhere:
        assert elsewhere, "another device's results are others"


def test_equal_work_has_one_name_and_other_work_another(graph_file: Path, tmp_path: Path) -> None:
    table = small_table(graph_file)
    renamed = table.model_copy(
        update={"rows": (table.rows[0], Row(label="new", settings={"model": "cross-gcn"}))}
    )
    names = [cell.name for cell in plan_table(table, tmp_path, {})]
    assert [cell.name for cell in plan_table(renamed, tmp_path, {})] == names
    for changed in ({"epochs": 4}, {"num_splits": 3}, {"seed": 1}):
        assert not {cell.name for cell in plan_table(table, tmp_path, changed)} & {*names}
    chosen = small_table(graph_file, choose={"dropout": (0.1, 0.2)})
    more = chosen.model_copy(update={"choose_splits": 2})
    assert plan_table(chosen, tmp_path, {})[0].name != plan_table(more, tmp_path, {})[0].name


def test_collected_cells_stand_in_the_order_of_rows(graph_file: Path, tmp_path: Path) -> None:
    table = small_table(graph_file)
    turned = FindingsTable(**{**dict(table), "rows": table.rows[::-1]})
    folder = CellFolder(tmp_path, "cpu")
    planned = plan_table(turned, tmp_path, {})
    for number, cell in enumerate(planned[:1]):
        with folder.claim(cell):
            folder.write(cell, Measured(settings={}, device="cpu"), {"commit": number})
    record = collect_table(turned, planned, folder)
    assert [cell.row for cell in record.cells] == ["plain"]
    assert record.missing == (("crossed", "here"),)
    assert record.environments == ({"commit": 0},)
    write_record(tmp_path / "new" / "peers.json", record)
    assert read_record(tmp_path / "new" / "peers.json") == record


def test_the_first_folder_that_has_a_cell_gives_it(graph_file: Path, tmp_path: Path) -> None:
    table = small_table(graph_file)
    planned = plan_table(table, tmp_path, {})
    folders = [CellFolder(tmp_path, "cuda"), CellFolder(tmp_path, "cpu")]
    for folder, cells in zip(folders, (planned[:1], planned), strict=True):
        for cell in cells:
            with folder.claim(cell):
                device = folder.folder.name
                folder.write(cell, Measured(settings={}, device=device), {"gpu": device})
    record = collect_table(table, planned, *folders)
    assert [cell.device for cell in record.cells] == ["cuda", "cpu"]
    assert record.environments == ({"gpu": "cuda"}, {"gpu": "cpu"})


def test_searched_settings_go_between_the_tables_and_the_rows_own(tmp_path: Path) -> None:
    rows = [
        {
            "dataset": dataset,
            "model": model,
            "settings": {"model": "mlp", "hops": hops, "epochs": 7},
            "validation_mean": hops / 10,
        }
        for dataset in ("citeseer", "cora", "pubmed")
        for model, hops in (("grand", 2), ("grand", 3), ("cross-grand", 5))
    ]
    (tmp_path / "grand-search.json").write_text(json.dumps({"rows": rows}))
    table = read_table("grand")
    table = table.model_copy(update={"settings": {**table.settings, "epochs": 9}})
    planned = {(cell.cell.row, cell.cell.column): cell for cell in plan_table(table, tmp_path, {})}
    plain, crossed, same = (
        planned[row, "cora"] for row in ("grand", "cross-grand", "cross-grand, grand's settings")
    )
    assert [cell.configs[0].model for cell in (plain, crossed, same)] == [
        "grand",
        "cross-grand",
        "cross-grand",
    ]
    assert [cell.configs[0].hops for cell in (plain, crossed, same)] == [3, 5, 3]
    assert [cell.trials for cell in (plain, crossed, same)] == [2, 1, 2]
    assert {cell.configs[0].num_splits for cell in planned.values()} == {20}
    assert {cell.configs[0].epochs for cell in planned.values()} == {7}


def test_a_search_that_was_not_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"grand-search\.json: cannot be read"):
        plan_table(read_table("grand"), tmp_path, {})


def test_a_record_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="measure it first"):
        read_record(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text('{"table": 3}')
    with pytest.raises(BadInput, match=r"bad\.json: is not the record of a table"):
        read_record(tmp_path / "bad.json")
