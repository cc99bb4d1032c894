"""``crossgcn export``: a trained model as an SQL query or as an ONNX graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crossgcn.cli.options import JSON, RUN, option
from crossgcn.cli.running import print_answer, status
from crossgcn.errors import BadInput


def export(
    run: Path = RUN,
    sql: str | None = option(
        "Write one query that computes the scores from the tables nodes and edges: duckdb, spark, "
        "postgres, snowflake or bigquery.",
        metavar="DIALECT",
    ),
    onnx: bool = option(
        "Write the model of a row as an ONNX graph, for columns that are computed elsewhere.",
        "--onnx",
        default=False,
    ),
    out: Path | None = option(
        "The file to write. [default: score.sql or score.onnx]", metavar="FILE"
    ),
    labels: Path | None = option(
        "Also write the labels of training nodes, which the columns of their neighbours show, as a "
        "table for the query (.csv or .parquet). [default: they are listed in the query]",
        metavar="FILE",
    ),
    as_json: bool = JSON,
) -> None:
    """Write a cross-hops model as an SQL query, or as an ONNX graph.

    The query has a row per node: id, score, of two classes the probability of the second, the term
    of each single column, and the sum of all crosses. Tables and columns are called as in training;
    the tables are nodes and edges.
    """
    if (sql is None) == (not onnx):
        raise BadInput("give one of --sql DIALECT and --onnx")
    if labels is not None and onnx:
        raise BadInput("--labels goes with --sql")
    out = out or Path("score.onnx" if onnx else "score.sql")
    with status("reading the model"):
        from crossgcn.data.files import replacing, write_table
        from crossgcn.experiments.run_folder import open_run, refuse_overwriting

        for path in filter(None, (out, labels)):
            refuse_overwriting(run, path)
        trained = open_run(run)
    summary: dict[str, Any] = {"run": str(run), "out": str(out)}
    with status("writing"):
        if sql is None:
            from crossgcn.export.onnx import export_onnx

            content, columns = export_onnx(trained)
            summary |= {"format": "onnx", "columns": columns, "bytes": len(content)}
            lines = [f"{out}: scores from {len(columns)} columns, {len(content) / 1e3:,.1f} kB"]
        else:
            from crossgcn.export.sql import export_sql

            query = export_sql(trained, sql, labels_apart=labels is not None)
            content = query.sql.encode()
            summary |= {"format": sql, "tables": query.tables, "columns": query.columns}
            summary |= {"bytes": len(content), "labels": labels and str(labels)}
            lines = [f"{out}: a query of {query.sql.count(chr(10)):,} lines over these tables:"]
            lines += [f"  {name}: {', '.join(each)}" for name, each in query.tables.items()]
            if labels is not None and query.labels is not None:
                write_table(labels, query.labels)
                lines.append(f"{labels}: the table training_labels, {len(query.labels):,} rows")
    with replacing(out) as file:
        file.write(content)
    print_answer(summary, lines, as_json)
