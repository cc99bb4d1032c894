"""``crossgcn hops``: compute neighbourhood columns of tables in DuckDB or Spark."""

from __future__ import annotations

import shlex
from pathlib import Path

from crossgcn.cli.options import JSON, argument, available_cores, option
from crossgcn.cli.running import print_answer, print_line, status
from crossgcn.cli.tables import ColumnOptions, name_edges

_TABLE = "a table file, a folder of Parquet, file.duckdb::TABLE or spark://HOST:7077::TABLE"


def hops(
    nodes: str = argument(f"Table of nodes: {_TABLE}.", "NODES", default=...),
    edges: list[str] = argument(
        "Table of edges, likewise, in the same engine; or several, as NAME=EDGES.",
        "[NAME=]EDGES...",
        default=...,
    ),
    out: Path = option("Parquet file to write, for crossgcn train.", metavar="FILE", default=...),
    *,
    columns: ColumnOptions,
    num_hops: int = option(
        "Hops to neighbours (default 2).", "--hops", metavar="N", min=1, max=10, default=2
    ),
    memory: int = option(
        "Memory of DuckDB in MiB (default 4096); more goes to disk.",
        metavar="N",
        min=256,
        default=4096,
    ),
    scratch: Path | None = option(
        "Folder for temporary files; Spark's workers must see it under the same path. "
        "[default: the folder of --out]",
        metavar="FOLDER",
    ),
    as_json: bool = JSON,
) -> None:
    """Compute the columns of nodes and neighbours of tables in DuckDB or Spark, for crossgcn train.

    The tables stay in the engine; DuckDB spills to disk beyond --memory. The file --out has a row
    per node. Train on it with crossgcn train FILE.
    """
    from crossgcn.graph.hop_file import write_hops

    with status("opening the tables") as spinner:
        table = write_hops(
            nodes,
            name_edges(edges) or {},
            out=out,
            choices=columns.choices(),
            hops=num_hops,
            through=columns.tables_through(),
            memory_limit=memory << 20,
            threads=available_cores(),
            scratch=scratch,
            show=spinner.update,
        )
    print_line("\n".join(table.plan.reasons), error=True)
    plan, num_bytes = table.columns, out.stat().st_size
    summary = {
        "file": str(out),
        "nodes": len(table.ids),
        "features": plan.num_features,
        "columns": plan.num_columns,
        "hops": plan.hops,
        "directed": plan.directed,
        "weighted": any(each.edge_weight is not None for each in table.plan.relations),
        "relations": [each.title for each in table.plan.relations],
        "target": table.plan.target,
        "classes": list(table.classes),
        "bytes": num_bytes,
    }
    lines = [
        f"{out}: {len(table.ids):,} nodes, {plan.num_columns:,} columns, {num_bytes / 1e6:,.1f} MB"
    ]
    if table.plan.target is not None:
        summary["next"] = shlex.join(["crossgcn", "train", str(out)])
        lines.append(f"Next: {summary['next']}")
    print_answer(summary, lines, as_json)
