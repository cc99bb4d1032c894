"""Render contents as one HTML file that loads nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from crossgcn.data.files import replacing
from crossgcn.errors import WorkFailed
from crossgcn.reports.format import count, readable

MOST_BYTES: Final = 3_000_000
LIBRARIES: Final[Mapping[str, str]] = {
    "d3.min.js": "912111098ea99503a6f4967361d2bbdc9dbf58cf9c678c8e27e5b02d1a07f0c1",
    "plot.min.js": "4358086467740777dd788d6b27a95cebdbaefdd50c730a3060117073bd7134cb",
}
"""The chart library in ``reports/vendor``, with the SHA-256 of each file."""

_MOST_COLUMNS, _MOST_WARNINGS = 500, 40
_SHARE_OF_NODES: Final = 0.4
"""How much of the free room is kept for nodes when terms are cut."""


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


def write_run_report(
    path: Path, content: dict[str, Any], *, most_bytes: int = MOST_BYTES
) -> RunReport:
    """Write the page of a run to a file atomically; the folder must exist."""
    report = render_run_report(content, most_bytes=most_bytes)
    write_page(path, report.html)
    return report


def write_page(path: Path, html: str) -> None:
    """Write a page to a file atomically."""
    with replacing(path) as file:
        file.write(html.encode())


def render_run_report(content: dict[str, Any], *, most_bytes: int = MOST_BYTES) -> RunReport:
    """Render the page of a run: the same bytes for the same content, no request.

    A page that would be larger than ``most_bytes`` shows the inside of fewer terms, then as many
    nodes as fit, and says so.
    """
    content = content | {
        "columns": content["columns"][:_MOST_COLUMNS],
        "more_columns": len(content["columns"][_MOST_COLUMNS:]),
        "warnings": _cut_warnings(content["warnings"]),
    }
    listed = content["nodes"] | {"left_out": 0}
    frame = content | {"terms": None, "crosses": [], "nodes": listed | {"rows": []}}
    room = most_bytes - len(render_page("run_report.html.j2", frame).encode()) - 2_000
    if room < 0:
        raise WorkFailed(
            f"the page needs {most_bytes - room:,} bytes without terms and nodes, but the limit is "
            f"{most_bytes:,}: {len(content['classes']):,} classes and {len(content['columns']):,} "
            "columns are too many for a page"
        )
    rows = [embed_json(row) for row in listed["rows"]]
    needed = sum(len(row.encode()) + 1 for row in rows)
    kept = min(needed, int(_SHARE_OF_NODES * room))
    content = _cut_terms(content, room - kept)
    room -= len(embed_json([content["terms"], content["crosses"]]).encode())
    fitting = 0
    for row in rows:
        room -= len(row.encode()) + 1
        if room < 0:
            break
        fitting += 1
    content["nodes"] = listed | {"rows": listed["rows"][:fitting], "left_out": len(rows) - fitting}
    html = render_page("run_report.html.j2", content)
    return RunReport(html, fitting, content["sizes"]["nodes"])


def render_page(template: str, content: Mapping[str, Any]) -> str:
    """Render a page with the chart library, the script and the style of all pages."""
    page = page_parts(content)
    return _templates().get_template(template).render(content=content, page=page) + "\n"


def _cut_warnings(warnings: list[str]) -> list[str]:
    more = len(warnings) - _MOST_WARNINGS
    if more <= 0:
        return warnings
    return [*warnings[:_MOST_WARNINGS], f"and {more:,} more, which crossgcn check prints"]


def _cut_terms(content: dict[str, Any], room: int) -> dict[str, Any]:
    """Leave out the inside of the least important terms, then terms, until they fit."""
    terms, crosses = content["terms"], content["crosses"]
    if terms is not None:
        sizes = [len(embed_json(item).encode()) + 1 for item in terms["items"]]
        order = sorted(
            range(len(sizes)), key=lambda at: -max(terms["items"][at]["importance"].values())
        )
        kept, free = [], room - 500
        for at in order:
            item = terms["items"][at]
            if sizes[at] > free:  # keep the bar at least
                item = {k: item[k] for k in ("columns", "whose", "importance", "error")}
            free -= len(embed_json(item).encode()) + 1
            if free < 0:
                break
            kept.append(item)
        terms = terms | {"items": kept, "left_out": len(sizes) - len(kept)}
    for most in (20, 8, 3, 1):
        crosses = [
            side | {"crosses": side["crosses"][:most], "features": side["features"][:most]}
            for side in content["crosses"]
        ]
        if len(embed_json(crosses).encode()) <= room:
            break
    return content | {"terms": terms, "crosses": crosses}


def embed_json(content: Any) -> str:
    """Return JSON without characters that could end or open an element or end a script line."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def page_parts(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``base.html.j2`` takes as ``page``: contents, scripts and their policy."""
    scripts = [
        *(read_part("vendor", name) for name in LIBRARIES),
        read_part("templates", "page.js"),
    ]
    return {
        "data": Markup(embed_json(content)),
        "scripts": [Markup(script) for script in scripts],
        "licences": Markup(read_part("vendor", "LICENSES.txt").replace("--", "- -")),
        "policy": content_policy(scripts),
    }


@cache
def read_part(folder: str, name: str) -> str:
    """Return a script or a text of the pages."""
    return (files("crossgcn.reports") / folder / name).read_text("utf-8")


def content_policy(scripts: Iterable[str]) -> str:
    """Return a content security policy that allows these scripts and nothing else."""
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    ]
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src 'unsafe-inline'; script-src {' '.join(hashes)}"
    )


def _mark_code(text: str) -> Markup:
    """Escape a text, and set what stands between backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(readable(text)))))


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("crossgcn.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: readable(value) if type(value) is str else value,
    )
    environment.filters["count"] = count
    environment.filters["code"] = _mark_code
    return environment
