"""Render the README's example, the counties of the United States, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossgcn.explanation.column_details import cell_text
from crossgcn.reports.format import get_metric, markdown_table

Record = Mapping[str, Any]


def counties_markdown(record: Record, compared: Record) -> str:
    """Render the scores, the answer of ``compare``, the most important terms and one node.

    Args:
        record: What ``research/scripts/measure_counties.py`` wrote.
        compared: What ``compare --json`` printed for the same target.
    """
    trained, node = record["train"], record["node"]
    measured = [
        f"{get_metric(name).label} {get_metric(name).spread(*_mean_and_sd(values))}"
        for name, values in trained["test"].items()
    ]
    rows = [
        [
            " × ".join(term["columns"]),
            f"{term['importance']:.4f} ± {term['error']:.4f}",
            f"slope {term['slope']:+.4f}"
            if "slope" in term
            else "; ".join(map(cell_text, term["cells"][:2])),
        ]
        for size, shown in ((1, 6), (2, 3))
        for term in [term for term in record["terms"] if len(term["columns"]) == size][:shown]
    ]
    parts = [f"{node['average']:.3f} (the average county)"]
    parts += [
        f"{' × '.join(term['columns'])} {term['contribution']:+.3f}" for term in node["terms"]
    ]
    parts.append(f"all other terms {node['other_terms']:+.3f}")
    return "\n\n".join(
        [
            f"`train us-county --target democratic_share`: {', '.join(measured)} on test nodes, "
            f"{len(trained['test'][trained['metric']])} splits.",
            f"`compare`, {len(compared['models'])} models: *{' '.join(compared['answer'])}*",
            "`explain`, in shares of the vote (the six strongest columns and three strongest "
            "crosses):",
            markdown_table(["term", "importance", "inside"], rows),
            f"`explain --node {node['node']}` (San Francisco): {node['score']:.3f} = "
            + "; ".join(parts)
            + ".",
        ]
    )


def _mean_and_sd(values: list[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    return mean, (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
