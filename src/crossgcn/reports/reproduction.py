"""The report of ``crossgcn reproduce``: one page, and the same in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from crossgcn.data.atomic_file import replacing
from crossgcn.evaluation.item_results import ItemResult
from crossgcn.evaluation.items import Item
from crossgcn.reports.report_view import COUNTED, OUTCOMES, ReportView, view_report
from crossgcn.reports.reproduction_markdown import markdown
from crossgcn.reports.reproduction_summary import summarise_reproduction

__all__ = [
    "render_html",
    "render_markdown",
    "summarise_reproduction",
    "write_markdown",
    "write_report",
]

TITLE = "Cross-GCN, reproduced"
Pairs = Sequence[tuple[Item, ItemResult]]


def render_html(pairs: Pairs, *, title: str = TITLE) -> str:
    """The report as one page that needs nothing else: no script, no request.

    Args:
        pairs: Items and what came out of them, in the order of the report.
        title: Of the page.
    """
    return _html(view_report(pairs), title)


def render_markdown(
    pairs: Pairs, *, title: str = TITLE, figures: Mapping[str, str] | None = None
) -> str:
    """The same in Markdown, figures as tables.

    Args:
        pairs: Items and what came out of them, in the order of the report.
        title: Its heading.
        figures: Drawings to show as well, by item, each as a path.
    """
    return markdown(view_report(pairs, draw=False), title, figures)


def write_report(folder: Path, pairs: Pairs, *, title: str = TITLE) -> None:
    """Write ``report.html``, and ``report.md`` with its figures beside it.

    Each file is replaced whole or not at all, so that a report can be read while
    the next one is being written.

    Args:
        folder: Where to; made when it is not there.
        pairs: Items and what came out of them, in the order of the report.
        title: Of the page.
    """
    view = view_report(pairs)
    _write(folder / "report.md", markdown(view, title, _write_figures(folder, view)))
    _write(folder / "report.html", _html(view, title))


def write_markdown(folder: Path, pairs: Pairs, *, title: str = TITLE) -> None:
    """Write ``report.md`` with its figures beside it, as :func:`write_report` does, alone."""
    view = view_report(pairs)
    _write(folder / "report.md", markdown(view, title, _write_figures(folder, view)))


def _write_figures(folder: Path, view: ReportView) -> dict[str, str]:
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    drawn = {}
    for section in view.sections:
        if section.figure is not None:
            drawn[section.item.name] = f"figures/{section.item.name}.svg"
            _write(folder / drawn[section.item.name], section.figure + "\n")
    return drawn


def _html(view: ReportView, title: str) -> str:
    environment = Environment(
        loader=PackageLoader("crossgcn.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html.j2").render(
        title=title,
        view=view,
        outcomes=OUTCOMES,
        counted=COUNTED,
        figures={s.item.name: Markup(s.figure) for s in view.sections if s.figure is not None},
    )
    return page + "\n"


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
