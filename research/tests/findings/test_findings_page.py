from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from research.findings.figure import draw_differences, write_differences
from research.findings.page import (
    findings_markdown,
    findings_overview,
    range_of_gains,
    search_in_brief,
    table_verdict,
)
from research.findings.records import CandidateRecord, CellRecord, FindingsRecord
from research.findings.tables import Column, FindingsTable, Row, SearchRecord

TABLE = FindingsTable(
    name="peers",
    title="Crosses",
    compares="crosses against none",
    columns=(
        Column(label="cora", settings={}, paper_best=79.8, target=80.0),
        Column(label="planted", settings={}),
    ),
    rows=(
        Row(label="plain", settings={}),
        Row(label="crossed", settings={}, against=("plain",)),
        Row(label="rival", settings={}, against=("plain", "crossed")),
    ),
    costs=True,
)


def cell(row: str, column: str, *percent: float, **more: Any) -> CellRecord:
    settings: dict[str, Any] = {
        "validation_accuracy": tuple(value / 100 for value in percent),
        "num_training_sets": 1 if column == "planted" else len(percent),
        "parameters": 1234,
        "seconds": 5.06,
        **more,
    }
    return CellRecord(
        row=row,
        column=column,
        settings={"dataset": column, "model": "gcn", "hops": 8},
        device="cpu",
        test_accuracy=tuple(value / 100 for value in percent),
        **settings,
    )


CELLS = (
    cell("plain", "cora", 79.0, 81.0),
    cell("plain", "planted", 20.0, 22.0),
    cell("crossed", "cora", 78.0, 81.0),
    cell("crossed", "planted", 60.0, 62.4),
    cell("rival", "cora", 76.0, 78.2),
)
ENVIRONMENT = {"versions": {"torch": "2.13"}, "commit": "0123456789abcdef", "threads": 1}
RECORD = FindingsRecord(
    table="peers", cells=CELLS, missing=(("rival", "planted"),), environments=(ENVIRONMENT,)
)


def test_the_verdict_is_in_words_and_counts_its_false_alarms() -> None:
    text = table_verdict(TABLE, RECORD)
    counts = "1 better, 1 worse, 1 without a difference, in 3 comparisons."
    assert f"**Against the twin**: {counts}" in text
    assert "about 0.9 of 3 would still be called one" in text
    assert "- cora: worse: *rival* -2.9\n- planted: better: *crossed* +40.2" in text
    assert "**Against other rows**: 0 better, 1 worse, 0 without a difference" in text
    assert "- cora: worse: *rival* against *crossed* -2.4" in text
    assert "- cora, 80: reached by the best on validation nodes, *plain* (80.00)\n" in text
    assert "cora *plain* (80.0 ± 1.4); planted *crossed* (61.2 ± 1.7)" in text
    assert "- not measured: *rival* on planted" in text


def test_a_column_without_a_difference_says_so() -> None:
    text = table_verdict(TABLE, FindingsRecord(table="peers", cells=CELLS[:4]))
    assert "- cora: no difference in any of 1\n- planted: better: *crossed* +40.2" in text


def test_the_best_row_is_chosen_by_validation_accuracy() -> None:
    modest = cell("plain", "cora", 70.0, 71.0, validation_accuracy=(0.99, 0.99))
    record = FindingsRecord(table="peers", cells=(modest, *CELLS[1:]))
    assert "cora *plain* (70.5 ± 0.7)" in table_verdict(TABLE, record)


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ("plain", "reached by the best on validation nodes, *plain* (80.00); also by *rival*"),
        ("crossed", "not reached by the best on validation nodes, *crossed* (79.50); though by"),
    ],
)
def test_a_target_is_judged_by_the_row_that_validation_takes(chosen: str, said: str) -> None:
    percent = {"plain": (79.0, 81.0), "crossed": (78.0, 81.0), "rival": (84.0, 86.0)}
    cells = tuple(
        cell(row, "cora", *values, validation_accuracy=(0.9 if row == chosen else 0.5,) * 2)
        for row, values in percent.items()
    )
    text = table_verdict(TABLE, FindingsRecord(table="peers", cells=cells))
    assert f"- cora, 80: {said}" in text
    alone = FindingsRecord(table="peers", cells=cells[1:2])
    assert "*crossed* (79.50)\n" in table_verdict(TABLE, alone) + "\n"


def test_many_gains_are_a_range() -> None:
    rows = [Row(label=f"row {i}", settings={}, against=("plain",)) for i in range(4)]
    table = TABLE.model_copy(update={"rows": (TABLE.rows[0], *rows)})
    cells = [cell(f"row {i}", "planted", 50.0 + 2 * i, 52.4 + 2 * i) for i in range(4)]
    text = table_verdict(table, FindingsRecord(table="peers", cells=(*CELLS[:2], *cells)))
    assert "- planted: 4 of 4 better, from *row 0* +30.2 to *row 3* +36.2" in text


def test_the_table_has_accuracies_differences_and_costs() -> None:
    text = findings_markdown(TABLE, RECORD, figure="figures/x.png")
    assert "| model | cora<br>2 splits | planted<br>2 seeds |" in text
    assert "| plain | 80.0 ± 1.4 | 21.0 ± 1.4 |" in text
    crossed = "79.5 ± 2.1<br>-0.50 ± 0.50 | 61.2 ± 1.7<br>**+40.20 ± 0.20**"
    assert f"| crossed<br>− plain | {crossed} |" in text
    rival = "77.1 ± 1.6<br>**-2.90 ± 0.10**<br>**-2.40 ± 0.40**"
    assert f"| rival<br>− plain<br>− crossed | {rival} | — |" in text
    assert "| *the paper's best* | 79.8 |  |" in text
    assert "| parameters, seconds for all splits on a CPU | cora | planted |" in text
    assert "| crossed | 1,234<br>5.1 s | 1,234<br>5.1 s |" in text
    assert "![Paired differences: crosses against none](figures/x.png)" in text
    assert "Measured on a CPU, 1 thread a run, torch 2.13, commit 0123456789." in text
    assert "<details>" not in text


def test_seconds_of_another_device_are_not_mixed_in() -> None:
    elsewhere = CELLS[0].model_copy(update={"device": "cuda"})
    text = findings_markdown(TABLE, FindingsRecord(table="peers", cells=(elsewhere, *CELLS[1:])))
    assert "seconds for all splits on a CPU" in text
    assert "| plain | 1,234<br>— | 1,234<br>5.1 s |" in text


def test_chosen_settings_are_listed_with_what_they_were_chosen_from() -> None:
    candidates = tuple(
        CandidateRecord(settings={"dropout": value}, validation_mean=value) for value in (0.1, 0.2)
    )
    by_grid = cell("plain", "cora", 79.0, 81.0, candidates=candidates, chosen={"dropout": 0.2})
    by_search = cell("crossed", "cora", 79.0, 81.0, trials=31)
    text = findings_markdown(TABLE, FindingsRecord(table="peers", cells=(by_grid, by_search)))
    assert "| plain | cora | 2 | dropout 0.2 |" in text
    assert "| crossed | cora | 31 | hops 8 |" in text


def test_a_failure_is_told() -> None:
    failed = CellRecord(row="plain", column="cora", settings={}, device="cpu", failure="diverged")
    text = findings_markdown(TABLE, FindingsRecord(table="peers", cells=(failed, *CELLS[1:])))
    assert "- plain, cora: failed (diverged)" in text
    assert "| plain | — | 21.0 ± 1.4 |" in text


def test_what_was_not_measured_says_so() -> None:
    assert findings_markdown(TABLE, None) == "Not measured yet."
    text = findings_overview([(TABLE, RECORD), (TABLE, None)])
    assert (
        "| Crosses: crosses against none | 3 | planted 1 of 1 (+40.2) | cora 1 of 2 (-2.9) | 1 |"
        in text
    )
    assert "| Crosses: crosses against none | not measured yet |" in text
    assert "All tables together: 1 better, 1 worse, 1 without a difference" in text
    assert "All tables together" not in findings_overview([(TABLE, None)])
    assert range_of_gains([], "better") == "—"


def test_a_figure_has_a_panel_for_each_column_and_the_same_bytes(tmp_path: Path) -> None:
    figure = draw_differences(TABLE, RECORD)
    assert figure is not None
    first, second = figure.axes
    assert [first.get_title(), second.get_title()] == ["cora", "planted"]
    labels = [label.get_text() for label in first.get_yticklabels()]
    assert labels == ["crossed", "rival", "rival − crossed"]
    assert len(first.containers) == 3 and len(second.containers) == 1
    for name in ("a.png", "b.png"):
        write_differences(tmp_path / "figures" / name, TABLE, RECORD)
    written = [(tmp_path / "figures" / name).read_bytes() for name in ("a.png", "b.png")]
    assert written[0] == written[1]


def test_nothing_is_drawn_where_nothing_is_compared(tmp_path: Path) -> None:
    alone = FindingsRecord(table="peers", cells=CELLS[:1])
    assert draw_differences(TABLE, alone) is None
    write_differences(tmp_path / "none.png", TABLE, alone)
    assert not list(tmp_path.iterdir())


def test_a_search_tells_its_budget_on_each_graph() -> None:
    assert search_in_brief(None) == "Not searched yet."
    rows: list[dict[str, Any]] = [
        {"dataset": dataset, "model": model, "settings": {}, "validation_mean": 0.5}
        for dataset in ("cora", "cora", "pubmed")
        for model in ("grand", "cross-grand")
    ]
    assert search_in_brief(SearchRecord.model_validate({"rows": rows})) == (
        "Settings tried, as many for both models of a graph: 2 on cora, 1 on pubmed."
    )
    rows[-1] |= {"validation_mean": None, "dataset": "cora"}
    text = search_in_brief(SearchRecord.model_validate({"rows": rows}))
    assert "**not as many for each model** on cora (grand 2, cross-grand 3)" in text
    assert "pubmed (grand 1, cross-grand 0)" in text
    assert text.endswith("1 of 6 trainings diverged.")


@pytest.mark.parametrize("count", [1, 2])
def test_one_split_has_no_spread_and_no_verdict(count: int) -> None:
    cells = [cell(row, "cora", *[value] * count) for row, value in (("plain", 70), ("crossed", 90))]
    text = findings_markdown(TABLE, FindingsRecord(table="peers", cells=tuple(cells)))
    assert ("1 better" in text) == (count == 2)
    assert f"cora<br>{count} split{'s' * (count > 1)} |" in text
