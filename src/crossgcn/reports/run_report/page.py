"""Render the report of a run as one HTML file that loads nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any, Final, get_args

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from crossgcn.data.files import replacing
from crossgcn.errors import WorkFailed
from crossgcn.experiments.statistics import summarise
from crossgcn.reports.format import (
    Metric,
    count,
    get_metric,
    percent,
    readable,
    shorten,
    signed,
)
from crossgcn.reports.run_report.figures import confusion_matrix, draw_figures, field_matrix
from crossgcn.reports.run_report.view import ClassCrosses, NodeView, Role, RunView

MOST_BYTES: Final = 3_000_000

_SPARE: Final = 2_000
"""Bytes kept for the words that change with the number of nodes."""

_DIGITS: Final = 5
_MOST_FIELDS: Final = 20


@dataclass(frozen=True)
class Detail:
    """How much the page shows: crosses per class, classes in the matrix, and columns."""

    crosses: int
    classes: int
    columns: int


DETAIL: Final = (Detail(20, 40, 500), Detail(8, 25, 200), Detail(3, 12, 50))
"""From most to least; a page that is too big is rendered with the next."""


@dataclass(frozen=True)
class RunReport:
    """A page, the number of nodes that can be looked up in it, and the number of all nodes."""

    html: str
    nodes: int
    num_nodes: int

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return len(self.html.encode())


def write_run_report(path: Path, view: RunView, *, most_bytes: int = MOST_BYTES) -> RunReport:
    """Write the page to a file atomically; the folder must exist."""
    report = render_run_report(view, most_bytes=most_bytes)
    with replacing(path) as file:
        file.write(report.html.encode())
    return report


def render_run_report(view: RunView, *, most_bytes: int = MOST_BYTES) -> RunReport:
    """Render the page: the same bytes for the same view, no request, no script but its own.

    Everything from the user's tables is shown as text. A page that would be larger than
    ``most_bytes`` lists fewer crosses, classes and columns, then as many nodes as fit, and
    says so.
    """
    figures = {name: svg and Markup(svg) for name, svg in draw_figures(view).items()}
    start = "start: the average over nodes" if view.terms else "start: the bias"
    frame = pack_nodes((), view.classes, 0, start)
    for detail in DETAIL:
        size = len(_render(view, figures, frame, detail).encode())
        room = most_bytes - size - _SPARE
        nodes = pack_nodes(view.nodes, view.classes, room, start)
        enough = nodes.count == len(view.nodes) or room >= most_bytes // 5 or detail is DETAIL[-1]
        if room >= 0 and enough:
            page = _render(view, figures, nodes, detail)
            return RunReport(page, nodes.count, view.num_nodes)
    raise WorkFailed(
        f"the report needs {size:,} bytes without a single node, but the limit is {most_bytes:,}: "
        f"{len(view.classes):,} classes and {len(view.columns):,} columns are too many for a page"
    )


@dataclass(frozen=True)
class PackedNodes:
    """JSON for the page's script, and the number of nodes in it."""

    text: str
    count: int


def pack_nodes(
    nodes: Sequence[NodeView], classes: Sequence[str], room: int, start: str = "start: the bias"
) -> PackedNodes:
    """Put as many nodes as fit into ``room`` bytes into JSON that is safe inside a page.

    Labels occur in many waterfalls and are written once; ``start`` is that of the first bar.
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
        "start": start,
        "labels": list(labels),
    }
    return PackedNodes(f'{embed_json(frame)[:-1]},"nodes":[{",".join(rows)}]}}', len(rows))


def embed_json(content: Any) -> str:
    """Return JSON without characters that could end or open an element or end a script line."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _pack(node: NodeView, labels: dict[str, int]) -> list[Any]:
    """Return one node as a row; new labels get the next number."""
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
    return round(value, _DIGITS) + 0.0


def _render(
    view: RunView, figures: Mapping[str, str | None], nodes: PackedNodes, detail: Detail
) -> str:
    crosses = tuple(
        ClassCrosses(name, crosses[: detail.crosses], terms[: detail.crosses])
        for name, crosses, terms in view.crosses
    )
    fixed = [
        str(layer)
        for layer, each in enumerate(view.order_weights, start=1)
        if not each.learned and max(map(len, each.weights), default=0) > 1
    ]
    num_splits = len(view.test[view.metric])
    compared = len(view.comparison.models[0].test) if view.comparison is not None else 0
    fields = view.fields
    script = (files("crossgcn.reports") / "templates" / "run_report.js").read_text("utf-8")
    page = {
        "figures": figures,
        "crosses": crosses,
        "cut_crosses": detail.crosses if crosses != view.crosses else None,
        "fields": field_matrix(fields, _MOST_FIELDS) if fields and len(fields.fields) > 1 else None,
        "confusion": view.confusion and confusion_matrix(view.confusion, detail.classes),
        "nodes": nodes,
        "detail": detail,
        "metrics": [(get_metric(name), values) for name, values in view.test.items()],
        "num_splits": num_splits,
        "metric": get_metric(view.metric),
        "compared_by": get_metric(view.comparison.metric if view.comparison else view.metric),
        "greatest_cross": _largest(each.strength for side in crosses for each in side.crosses),
        "greatest_term": _largest(each.strength for side in crosses for each in side.terms),
        "fixed_layers": f"layer{'s' * (len(fixed) > 1)} {' and '.join(fixed)}" if fixed else "",
        "comparison_splits": "split" if compared == 1 else f"{compared} splits",
        "open_classes": 8,
        "first": 6,
        "most_warnings": 40,
        "script": Markup(script),
        "node_data": Markup(nodes.text),
        "policy": _content_policy(script),
    }
    return _templates().get_template("run_report.html.j2").render(view=view, page=page) + "\n"


def _largest(strengths: Iterable[float]) -> float:
    return max(map(abs, strengths), default=0.0)


def _content_policy(script: str) -> str:
    """Return a content security policy that allows this one script and nothing else."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    )


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("crossgcn.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters |= {
        "count": count,
        "lost": lambda drop: signed(100 * drop, 1).removeprefix("+"),
        "name": shorten,
        "number": "{:,}".format,
        "percent": percent,
        "difference": _difference,
        "measure": "{:.4g}".format,
        "signed": signed,
        "spread": _spread,
    }
    return environment


def _spread(values: Sequence[float], metric: Metric) -> str:
    """Return mean ± standard deviation, in percent if the metric is a share."""
    summary = summarise(values)
    return metric.spread(summary.mean, summary.sd) + ("\u00a0%" if metric.percent else "")


def _difference(value: float, metric: Metric) -> str:
    """Return a difference of a metric: in points if it is a share."""
    return signed(100 * value, 1) if metric.percent else signed(value)


def _finalize(value: Any) -> Any:
    """Make text readable that is not our own markup."""
    return readable(value) if type(value) is str else value
