"""The look of all figures."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH: Final = 9.0
"""Width of a figure in inches, with nine-point text: legible at 900 pixels."""

INK: Final = "#3d4450"

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


def to_svg(figure: Figure) -> str:
    """Return a figure, drawn within :func:`figure_style`, as SVG, the same bytes every time."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=nothing)
    return buffer.getvalue()
