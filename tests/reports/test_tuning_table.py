from __future__ import annotations

from dataclasses import replace

from rich.console import Console
from rich.table import Table
from tuning_results_by_hand import OURS, PLAIN, RESULT, SPACE, TWIN, tuned

from crossgcn.experiments.tune.space import TuningResult
from crossgcn.reports.terminal.tune import (
    settings_table,
    summarise_tuning,
    tuning_notes,
    tuning_table,
)


def rows(table: Table) -> list[list[str]]:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    return [line.split() for line in capture.get().splitlines() if line.strip()]


def test_each_model_is_shown_with_its_trials_and_accuracies() -> None:
    head, _, ours, twin = rows(tuning_table(summarise_tuning(RESULT)))
    assert head[-3:] == ["paired", "to", "gcn"]
    assert ours[:5] == ["cross-gcn", "5", "(1", "failed)", "2"]
    assert ours[5:] == ["72.0", "71.0", "±", "1.0", "+1.67", "±", "0.33"]
    assert twin == ["gcn", "5", "1", "70.3", "69.3", "±", "1.5", "—"]


def test_alone_a_model_is_paired_with_nobody() -> None:
    head, _, ours = rows(tuning_table(summarise_tuning(TuningResult(OURS, None))))
    assert "paired" not in head and ours[-1] == "1.0"


def test_chosen_settings_stand_beside_what_they_were_chosen_from() -> None:
    shown = {row[0]: row[1:] for row in rows(settings_table(summarise_tuning(RESULT)))}
    assert shown["setting"] == ["cross-gcn", "gcn", "searched"]
    assert shown["dropout"] == ["0.2", "0.1", "0", "to", "0.8"]
    assert shown["weight_decay"][:2] == ["7.2e-05", "2.68e-05"]
    assert shown["order"] == ["3", "—", "1", "to", "3"]
    assert shown["epochs"] == ["200", "200", "200"]


def test_the_verdict_is_in_words() -> None:
    (verdict,) = tuning_notes(summarise_tuning(RESULT))
    assert verdict.startswith("cross-gcn (2 layers) beats gcn: +1.67 points, 95 % interval")


def test_no_crosses_and_a_second_look_at_test_nodes_are_said() -> None:
    plain = tuned("cross-gcn", [0.8, 0.7], [0.7, 0.7], SPACE)
    twin = tuned("gcn", [0.8, 0.7], [0.7, 0.7], PLAIN)
    read = replace(plain, test_reads=2)
    notes = tuning_notes(summarise_tuning(TuningResult(read, twin)))
    assert any("chose no crosses" in note for note in notes)
    assert any("read more than once" in note for note in notes)
    assert tuning_notes(summarise_tuning(TuningResult(TWIN, None))) == []
