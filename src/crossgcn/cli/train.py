"""``crossgcn train``: one model, by the paper's protocol or on a user's own tables."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from crossgcn.cli import options as o
from crossgcn.cli import tables as t
from crossgcn.cli.output import print_answer, print_line
from crossgcn.cli.running import (
    check_workers,
    load_experiment,
    progress_bar,
    results_folder,
    set_verbosity,
    status,
)
from crossgcn.data.datasets.catalogue import DATASET_NAMES
from crossgcn.errors import BadInput
from crossgcn.experiments.candidates import configure_for_tables
from crossgcn.training.config import read_training

if TYPE_CHECKING:
    from rich.console import RenderableType

    from crossgcn.data.tables.graph import TableGraph
    from crossgcn.experiments.experiment import RepeatedRuns
    from crossgcn.graph.hop_file import HopTable


def train(
    dataset: o.DatasetArgument = None,
    edges: t.EdgesArgument = None,
    target: t.TargetOption = None,
    task: t.TaskOption = None,
    rare_classes: t.RareClassesOption = None,
    id_column: t.IdOption = None,
    name_column: t.NameOption = None,
    source_column: t.SourceOption = None,
    destination_column: t.DestinationOption = None,
    weight_column: t.WeightOption = None,
    split_column: t.SplitColumnOption = None,
    categorical: t.CategoricalOption = None,
    numeric: t.NumericOption = None,
    lists: t.ListsOption = None,
    ignore: t.IgnoreOption = None,
    missing: t.MissingOption = None,
    unknown_ids: t.UnknownIdsOption = None,
    relation: t.RelationOption = None,
    model: Annotated[
        str | None, o.option("Preset (default cross-gcn; tables cross-hops).", metavar="NAME")
    ] = None,
    num_layers: Annotated[
        int | None, o.option("Number of graph convolutions (default 2).", metavar="N")
    ] = None,
    order: o.OrderOption = None,
    order_weights: o.OrderWeightsOption = None,
    hidden_channels: o.HiddenOption = None,
    hops: o.HopsOption = None,
    bags: o.BagsOption = None,
    dropout: o.DropoutOption = None,
    epochs: o.EpochsOption = None,
    patience: o.PatienceOption = None,
    metric: o.MetricOption = None,
    class_weight: o.ClassWeightOption = None,
    splits: o.SplitsOption = None,
    train: o.TrainOption = None,
    num_splits: o.NumSplitsOption = None,
    seed: o.SeedOption = None,
    set_: o.SetOption = None,
    settings: o.SettingsOption = False,
    config: o.ConfigOption = None,
    out: o.OutOption = None,
    resume: o.ResumeOption = False,
    workers: o.WorkersOption = None,
    threads: o.ThreadsOption = 1,
    device: o.DeviceOption = "auto",
    as_json: o.JsonOption = False,
    quiet: o.QuietOption = False,
    verbose: o.VerboseOption = False,
) -> None:
    """Train one model on many splits and report its scores on test nodes.

    By default the paper's protocol; with tables of your own and --target COLUMN, cross-hops on 10
    stratified splits. crossgcn check --help lists more options for the columns of tables.
    """
    set_verbosity(quiet, verbose)
    tables = t.TableOptions(
        target=target,
        task=task,
        rare_classes=rare_classes,
        id_column=id_column,
        name_column=name_column,
        source_column=source_column,
        destination_column=destination_column,
        weight_column=weight_column,
        split_column=split_column,
        categorical=categorical,
        numeric=numeric,
        lists=lists,
        ignore=ignore,
        missing=missing,
        unknown_ids=unknown_ids,
        relation=relation,
    )
    given = o.read_settings(
        set_,
        model=model,
        num_layers=num_layers,
        order=order,
        order_weights=order_weights,
        hidden_channels=hidden_channels,
        hops=hops,
        bags=bags,
        dropout=dropout,
        epochs=epochs,
        patience=patience,
        metric=metric,
        class_weight=class_weight,
        splits=splits,
        train=train,
        num_splits=num_splits,
        seed=seed,
    )
    workers = check_workers(workers, threads)
    if config is not None and config.suffix == ".json":
        dataset, edges, tables = _as_trained(config, dataset, edges, tables)
    of_hops = _read_hops(dataset, edges, tables)
    if of_hops is not None and config is None and given["model"] in (None, "cross-hops"):
        given["hops"] = given["hops"] or of_hops.columns.plan.hops
    graph = of_hops or tables.load(dataset, edges, out)
    chosen = configure_for_tables(graph, {"dataset": dataset, **given}, config_file=config)
    if graph is None:
        t.refuse_table_in_config(chosen.dataset, config, "train")
    training = {
        "dataset": _absolute(chosen.dataset),
        "edges": None if edges is None else _absolute(edges),
        "tables": tables.given(),
        "settings": chosen.model_dump(mode="json", exclude={"dataset"}, exclude_none=True),
    }
    started = time.perf_counter()
    experiment = load_experiment([chosen], graph, device)
    with results_folder(out, resume, f"{Path(chosen.dataset).stem}-{chosen.model}") as folder:
        from crossgcn.experiments.experiment import run_folder_name
        from crossgcn.experiments.run_folder import choose_model
        from crossgcn.training.records import write_summary

        count = len(experiment.splits)
        words = f"{chosen.model} × {count} split{'s' * (count > 1)}"
        with progress_bar(words, "epochs") as show:
            (runs,) = experiment.run(
                out=folder,
                workers=workers,
                threads=threads,
                device=device,
                save_models=True,
                training=training,
                on_epochs=show,
            )
        ids, names = (None, None) if graph is None else (graph.ids, graph.names)
        of_model = run_folder_name(chosen)
        hop_file = None if of_hops is None else of_hops.path
        choose_model(folder, of_model, experiment.data, experiment.splits, ids, names, hop_file)
        summary = _summarise(runs, graph)
        summary |= {"wall_seconds": time.perf_counter() - started, "out": str(folder)}
        write_summary(folder, summary)
        print_answer(summary, _shown(summary, folder), as_json)
    if not as_json:
        print_line(f"\nWritten to {folder} (result.json, and a run.json for every run).")


def _summarise(runs: RepeatedRuns, graph: TableGraph | None) -> dict[str, Any]:
    from crossgcn.reports.summaries import summarise_training

    summary = summarise_training(runs)
    summary["finished"] = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    if graph is not None:
        summary["target"] = graph.plan.target
        summary["warnings"] = [problem.describe() for problem in graph.problems]
    return summary


def _shown(summary: dict[str, Any], folder: Path) -> Iterator[RenderableType]:
    from crossgcn.explanation.api import can_be_explained
    from crossgcn.reports.terminal.compare import order_weight_lines, training_table
    from crossgcn.training.checkpoints import load_model

    yield training_table(summary)
    yield from ("", *order_weight_lines(summary))
    if can_be_explained(load_model(folder)):
        yield f"\nNext: {shlex.join(['crossgcn', 'explain', str(folder)])}"


def _as_trained(
    config: Path, dataset: str | None, edges: Path | None, tables: t.TableOptions
) -> tuple[str, Path | None, t.TableOptions]:
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
    known = asdict(t.TableOptions()).keys()
    before_options = {
        name: value for name, value in earlier.get("tables", {}).items() if name in known
    }
    return str(dataset or before), edges, t.TableOptions(**before_options | tables.given())


def _read_hops(dataset: str | None, edges: Path | None, tables: t.TableOptions) -> HopTable | None:
    """Read a file of ``crossgcn hops``; return nothing for another dataset."""
    if dataset is None or not dataset.lower().endswith((".parquet", ".pq")):
        return None
    from crossgcn.graph.hop_file import is_hop_file, read_hop_file

    if not is_hop_file(dataset):
        return None
    with status(f"reading {dataset}"):
        table = read_hop_file(Path(dataset))
    given = tables.given()
    if given.get("target") == table.plan.target:
        given.pop("target", None)
    more = [str(edges)] if edges is not None else [o.option_name(name) for name in given]
    if more:
        raise BadInput(
            f"{more[0]} is one argument too many: {dataset} holds columns of crossgcn hops, with "
            f"edges and target {table.plan.target!r}; leave it out, or give it to crossgcn hops"
        )
    return table


def _absolute(dataset: str | Path) -> str:
    """Return the name of a known dataset, or the absolute path of a file or folder."""
    path = Path(dataset)
    return str(path.resolve() if path.exists() and str(dataset) not in DATASET_NAMES else dataset)
