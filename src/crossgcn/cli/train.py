"""``crossgcn train``: one model, by the paper's protocol or on a user's own tables."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from crossgcn.cli.command import Answer, command, option_name
from crossgcn.cli.options import (
    ConfigOption,
    DatasetArgument,
    RunOptions,
    SettingOptions,
    Settings,
)
from crossgcn.cli.running import is_explainable, run_with_progress, status, terminal
from crossgcn.cli.tables import EdgesArgument, TableOptions, is_hop_file, refuse_table_in_config
from crossgcn.data.datasets.catalogue import DATASET_NAMES
from crossgcn.errors import BadInput
from crossgcn.training.config import read_training
from crossgcn.workflows.table_settings import configure_for_tables

if TYPE_CHECKING:
    from rich.console import RenderableType


@command
def train(
    dataset: DatasetArgument = None,
    edges: EdgesArgument = None,
    *,
    settings: Annotated[Settings, SettingOptions()],
    config: ConfigOption = None,
    tables: TableOptions,
    run: RunOptions,
) -> Answer:
    """Train one model on many splits and report its scores on test nodes.

    The defaults are the paper's protocol: 20 splits of 20 nodes per class, 500 epochs, the epoch
    of best validation accuracy; test nodes are read once, after that choice.

    With tables of your own, crossgcn train nodes.csv edges.csv --target COLUMN, the default is
    cross-hops on 10 stratified splits. The target may be classes or a number. The folder --out is
    what explain, predict and report take; crossgcn train --config RUN/config.json repeats the run
    in it.

    With columns of crossgcn hops, crossgcn train columns.parquet, the target is in the file.
    """
    if config is not None and config.suffix == ".json":
        dataset, edges, tables = _as_trained(config, dataset, edges, tables)
    if is_hop_file(dataset):
        dataset, usual = _open_hops(Path(dataset), edges, tables)
        edges, tables = None, TableOptions()
        if config is None and settings["model"] in (None, usual["model"]):
            given = {name: value for name, value in settings.items() if value is not None}
            settings = settings | usual | given
    graph = tables.load(dataset, edges, run.out)
    chosen = configure_for_tables(graph, {"dataset": dataset, **settings}, config_file=config)
    if graph is None:
        refuse_table_in_config(chosen.dataset, config, "train")
    started = time.perf_counter()

    training = {
        "dataset": _absolute(chosen.dataset),
        "edges": None if edges is None else _absolute(edges),
        "tables": tables.given(),
        "settings": chosen.model_dump(mode="json", exclude={"dataset"}, exclude_none=True),
    }
    (runs,), folder = run_with_progress(
        [chosen], run, name=chosen.model, save_models=True, graph=graph, training=training
    )

    from crossgcn.reports.summaries import summarise_training
    from crossgcn.reports.terminal.tables import order_weight_lines, training_table

    summary = summarise_training(runs)
    summary |= {
        "finished": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "wall_seconds": time.perf_counter() - started,
        "out": str(folder),
    }
    with_labels = [record.get("label_features", {}).get("chosen") for record in runs.records]
    if chosen.label_features == "auto":
        summary["label_features"] = with_labels
    if graph is not None:
        summary |= {
            "target": graph.plan.target,
            "warnings": [problem.describe() for problem in graph.problems],
        }

    def shown() -> Iterator[RenderableType]:
        yield training_table(summary)
        yield from ("", *order_weight_lines(summary))
        if chosen.label_features == "auto":
            yield (
                f"labels of neighbours: validation preferred them in {sum(map(bool, with_labels))} "
                f"of {len(with_labels)} runs"
            )
        if is_explainable(folder, chosen.model):
            yield f"\nNext: {shlex.join(['crossgcn', 'explain', str(folder)])}"

    return Answer(summary, shown(), folder)


def _as_trained(
    config: Path, dataset: str | None, edges: Path | None, tables: TableOptions
) -> tuple[str, Path | None, TableOptions]:
    """Return the dataset, the edges and the table options of an earlier run.

    Edges and options that are given now take precedence. A dataset that is given now is another
    one, unless the earlier one were data frames, which are no files.
    """
    earlier = read_training(config)
    before = earlier.get("dataset", "citeseer")
    if dataset is not None and before is not None:
        return dataset, edges, tables
    if dataset is None and before is None:
        raise BadInput(
            f"{config}: the model was trained on data frames; write them to files and give these: "
            f"crossgcn train NODES EDGES --config {config}"
        )
    if edges is None and earlier.get("edges") is not None:
        edges = Path(earlier["edges"])
    options = earlier.get("tables", {}) | tables.given()
    return str(dataset or before), edges, TableOptions(**options)


def _open_hops(path: Path, edges: Path | None, tables: TableOptions) -> tuple[str, dict[str, Any]]:
    """Return the graph folder of a file of columns, and settings to train on it."""
    from crossgcn.workflows.hop_columns import read_hop_file, store_beside, training_settings

    file, given = read_hop_file(path), tables.given()
    target = file.table["target"]
    if given.get("target") == target:
        given.pop("target", None)
    more = [str(edges)] if edges is not None else [option_name(name) for name in given]
    if more:
        raise BadInput(
            f"{more[0]} is one argument too many: {path} holds columns of crossgcn hops, with "
            f"edges and target {target!r}; leave it out, or give it to crossgcn hops"
        )
    with status(f"reading {path}"):
        graph = store_beside(path)
    words = f"{path}: columns of crossgcn hops, stored in {graph.folder}, which the run refers to"
    terminal().print(words, highlight=False, markup=False, soft_wrap=True)
    return str(graph.folder), training_settings(graph, file.plan.hops)


def _absolute(dataset: str | Path) -> str:
    """Return the name of a known dataset, or the absolute path of a file or folder."""
    path = Path(dataset)
    return str(path.resolve() if path.exists() and str(dataset) not in DATASET_NAMES else dataset)
