from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hand_made import ITEMS, STATISTICS, TABLE, TIMING, all_pairs, result_of
from rich.console import Console

from crossgcn.reports.run_report.page import LIBRARIES, read_part
from crossgcn.reproduction.items import Item
from crossgcn.reproduction.numbers import item_table, number_table
from crossgcn.reproduction.page import (
    ReportView,
    render_html,
    render_markdown,
    summarise_reproduction,
    write_report,
)
from crossgcn.reproduction.plan import ItemResult

VOID = {"meta", "link", "br", "use", "path"}
Pair = tuple[Item, ItemResult]


class Page(HTMLParser):
    """Checks that elements close, and collects text, identifiers and references."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.identifiers: list[str] = []
        self.references: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.identifiers.append(value or "")
            elif name in ("href", "src", "xlink:href", "data", "action", "srcset", "poster"):
                self.references.append((tag, value or ""))

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def lines(item: Item, result: ItemResult) -> dict[str, tuple[str, ...]]:
    return {
        f"{group.label} {line.cells[0]}": line.cells[1:]
        for group in number_table(item, result).groups
        for line in group.lines
    }


def shown(item: Item, result: ItemResult, width: int = 160) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(item_table(item, result))
    return capture.get()


def test_numbers_stand_beside_the_papers() -> None:
    table = number_table(TABLE, result_of(TABLE))
    found = lines(TABLE, result_of(TABLE))
    headers = ("paper, %", "ours, %", "difference", "paired to GCN", "chosen size")
    assert table.headers[1:] == headers
    assert found["Citeseer GCN"] == ("69.7 ± 2.0", "70.1 ± 1.7", "+0.4", "—", "32")
    assert found["Cora Cross-GCN"] == ("79.8 ± 1.6", "77.9 ± 1.6", "-1.9", "-1.20 ± 0.12", "—")
    assert found["Citeseer gated (ours)"][:3] == ("—", "67.9 ± 1.6", "—")
    assert table.groups[1].lines[1].interval == "-1.57 to -0.83"


def test_a_reason_is_a_note_that_its_line_points_to() -> None:
    table = number_table(TABLE, result_of(TABLE))
    assert table.notes == ("Paired over splits, crosses do not help there.",)
    marked = [line for group in table.groups for line in group.lines if line.marks]
    assert [(line.cells[0], line.marks) for line in marked] == [("Cross-GCN", (1,))]


def test_seconds_come_with_their_ratio_and_the_papers() -> None:
    found = lines(TIMING, result_of(TIMING))
    assert found["Cross-GCN 64"] == ("0.525", "0.03", "-0.495", "1.25 (paper 1.13)")


def test_counts_are_whole_numbers() -> None:
    found = lines(STATISTICS, result_of(STATISTICS))
    assert found["Citeseer nodes"] == ("3,312", "3,327", "+15")
    assert found["Citeseer label rate"][:2] == ("0.036", "0.0361")


def test_what_the_paper_prints_and_was_not_run_is_shown_as_such() -> None:
    found = lines(TABLE, result_of(TABLE, without="Cora"))
    assert found["Cora GCN"][:2] == ("79.1 ± 1.8", "not run")
    assert "Cora gated (ours)" not in found
    assert ReportView([(TABLE, result_of(TABLE, without="Cora"))]).counts["not run"] == 2


def test_the_summary_adds_up() -> None:
    view = ReportView(all_pairs())
    verdicts = Counter(
        line.verdict.name
        for section in view.sections
        for group in section.table.groups
        for line in group.lines
        if line.verdict is not None
    )
    assert view.counts["agree"] == verdicts["within one sd"] + verdicts["the same"] == 4
    assert view.counts["outside"] == verdicts["outside"] + verdicts["differs"] == 3
    assert view.counts["not reproducible"] == 6
    summary = summarise_reproduction(all_pairs())
    assert {name: count for name, count in summary["verdicts"].items() if count} == verdicts
    assert summary["claims"]["does not hold"] == 1
    assert view.runs == 4 * (2 + 12 + 8 + 2)


def test_the_summary_holds_each_number_and_its_verdict() -> None:
    (item,) = summarise_reproduction([(TABLE, result_of(TABLE))])["items"]
    cell = next(c for c in item["cells"] if (c["row"], c["column"]) == ("Cross-GCN", "Citeseer"))
    assert cell["mean"] == pytest.approx(68.9)
    assert cell["difference"] == pytest.approx(-2.4)
    assert cell["verdict"] == "outside"
    assert cell["paired_difference"] == pytest.approx(-1.2)
    assert cell["paired_interval"][1] < 0


@pytest.fixture(scope="module")
def html() -> str:
    return render_html(all_pairs())


def test_the_page_says_what_was_found(html: str) -> None:
    text = Page(html).text
    for words in (
        "Crosses beat GCN.",
        "does not hold",
        "Only where there is little else.",
        "-1.20 points, 95 % interval -1.57 to -0.83",
        "Paired over splits, crosses do not help there.",
        "The paper does not say how many nodes were trained on.",
        "within 3 points",
        "torch 2.13.0",
        "20 authors'",
        "x86_64 (cpu)",
    ):
        assert words in text


def test_the_page_stands_alone_and_its_links_lead_somewhere(html: str) -> None:
    page = Page(html)
    assert len(page.identifiers) == len(set(page.identifiers))
    targets = {f"#{name}" for name in page.identifiers}
    assert {value for _, value in page.references} - targets == {"data:,"}
    assert html.count("<script") == 4 and "@import" not in html and "url(http" not in html
    without = re.sub(r"<script>.*?</script>|<!--.*?-->", "", html, flags=re.DOTALL)
    assert "http:" not in without and "https:" not in without


def test_the_page_is_small(html: str) -> None:
    library = sum(len(read_part("vendor", name).encode()) for name in LIBRARIES)
    assert len(html.encode()) - library < 300_000


def test_a_page_of_many_long_curves_stays_below_three_megabytes() -> None:
    curves = ITEMS[1]
    result = result_of(curves)
    epochs = tuple(range(1, 501))
    noisy = tuple(0.5 + 0.4 * ((epoch * 7919) % 101) / 101 for epoch in epochs)
    cells = []
    for cell in result.cells:
        assert cell.curve is not None
        long = {"epoch": epochs, "train": noisy, "test": noisy}
        long |= {"train_sd": noisy, "test_sd": noisy}
        cells.append(cell.model_copy(update={"curve": cell.curve.model_copy(update=long)}))
    pairs = [(curves, result.model_copy(update={"cells": tuple(cells)}))] * 5
    assert len(render_html(pairs).encode()) < 3_000_000


def test_names_are_shown_and_never_executed() -> None:
    evil = '<script>alert(1)</script> | *bold* & "x" \''
    item = TABLE.model_copy(update={"title": evil, "protocol": evil, "not_reproducible": evil})
    pairs = [(item, result_of(item, skipped=(evil,), environment={"commit": evil}))]
    html = render_html(pairs)
    assert html.count("<script") == 4, "the page's own, which the policy allows by their hashes"
    assert html.count("&lt;script&gt;") >= 4
    markdown = render_markdown(pairs)
    assert "<script" not in markdown.replace("\\<script", "")
    assert all(line.count(" | ") == 6 for line in markdown.splitlines() if line.startswith("| G"))


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [(item, ItemResult(item=item.name, cells=())) for item in ITEMS],
        all_pairs(splits=1, shortened=("1 of 20 splits",)),
        all_pairs(without="Cora", skipped=("cora is not here: crossgcn data get cora",)),
        all_pairs(without="20 per class"),
    ],
    ids=["no item", "no cell", "one split", "a dataset less", "a panel less"],
)
def test_a_partial_result_makes_a_whole_report(pairs: list[Pair]) -> None:
    Page(render_html(pairs))
    assert render_markdown(pairs).startswith("# ")
    summarise_reproduction(pairs)
    for pair in pairs:
        assert pair[0].title in shown(*pair)


def test_what_was_left_out_is_said_in_both_reports() -> None:
    pairs = all_pairs(splits=1, shortened=("1 of 20 splits",), skipped=("no cora here",))
    for text in (Page(render_html(pairs)).text, render_markdown(pairs)):
        assert text.count("1 of 20 splits") == len(pairs)
        assert text.count("no cora here") == len(pairs)
        assert "In this project's full run: Only where there is little else." in text
        assert "not tested" in text


def test_markdown_says_the_same_as_the_page() -> None:
    markdown = render_markdown(all_pairs())
    assert (
        "| Cross-GCN | 71.3 ± 1.7 | 68.9 ± 1.6 | -2.4 | -1.20 ± 0.12 (-1.57 to -0.83) | — "
        "| outside [1] |" in markdown
    )
    assert "1. Paired over splits, crosses do not help there." in markdown
    assert "**Does not hold:** Crosses beat GCN." in markdown
    assert "<svg" not in markdown and "![" not in markdown


def test_a_written_report_is_complete_and_the_same_every_time(html: str, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "report"
    write_report(folder, all_pairs()[:2])
    write_report(folder, all_pairs())
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    drawn = ["citation", "cross-inputs", "hidden-size", "training-time"]
    assert names == [*(f"figures/{name}.svg" for name in drawn), "report.html", "report.md"]
    assert (folder / "report.html").read_text(encoding="utf-8") == html
    for name in drawn:
        assert f"](figures/{name}.svg)" in (folder / "report.md").read_text(encoding="utf-8")


def test_the_terminal_shows_numbers_verdicts_and_claims() -> None:
    text = shown(TABLE, result_of(TABLE))
    assert re.search(
        r"Cross-GCN +71.3 ± 1.7 +68.9 ± 1.6 +-1.20 ± 0.12 +outside \(-2.4\) \[1\]", text
    )
    assert "[1] Paired over splits, crosses do not help there." in text
    assert "does not hold  Crosses beat GCN." in text


def test_the_terminal_sets_a_figure_side_by_side() -> None:
    text = shown(TIMING, result_of(TIMING))
    assert re.search(r"Cross-GCN +0.015 \(0.485\) +0.03 \(0.525\)", text)


def test_a_narrow_terminal_cuts_nothing() -> None:
    narrow = shown(TABLE, result_of(TABLE), width=60)
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 60
