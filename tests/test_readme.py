"""README.md: its snippets print what it shows, its links are there, and it is short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import readme

PROJECT = Path(__file__).parents[1]
TEXT = readme.PAGE.read_text(encoding="utf-8")


def test_the_snippets_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [language for language, _ in readme.blocks()] == [
        *("", "console", "python", "text", "python", "text")
    ]
    monkeypatch.chdir(tmp_path)
    readme.run_snippets()


def test_what_is_not_printed_is_found() -> None:
    readme.check_shown("R² 0.74\n…\nend", "head\nR²  0.75\nmiddle\nend")
    for shown in ("R² 0.9", "end\nR² 0.75", "other"):
        with pytest.raises(AssertionError):
            readme.check_shown(shown, "head\nR²  0.75\nmiddle\nend")


def test_it_is_two_screens_with_at_most_eight_links() -> None:
    assert len(TEXT.splitlines()) <= 135
    assert len(re.findall(r"\]\(", TEXT)) <= 8


@pytest.mark.parametrize(
    "guide",
    ["getting_started", "own_tables", "explanations", "scikit_learn", "pyg", "scale"],
)
def test_a_guide_is_two_screens(guide: str) -> None:
    text = (PROJECT / "docs" / f"{guide}.md").read_text()
    assert len(text.split()) <= 740 and len(text.splitlines()) <= 95


def test_links_and_pictures_of_every_page_are_there() -> None:
    pages = [*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")]
    pages += [PROJECT / folder / "README.md" for folder in ("benchmarks", "examples", "results")]
    for page in pages:
        if "_build" in page.parts:
            continue
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        found = re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"", text)
        for target in map("".join, found):
            path, _, heading = target.partition("#")
            if "://" in path:
                continue
            other = page.parent / path if path else page
            if other.name == "index.md":  # which shows the README
                other = readme.PAGE
            assert other.exists(), (page.name, target)
            if heading and not heading.startswith("crossgcn."):
                assert heading in headings(other.read_text()), (page.name, target)


def headings(text: str) -> set[str]:
    """The anchors of the headings of a page."""
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in found}
