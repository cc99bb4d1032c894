"""Builds the documentation: ``make docs``. It reads the package and this folder, no network."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

import crossgcn

DOCS = Path(__file__).resolve().parent
REPOSITORY = os.environ.get("CROSSGCN_REPOSITORY", "").rstrip("/")
PICTURE = r'<picture><source [^>]*srcset="([^"]*)"><img alt="([^"]*)" src="([^"]*)"></picture>'
SCHEMES = r"![\2](\3){.only-light}\n![\2](\1){.only-dark}"
os.environ["MATPLOTLIBRC"] = str(DOCS / "matplotlibrc")
LOGGER = logging.getLogger(__name__)

project = "crossgcn"
author = "The crossgcn developers"
release = version = crossgcn.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "crossgcn"
html_static_path = ["_static"]
html_css_files = ["wide_tables.css"]
html_math_renderer = "mathml"
html_show_sphinx = html_show_copyright = html_copy_source = False

myst_fence_as_directive = ["math"]
myst_enable_extensions = ["dollarmath", "attrs_inline"]
myst_heading_anchors = 3
highlight_language = "text"

nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 240
nb_merge_streams = True
nb_output_stderr = "remove"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_use_ivar = True
napoleon_custom_sections = [("Shapes", "params_style")]
maximum_signature_line_length = 90

nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!crossgcn\.).*"),  # other packages, and short names of types
    ("py:.*", r"crossgcn\.\w+\..*"),  # the rooms of the package are no public names
]


def setup(app: Any) -> dict[str, bool]:
    """Register what is done here beyond the settings."""
    app.connect("source-read", link_to_the_repository)
    app.connect("autodoc-process-docstring", list_settings)
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def link_to_the_repository(app: Any, page: str, source: list[str]) -> None:
    """Turn links to files outside ``docs`` into links to the repository, or into words.

    The start page is README.md, and the changelog CHANGELOG.md; their links are relative to the
    checkout.
    """
    if file := {"index": "README.md", "changelog": "CHANGELOG.md"}.get(page):
        app.env.note_dependency(str(DOCS.parent / file))
        readme = (DOCS.parent / file).read_text(encoding="utf-8")
        readme = re.sub(r"\]\((?!\w+://|#|docs/)", "](../", readme).replace("](docs/", "](")
        readme = re.sub(PICTURE, SCHEMES, readme).replace("docs/figures/", "figures/")
        source[0] = source[0].replace(f"<!-- {file} -->", readme)

    def rewrite(link: re.Match[str]) -> str:
        path = ((DOCS / page).parent / link["path"]).resolve()
        if path.is_relative_to(DOCS):
            return link[0]
        inside = path.relative_to(DOCS.parent)
        if not path.exists():
            LOGGER.warning("%s links to %s, which is missing", page, inside)
        return (
            f"[{link['words']}]({REPOSITORY}/blob/HEAD/{inside})" if REPOSITORY else link["words"]
        )

    upwards = r"(?<!!)\[(?P<words>[^\]]+)\]\((?P<path>\.\./[\w./-]+)\)"
    source[0] = re.sub(upwards, rewrite, source[0])


def list_settings(
    app: Any, kind: str, name: str, what: Any, options: Any, lines: list[str]
) -> None:
    """Append the fields of a pydantic model, whose descriptions are also the help texts."""
    fields = getattr(what, "model_fields", None) if kind == "class" else None
    for field, info in (fields or {}).items():
        if info.description:
            lines += ["", f"``{field}`` = ``{info.get_default(call_default_factory=True)!r}``"]
            lines += [f"    {info.description}"]


def inline_math(translator: Any, node: Any) -> None:
    """Write a formula as MathML, which browsers draw without a script."""
    translator.body.append(tex2mathml(node.astext()))
    raise SkipNode


def block_math(translator: Any, node: Any) -> None:
    """Write a displayed formula."""
    formula = re.sub(r"\\dots\b", r"\\cdots", node.astext())  # docutils does not know the former
    if "&" in formula or r"\\" in formula:
        formula = rf"\begin{{aligned}}{formula}\end{{aligned}}"
    translator.body.append(f'<div class="math">{tex2mathml(formula, as_block=True)}</div>')
    raise SkipNode
