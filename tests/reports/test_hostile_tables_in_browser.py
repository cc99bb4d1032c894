"""Tables that try to run code, from the CSV file to the page in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from browser import MARKS, Opened, open_browser

from crossgcn.data.datasets.shop import make_shop

pytestmark = MARKS

COLUMN = "<script>document.title='owned'</script>"
VALUE = '"><img src=x onerror="document.title=\'owned\'">'
"""What a column and a category are called here."""


@pytest.fixture
def page_of_hostile_tables(crossgcn: Callable[..., CompletedProcess[str]], tmp_path: Path) -> Path:
    shop = make_shop(300, seed=3)
    nodes = shop.nodes.rename(columns={"gender": COLUMN})
    nodes[COLUMN] = nodes[COLUMN].replace("female", VALUE)
    nodes["buys"] = nodes["buys"].replace("books", "{{ 7 * 7 }}<b>")
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    shop.edges.to_csv(tmp_path / "edges.csv", index=False)
    trained = crossgcn("train", "nodes.csv", "edges.csv", "--target", "buys", "--epochs", "5",
                       "--model", "cross-gcn",
                       "--num-splits", "1", "--workers", "1", "--out", "run")  # fmt: skip
    assert trained.returncode == 0, trained.stderr
    reported = crossgcn("report", "run", "--nodes", "30")
    assert reported.returncode == 0, reported.stderr
    return tmp_path / "run" / "report.html"


def test_code_in_tables_is_text_on_the_page(page_of_hostile_tables: Path) -> None:
    with open_browser() as browser:
        opened = Opened(browser.new_page(), page_of_hostile_tables)
        page = opened.page
        page.get_by_label("Find a column").fill(COLUMN)
        page.get_by_label("Kind", exact=True).select_option(label="single columns")
        page.locator("#term-panel summary").click()
        text = page.locator("body").inner_text()
        assert COLUMN in text and VALUE in text and "{{ 7 * 7 }}<b>" in text
        page.get_by_label("Find a node").fill("u_1")
        page.get_by_role("button", name="u_1", exact=False).first.click()
        assert page.locator("img, iframe, object").count() == 0
        assert page.title() != "owned"
        assert opened.complaints == opened.dialogs == []
        assert [url for url in opened.requests if not url.startswith("data:")] == [
            page_of_hostile_tables.as_uri()
        ]
