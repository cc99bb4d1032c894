"""``crossgcn hops``: columns of neighbourhoods of tables in DuckDB, in Parquet or in Spark."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from crossgcn.cli import tables as t
from crossgcn.cli.data import FolderOption, print_folder
from crossgcn.cli.options import JsonOption, argument, available_cores, option, option_name
from crossgcn.cli.output import print_line
from crossgcn.cli.running import status

_TABLE = (
    "a Parquet or CSV file, a folder of Parquet, file.duckdb::TABLE or spark://HOST:7077::TABLE"
)


def hops(
    nodes: Annotated[str, argument(f"Table of nodes: {_TABLE}.", "NODES")],
    edges: Annotated[str, argument("Table of edges, likewise, in the same engine.", "EDGES")],
    out: FolderOption,
    target: t.TargetOption = None,
    id_column: t.IdOption = None,
    source_column: t.SourceOption = None,
    destination_column: t.DestinationOption = None,
    weight_column: t.WeightOption = None,
    split_column: t.SplitColumnOption = None,
    categorical: t.CategoricalOption = None,
    numeric: t.NumericOption = None,
    lists: t.ListsOption = None,
    ignore: t.IgnoreOption = None,
    missing: t.MissingOption = None,
    num_hops: Annotated[int, option("How far neighbourhoods reach.", "--hops", min=1, max=10)] = 2,
    directed: Annotated[
        bool, option("Keep in-neighbours and out-neighbours apart.", "--directed")
    ] = False,
    memory: Annotated[
        int, option("Memory for DuckDB in MiB; the rest is done on disk.", min=256)
    ] = 4096,
    scratch: Annotated[
        Path | None,
        option(
            "Folder for temporary files; workers of Spark must see it under the same path. "
            "[default: the folder of --out]",
            metavar="FOLDER",
        ),
    ] = None,
    parquet: Annotated[
        Path | None,
        option("Also write the columns by name to this file, for crossgcn train.", metavar="FILE"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute the columns of nodes and their neighbours in DuckDB or Spark, for crossgcn train.

    Tables stay where they are; DuckDB spills to disk beyond --memory. The folder --out is what
    crossgcn train FOLDER --model cross-hops reads, also in several processes.
    """
    tables = t.TableOptions(
        target=target,
        id_column=id_column,
        source_column=source_column,
        destination_column=destination_column,
        weight_column=weight_column,
        split_column=split_column,
        categorical=categorical,
        numeric=numeric,
        lists=lists,
        ignore=ignore,
        missing=missing,
    )
    from crossgcn.workflows.hop_columns import training_settings
    from crossgcn.workflows.hops import store_hops

    with status("opening the tables") as spinner:
        graph = store_hops(
            nodes,
            edges,
            out=out,
            choices=tables.choices(),
            hops=num_hops,
            directed=directed,
            memory_limit=memory << 20,
            threads=available_cores(),
            scratch=scratch,
            parquet=parquet,
            show=spinner.update,
        )
    assert graph.preprocess is not None and graph.preprocess.encoding is not None
    print_line("\n".join(graph.preprocess.encoding["plan"]["reasons"]), error=True)
    if graph.num_classes is None:
        print_folder(graph, as_json)
        return
    settings = training_settings(graph, num_hops).items()
    then = ["crossgcn", "train", str(out)]
    then += [word for name, value in settings for word in (option_name(name), str(value))]
    print_folder(graph, as_json, next=shlex.join(then))
