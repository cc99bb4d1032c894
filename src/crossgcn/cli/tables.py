"""Options about the columns of tables, and reading the dataset that a command names."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from crossgcn.cli.options import option, option_name
from crossgcn.cli.running import status, terminal
from crossgcn.data.datasets.catalogue import TABLES
from crossgcn.errors import BadInput

if TYPE_CHECKING:
    from crossgcn.data.tables.graph import TableGraph
    from crossgcn.data.tables.plan import TableChoices
    from crossgcn.graph.hop_file import HopTable

TABLE_ENDINGS = (
    *(".csv", ".tsv", ".tab", ".csv.gz", ".tsv.gz", ".tab.gz"),
    *(".parquet", ".pq", ".xlsx"),
)


def _column(words: str) -> Any:
    return option(words, metavar="COLUMN")


def _columns(words: str) -> Any:
    return option(words, metavar="COLUMNS")


@dataclass(frozen=True)
class ColumnOptions:
    """What the columns of tables are; inferred where not given."""

    target: str | None = _column("What to predict: classes, or a number.")
    id_column: str | None = _column("Ids of the nodes (default: detected).")
    source_column: str | None = _column("First end of an edge (default: detected).")
    destination_column: str | None = _column("Second end (default: detected).")
    weight_column: str | None = _column("Weights of edges (default: weight).")
    split_column: str | None = _column("Column with train, validation or test.")
    categorical: str | None = _columns("Columns to read as categories: a,b.")
    numeric: str | None = _columns("Columns to read as numbers.")
    lists: str | None = _columns("Columns to read as lists of words.")
    ignore: str | None = _columns("Columns to leave out.")
    missing: str | None = option(
        "More words for a missing value (-none: one less).", metavar="WORDS"
    )
    relation: str | None = option(
        "Name of neighbours in columns (default neighbours).", metavar="WORD"
    )

    def given(self) -> dict[str, Any]:
        """Return the options that the user gave."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def choices(self) -> TableChoices:
        """Return the options as :func:`crossgcn.load_tables` takes them."""
        from crossgcn.data.tables.plan import TableChoices

        given = self.given()
        for name in {"categorical", "numeric", "lists", "ignore", "missing"} & given.keys():
            given[name] = _names(given[name])
        if "ignore" in given:
            given["ignored"] = given.pop("ignore")
        return TableChoices(**given)

    def command(self, name: str, nodes: str | Path, edges: Path | None, *more: str) -> str:
        """Return what to type for another command on the same tables, with the same options."""
        words = ["crossgcn", name, str(nodes), *([] if edges is None else [str(edges)])]
        for each, value in self.given().items():
            words += [option_name(each), str(value)]
        return shlex.join([*words, *more])


@dataclass(frozen=True)
class TableOptions(ColumnOptions):
    """All that can be said about tables that are read into memory."""

    name_column: str | None = _column("Names to show beside the ids.")
    task: Literal["classification", "regression"] | None = option(
        "Predict classes or a number.", metavar="classification|regression"
    )
    rare_classes: Literal["drop", "refuse"] | None = option(
        "Classes of under 10 nodes (default drop).", metavar="drop|refuse"
    )
    unknown_ids: Literal["refuse", "drop"] | None = option(
        "Edges to ids of no node (default refuse).", metavar="refuse|drop"
    )


RARE_OPTIONS = {
    *("task", "rare_classes", "name_column", "source_column", "destination_column"),
    *("weight_column", "categorical", "numeric", "lists", "missing", "unknown_ids"),
}
"""Options that ``train`` and ``compare`` take and only the help of ``check`` lists."""


@dataclass(frozen=True)
class Dataset:
    """What a command was told to read.

    Attributes:
        name: Of a known dataset, or the path of a file.
        graph: The tables as they were read; ``None`` for a graph that is no table.
        hop_table: The same, if it is a file of ``crossgcn hops``.
    """

    name: str
    edges: Path | None
    tables: TableOptions
    graph: TableGraph | None = None
    hop_table: HopTable | None = None

    def refuse_more(self, reason: str, allowed: Mapping[str, Any] | None = None) -> None:
        """Refuse a table of edges, and options about tables that are not ``allowed``."""
        given = [] if self.edges is None else [str(self.edges)]
        for name, value in self.tables.given().items():
            if (name, value) not in (allowed or {}).items():
                given.append(f"{option_name(name)} {value}")
        if given:
            raise BadInput(f"{given[0]} is one argument too many: {reason}")


def read_dataset(
    name: str | None, edges: Path | None, tables: TableOptions, config: Path | None = None
) -> Dataset:
    """Read the tables that the arguments of a command name, if they name tables.

    A known graph or a graph file is left to :class:`~crossgcn.Experiment`. What was decided about
    the columns, and warnings, go to stderr.

    Args:
        config: Settings file, which may name the dataset.
    """
    if config is not None:
        name, edges, tables = _named_in(config, name, edges, tables)
    path = name or "citeseer"
    found = Dataset(path, edges, tables)
    is_known = path in TABLES
    if not is_known and not path.lower().endswith(TABLE_ENDINGS):
        found.refuse_more(
            f"{path} is not a table; leave it out, or give two files, NODES.csv and EDGES.csv, in "
            f"place of {path} (names of tables end in {', '.join(TABLE_ENDINGS)})"
        )
        return found
    with status(f"reading {path}"):
        from crossgcn.data.datasets.real import load_real
        from crossgcn.data.tables.graph import load_tables
        from crossgcn.graph.hop_file import is_hop_file, read_hop_file
        from crossgcn.reports.terminal.check import reading_lines

        if is_hop_file(path):
            table = read_hop_file(Path(path))
            target = table.plan.target
            found.refuse_more(
                f"{path} holds columns of crossgcn hops, with edges and target {target!r}; leave "
                "it out, or give it to hops",
                allowed={"target": target},
            )
            return replace(found, graph=table, hop_table=table)
        if is_known:
            refuse_edges_of(path, found.edges)
            graph = load_real(path, choices=found.tables.choices())
        elif found.tables.target is None:
            raise BadInput(
                f"{path} is a table: give the column to predict as --target COLUMN "
                f"({found.tables.command('check', path, found.edges)} lists the columns)"
            )
        else:
            graph = load_tables(Path(path), found.edges, found.tables.choices())
    terminal().print(*reading_lines(graph), sep="\n", highlight=False)
    return replace(found, graph=graph)


def refuse_edges_of(name: str, edges: Path | None) -> None:
    """Refuse a table of edges with a known dataset, which has edges of its own."""
    if edges is not None:
        raise BadInput(f"{edges} is one argument too many: {name} has its own edges; leave it out")


def _named_in(
    config: Path, name: str | None, edges: Path | None, tables: TableOptions
) -> tuple[str | None, Path | None, TableOptions]:
    """Return what a settings file, or the ``config.json`` of an earlier run, names as the dataset.

    Edges and options that are given now take precedence. A dataset that is given now is another
    one, unless the earlier one were data frames, which are no files.
    """
    from crossgcn.training.config import given_settings, read_training

    if config.suffix != ".json":
        return name or given_settings(config, {}).get("dataset"), edges, tables
    earlier = read_training(config)
    before = earlier.get("dataset", "citeseer")
    if name is not None and before is not None:
        return name, edges, tables
    if name is None and before is None:
        raise BadInput(
            f"{config}: the model was trained on data frames; write them to files and give these: "
            f"crossgcn train NODES EDGES --config {config}"
        )
    known = {each: earlier.get("tables", {}).get(each) for each in asdict(tables)}
    tables = TableOptions(**known | tables.given())
    return name or before, edges or (earlier.get("edges") and Path(earlier["edges"])), tables


def _names(text: str) -> tuple[str, ...]:
    r"""Read column names from ``a,b``; a comma within a name is written ``\,``."""
    hidden = text.replace("\\,", "\0").split(",")
    return tuple(name.strip().replace("\0", ",") for name in hidden if name.strip())
