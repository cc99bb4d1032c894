from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from tuning_results_by_hand import OURS, RESULT, SPACE, TWIN, tuned

from crossgcn.experiments.tune.tuning import TuningResult
from crossgcn.reports.tuning_figure import draw_tuning, write_tuning_figure


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_every_setting_that_was_searched_has_a_panel() -> None:
    history, *panels = draw_tuning(RESULT).axes
    assert history.get_ylabel() == "validation accuracy in %"
    assert [axes.get_title() for axes in panels] == [
        *("hidden_channels", "weight_decay", "dropout", "order"),
    ]
    assert panels[1].get_xscale() == "log"
    assert [label.get_text() for label in panels[0].get_xticklabels()] == ["16", "32"]


def test_best_so_far_never_falls_and_reaches_the_last_trial() -> None:
    history = draw_tuning(RESULT).axes[0]
    steps = [line for line in history.lines if line.get_drawstyle() == "steps-post"]
    assert len(steps) == 2
    for line, side in zip(steps, (OURS, TWIN), strict=True):
        numbers, best = (np.asarray(values, dtype=float) for values in line.get_data())
        assert (np.diff(best) >= 0).all()
        assert best[-1] == pytest.approx(100 * (side.chosen.score or 0.0))
        assert numbers[-1] == 4


def test_a_far_miss_does_not_flatten_the_rest() -> None:
    figure = draw_tuning(RESULT)
    low, high = figure.axes[0].get_ylim()
    assert low > 50 and high > 72
    assert legend(figure) == ["cross-gcn", "gcn", "chosen", "below", "failed"]


def test_a_search_alone_names_itself_only() -> None:
    figure = draw_tuning(TuningResult(TWIN, None))
    assert legend(figure) == ["gcn", "chosen"]


def test_a_failure_at_the_end_and_equal_scores_are_drawn() -> None:
    ours = tuned("cross-gcn", [0.7, 0.7, None], [0.7, 0.7], SPACE)
    assert legend(draw_tuning(TuningResult(ours, None))) == ["cross-gcn", "chosen", "failed"]


def test_the_picture_is_the_same_every_time_and_leaves_matplotlib_alone(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    for name in ("a.png", "b.png"):
        write_tuning_figure(tmp_path / name, RESULT)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    height, width, _ = imread(tmp_path / "a.png").shape
    assert width == 1350 and height > 600
    assert dict(matplotlib.rcParams) == before
