"""A real browser for tests: the one on this machine, held to what is on the disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

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
AXE = Path(__file__).parents[1] / "vendor" / "axe.min.js"
"""axe-core 4.14.0, unchanged as published; its licence is beside it."""

# Playwright talks to the browser over pipes; only its event loop wants a pair of sockets.
MARKS = [
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
        self.dialogs: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("requestfailed", lambda request: self.complaints.append(request.url))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", self._dismiss)
        page.goto(path.as_uri(), wait_until="networkidle")
        page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")
        wait_until_drawn(page)

    def _dismiss(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()


def wait_until_drawn(page: Page) -> None:
    """Wait for two frames: charts are drawn by an observer of their width, once in a frame."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start the browser, and end it."""
    assert CHROMIUM is not None, "CI_REQUIRE_CHROMIUM is set, but there is no Chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
