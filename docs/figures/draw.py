"""Draw the pictures of README.md and the documentation.

``python docs/figures/draw.py`` trains models of the bundled counties, photographs the page of one
in Chromium, light and dark, and draws what cross-hops reads. It takes two minutes on two cores.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from playwright.sync_api import sync_playwright

from crossgcn import TableModel, load_real

HERE = Path(__file__).parent
MODELS = ("majority-or-mean", "linear", "cross-hops-1", "cross-hops-2", "boosting", "boosting-hops")
BLUE, ORANGE, GREEN, INK, GREY = "#0072b2", "#d55e00", "#00704f", "#1f2530", "#9aa3b0"
STYLE = {"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "crossgcn"}


def write_page(path: Path) -> None:
    """Train cross-hops and a few simpler models on five splits, and write the page."""
    graph = load_real("us-county", target="democratic_share")
    model = TableModel(graph, {"num_splits": 5}).fit(workers=2)
    compared = path.parent / "compared"
    model.compare(MODELS, out=compared, workers=2)
    model.report(path, comparison=compared)


def photograph(page: Path) -> None:
    """Write the first screen of the page as PNG files 1280 points wide."""
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            tab = browser.new_page(viewport={"width": 1280, "height": 1030})
            tab.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            tab.goto(page.as_uri(), wait_until="networkidle")
            tab.screenshot(path=HERE / f"page-{scheme}.png")
        browser.close()


def draw_columns() -> None:
    """Draw a node, its neighbours and theirs, and the row of columns that cross-hops reads."""
    places = {"own": (0.0, 0.0)}
    near = [(-1.0, 0.75), (1.05, 0.6), (0.1, -1.1)]
    far = [(-2.0, 1.2), (-1.9, 0.1), (2.0, 1.2), (2.1, 0.0), (-0.8, -1.7), (1.0, -1.7)]
    ends = [0, 0, 1, 1, 2, 2]
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 2.7), layout="constrained")
        graph, row = figure.subplots(1, 2, width_ratios=(1, 1.9))
        for x, y in near:
            graph.plot([0, x], [0, y], color=GREY, lw=1.5, zorder=1)
        for (x, y), end in zip(far, ends, strict=True):
            graph.plot([near[end][0], x], [near[end][1], y], color=GREY, lw=1.5, zorder=1)
        for points, colour, size in (
            ([*places.values()], BLUE, 420),
            (near, ORANGE, 260),
            (far, GREEN, 160),
        ):
            graph.scatter(*zip(*points, strict=True), s=size, color=colour, zorder=2)
        graph.set(xlim=(-2.5, 2.6), ylim=(-2.1, 1.7), aspect="equal", title="a node in its graph")
        _draw_row(row)
        for axes in (graph, row):
            axes.axis("off")
        figure.savefig(HERE / "cross-hops.svg", metadata={"Date": None})


def _draw_row(axes: Axes) -> None:
    """Draw the blocks of columns, and a cross of two of them."""
    blocks = (
        ("", BLUE, "income, …", "the node's own columns"),
        ("neighbours:", ORANGE, "income, …", "means over its neighbours"),
        ("2 hops:", GREEN, "income, …", "means over their neighbours"),
        ("", "#5b6472", "number of neighbours", ""),
    )
    for place, (prefix, colour, columns, meaning) in enumerate(blocks):
        y = 3 - place
        axes.barh(y, 3.9, left=0, height=0.62, color=colour)
        axes.text(0.12, y, f"{prefix} {columns}".strip(), va="center", color="white", weight="bold")
        axes.text(4.05, y, meaning, va="center", color=INK)
    axes.annotate(
        "",
        (-0.05, 2),
        (-0.05, 3),
        arrowprops={"arrowstyle": "<->", "connectionstyle": "arc3,rad=0.9", "color": INK},
    )
    axes.text(-0.85, 2.5, "×", ha="center", va="center", fontsize=15, color=INK)
    axes.text(
        0, -0.85, "score = average + a term of each column + a term of each cross ×", color=INK
    )
    axes.set(xlim=(-1.1, 7.6), ylim=(-1.1, 3.5), title="what cross-hops reads of it")


if __name__ == "__main__":
    draw_columns()
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "page.html"
        write_page(written)
        photograph(written)
