"""What the page of a run needs beside its view: drawings, matrices, and how much of each."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.resources import files
from statistics import fmean
from typing import Final

from markupsafe import Markup

from crossgcn.reports.run_crosses import ClassCrosses
from crossgcn.reports.run_figures import (
    draw_accuracy_curves,
    draw_calibration,
    draw_comparison,
    draw_loss_curves,
    draw_order_weights,
)
from crossgcn.reports.run_matrices import Matrix, confusion_matrix, field_matrix
from crossgcn.reports.run_packing import PackedNodes
from crossgcn.reports.run_view import RunView
from crossgcn.reports.run_words import list_environment

__all__ = ["DETAIL", "Detail", "Figures", "Page", "draw_figures", "lay_out"]


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
