"""The report of a run on a user's tables: one file that asks for nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, Final, get_args

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from crossgcn.data.files import replacing
from crossgcn.errors import WorkFailed
from crossgcn.reports.run_report import view as run_words
from crossgcn.reports.run_report.figures import (
    Matrix,
    confusion_matrix,
    draw_accuracy_curves,
    draw_calibration,
    draw_comparison,
    draw_loss_curves,
    draw_order_weights,
    field_matrix,
)
from crossgcn.reports.run_report.view import (
    ClassCrosses,
    NodeView,
    Role,
    RunView,
    list_environment,
    shorten,
)

_DIGITS = 5


@dataclass(frozen=True)
class PackedNodes:
    """What the page's script reads.

    Attributes:
        text: JSON, to be put into the page as it is.
        count: How many nodes are in it.
    """

    text: str
    count: int


def pack_nodes(
    nodes: Sequence[NodeView], classes: Sequence[str], num_nodes: int, room: int
) -> PackedNodes:
    """Put nodes into JSON that can stand inside a page, as many as there is room for.

    A label occurs in many waterfalls and is written once.

    Args:
        nodes: The ones most worth keeping first.
        classes: Their names.
        num_nodes: How many there are in all, shown or not.
        room: How many bytes nodes and labels may take.
    """
    labels: dict[str, int] = {}
    rows: list[str] = []
    for node in nodes:
        known = len(labels)
        row = embed_json(_pack(node, labels))
        new = list(islice(reversed(labels), len(labels) - known))
        room -= sum(len(embed_json(text).encode()) + 1 for text in new) + len(row.encode()) + 1
        if room < 0:
            for label in new:
                del labels[label]
            break
        rows.append(row)
    frame = {
        "classes": [shorten(name) for name in classes],
        "roles": get_args(Role),
        "total": num_nodes,
        "labels": list(labels),
    }
    return PackedNodes(f'{embed_json(frame)[:-1]},"nodes":[{",".join(rows)}]}}', len(rows))


def embed_json(content: Any) -> str:
    """JSON in which nothing can end or open an element, nor a line of a script."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _pack(node: NodeView, labels: dict[str, int]) -> list[Any]:
    """One node as a row; labels that are new get the next number."""
    steps: list[float] = []
    for step in node.steps:
        steps += [labels.setdefault(shorten(step.label), len(labels)), _round(step.contribution)]
    return [
        shorten(node.id),
        -1 if node.true_class is None else node.true_class,
        node.predicted_class,
        round(node.probability, 4),
        get_args(Role).index(node.role),
        _round(node.start),
        _round(node.total),
        steps,
    ]


def _round(value: float) -> float:
    """Short enough for a page, exact enough for bars that add up."""
    return round(value, _DIGITS) + 0.0


@dataclass(frozen=True)
class Detail:
    """How much to show, where there may be very much.

    Attributes:
        crosses: Of each class, and as many single features.
        classes: In the confusion matrix.
        columns: Of the table of columns.
    """

    crosses: int
    classes: int
    columns: int


DETAIL: Final = (Detail(20, 40, 500), Detail(8, 25, 200), Detail(3, 12, 50))
"""From the most to the least; a page that is too big is laid out with the next."""

_MOST_FIELDS: Final = 20


@dataclass(frozen=True)
class Figures:
    """``<svg>`` elements; none where there is nothing to draw."""

    comparison: Markup | None
    order_weights: Markup | None
    loss: Markup | None
    accuracy: Markup | None
    calibration: Markup | None


@dataclass(frozen=True)
class Page:
    """All that the template does not compute itself.

    Attributes:
        figures: The drawings.
        crosses: Of each class, as many as are shown.
        cut_crosses: How many that is, where some were left out; none elsewhere.
        fields: Columns by columns; none where nothing is crossed.
        confusion: Classes by classes.
        nodes: Those that can be looked up.
        detail: How much is shown.
        mean_accuracy: Over the splits.
        greatest_cross: The longest bar of a cross.
        greatest_term: The longest bar of a single feature.
        fixed_layers: Layers whose order weights were not learned, as words.
        comparison_splits: What models were compared on, as words.
        environment: Lines of the record.
    """

    figures: Figures
    crosses: tuple[ClassCrosses, ...]
    cut_crosses: int | None
    fields: Matrix | None
    confusion: Matrix
    nodes: PackedNodes
    detail: Detail
    mean_accuracy: float
    greatest_cross: float
    greatest_term: float
    fixed_layers: str
    comparison_splits: str
    environment: tuple[tuple[str, str], ...]

    open_classes: int = 8
    first: int = 6
    most_warnings: int = 40

    @property
    def script(self) -> Markup:
        """What makes the table of nodes work: ours, and nothing from the tables."""
        return Markup(_script())

    @property
    def node_data(self) -> Markup:
        """JSON, which cannot leave its element."""
        return Markup(self.nodes.text)

    @property
    def policy(self) -> str:
        """What a browser may do with the page: draw it and run that one script."""
        digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
        return (
            "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
            f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
        )


def draw_figures(view: RunView) -> Figures:
    """Draw everything once; the rest of the page may be laid out again and again."""
    comparison, curves = view.comparison, view.curves
    return Figures(
        _markup(draw_comparison(comparison) if comparison is not None else None),
        _markup(draw_order_weights(view.order_weights)),
        _markup(draw_loss_curves(curves, view.shown_split) if curves else None),
        _markup(draw_accuracy_curves(curves, view.shown_split) if curves else None),
        _markup(draw_calibration(view.calibration)),
    )


def lay_out(view: RunView, figures: Figures, nodes: PackedNodes, detail: Detail) -> Page:
    """Put together what the template needs.

    Args:
        view: What is reported.
        figures: Its drawings.
        nodes: Those that can be looked up.
        detail: How much of the rest to show.
    """
    crosses = tuple(
        replace(each, crosses=each.crosses[: detail.crosses], terms=each.terms[: detail.crosses])
        for each in view.crosses
    )
    fixed = [
        str(layer)
        for layer, each in enumerate(view.order_weights, start=1)
        if not each.learned and max(map(len, each.weights), default=0) > 1
    ]
    splits = len(view.comparison.models[0].test_accuracy) if view.comparison is not None else 0
    crossed = view.fields is not None and len(view.fields.fields) > 1
    return Page(
        figures=figures,
        crosses=crosses,
        cut_crosses=detail.crosses if crosses != view.crosses else None,
        fields=field_matrix(view.fields, _MOST_FIELDS) if crossed and view.fields else None,
        confusion=confusion_matrix(view.confusion, detail.classes),
        nodes=nodes,
        detail=detail,
        mean_accuracy=fmean(view.test_accuracy),
        greatest_cross=_greatest(each.strength for side in crosses for each in side.crosses),
        greatest_term=_greatest(each.strength for side in crosses for each in side.terms),
        fixed_layers=("layer " if len(fixed) == 1 else "layers ") + " and ".join(fixed)
        if fixed
        else "",
        comparison_splits="split" if splits == 1 else f"{splits} splits",
        environment=tuple(list_environment(view.environment)),
    )


def _greatest(strengths: Iterable[float]) -> float:
    return max(map(abs, strengths), default=0.0)


def _markup(drawing: str | None) -> Markup | None:
    return None if drawing is None else Markup(drawing)


def _script() -> str:
    return (files("crossgcn.reports") / "templates" / "run_report.js").read_text("utf-8")


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
