from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_views import FIELDS, HOSTILE, hostile_view, number_view, shop_view

from crossgcn.errors import WorkFailed
from crossgcn.reports.format import Metric, readable, shorten, signed
from crossgcn.reports.run_report.page import (
    RunReport,
    embed_json,
    pack_nodes,
    render_run_report,
    write_run_report,
)
from crossgcn.reports.run_report.scores import Calibration, Confusion
from crossgcn.reports.run_report.view import NodeView, RunView


class Parsed(HTMLParser):
    """A page as a browser reads it: elements, their attributes, and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self._in_script = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts.append(data)
        else:
            self.text += data

    @property
    def node_data(self) -> dict[str, list[list[object]]]:
        content: dict[str, list[list[object]]] = json.loads(self.scripts[0])
        return content


@pytest.fixture(scope="module")
def shop() -> RunView:
    return shop_view(num_nodes=60, num_splits=3)


@pytest.fixture(scope="module")
def rendered(shop: RunView) -> RunReport:
    return render_run_report(shop)


def test_the_same_view_gives_the_same_bytes_in_a_file_too(
    rendered: RunReport, tmp_path: Path
) -> None:
    again = write_run_report(tmp_path / "report.html", shop_view(num_nodes=60, num_splits=3))
    assert again.html == rendered.html
    assert (tmp_path / "report.html").read_bytes() == again.html.encode()
    assert (tmp_path / "report.html").stat().st_size == again.size


def test_names_from_the_tables_are_text_and_nothing_else() -> None:
    page = Parsed(render_run_report(hostile_view()).html)
    assert page.elements.count("script") == 2
    assert not {"img", "iframe", "object", "embed", "form", "base"} & set(page.elements)
    assert not [name for name in page.attributes if name.startswith("on")]
    for name in HOSTILE:
        assert shorten(name) in page.text
    assert "49" not in re.findall(r"\w+", page.text[: page.text.index("Do crosses help?")])


def test_the_page_may_run_its_own_script_and_nothing_more(rendered: RunReport) -> None:
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', rendered.html)
    assert found is not None
    policy = found[1].replace("&#39;", "'")
    script = Parsed(rendered.html).scripts[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "base-uri 'none'" in policy and "form-action 'none'" in policy
    assert rendered.html.index("Content-Security-Policy") < rendered.html.index("<style")


@given(st.text())
def test_embedded_json_is_the_same_text_and_cannot_leave_its_element(text: str) -> None:
    embedded = embed_json({"key": text})
    assert json.loads(embedded) == {"key": text}
    assert not set("<>&\u2028\u2029") & set(embedded)


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_becomes_writable_without_control_and_direction_marks(text: str) -> None:
    shown = readable(text)
    shown.encode()
    assert not set("\u0000\u202e\u2066\r\n") & set(shown)
    assert 0 < len(shorten(text)) <= 160


def test_waterfalls_of_the_page_add_up_to_the_logit(shop: RunView) -> None:
    packed = json.loads(pack_nodes(shop.nodes, shop.classes, 10**6).text)
    for node, row in zip(shop.nodes, packed["nodes"], strict=True):
        start, total, steps = row[5:]
        labels = [packed["labels"][position] for position in steps[::2]]
        assert labels == [step.label for step in node.steps]
        assert start + sum(steps[1::2]) + node.rest == pytest.approx(total, abs=1e-4)
        assert total == pytest.approx(node.total, abs=1e-5)


@given(st.integers(-5, 20_000))
def test_nodes_never_take_more_room_than_there_is(room: int) -> None:
    nodes = _NODES
    packed = pack_nodes(nodes, ("a", "b", "c", "d"), room)
    frame = pack_nodes((), ("a", "b", "c", "d"), 0)
    assert len(packed.text.encode()) - len(frame.text.encode()) <= max(room, 0)
    content = json.loads(packed.text)
    assert [row[0] for row in content["nodes"]] == [node.id for node in nodes[: packed.count]]
    used = {step.label for node in nodes[: packed.count] for step in node.steps}
    assert set(content["labels"]) == used


_NODES: tuple[NodeView, ...] = shop_view(num_nodes=80, num_splits=1).nodes


def test_nodes_that_do_not_fit_are_left_out_and_the_page_says_so() -> None:
    view = shop_view(num_nodes=2000, num_splits=2)
    report = render_run_report(view, most_bytes=300_000)
    assert report.size <= 300_000
    assert 100 < report.nodes < 2000
    page = Parsed(report.html)
    assert f"{report.nodes:,} of 2,000 nodes (as many as fit into this file)" in page.text
    assert len(page.node_data["nodes"]) == report.nodes
    whole = Parsed(render_run_report(view).html)
    assert "2,000 of 2,000 nodes, predicted by" in whole.text


def test_very_many_classes_columns_and_long_names_still_fit() -> None:
    names = [f"category {number} {'with a name ' * 30}" for number in range(70)]
    fields = {f"{name} of a column": (f"{name}=a", f"{name}=b") for name in names}
    view = shop_view(classes=names, fields=fields, num_nodes=200, num_splits=1, num_crosses=20)
    report = render_run_report(view, most_bytes=800_000)
    text = Parsed(report.html).text
    assert report.size <= 800_000
    assert "crosses and as many features are shown for each class" in text
    assert "more columns" in text
    assert re.search(r"Shown are the \d+ classes with the most test nodes", text)


def test_a_page_that_cannot_be_small_enough_is_refused(shop: RunView, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("the old one")
    with pytest.raises(WorkFailed, match=r"4 classes and 12 columns are too many"):
        write_run_report(path, shop, most_bytes=20_000)
    assert path.read_text() == "the old one"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_a_heat_map_keeps_the_twenty_strongest_of_many_columns() -> None:
    fields = {f"column {number}": (f"column {number}=a",) for number in range(200)}
    text = Parsed(render_run_report(shop_view(fields=fields, num_nodes=20)).html).text
    assert "Shown are the 20 columns with the largest sums; 180 are left out." in text


def _without_test_nodes(view: RunView) -> RunView:
    nothing = Confusion.measure(view.classes, [], [])
    return replace(view, confusion=nothing, calibration=Calibration.measure([], []))


def _without_validation_loss(view: RunView) -> RunView:
    curves = [
        curve._replace(metrics={**curve.metrics, "validation_loss": ()}) for curve in view.curves
    ]
    return replace(view, curves=tuple(curves))


DEGENERATE = {
    "no crosses": shop_view(order=1, num_nodes=30),
    "order three, one split, compared": shop_view(order=3, num_splits=1, num_nodes=30),
    "one split, not compared": shop_view(num_splits=1, compared=False, num_nodes=30),
    "forty classes": shop_view(classes=[f"class {number}" for number in range(40)], num_nodes=60),
    "one field": shop_view(fields={"gender": FIELDS["gender"]}, num_nodes=30),
    "empty class names": shop_view(classes=("", " ", "\t"), num_nodes=30),
    "no nodes": shop_view(num_nodes=0),
    "no test nodes": _without_test_nodes(shop_view(num_nodes=30)),
    "no validation loss": _without_validation_loss(shop_view(num_nodes=30)),
    "nothing recorded": replace(
        shop_view(num_nodes=30), curves=(), facts={}, warnings=(), completeness=None
    ),
}


@pytest.mark.parametrize("view", DEGENERATE.values(), ids=list(DEGENERATE))
def test_missing_parts_are_left_out_of_the_page(view: RunView) -> None:
    report = render_run_report(view)
    page = Parsed(report.html)
    assert not re.findall(r"\b(nan|None|inf|Undefined)\b|\(\)", page.text)
    assert ("Strongest crosses" in page.text) == view.has_crosses
    assert ("Not compared" in page.text) == (view.comparison is None)
    assert page.elements.count("script") == (2 if view.nodes else 0)
    targets = set(re.findall(r'href="#([^"]+)"', report.html))
    assert targets <= set(re.findall(r'id="([^"]+)"', report.html))
    assert ("(empty)" in page.text) == ("" in view.classes), "empty names can be seen"


def test_every_metric_has_a_card_and_a_column(shop: RunView) -> None:
    test = {**shop.test, "mrr": (0.25, 0.5, 0.75)}
    text = Parsed(render_run_report(replace(shop, test=test)).html).text
    assert "\u00a0%test accuracy of cross-gcn, mean ± sd over 3 splits" in text
    assert "50.0 ± 25.0\u00a0%test MRR" in text
    assert "splittest accuracytest MRRchosen epoch" in text
    assert Metric("RMSE", percent=False).show(1.23456) == "1.235"


def test_a_number_has_residuals_and_no_accuracy() -> None:
    view = number_view()
    page = Parsed(render_run_report(view).html)
    words = ("mean ± sd over 4 splits", "test RMSE", "12.1", "Predicted against true spent")
    for each in (*words, "1,000 of them are drawn", "best validation R² was chosen"):
        assert each in page.text
    for absent in ("accuracy", "Calibration", "Class by class", "classes", "nan"):
        assert absent not in page.text
    assert view.beats_guess
    assert not replace(view, guess=3.0).beats_guess


@pytest.mark.parametrize(
    ("value", "text"), [(0.1234, "+0.123"), (-2.0, "−2.000"), (-0.0001, "0.000"), (0.0, "0.000")]
)
def test_signs_are_shown_but_not_of_zero(value: float, text: str) -> None:
    assert signed(value) == text
