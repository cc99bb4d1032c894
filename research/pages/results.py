"""Result records as Markdown tables, for the README and the results page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crossgcn.reports.format import markdown_table, paired_text
from crossgcn.reports.terminal.tables import MODEL_COLUMNS, model_cells
from crossgcn.reproduction.items import Item
from crossgcn.reproduction.plan import CellResult, ItemResult
from crossgcn.reproduction.verdicts import baseline_of, measured, paired_with

Summary = dict[str, Any]


def comparison_markdown(summary: Summary) -> str:
    """Render one comparison, a row per model."""
    header = [*MODEL_COLUMNS, f"paired to {summary['baseline']}", "seconds"]
    rows = [
        [*model_cells(model), paired_text(model), f"{model['seconds']:.0f}"]
        for model in summary["models"]
    ]
    return markdown_table(header, rows)


def protocol_markdown(summaries: Mapping[str, Summary], datasets: Sequence[str]) -> str:
    """Render datasets side by side: ours, the paper's in brackets, paired difference."""
    header = ["model", "layers"]
    for dataset in datasets:
        header += [dataset, f"paired to {summaries[dataset]['baseline']}"]
    rows = []
    for models in zip(*(summaries[dataset]["models"] for dataset in datasets), strict=True):
        row = [models[0]["model"], str(models[0]["num_layers"])]
        for model in models:
            _, _, ours, paper = model_cells(model)
            bracket = "" if model["paper"] is None else f" ({paper.split()[0]})"
            row += [ours + bracket, paired_text(model)]
        rows.append(row)
    return markdown_table(header, rows)


def item_markdown(item: Item, result: ItemResult) -> str:
    """Render a table of the paper: ours, the paper's mean in brackets, paired difference."""
    columns = [line.label for line in item.columns]
    header = ["model"]
    for column in columns:
        header += [column, "paired"]
    rows = []
    for row in item.rows:
        cells = [result.find(item.panels[0].label, row.label, column) for column in columns]
        texts = [part for cell in cells for part in _item_cell(cell, result)]
        rows.append([row.label.replace("_", "\\_"), *texts])
    return markdown_table(header, rows)


def _item_cell(cell: CellResult | None, result: ItemResult) -> tuple[str, str]:
    ours = None if cell is None else measured(cell)
    if cell is None or ours is None:
        return "—", "—"
    paired = paired_with(cell, baseline_of(cell, result))
    bracket = "" if cell.paper is None else f" ({cell.paper.mean})"
    return (
        f"{ours.mean:.1f} ± {ours.sd:.1f}{bracket}",
        "—" if paired is None else f"{paired.mean:+z.2f} ± {paired.standard_error:.2f}",
    )


def replace_block(text: str, name: str, content: str) -> str:
    """Replace the content between the two comments that mark a generated block."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"the page must contain exactly one block {name}: {begin} … {end}")
    head, rest = text.split(begin)
    _, tail = rest.split(end)
    return f"{head}{begin}\n{content}\n{end}{tail}"
