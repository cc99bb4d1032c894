from __future__ import annotations

from research.scripts.update_results import render


def test_the_tables_are_those_of_the_records() -> None:
    for path, text in render():
        assert path.read_text() == text, (
            f"{path.name}: run python -m research.scripts.update_results"
        )
