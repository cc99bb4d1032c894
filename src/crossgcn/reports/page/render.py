"""Render contents as one HTML file without external requests."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from crossgcn.data.files import replacing
from crossgcn.experiments.run_folder import RunFolder
from crossgcn.reports.format import count, number_text, short_name
from crossgcn.reports.page.collect import collect_run

LIBRARIES: Final = ("d3.min.js", "plot.min.js")
"""The chart library in ``vendor``; a test checks the SHA-256 of each file."""


def write_report(
    trained: RunFolder, path: Path, *, comparison: Path | None = None, nodes: int = 400
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
    """Render the page of a run; the same content gives the same bytes."""
    scripts = [*(read_part(f"vendor/{name}") for name in LIBRARIES), read_part("page.js")]
    environment = Environment(
        loader=PackageLoader("crossgcn.reports.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": count, "number": _number, "short": short_name}
    environment.globals["known"] = _known
    html = environment.get_template("page.html.j2").render(
        content=content,
        data=htmlsafe_json_dumps(
            content, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        ),
        scripts=map(Markup, scripts),
        licences=Markup(read_part("vendor/LICENSES.txt").replace("--", "- -")),
        policy=content_policy(scripts),
    )
    return html + "\n"


def _number(value: float, digits: int, sign: str = "") -> str:
    return number_text(value, digits, sign).replace("-", "\N{MINUS SIGN}")


def _known(term: Mapping[str, Any]) -> list[Any]:
    """Return the parts of a number in their order, without that of missing values."""
    cells = term["cells"]
    return [cell for cell in cells if not cell["names"][0].endswith(" missing")] or cells


def read_part(name: str) -> str:
    """Return a script or a text of the page."""
    return (files("crossgcn.reports.page") / name).read_text("utf-8")


def content_policy(scripts: Iterable[str]) -> str:
    """Return a content security policy that allows these scripts and nothing else."""
    digests = [hashlib.sha256(script.encode()).digest() for script in scripts]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src 'unsafe-inline'; script-src {hashes}"
    )
