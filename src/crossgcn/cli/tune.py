"""``crossgcn tune``: search the settings of a model, and of its twin without crosses."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from crossgcn.cli.command import Answer, command, option
from crossgcn.cli.options import (
    MODEL,
    SETTINGS,
    ConfigOption,
    DatasetArgument,
    RunOptions,
    SettingOptions,
    Settings,
    parse_numbers,
)
from crossgcn.cli.running import check_workers, is_explainable, show_progress
from crossgcn.cli.tables import EdgesArgument, TableOptions, refuse_table_in_config
from crossgcn.models.catalogue import get_preset
from crossgcn.training.config import RunConfig
from crossgcn.workflows.table_settings import TABLE_DEFAULTS, table_defaults

if TYPE_CHECKING:
    from rich.console import RenderableType


_SEARCH = "Search"
_NAMES = tuple(name for name in SETTINGS if name != "num_layers")


@command
def tune(
    dataset: DatasetArgument = None,
    edges: EdgesArgument = None,
    num_layers: Annotated[
        str | None,
        option(
            "Number of graph convolutions: 2, or 1,2,3 to search among these. [default: 2]",
            panel=MODEL,
        ),
    ] = None,
    trials: Annotated[int, option("Trials, and as many for the twin.", panel=_SEARCH)] = 30,
    timeout: Annotated[
        float | None,
        option(
            "Start no further trial after this time; the twin has as many.",
            metavar="SECONDS",
            panel=_SEARCH,
        ),
    ] = None,
    search_splits: Annotated[
        int | None,
        option(
            "Number of splits that a trial uses: fewer are faster and noisier. The chosen "
            "settings are trained on all. [default: all]",
            metavar="N",
            panel=_SEARCH,
        ),
    ] = None,
    fix: Annotated[
        list[str] | None,
        option(
            "Fix a setting, as --dropout 0.5 and the other options do; may be repeated.",
            metavar="NAME=VALUE",
            panel=_SEARCH,
        ),
    ] = None,
    space: Annotated[
        Path | None,
        option(
            "TOML file with your own search space: dropout = { low = 0.0, high = 0.8 }, "
            "weight_decay = { low = 1e-5, high = 1e-2, log = true }, hidden_channels = [16, 32]. "
            "[default: the model's]",
            metavar="FILE",
            panel=_SEARCH,
        ),
    ] = None,
    twin: Annotated[
        bool,
        option(
            "Also tune the same model without crosses, and compare the two.",
            "--twin/--no-twin",
            panel=_SEARCH,
        ),
    ] = True,
    *,
    settings: Annotated[Settings, SettingOptions(_NAMES)],
    config: ConfigOption = None,
    tables: TableOptions,
    run: RunOptions,
) -> Answer:
    """Search for the settings of best validation score (--metric), then test them once.

    Every trial trains on the splits; test nodes are read only after the search. The model without
    crosses (its twin) is tuned by as many trials, so that the difference is due to the crosses.
    Needs the extra tune, which installs Optuna.

    The chosen settings are written to best.toml in --out, for crossgcn train --config, and the
    best model to chosen/, for predict and explain. A search that was stopped continues with
    --resume and gives the same result.

    With tables of your own, crossgcn tune nodes.csv edges.csv --target COLUMN, the default is
    cross-hops; its trials train 2 bags, the chosen settings 8. A fifth of the nodes is set apart
    for the test, the same in all splits. Training again would draw other test nodes, so use the
    saved model there.
    """
    get_preset(settings["model"] or "cross-gcn")
    graph = tables.load(dataset, edges, run.out)
    defaults: dict[str, Any] = {}
    if graph is not None:
        usual = {"model": TABLE_DEFAULTS["model"]}
        given = RunConfig.create(config_file=config, defaults=usual, **settings)
        defaults = table_defaults(graph, settings["splits"], given)

    from crossgcn.experiments.tune.space import make_searches
    from crossgcn.workflows.tune import keep_tuning, make_tuning

    searches = make_searches(
        {"dataset": dataset, **settings},
        fix=fix or [],
        depths=None if num_layers is None else parse_numbers(num_layers, "--num-layers"),
        config_file=config,
        defaults=defaults,
        space_file=space,
        twin=twin,
    )
    first = searches[0].base
    if graph is None:
        refuse_table_in_config(first.dataset, config, "tune")

    check_workers(run.workers, run.threads)
    tuning = make_tuning(searches, graph, search_splits)
    started = time.perf_counter()
    searched = " and ".join(search.name for search in searches)
    count = tuning.search_splits
    words = f"{searched}: {trials} trial{'s' * (trials > 1)} × {count} split{'s' * (count > 1)}"
    name = f"{Path(first.dataset).stem}-{first.model}-tune"
    with show_progress(run, words, name) as (folder, work):
        result = tuning.run(out=folder, trials=trials, timeout=timeout, **work)
    summary = keep_tuning(result, folder, with_dataset=graph is None)
    summary |= {
        "search_splits": tuning.search_splits,
        "wall_seconds": time.perf_counter() - started,
        "out": str(folder),
    }
    if graph is not None:
        summary["target"] = graph.plan.target

    from crossgcn.reports.terminal.tune import settings_table, tuning_notes, tuning_table

    def shown() -> Iterator[RenderableType]:
        yield from (tuning_table(summary), settings_table(summary))
        yield from map(Text, tuning_notes(summary))
        file = ("--config", str(folder / "best.toml"))
        if first.splits == "stratified":
            chosen = result.ours.folder
            names = ["predict", *["explain"] * is_explainable(chosen, first.model)]
            steps = " or ".join(shlex.join(["crossgcn", name, str(chosen)]) for name in names)
        elif graph is not None:
            steps = tables.command("train", str(dataset), edges, *file)
        else:
            steps = shlex.join(["crossgcn", "train", *file])
        figure = folder / "search.png"
        yield f"\nNext: {steps}\nFigure of the search: {figure}"

    return Answer(summary, shown(), folder)
