"""Render contents as one HTML file that loads nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from crossgcn.data.files import replacing
from crossgcn.experiments.run_folder import RunFolder
from crossgcn.reports.format import count, readable
from crossgcn.reports.page.collect import collect_run

LIBRARIES: Final = ("d3.min.js", "plot.min.js")
"""The chart library in ``vendor``; a test knows the SHA-256 of each file."""


def write_report(
    trained: RunFolder,
    path: Path,
    *,
    comparison: Path | None = None,
    nodes: int = 400,
) -> dict[str, Any]:
    """Write scores, curves, mistakes, terms and single nodes of a run to one HTML file.

    Args:
        comparison: A folder written by ``compare``, to show its answer.
        nodes: How many nodes to explain one by one.

    Returns:
        The contents of the page.
    """
    content = collect_run(trained, comparison=comparison, num_nodes=nodes)
    html = render_page(content)
    with replacing(path) as file:
        file.write(html.encode())
    return content


def render_page(content: Mapping[str, Any]) -> str:
    """Render the page of a run: the same bytes for the same content, no request."""
    scripts = [*(read_part(f"vendor/{name}") for name in LIBRARIES), read_part("page.js")]
    page = {
        "scripts": [Markup(script) for script in scripts],
        "licences": Markup(read_part("vendor/LICENSES.txt").replace("--", "- -")),
        "policy": content_policy(scripts),
    }
    return _templates().get_template("page.html.j2").render(content=content, page=page) + "\n"


@cache
def read_part(name: str) -> str:
    """Return a script or a text of the page."""
    return (files("crossgcn.reports.page") / name).read_text("utf-8")


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
        loader=PackageLoader("crossgcn.reports.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: readable(value) if type(value) is str else value,
    )
    small = {"ensure_ascii": False, "separators": (",", ":"), "allow_nan": False}
    environment.policies["json.dumps_kwargs"] = small
    environment.filters["count"] = count
    environment.filters["code"] = _mark_code
    return environment
