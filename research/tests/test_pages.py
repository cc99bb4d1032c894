from __future__ import annotations

import numpy as np
import pytest

from research.pages.benchmarks import speed_markdown
from research.pages.counties import draw_cross
from research.scripts.update_results import measured, read, render


def test_the_tables_are_those_of_the_records() -> None:
    for path, text in render():
        assert path.read_text() == text, (
            f"{path.name}: run python -m research.scripts.update_results"
        )


def test_the_picture_of_a_cross_shows_every_cell_of_the_record() -> None:
    cross = read("counties")["cross"]
    drawn = {
        text.get_position(): text.get_text() for text in draw_cross({"cross": cross}).axes[0].texts
    }
    assert len(drawn) == np.count_nonzero(np.asarray(cross["counts"]) >= 5)
    for (row, column), text in drawn.items():
        assert float(text) == pytest.approx(100 * cross["means"][row][column], abs=0.051)


def test_a_cross_excludes_what_its_columns_do_alone() -> None:
    cross = read("counties")["cross"]
    means, counts = (np.nan_to_num(np.array(cross[key], float)) for key in ("means", "counts"))
    for axis in (0, 1):
        average = (means * counts).sum(axis) / counts.sum(axis)
        assert np.abs(average).max() < 0.15 * np.abs(means).max()


def test_a_ratio_of_several_days_is_a_range_with_the_low_end_first() -> None:
    def record(ratio: float) -> dict[str, object]:
        result = {"case": "cora", "what": "PyG GCN", "value": ratio, "unit": "×"}
        return {"results": [result]}

    days = {"cpu-step": [record(33.0), record(60.0)]}
    first = speed_markdown(measured() | {"cpu-step": record(78.0)}, days).splitlines()[2]
    assert "33.0×–78.0×" in first
