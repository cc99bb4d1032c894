"""The readme and the addresses of a release, made when it is built.

Links of README.md are relative, as a checkout needs them. ``CROSSGCN_REPOSITORY``, the address of
the repository, makes them absolute and fills in the project's URLs. Without it the links of the
built readme become plain text, because no page could open them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ReleasePages(MetadataHookInterface):
    """Sets ``readme`` and ``urls`` of the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both to the metadata of the project."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("CROSSGCN_REPOSITORY", "").rstrip("/")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": make_links_absolute(text, repository),
        }
        metadata["urls"] = project_urls(repository)


def make_links_absolute(text: str, repository: str) -> str:
    """Rewrite the relative links and images of a Markdown page, except in blocks of code."""

    def rewrite(link: re.Match[str]) -> str:
        if link["code"]:
            return link["code"]
        image, words, target = link["image"], link["words"], link["target"]
        if "://" in target:
            return link[0]
        if not repository:
            return words
        if target.startswith("#"):
            return f"[{words}]({repository}{target})"
        return f"{image}[{words}]({repository}/{'raw' if image else 'blob'}/HEAD/{target})"

    text = re.sub(r"<picture>.*?(<img [^>]*>)</picture>", r"\1", text, flags=re.DOTALL)
    text = re.sub(r'<img alt="([^"]*)" src="([^"]*)">', r"![\1](\2)", text)
    pattern = r"(?P<code>```.*?```)|(?P<image>!?)\[(?P<words>[^\]]*)\]\((?P<target>[^)\s]+)\)"
    return re.sub(pattern, rewrite, text, flags=re.DOTALL)


def project_urls(repository: str) -> dict[str, str]:
    """Return the addresses that an index shows beside the project."""
    if not repository:
        return {}
    pages = {"Documentation": "docs", "Changelog": "CHANGELOG.md"}
    return {
        "Repository": repository,
        **{name: f"{repository}/blob/HEAD/{path}" for name, path in pages.items()},
        "Issues": f"{repository}/issues",
    }
