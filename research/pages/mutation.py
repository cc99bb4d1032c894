"""Render the record of mutation testing as Markdown."""

from __future__ import annotations

from typing import Any

from crossgcn.reports.format import markdown_table
from research.scripts.mutate import AREAS


def mutation_markdown(record: dict[str, Any]) -> str:
    """Render the killed mutants of each area, and the survivors with their reasons."""
    rows, survivors = [], []
    for name, area in record["areas"].items():
        killed = area["killed"] + area["timeouts"]
        share = f"{killed} ({killed / area['sample']:.0%})"
        counts = [area["mutants"], area["sample"], area["killed_at_first"]]
        rows.append([name, *map(str, counts), share])
        for each in area["survivors"]:
            place = f"`{each['file']}`, line {each['line']}"
            change = f"`{_cell(each['before'])}` → `{_cell(each['after'])}`"
            survivors.append([place, change, each["reason"] or "not read yet"])
    rows += [[name, "", "0", "", "not run yet"] for name in AREAS if name not in record["areas"]]
    parts = [
        markdown_table(
            ["area", "mutants", "drawn", "killed at first", "killed with new tests"], rows
        )
    ]
    if survivors:
        parts.append(markdown_table(["survivor", "change", "why no test fails"], survivors))
    return "\n\n".join(parts)


def _cell(code: str) -> str:
    return " ".join(code.split()).replace("|", "\\|")
