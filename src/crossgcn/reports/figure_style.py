"""The look of all figures, and their conversion to SVG for a page."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH: Final = 9.0
"""Width of a figure in inches, with nine-point text: legible at 900 pixels."""

INK: Final = "#3d4450"

_PIXELS_PER_INCH: Final = 105

_STYLE: Final[dict[Any, Any]] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.edgecolor": "#9aa1ad",
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e4e7ec",
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",
}


@contextmanager
def figure_style(name: str) -> Iterator[None]:
    """Draw figures in one style, with SVG identifiers that depend on the name only."""
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        yield


def tidy(axes: Axes) -> None:
    """Remove the tick marks; the grid replaces them."""
    axes.tick_params(which="both", length=0)
    axes.tick_params(axis="x", pad=4)


def to_svg(figure: Figure, name: str, label: str) -> str:
    """Return a figure as an ``<svg>`` element, the same bytes every time.

    Identifiers start with ``name``, so that several figures can share a page. Style rules that
    would apply outside the figure are removed.

    Args:
        figure: Drawn within :func:`figure_style` of the same name.
        name: Name of the figure.
        label: Description for screen readers.
    """
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].rstrip()
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", text, flags=re.DOTALL)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', text))
    text = re.sub(
        r' id="([^"]+)"',
        lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "",
        text,
    )
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    text = re.sub(r'xlink:href="#', f'xlink:href="#{name}-', text)
    text = re.sub(r' (width|height)="[0-9.]+pt"', "", text, count=2)
    pixels = round(figure.get_figwidth() * _PIXELS_PER_INCH)
    opening = (
        f'<svg role="img" aria-label="{html.escape(label)}" stroke-linejoin="round" '
        f'style="max-width:{pixels}px"'
    )
    return text.replace("<svg", opening, 1)


_VARIABLES: Final = {
    "#ffffff": "paper", "white": "paper", "#000000": "ink", INK: "ink",
    "#9aa1ad": "soft", "#8b93a1": "soft", "#e4e7ec": "grid",
}  # fmt: skip
"""The style variable of a page that takes the place of each colour of a figure."""


def follow_scheme(svg: str) -> str:
    """Return a figure whose paper, ink and grid follow the light or dark scheme of its page."""
    for colour, name in _VARIABLES.items():
        svg = re.sub(rf"(: ?){colour}\b", rf"\1var(--{name})", svg, flags=re.IGNORECASE)
    return svg
