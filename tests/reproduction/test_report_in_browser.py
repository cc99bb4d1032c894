"""The report in a real browser, as a reader opens it: from the disk, on a screen or a telephone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import AXE, LABELS_OF_FIGURES, MARKS, WIDTHS, Opened, open_browser
from hand_made import all_pairs
from playwright.sync_api import Browser, ViewportSize, expect

from crossgcn.reproduction.page import write_report

pytestmark = MARKS


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduction")
    write_report(folder, all_pairs(without="Cora", skipped=("cora is not here",)))
    return folder / "report.html"


@pytest.fixture(params=WIDTHS.values(), ids=list(WIDTHS))
def opened(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[Opened]:
    page = browser.new_page(viewport=ViewportSize(width=request.param, height=900))
    yield Opened(page, report)
    page.close()


def test_the_report_reads_well_and_asks_for_nothing(opened: Opened) -> None:
    page = opened.page
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [page.url]
    width = page.evaluate("window.innerWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    panels = page.locator("figure.paper").evaluate_all(
        "figures => figures.map(figure => figure.querySelectorAll('svg[role=img]').length)"
    )
    assert panels == [2, 2, 1, 1]
    assert page.locator("table.numbers").count() == 5
    for element in page.locator("svg, table, .claim, .badge").all():
        assert element.is_visible()
    for box in page.locator(".scroll, h1, h2, p, .card, dl").all():
        place = box.bounding_box()
        assert place is not None
        assert place["x"] >= 0 and place["x"] + place["width"] <= width


def test_nothing_serious_for_assistive_technology(opened: Opened) -> None:
    opened.page.evaluate(AXE.read_text(encoding="utf-8"))
    found = opened.page.evaluate(
        "axe.run({exclude: ['svg > *']}).then(result => result.violations)"
    )
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []


def test_no_label_of_a_figure_is_cut_or_too_small_to_read(opened: Opened) -> None:
    labels = opened.page.evaluate(LABELS_OF_FIGURES)
    assert len(labels) > 50
    assert [label for label, inside, _ in labels if not inside] == []
    assert min(size for label, _, size in labels if len(label) > 1) > 7


def test_on_paper_everything_is_unfolded_and_nothing_is_cut(opened: Opened) -> None:
    page = opened.page
    page.set_viewport_size({"width": 760, "height": 1000})
    page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = false")
    page.emulate_media(media="print")
    for table in page.locator("table").all():
        place = table.bounding_box()
        assert place is not None
        assert place["height"] > 0 and place["x"] + place["width"] <= 760


def test_a_link_to_a_claim_goes_there(opened: Opened) -> None:
    opened.page.get_by_role("link", name="Crosses beat GCN.", exact=True).click()
    assert opened.page.locator("#citation-claim-1").is_visible()
    top = opened.page.evaluate(
        "document.getElementById('citation-claim-1').getBoundingClientRect().top"
    )
    assert 0 <= top < 900


def test_contents_follow_the_reader_and_figures_the_scheme(browser: Browser, report: Path) -> None:
    page = Opened(browser.new_page(color_scheme="dark"), report).page
    expect(page.locator(".toc [aria-current]")).to_have_text("Verdicts")
    last = page.locator(".toc a").last
    last.click()
    expect(last).to_have_attribute("aria-current", "location")
    colours = page.evaluate(
        """() => [...document.querySelectorAll('figure svg text')]
            .map(text => getComputedStyle(text).fill)"""
    )
    assert set(colours) == {"rgb(230, 233, 238)"}
    papers = page.evaluate(
        """() => [...document.querySelectorAll('figure svg path')]
            .map(path => getComputedStyle(path).fill)
            .filter(fill => fill === 'rgb(255, 255, 255)')"""
    )
    assert papers == []
