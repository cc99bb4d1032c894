"""Update the generated parts of all pages from the records: READMEs, documents and report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crossgcn.data.files import replacing
from crossgcn.reproduction import ITEM_NAMES
from crossgcn.reproduction.items import Item, read_item
from crossgcn.reproduction.page import render_markdown, write_report
from crossgcn.reproduction.plan import ItemResult, read_item_result
from research.benchmarks.catalogue import BENCHMARKS
from research.findings.crossings import peers_markdown
from research.findings.depth import depth_markdown
from research.findings.figure import write_differences
from research.findings.page import (
    findings_markdown,
    findings_overview,
    search_in_brief,
)
from research.findings.records import FindingsRecord, read_record
from research.findings.tables import TABLE_NAMES, FindingsTable, read_search, read_table
from research.pages.benchmarks import benchmark_markdown, read_floors, speed_markdown
from research.pages.counties import (
    counties_markdown,
    cross_markdown,
    node_markdown,
    write_cross,
)
from research.pages.mutation import mutation_markdown
from research.pages.real_graphs import (
    against_ebm_markdown,
    real_graphs_in_brief,
    real_graphs_markdown,
)
from research.pages.results import (
    comparison_markdown,
    item_markdown,
    protocol_markdown,
    replace_block,
)
from research.scale.figure import write_scale_figure
from research.scale.page import fit_to_records, scale_markdown

PROJECT = Path(__file__).parents[2]
REPRODUCTION = PROJECT / "results" / "paper"
MEASURED = PROJECT / "results" / "benchmarks"
EARLIER = MEASURED / "earlier"
FINDINGS = PROJECT / "results" / "findings"
REAL = PROJECT / "results" / "real"
FIGURES = PROJECT / "docs" / "figures"
GRAPHS = ("citeseer", "cora", "pubmed")


def read(name: str) -> dict[str, Any]:
    """Read one record."""
    record: dict[str, Any] = json.loads((PROJECT / "results" / f"{name}.json").read_bytes())
    return record


def reproduction() -> list[tuple[Item, ItemResult]]:
    """Return the items of the paper and their results."""
    return [
        (read_item(name), read_item_result(REPRODUCTION / f"{name}.json"))
        for name in ITEM_NAMES
        if (REPRODUCTION / f"{name}.json").exists()
    ]


def measured() -> dict[str, dict[str, Any]]:
    """Return the records of the benchmarks, by name."""
    paths = {name: MEASURED / f"{name}.json" for name in BENCHMARKS}
    return {name: json.loads(path.read_bytes()) for name, path in paths.items() if path.exists()}


def measured_earlier() -> dict[str, list[dict[str, Any]]]:
    """Return the kept records of other days, by the benchmark's name."""
    return {
        name: [json.loads(path.read_bytes()) for path in sorted(EARLIER.glob(f"{name}-*.json"))]
        for name in BENCHMARKS
    }


def benchmarks() -> dict[str, str]:
    """Render the section of every benchmark."""
    floors = read_floors(PROJECT / "research" / "benchmarks" / "floors.toml")
    records, parts = measured(), {}
    for name in BENCHMARKS:
        drawn = MEASURED / f"{name}.png"
        figure = f"../../results/benchmarks/{drawn.name}" if drawn.exists() else ""
        parts[name] = benchmark_markdown(name, records.get(name), floors, figure=figure)
    return parts


def found() -> list[tuple[FindingsTable, FindingsRecord | None]]:
    """Return the tables of findings and their records, ``None`` if not measured."""
    paths = {name: FINDINGS / f"{name}.json" for name in TABLE_NAMES}
    return [
        (read_table(name), read_record(path) if path.exists() else None)
        for name, path in paths.items()
    ]


def findings() -> dict[str, str]:
    """Render the parts of ``docs/findings.md``."""
    parts = {"overview": findings_overview(found())}
    for table, record in found():
        figure = _figure(f"findings-{table.name}")
        parts[table.name] = findings_markdown(table, record, figure=figure)
        if table.name == "peers":
            joined = peers_markdown(table, record, measured().get("peers"))
            parts["peers"] += f"\n\n{joined}" if joined else ""
    for name in ("grand-search", "orders-search"):
        search = FINDINGS / f"{name}.json"
        parts[name] = search_in_brief(read_search(search) if search.exists() else None)
    parts["depth"] = depth_markdown(read("depth"), figure=_figure("depth"))
    return parts


def real_graphs(folder: Path = REAL) -> dict[str, dict[str, Any]]:
    """Return the comparisons on real tables, by dataset and target."""
    records = [json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))]
    kinds = {"stratified": "", "public": " (official splits)"}
    return {
        f"{record['dataset']}{kinds[record['splits']]}, {record['target']}": record
        for record in records
    }


def _figure(name: str) -> str:
    """Return a figure's path relative to the documents, or an empty string if it is missing."""
    return f"figures/{name}.png" if (FIGURES / f"{name}.png").exists() else ""


def render() -> Iterator[tuple[Path, str]]:
    """Yield each page with its updated text."""
    protocol = read("paper_protocol")
    items = {item.name: (item, result) for item, result in reproduction()}
    counties = read("counties")
    blocks = {
        "README.md": {
            "cross": cross_markdown(counties),
            "counties": counties_markdown(counties),
            "real graphs": real_graphs_in_brief(real_graphs()),
        },
        "docs/paper.md": {"citation": item_markdown(*items["citation"])},
        "results/README.md": {
            "make run": comparison_markdown(read("make_run")),
            "protocol": protocol_markdown(protocol, GRAPHS),
            "citeseer-cross": comparison_markdown(protocol["citeseer-cross"]),
            "bias": protocol_markdown({name: read(f"bias_{name}") for name in GRAPHS}, GRAPHS),
            "order of work, train 20": comparison_markdown(read("order_of_work_train_20")),
            "order of work, train all": comparison_markdown(read("order_of_work_train_all")),
        },
    }
    blocks["docs/explanations.md"] = {"node": node_markdown(counties)}
    blocks["research/benchmarks/README.md"] = benchmarks()
    blocks["docs/findings.md"] = findings()
    blocks["docs/real_graphs.md"] = {
        "real graphs": real_graphs_markdown(real_graphs()),
        "ebm": against_ebm_markdown(real_graphs(REAL / "ebm")),
    }
    blocks["docs/promises.md"] = {"mutation": mutation_markdown(read("mutation"))}
    scale = scale_markdown(measured(), figure="../../docs/figures/scale.png")
    blocks["docs/scale.md"] = {
        "speed": speed_markdown(measured(), measured_earlier()),
        "sizes": scale.pop("sizes"),
    }
    blocks["research/scale/README.md"] = scale
    drawn = {path.stem: f"figures/{path.name}" for path in REPRODUCTION.glob("figures/*.svg")}
    yield REPRODUCTION / "report.md", render_markdown(reproduction(), figures=drawn)
    for name, content in blocks.items():
        text = (PROJECT / name).read_text(encoding="utf-8")
        for block, table in content.items():
            text = replace_block(text, block, table)
        yield PROJECT / name, text


if __name__ == "__main__":
    write_report(REPRODUCTION, reproduction(), html=False)
    for table, record in found():
        if record is not None:
            write_differences(FIGURES / f"findings-{table.name}.png", table, record)
    if (fitted := fit_to_records(measured())) is not None:
        write_scale_figure(FIGURES / "scale.png", fitted)
    write_cross(FIGURES / "county-cross.png", read("counties"))
    for path, text in render():
        with replacing(path) as file:
            file.write(text.encode())
