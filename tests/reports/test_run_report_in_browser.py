"""The report of a run in a real browser, and what a hostile table can do to it: nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser import LABELS_OF_FIGURES, MARKS, WIDTHS, Opened, open_browser
from playwright.sync_api import Browser, ViewportSize
from run_views import HOSTILE, hostile_view, number_view, shop_view

from crossgcn.reports.format import shorten
from crossgcn.reports.run_report.page import write_run_report
from crossgcn.reports.run_report.view import RunView

pytestmark = MARKS

VIEWS: dict[str, RunView] = {
    "shop": shop_view(),
    "hostile": hostile_view(),
    "many": shop_view(
        classes=[f"category {number}" for number in range(40)],
        fields={f"column {number}": (f"column {number}=a",) for number in range(200)},
    ),
    "plain": shop_view(order=1, num_splits=1, compared=False),
}
Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One report for each view."""
    folder = tmp_path_factory.mktemp("reports")
    for name, view in (*VIEWS.items(), ("number", number_view())):
        write_run_report(folder / f"{name}.html", view)
    return folder


@pytest.fixture
def open_view(browser: Browser, folder: Path, tmp_path: Path) -> Iterator[Open]:
    """Open a report, changed where a test wants that."""
    context = browser.new_context()

    def open_one(
        name: str, width: int = 1280, change: Callable[[str], str] | None = None
    ) -> Opened:
        path = folder / f"{name}.html"
        if change is not None:
            text = change(path.read_text(encoding="utf-8"))
            path = tmp_path / f"{name}.html"
            path.write_text(text, encoding="utf-8")
        page = context.new_page()
        page.set_viewport_size(ViewportSize(width=width, height=900))
        return Opened(page, path)

    yield open_one
    context.close()


@pytest.mark.parametrize("width", WIDTHS.values(), ids=list(WIDTHS))
@pytest.mark.parametrize("name", list(VIEWS))
def test_the_report_reads_well_and_asks_for_nothing(open_view: Open, name: str, width: int) -> None:
    opened = open_view(name, width)
    page = opened.page
    page.locator("#node-table tbody button").first.click()
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [page.url]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        """width => [...document.querySelectorAll(
            'h1, h2, h3, p, li, dl, .card, .scroll, .drawing, .crosses, .list, .steps, #node-table'
        )].filter(element => {
            const place = element.getBoundingClientRect();
            return place.width === 0 || place.left < 0 || place.right > width + 0.5;
        }).map(element => element.outerHTML.slice(0, 80))""",
        width,
    )
    assert outside == []
    labels = page.evaluate(LABELS_OF_FIGURES)
    assert len(labels) > 20
    assert [label for label, inside, _ in labels if not inside] == []
    assert min(size for label, _, size in labels if len(label) > 1) > 7


@pytest.mark.parametrize("width", WIDTHS.values(), ids=list(WIDTHS))
def test_the_report_of_a_number_reads_well(open_view: Open, width: int) -> None:
    opened = open_view("number", width)
    assert opened.complaints == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    labels = opened.page.evaluate(LABELS_OF_FIGURES)
    assert [label for label, inside, _ in labels if not inside] == []
    assert {"true", "predicted", "true − predicted"} <= {label for label, *_ in labels}


@pytest.mark.parametrize("name", ["shop", "many"])
def test_on_paper_everything_is_unfolded_and_nothing_is_cut(open_view: Open, name: str) -> None:
    page = open_view(name, 760).page
    page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = false")
    page.emulate_media(media="print")
    cut = page.evaluate(
        """() => [...document.querySelectorAll('table')].map(table => table.getBoundingClientRect())
            .filter(place => place.height === 0 || place.right > 760).length"""
    )
    assert cut == 0


def test_a_node_is_found_by_its_id(open_view: Open) -> None:
    page = open_view("shop").page
    buttons = page.locator("#node-table tbody button")
    assert buttons.count() == 15
    page.get_by_label("Find an id").fill("U_88")
    assert buttons.first.inner_text() == "u_88"
    assert page.locator("#node-status").inner_text() == "1–1 of 1 matching node"
    page.get_by_label("Find an id").fill("u_49")
    assert buttons.all_inner_texts() == ["u_49", *(f"u_49{digit}" for digit in range(10))]
    page.get_by_label("Find an id").fill("nobody")
    assert buttons.count() == 0
    assert page.locator("#node-status").inner_text() == "0 matching nodes"


def test_only_mistakes_of_a_class_are_left_when_asked_for(open_view: Open) -> None:
    view, page = VIEWS["shop"], open_view("shop").page
    page.get_by_label("only mistakes").check()
    page.get_by_label("True or predicted class").select_option("garden")
    garden = view.classes.index("garden")
    wrong = [
        node.id
        for node in view.nodes
        if node.true_class is not None
        and node.true_class != node.predicted_class
        and garden in (node.true_class, node.predicted_class)
    ]
    buttons = page.locator("#node-table tbody button")
    assert buttons.all_inner_texts() == wrong[:15]
    page.get_by_role("button", name="Next").click()
    assert buttons.all_inner_texts() == wrong[15:30]
    page.get_by_role("button", name="Back").click()
    assert buttons.all_inner_texts() == wrong[:15]
    assert f"of {len(wrong)} matching" in page.locator("#node-status").inner_text()


def test_columns_sort_up_and_down(open_view: Open) -> None:
    view, page = VIEWS["shop"], open_view("shop").page
    column = page.locator("#node-table tbody td:nth-of-type(3)")
    by_probability = page.get_by_role("button", name="probability")
    shares = sorted(node.probability for node in view.nodes)
    for expected, name in ((shares, "ascending"), (shares[::-1], "descending")):
        by_probability.click()
        assert page.locator("#node-table th[aria-sort=" + name + "]").count() == 1
        shown = [float(text.split()[0]) for text in column.all_inner_texts()]
        assert shown == pytest.approx([100 * share for share in expected[:15]], abs=0.06)


def test_the_bars_of_a_waterfall_lead_from_the_bias_to_the_logit(open_view: Open) -> None:
    view, page = VIEWS["shop"], open_view("shop").page
    page.get_by_label("Find an id").fill(view.nodes[1].id)
    page.keyboard.press("Tab")
    first = page.locator("#node-table tbody button").first
    first.focus()
    page.keyboard.press("Enter")
    assert first.get_attribute("aria-expanded") == "true"
    assert page.evaluate("document.activeElement.textContent") == view.nodes[1].id
    values = [
        float(cell.get_attribute("data-value") or "nan")
        for cell in page.locator(".steps td[data-value]").all()
    ]
    node = view.nodes[1]
    assert values[0] == pytest.approx(node.start)
    assert values[1:-2] == pytest.approx([step.contribution for step in node.steps], abs=1e-5)
    assert values[-2] == pytest.approx(node.rest, abs=1e-4)
    assert sum(values[:-1]) == pytest.approx(values[-1]) == pytest.approx(node.total, abs=1e-5)

    places = page.evaluate(
        """() => [...document.querySelectorAll('.steps rect')].map(bar => {
            const place = bar.getBoundingClientRect();
            return [place.left, place.right];
        })"""
    )
    low, high = min(min(each) for each in places), max(max(each) for each in places)
    levels = [0.0, values[0]]
    for value in values[1:-1]:
        levels.append(levels[-1] + value)
    scale = (high - low) / (max(levels) - min(levels))
    for at, (left, right) in enumerate(places[:-1]):
        start, end = sorted(levels[at : at + 2])
        assert left == pytest.approx(low + scale * (start - min(levels)), abs=2)
        assert right == pytest.approx(low + scale * (end - min(levels)), abs=2)
    first.press("Enter")
    assert page.locator(".waterfall").count() == 0


def test_hostile_names_stay_text(open_view: Open) -> None:
    opened = open_view("hostile")
    page = opened.page
    for button in range(len(HOSTILE)):
        page.locator("#node-table tbody button").nth(button).click()
        page.locator("#node-class").select_option(index=1 + button % 8)
        page.locator("#node-class").select_option(index=0)
    assert opened.dialogs == []
    assert opened.complaints == []
    assert page.locator("img, iframe, object, embed, form").count() == 0
    assert page.locator("script").count() == 2
    assert page.locator("[onerror], [onclick], [onload]").count() == 0
    columns = page.locator("#columns tbody th").all_text_contents()
    assert columns == [shorten(name) for name in HOSTILE]
    assert page.title() == f"{HOSTILE[0]}: predicting {HOSTILE[1]}"


def test_the_policy_stops_whatever_would_slip_through(open_view: Open) -> None:
    slipped = (
        "<script>window.slipped = 1</script><img src=x onerror='window.slipped = 2'>"
        "<img src='https://example.org/pixel'><svg onload='window.slipped = 3'></svg></body>"
    )
    opened = open_view("plain", change=lambda page: page.replace("</body>", slipped))
    page = opened.page
    page.evaluate(
        """() => {
            const script = document.createElement('script');
            script.textContent = 'window.slipped = 4';
            document.body.append(script);
        }"""
    )
    assert page.evaluate("window.slipped === undefined")
    assert page.evaluate("fetch('https://example.org/').then(() => true, () => false)") is False
    assert opened.dialogs == []
    assert any("Content Security Policy" in text for text in opened.complaints)
    assert page.locator("#node-table tbody button").count() == 15
