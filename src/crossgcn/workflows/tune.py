"""Search for the settings of a model, and keep what was found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from crossgcn.data.tables.graph import TableGraph, describe_encoding
from crossgcn.experiments.tune.space import make_searches
from crossgcn.experiments.tune.tuning import Tuning, TuningResult
from crossgcn.reports.terminal.tune import summarise_tuning, write_config
from crossgcn.reports.tuning_figure import write_tuning_figure
from crossgcn.reproduction.items import paper_result
from crossgcn.workflows.compare import keep_summary
from crossgcn.workflows.table_settings import table_defaults


def tune(
    dataset: str | TableGraph,
    out: Path | str,
    *,
    trials: int = 30,
    timeout: float | None = None,
    search_splits: int | None = None,
    twin: bool = True,
    workers: int = 1,
    threads: int = 1,
    device: str = "cpu",
    on_epochs: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Search for the settings of best validation score, then test them once.

    Needs the extra ``tune``, which installs Optuna. Arguments that are not listed are those of
    :func:`crossgcn.compare`.

    Args:
        dataset: A known dataset, a graph file or a graph folder; or tables that
            :func:`~crossgcn.load_tables` read.
        out: Folder for the trials, ``best.toml`` and the chosen model in ``chosen``; finished
            trials in it are not repeated.
        trials: Trials per model.
        timeout: Seconds after which no further trial starts.
        search_splits: Splits per trial; all by default.
        twin: Also tune the same model without crosses, and compare the two.
        **settings: Fields of :class:`~crossgcn.RunConfig` that are not searched.

    Returns:
        The summary that ``crossgcn tune --json`` prints.
    """
    graph = None if isinstance(dataset, str) else dataset
    name = dataset if isinstance(dataset, str) else dataset.data.name
    searches = make_searches(
        {"dataset": name, "model": None, **settings},
        defaults=table_defaults(graph, settings.get("splits")),
        twin=twin,
    )
    tuning = make_tuning(searches, graph, search_splits)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    result = tuning.run(
        out=folder,
        trials=trials,
        timeout=timeout,
        workers=workers,
        threads=threads,
        device=device,
        on_epochs=on_epochs,
    )
    summary = keep_tuning(result, folder, with_dataset=graph is None)
    return keep_summary(summary | {"search_splits": tuning.search_splits}, folder)


def make_tuning(searches: Any, graph: TableGraph | None, search_splits: int | None) -> Tuning:
    """Return the searches on their dataset, or on tables."""
    own: dict[str, Any] = {}
    if graph is not None:
        own = {"data": graph.data, "ids": graph.ids, "preprocess": describe_encoding(graph)}
    return Tuning(*searches, search_splits=search_splits, first_layer_only=graph is not None, **own)


def keep_tuning(result: TuningResult, folder: Path, *, with_dataset: bool) -> dict[str, Any]:
    """Write the chosen settings and the figure, and return the summary."""
    write_config(folder / "best.toml", result.ours, with_dataset=with_dataset)
    if result.twin is not None:
        write_config(folder / "twin.toml", result.twin, with_dataset=with_dataset)
    write_tuning_figure(folder / "search.png", result)
    return summarise_tuning(result, paper_result)
