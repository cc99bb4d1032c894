"""The report of a run on a user's tables: one file that asks for nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from crossgcn.data.atomic_file import replacing
from crossgcn.errors import WorkFailed
from crossgcn.reports import run_words
from crossgcn.reports.run_packing import PackedNodes, pack_nodes
from crossgcn.reports.run_page import DETAIL, Detail, Figures, draw_figures, lay_out
from crossgcn.reports.run_view import RunView

__all__ = ["MOST_BYTES", "RunReport", "render_run_report", "write_run_report"]

MOST_BYTES: Final = 3_000_000

_SPARE: Final = 2_000
"""Bytes kept for the words that change with the number of nodes."""


@dataclass(frozen=True)
class RunReport:
    """A page, and how much of the run it could hold.

    Attributes:
        html: The page.
        nodes: How many can be looked up in it.
        num_nodes: How many there are.
    """

    html: str
    nodes: int
    num_nodes: int

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self.html.encode())


def render_run_report(view: RunView, *, most_bytes: int = MOST_BYTES) -> RunReport:
    """Make the page: no request, no script but its own, the same bytes for the same view.

    Whatever is in the user's tables is shown as text. A page that would be too big
    lists fewer crosses, classes and columns, and then as many nodes as there is room
    for, and says so.

    Args:
        view: What is reported.
        most_bytes: How big the file may be.
    """
    figures = draw_figures(view)
    frame = pack_nodes((), view.classes, view.num_nodes, 0)
    for detail in DETAIL:
        size = len(_render(view, figures, frame, detail).encode())
        room = most_bytes - size - _SPARE
        nodes = pack_nodes(view.nodes, view.classes, view.num_nodes, room)
        enough = nodes.count == len(view.nodes) or room >= most_bytes // 5 or detail is DETAIL[-1]
        if room >= 0 and enough:
            page = _render(view, figures, nodes, detail)
            return RunReport(page, nodes.count, view.num_nodes)
    raise WorkFailed(
        f"the report takes {size:,} bytes without a single node and may take {most_bytes:,}: "
        f"{len(view.classes):,} classes and {len(view.columns):,} columns are too many for a page"
    )


def write_run_report(path: Path, view: RunView, *, most_bytes: int = MOST_BYTES) -> RunReport:
    """Write the page, whole or not at all.

    Args:
        path: The file; its folder must exist.
        view: What is reported.
        most_bytes: How big the file may be.
    """
    report = render_run_report(view, most_bytes=most_bytes)
    with replacing(path) as file:
        file.write(report.html.encode())
    return report


def _render(view: RunView, figures: Figures, nodes: PackedNodes, detail: Detail) -> str:
    page = lay_out(view, figures, nodes, detail)
    return _environment().get_template("run_report.html.j2").render(view=view, page=page) + "\n"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("crossgcn.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters |= {
        "lost": run_words.lost,
        "name": run_words.shorten,
        "number": run_words.number,
        "percent": run_words.percent,
        "points": run_words.points,
        "signed": run_words.signed,
        "spread": run_words.spread,
    }
    return environment


def _finalize(value: Any) -> Any:
    """Text that is not our own markup loses what no page can hold."""
    return run_words.readable(value) if type(value) is str else value
