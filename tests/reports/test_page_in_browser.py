"""Tables that try to run code, from the CSV file to the page in a real browser."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest_fixtures import run_command
from playwright.sync_api import Browser, Dialog, Page, ViewportSize, expect, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
AXE = Path(__file__).parents[1] / "vendor" / "axe.min.js"
"""axe-core 4.14.0, unchanged as published; its licence is beside it."""

# Playwright talks to the browser over pipes; only its event loop wants a pair of sockets.
pytestmark = [
    pytest.mark.enable_socket,
    pytest.mark.skipif(
        CHROMIUM is None and not os.environ.get("CI_REQUIRE_CHROMIUM"),
        reason="there is no Chromium on this machine (Debian: apt-get install chromium)",
    ),
]

COLUMN = "<script>document.title='owned'</script>"
VALUE = '"><img src=x onerror="document.title=\'owned\'">'
CLASS = "{{ 7 * 7 }}<b>"
"""What a column, a category and a class are called here."""

OUTSIDE = """width => [...document.querySelectorAll(
    'h1, h2, h3, p, main li, dl, .panel, .chart:not(.scroll) svg, .scroll, .rows'
)].filter(element => {
    const place = element.getBoundingClientRect();
    return place.width && (place.left < -0.5 || place.right > width + 0.5);
}).map(element => element.outerHTML.slice(0, 80))"""
UNNAMED_CHARTS = """() => [...document.querySelectorAll('svg')].filter(svg =>
    !(svg.getAttribute('role') === 'img' && svg.getAttribute('aria-label'))
    && svg.getAttribute('aria-hidden') !== 'true').length"""
HIDDEN_CHARTS = """() => [...document.querySelectorAll('[data-chart]')]
    .filter(element => !element.querySelector('svg, p')).map(element => element.dataset.chart)"""
SERIOUS = """() => {
    for (const fold of document.querySelectorAll('details')) fold.open = false;
    return axe.run({exclude: ['svg > *']}).then(result => result.violations
        .filter(each => ['serious', 'critical'].includes(each.impact))
        .map(each => [each.id, each.nodes.slice(0, 3).map(node => node.html.slice(0, 120))]));
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a model of three classes, and that of a number, of two of its columns."""
    folder, random = tmp_path_factory.mktemp("pages"), np.random.default_rng(0)
    kind, age = random.integers(3, size=160), random.normal(40, 9, 160).round(1)
    nodes = pd.DataFrame(
        {
            "id": [f"u_{row}" for row in range(160)],
            COLUMN: np.array([VALUE, "male", "none"])[random.integers(3, size=160)],
            "age": age,
            "kind": np.array([CLASS, "garden", "sports"])[np.where(age > 45, 0, kind)],
            "spent": age * 3 + random.normal(size=160),
        }
    )
    nodes.to_csv(folder / "nodes.csv", index=False)
    ends = random.integers(160, size=(2, 500))
    edges = pd.DataFrame({"from": nodes["id"][ends[0]].values, "to": nodes["id"][ends[1]].values})
    edges[edges["from"] != edges["to"]].drop_duplicates().to_csv(folder / "edges.csv", index=False)
    for target, other, columns in (("kind", "spent", "all"), ("spent", "kind", 2)):
        run, tables = folder / target, (folder / "nodes.csv", folder / "edges.csv")
        quick = ("--order", 3, "--bags", 2, "--num-splits", 2, "--epochs", 5, "--workers", 1)
        done = run_command(
            "train", *tables, "--target", target, "--ignore", other, *quick,
            "--columns", columns, "--out", run,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        done = run_command("report", run, "--nodes", 30)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None, "CI_REQUIRE_CHROMIUM is set, but there is no Chromium"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


class Opened:
    """A page, with all that it asked for and complained about; dialogs are complaints."""

    def __init__(self, page: Page, path: Path) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("requestfailed", lambda request: self.complaints.append(request.url))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", self._dismiss)
        page.goto(path.as_uri(), wait_until="networkidle")
        page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")
        wait_until_drawn(page)

    def _dismiss(self, dialog: Dialog) -> None:
        self.complaints.append(dialog.message)
        dialog.dismiss()


def wait_until_drawn(page: Page) -> None:
    """Wait for two frames: charts are drawn by an observer of their width, once in a frame."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_a_page_of_classes(browser: Browser, folder: Path) -> None:
    path = folder / "kind" / "report.html"
    opened = Opened(browser.new_page(), path)
    page = opened.page
    for width in (390, 768, 1280, 1920):
        page.set_viewport_size(ViewportSize(width=width, height=900))
        wait_until_drawn(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(OUTSIDE, width) == []
    assert page.evaluate(HIDDEN_CHARTS) == [] and page.evaluate(UNNAMED_CHARTS) == 0

    rows = page.locator("#term-browser .rows button")
    page.get_by_label("Find a column").fill(COLUMN)
    page.get_by_label("Kind", exact=True).select_option(label="single columns")
    page.locator("#term-panel summary").click()
    text = page.locator("body").inner_text()
    assert COLUMN in text and VALUE in text and CLASS in text
    page.get_by_label("Find a column").fill("nothing like it")
    assert rows.count() == 0 and "No term matches" in page.locator("#term-panel").inner_text()
    page.get_by_label("Find a column").fill("")
    page.get_by_label("Kind", exact=True).select_option(label="triples")
    page.locator("#term-panel .multiples svg").nth(1).wait_for()
    page.get_by_label("Kind", exact=True).select_option(label="pairs")
    rows.nth(1).focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    page.get_by_label("Score of").select_option(label="sports")
    assert "score of sports" in page.locator("#term-panel").inner_text()
    amounts = [
        float(text.split()[0])
        for text in page.locator("#term-browser .rows .amount").all_inner_texts()
    ]
    assert amounts == sorted(amounts, reverse=True)

    page.get_by_label("Find a node").fill("nobody")
    assert page.locator("#node-status").inner_text() == "0 matching nodes"
    page.get_by_label("Find a node").fill("")
    page.get_by_label("only mistakes").check()
    mistakes = page.locator("#node-browser .rows button .wrong")
    expect(mistakes).to_have_count(page.locator("#node-browser .rows button").count())
    page.get_by_label("only mistakes").uncheck()
    page.get_by_label("True or predicted class").select_option(label="garden")
    page.locator("#node-browser .rows button").first.click()
    panel = page.locator("#node-panel").inner_text()
    assert "What would have to be different" in panel and "Its neighbourhood" in panel

    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert page.evaluate(SERIOUS) == []
    assert page.locator("img, iframe, object").count() == 0 and page.title() != "owned"
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [path.as_uri()]


def test_a_page_of_a_number_on_a_telephone_in_the_dark(browser: Browser, folder: Path) -> None:
    opened = Opened(browser.new_page(), folder / "spent" / "report.html")
    page = opened.page
    page.set_viewport_size(ViewportSize(width=390, height=900))
    page.emulate_media(color_scheme="dark")
    wait_until_drawn(page)
    assert page.evaluate(HIDDEN_CHARTS) == []
    assert "of 11 columns" in page.locator("#terms").inner_text()
    assert COLUMN in page.locator("#terms details").first.inner_text()
    path = page.locator("[data-chart=path] svg").get_attribute("aria-label") or ""
    assert path.endswith("chosen: 2, 2") and "2 columns" in path
    page.locator("#term-browser .rows > li").nth(2).locator("button").click()
    expect(page.locator("#term-browser .rows > li.chosen + li > .panel")).to_have_count(1)
    page.locator("#node-browser .rows > li > button").nth(1).click()
    words = page.locator(".waterfall svg").get_attribute("aria-label") or ""
    values = [float(each.replace("−", "-")) for each in re.findall(r" ([+−]?[\d.]+)(?:,|$)", words)]
    assert sum(values[:-1]) == pytest.approx(values[-1], rel=0.02)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert page.evaluate(SERIOUS) == []
    assert opened.complaints == []
