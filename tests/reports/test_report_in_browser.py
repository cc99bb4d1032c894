"""The report in a real browser, as a reader opens it: from the disk, on a screen or a telephone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hand_made import all_pairs
from playwright.sync_api import Page, ViewportSize, sync_playwright

from crossgcn.reports.reproduction import write_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDTHS = {"telephone": 390, "screen": 1280}

# Playwright talks to the browser over pipes; only its event loop wants a pair of sockets.
pytestmark = [
    pytest.mark.enable_socket,
    pytest.mark.skipif(
        CHROMIUM is None and not os.environ.get("CI_REQUIRE_CHROMIUM"),
        reason="there is no Chromium on this machine (Debian: apt-get install chromium)",
    ),
]


class Opened:
    """A page, with all that it asked for and complained about."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("requestfailed", lambda request: self.complaints.append(request.url))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(path.as_uri(), wait_until="networkidle")
        page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")


@pytest.fixture(params=WIDTHS.values(), ids=list(WIDTHS))
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    assert CHROMIUM is not None, "CI_REQUIRE_CHROMIUM is set, but there is no Chromium"
    write_report(tmp_path, all_pairs(without="Cora", skipped=("cora is not here",)))
    size = ViewportSize(width=request.param, height=900)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield Opened(browser.new_page(viewport=size), tmp_path / "report.html")
        browser.close()


def test_the_report_reads_well_and_asks_for_nothing(opened: Opened, tmp_path: Path) -> None:
    page = opened.page
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [
        (tmp_path / "report.html").as_uri()
    ]
    width = page.evaluate("window.innerWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("figure svg").count() == 4
    assert page.locator("table.numbers").count() == 5
    for element in page.locator("svg, table, .claim, .badge").all():
        assert element.is_visible()
    for box in page.locator(".scroll, h1, h2, p, .card, dl").all():
        place = box.bounding_box()
        assert place is not None
        assert place["x"] >= 0 and place["x"] + place["width"] <= width


def test_no_label_of_a_figure_is_cut_or_too_small_to_read(opened: Opened) -> None:
    labels = opened.page.evaluate(
        """() => [...document.querySelectorAll('figure svg')].flatMap(svg => {
            const frame = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('text')].map(text => {
                const place = text.getBoundingClientRect();
                const inside = place.left >= frame.left - 1 && place.right <= frame.right + 1
                    && place.top >= frame.top - 1 && place.bottom <= frame.bottom + 1;
                return [text.textContent.trim(), inside, Math.min(place.width, place.height)];
            });
        })"""
    )
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
