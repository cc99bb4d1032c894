"""Pages in a real browser: they read well, ask for nothing, and do what they offer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import AXE, MARKS, Opened, open_browser, wait_until_drawn
from page_contents import HOSTILE, make_content
from playwright.sync_api import Browser, ViewportSize, expect

from crossgcn.reports.format import shorten
from crossgcn.reports.run_report.page import render_run_report, write_run_report

pytestmark = MARKS

WIDTHS = (390, 768, 1280, 1920)
PLAIN = ("gender", "age", "city", "income")
CONTENTS: dict[str, dict[str, Any]] = {
    "classes": make_content(("books", "garden", "sports"), PLAIN),
    "number": make_content(("spent",), PLAIN),
    "many": make_content(
        [shorten(f"{HOSTILE[at % 8]}{at}") for at in range(40)],
        [f"{HOSTILE[at % 8]} {at}" for at in range(60)],
        ids=HOSTILE,
        hub=10_000,
    ),
}
Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for name, content in CONTENTS.items():
        write_run_report(folder / f"{name}.html", content)
    return folder


@pytest.fixture
def open_page(browser: Browser, folder: Path) -> Iterator[Open]:
    context = browser.new_context()

    def open_one(name: str, width: int = 1280) -> Opened:
        page = context.new_page()
        page.set_viewport_size(ViewportSize(width=width, height=900))
        return Opened(page, folder / f"{name}.html")

    yield open_one
    context.close()


OUTSIDE = """width => [...document.querySelectorAll(
    'h1, h2, h3, p, main li, dl, .panel, .chart:not(.scroll) svg, .scroll, .rows, #node-table'
)].filter(element => {
    const place = element.getBoundingClientRect();
    return place.width && (place.left < -0.5 || place.right > width + 0.5);
}).map(element => element.outerHTML.slice(0, 80))"""

COLOURS = """() => [getComputedStyle(document.body).backgroundColor,
    getComputedStyle(document.querySelector('.chart svg')).color]"""
UNNAMED_CHARTS = """() => [...document.querySelectorAll('svg')].filter(svg =>
    !(svg.getAttribute('role') === 'img' && svg.getAttribute('aria-label'))
    && svg.getAttribute('aria-hidden') !== 'true').length"""
HIDDEN_CHARTS = """() => [...document.querySelectorAll('[data-chart]')]
    .filter(element => !element.querySelector('svg, p')).map(element => element.dataset.chart)"""


@pytest.mark.parametrize("name", list(CONTENTS))
def test_a_page_reads_well_at_every_width_and_asks_for_nothing(open_page: Open, name: str) -> None:
    opened = open_page(name)
    page = opened.page
    for width in WIDTHS:
        page.set_viewport_size(ViewportSize(width=width, height=900))
        wait_until_drawn(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(OUTSIDE, width) == []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        paper, ink = page.evaluate(COLOURS)
        light = [sum(map(int, re.findall(r"\d+", colour)[:3])) > 384 for colour in (paper, ink)]
        assert light == [scheme == "light", scheme == "dark"]
    assert page.evaluate(HIDDEN_CHARTS) == []
    assert opened.complaints == [] and opened.dialogs == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [page.url]


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [("classes", 1280, "light"), ("number", 390, "dark"), ("many", 390, "light")],
)
def test_nothing_serious_for_assistive_technology(
    open_page: Open, name: str, width: int, scheme: Any
) -> None:
    page = open_page(name, width).page
    page.emulate_media(color_scheme=scheme)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert page.evaluate(UNNAMED_CHARTS) == 0
    found = page.evaluate(
        """() => {
            for (const fold of document.querySelectorAll('details')) fold.open = false;
            return axe.run({exclude: ['svg > *']}).then(result => result.violations);
        }"""
    )
    serious = [
        (each["id"], [node["html"][:120] for node in each["nodes"][:3]])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_every_control_is_reached_by_keyboard(open_page: Open) -> None:
    page = open_page("classes").page
    page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = false")
    controls = page.evaluate(
        """() => [...document.querySelectorAll('a, button, select, input, summary, [tabindex="0"]')]
            .filter(element => !element.disabled && element.checkVisibility())
            .map((element, at) => { element.dataset.at = at; return at; })"""
    )
    page.evaluate("document.body.focus()")
    reached = set()
    for _ in range(len(controls) + 5):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.at"))
    assert {str(at) for at in controls} <= reached


def test_terms_are_searched_chosen_and_shown(open_page: Open) -> None:
    page = open_page("classes").page
    rows = page.locator("#term-browser .rows button")
    expect(rows).to_have_count(12)
    assert page.locator("#term-panel h3").inner_text().startswith("gender")
    amounts = [float(text.split()[0]) for text in page.locator(".rows .amount").all_inner_texts()]
    assert amounts == sorted(amounts, reverse=True)
    page.get_by_label("Find a column").fill("CITY")
    assert all("city" in text for text in rows.all_inner_texts())
    page.get_by_label("Find a column").fill("nothing like it")
    assert rows.count() == 0 and "No term matches" in page.locator("#term-panel").inner_text()
    page.get_by_label("Find a column").fill("")
    page.get_by_label("Kind", exact=True).select_option(label="triples")
    expect(page.locator("#term-panel .multiples svg")).to_have_count(4)
    page.get_by_label("Kind", exact=True).select_option(label="pairs")
    rows.nth(1).focus()
    page.keyboard.press("Enter")
    assert rows.nth(1).get_attribute("aria-expanded") == "true"
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    page.get_by_label("Whose").select_option(label="only the node's own")
    expect(rows, "here every pair is with the neighbourhood").to_have_count(0)
    page.get_by_label("Kind", exact=True).select_option(label="single columns")
    expect(rows).to_have_count(4)
    page.get_by_label("Score of").select_option(label="sports")
    assert "score of sports" in page.locator("#term-panel").inner_text()
    rows.filter(has_text="age").click()
    expect(page.locator("#term-panel svg"), "a shape and its histogram").to_have_count(2)


def test_on_a_telephone_what_is_chosen_opens_below_its_row(open_page: Open) -> None:
    page = open_page("classes", 390).page
    third = page.locator("#term-browser .rows > li").nth(2)
    third.locator("button").click()
    expect(page.locator("#term-browser .rows > li.chosen + li > .panel")).to_have_count(1)
    expect(page.locator("#node-table .chosen + .opened .panel")).to_have_count(1)


def test_a_waterfall_leads_from_the_average_to_the_score(open_page: Open) -> None:
    page = open_page("number").page
    row = CONTENTS["number"]["nodes"]["rows"][3]
    page.get_by_label("Find a node").fill(row["id"])
    page.locator("#node-table tbody button").first.click()
    words = page.locator(".waterfall svg").get_attribute("aria-label") or ""
    values = [float(each.replace("−", "-")) for each in re.findall(r" ([+−]?[\d.]+)(?:,|$)", words)]
    assert values[0] == pytest.approx(row["start"], rel=0.01)
    assert values[-1] == pytest.approx(row["score"], rel=0.01)
    assert sum(values[:-1]) == pytest.approx(values[-1], abs=0.02)
    assert page.locator(".waterfall rect").count() >= len(row["steps"]) + 3


def test_the_page_says_what_would_have_to_be_different(open_page: Open) -> None:
    page = open_page("classes").page
    row = CONTENTS["classes"]["nodes"]["rows"][1]
    page.locator("#node-table tbody button").nth(1).click()
    (line,) = page.locator("#node-panel .changes li").all_inner_texts()
    outcome = ("books", "garden", "sports")[row["changes"][0][0]]
    assert line.startswith(f"{outcome} if gender were high instead of low")
    assert "does not say that the change would cause" in page.locator("#node-panel").inner_text()
    expect(open_page("number").page.locator("#node-panel .changes")).to_have_count(0)


def test_nodes_are_found_filtered_and_sorted(open_page: Open) -> None:
    page = open_page("classes").page
    buttons = page.locator("#node-table tbody th button")
    expect(buttons).to_have_count(12)
    page.get_by_label("Find a node").fill("NODE 7")
    assert buttons.first.inner_text() == "node 7"
    page.get_by_label("Find a node").fill("nobody")
    assert page.locator("#node-status").inner_text() == "0 matching nodes"
    page.get_by_label("Find a node").fill("")
    page.get_by_role("button", name="Next").click()
    assert "13–24 of" in page.locator("#node-status").inner_text()
    page.get_by_role("button", name="degree").click()
    page.get_by_role("button", name="degree").click()
    expect(page.locator("#node-table th[aria-sort=descending]")).to_have_count(1)
    degrees = [
        int(text) for text in page.locator("#node-table tbody td:last-child").all_inner_texts()
    ]
    assert degrees == sorted(degrees, reverse=True)
    page.get_by_label("True or predicted class").select_option(label="garden")
    assert set(page.locator("#node-table tbody td:nth-of-type(1)").all_inner_texts()) == {"garden"}


def test_hostile_names_stay_text_and_a_hub_is_drawn(open_page: Open) -> None:
    opened = open_page("many")
    page = opened.page
    assert page.get_by_text("10,000 neighbours").count() or page.get_by_text("more are not").count()
    hub = page.locator("#node-table tbody tr", has_text="10,0").first
    page.get_by_role("button", name="degree").click()
    page.get_by_role("button", name="degree").click()
    hub.click()
    panel = page.locator("#node-panel")
    assert "The 24 that count most are drawn" in panel.inner_text()
    for at in range(8):
        page.locator("#term-browser .rows button").nth(at).click()
    page.get_by_label("Score of").select_option(index=5)
    assert opened.dialogs == [] and opened.complaints == []
    expect(page.locator("img, iframe, object, embed, form")).to_have_count(0)
    expect(page.locator("script")).to_have_count(4)
    expect(page.locator("[onerror], [onclick], [onload]")).to_have_count(0)
    columns = page.locator("#columns tbody th").all_text_contents()
    assert columns[0] == shorten(f"{HOSTILE[0]} 0")


def test_the_contents_follow_the_reader(open_page: Open) -> None:
    page = open_page("classes").page
    expect(page.locator(".toc [aria-current]")).to_have_text(["The answer"])
    page.locator("#performance").evaluate("element => element.scrollIntoView()")
    expect(page.locator(".toc [aria-current]")).to_have_text("Performance")
    page.get_by_role("link", name="Nodes").click()
    expect(page.locator(".toc [aria-current]")).to_have_text("Nodes")


def test_on_paper_nothing_is_cut(open_page: Open) -> None:
    page = open_page("classes", 760).page
    page.emulate_media(media="print")
    assert page.evaluate(OUTSIDE, 760) == []
    assert not page.locator(".toc").is_visible()


def test_the_policy_stops_whatever_would_slip_through(browser: Browser, tmp_path: Path) -> None:
    slipped = (
        "<script>window.slipped = 1</script><img src=x onerror='window.slipped = 2'>"
        "<img src='https://example.org/pixel'><svg onload='window.slipped = 3'></svg></body>"
    )
    html = render_run_report(CONTENTS["number"]).html.replace("</body>", slipped)
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    opened = Opened(browser.new_page(), tmp_path / "page.html")
    assert opened.page.evaluate("window.slipped === undefined")
    fetched = "fetch('https://example.org/').then(() => true, () => false)"
    assert opened.page.evaluate(fetched) is False
    assert opened.dialogs == []
    assert any("Content Security Policy" in text for text in opened.complaints)
