from __future__ import annotations

from xml.etree import ElementTree

import matplotlib
import pytest
from hand_made import CURVES, FIGURE, ITEMS, STATISTICS, TABLE, TIMING, result_of

from crossgcn.reproduction.figures import COLOURS, colours, draw_item, make_chart, model_colours
from crossgcn.reproduction.items import Item
from crossgcn.reproduction.plan import ItemResult

DRAWN = (CURVES, FIGURE, TABLE, TIMING)


def drawn(item: Item, result: ItemResult | None = None) -> str:
    svg = draw_item(item, result or result_of(item))
    assert svg is not None
    return svg


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()).strip() for element in _all(svg, "text")]


def strokes(svg: str, colour: str) -> int:
    return svg.lower().count(f"stroke: {colour.lower()}")


def _all(svg: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(f"{{http://www.w3.org/2000/svg}}{tag}"))


@pytest.mark.parametrize("item", DRAWN, ids=lambda item: item.kind)
def test_a_figure_is_the_same_every_time(item: Item) -> None:
    assert drawn(item) == drawn(item)


def test_drawing_leaves_the_settings_of_matplotlib_alone() -> None:
    before = dict(matplotlib.rcParams)
    drawn(FIGURE)
    assert dict(matplotlib.rcParams) == before


def test_lines_have_their_panels_axes_and_names() -> None:
    shown = texts(drawn(FIGURE))
    for text in ("20 per class", "all nodes", "GCN", "GIN", "hidden size E", "test accuracy, %"):
        assert text in shown
    assert [text for text in shown if text in ("128", "256", "512")] == ["128", "256", "512"] * 2
    assert "the paper's numbers" in shown


def test_the_papers_numbers_are_left_out_of_a_legend_that_has_none() -> None:
    without = FIGURE.model_copy(update={"rows": FIGURE.rows[1:]})
    assert "the paper's numbers" not in texts(drawn(without))


def test_a_logarithmic_axis_has_a_place_for_zero() -> None:
    columns = [{"label": "none", "x": 0}, {"label": "1", "x": 1}, {"label": "32", "x": 32}]
    item = Item(**(FIGURE.model_dump() | {"columns": columns, "rows": [{"label": "GIN"}]}))
    shown = texts(drawn(item))
    assert [text for text in shown if text in ("none", "1", "32")] == ["none", "1", "32"] * 2


def test_curves_show_training_and_test_side_by_side() -> None:
    shown = texts(drawn(CURVES))
    assert "training accuracy" in shown and "test accuracy" in shown
    assert shown.count("epoch") == 2
    assert "original features" in shown and "cross features" in shown


def test_times_are_logarithmic_with_the_papers_dashed() -> None:
    svg = drawn(TIMING)
    assert "seconds an epoch" in texts(svg)
    assert "0.1" in texts(svg)
    assert svg.count("stroke-dasharray") == 3


def test_a_table_has_a_panel_for_each_dataset_and_a_line_for_each_model() -> None:
    shown = texts(drawn(TABLE))
    for text in ("Citeseer", "Cora", "GCN", "Cross-GCN", "DeepWalk", "gated (ours)"):
        assert shown.count(text) == 1
    assert "paper, mean ± sd" in shown


def test_a_model_has_one_colour_everywhere() -> None:
    assert model_colours(TABLE)["GCN"] == colours(FIGURE)["GCN"]
    for item in (FIGURE, TABLE):
        assert strokes(drawn(item), COLOURS[colours(item)["GCN"]])


def test_rows_of_one_model_are_told_apart_in_a_figure() -> None:
    same = FIGURE.model_copy(
        update={"rows": tuple(row.model_copy(update={"settings": {}}) for row in FIGURE.rows)}
    )
    assert len(set(colours(same).values())) == 2


def test_the_page_draws_the_same_numbers() -> None:
    chart = make_chart(FIGURE, result_of(FIGURE))
    assert chart is not None and chart.scale == "log" and chart.shared
    gcn = next(series for series in chart.panels[0].series if series.name == "GCN")
    cells = [c for c in result_of(FIGURE).cells if (c.row, c.panel) == ("GCN", "20 per class")]
    assert [x for x, _, _ in gcn.ours] == sorted(cell.x for cell in cells if cell.x is not None)
    assert [mean for _, mean, _ in gcn.ours] == pytest.approx(
        [100 * sum(cell.test_accuracy) / len(cell.test_accuracy) for cell in cells]
    )
    assert [label for _, label in chart.panels[0].ticks] == ["128", "256", "512"]
    timing = make_chart(TIMING, result_of(TIMING))
    assert timing is not None and timing.kind == "seconds"
    assert all(sd is None for series in timing.panels[0].series for _, _, sd in series.ours)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.kind)
def test_nothing_measured_is_nothing_drawn(item: Item) -> None:
    assert draw_item(item, ItemResult(item=item.name, cells=())) is None


def test_counts_are_not_drawn() -> None:
    assert draw_item(STATISTICS, result_of(STATISTICS)) is None


@pytest.mark.parametrize("item", [FIGURE, TABLE], ids=lambda item: item.kind)
def test_what_was_not_run_is_missing_from_the_figure(item: Item) -> None:
    missing = "20 per class" if item is FIGURE else "Cora"
    shown = texts(drawn(item, result_of(item, without=missing, splits=1)))
    assert missing not in shown
    assert ("all nodes" if item is FIGURE else "Citeseer") in shown
