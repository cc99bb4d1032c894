"""Rewrite the parts of the README and the documents that are computed from records.

Such a part lies between two comments: ``NAME: begin`` and ``NAME: end``. A test checks that every
page is what its records make of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.__main__ import BENCHMARKS
from benchmarks.real_graphs import brief_markdown, ebm_markdown, read_records
from benchmarks.real_pages import results_markdown, write_scores
from benchmarks.real_shifts import future_markdown, transfer_markdown
from benchmarks.real_tried import tried_markdown
from benchmarks.records import markdown_of

PROJECT = Path(__file__).parents[1]
RESULTS = PROJECT / "results"


def render() -> Iterator[tuple[Path, str]]:
    """Yield each page with its updated text."""
    real = read_records(RESULTS / "real")
    blocks = {
        "README.md": {
            "real graphs": brief_markdown(real),
        },
        "docs/real_graphs.md": {
            "real graphs": results_markdown(real),
            "ebm": ebm_markdown(read_records(RESULTS / "real" / "ebm")),
            "tried": tried_markdown(read("real/others/tried")),
            "future": future_markdown(
                read("real/others/future"), real["us-county, democratic_share"]
            ),
            "transfer": transfer_markdown(read("real/others/transfer"), real),
        },
        "benchmarks/README.md": {
            name: markdown_of(read(f"benchmarks/{name}"))
            for name in (*BENCHMARKS, "hops-cuda")
            if (RESULTS / "benchmarks" / f"{name}.json").exists()
        },
    }
    for name, content in blocks.items():
        text = (PROJECT / name).read_text(encoding="utf-8")
        for block, part in content.items():
            text = replace_block(text, block, part)
        yield PROJECT / name, text


def read(name: str) -> dict[str, Any]:
    """Read one record."""
    record: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_bytes())
    return record


def replace_block(text: str, name: str, content: str) -> str:
    """Replace what lies between the two comments that mark a computed part."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"the page must contain exactly one part {name}: {begin} … {end}")
    head, rest = text.split(begin)
    _, tail = rest.split(end)
    return f"{head}{begin}\n{content}\n{end}{tail}"


if __name__ == "__main__":
    for path, text in render():
        path.write_text(text, encoding="utf-8")
    write_scores(PROJECT / "docs" / "figures" / "real-graphs.png", read_records(RESULTS / "real"))
