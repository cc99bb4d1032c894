"""Write the tables of README.md and results/README.md anew from the records in results/."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crossgcn.reports.markdown import comparison_markdown, protocol_markdown, replace_block

PROJECT = Path(__file__).parents[1]
GRAPHS = ("citeseer", "cora", "pubmed")


def read(name: str) -> dict[str, Any]:
    """One record."""
    record: dict[str, Any] = json.loads((PROJECT / "results" / f"{name}.json").read_bytes())
    return record


def render() -> Iterator[tuple[Path, str]]:
    """Each page with the text it should have."""
    protocol = read("paper_protocol")
    make_run = comparison_markdown(read("make_run"))
    blocks = {
        "README.md": {
            "make run": make_run,
            "protocol": protocol_markdown(protocol, GRAPHS),
        },
        "results/README.md": {
            "make run": make_run,
            "protocol": protocol_markdown(protocol, GRAPHS),
            "citeseer-cross": comparison_markdown(protocol["citeseer-cross"]),
            "bias": protocol_markdown({name: read(f"bias_{name}") for name in GRAPHS}, GRAPHS),
            "order of work, train 20": comparison_markdown(read("order_of_work_train_20")),
            "order of work, train all": comparison_markdown(read("order_of_work_train_all")),
        },
    }
    for name, content in blocks.items():
        text = (PROJECT / name).read_text()
        for block, table in content.items():
            text = replace_block(text, block, table)
        yield PROJECT / name, text


if __name__ == "__main__":
    for path, text in render():
        path.write_text(text)
