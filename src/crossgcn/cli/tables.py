"""Options about tables, and reading the dataset that a command names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
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

_TEXTS = (".csv", ".tsv", ".tab")
TABLE_ENDINGS = (*_TEXTS, *(f"{each}.gz" for each in _TEXTS), ".parquet", ".pq", ".xlsx")


Words = Sequence[str] | None
"""Tables of edges as they are given: ``edges.csv``, or ``ties=ties.csv``."""

_LISTS = {"categorical", "numeric", "lists", "ignore", "missing", "directed"}


@dataclass(frozen=True)
class ColumnOptions:
    """The meaning of table columns; detected where not given."""

    target: str | None = option("What to predict: classes, or a number.", metavar="COLUMN")
    id_column: str | None = option("Ids of the nodes (default: detected).", metavar="COLUMN")
    source_column: str | None = option(
        "First end of an edge (default: detected).", metavar="COLUMN"
    )
    destination_column: str | None = option("Second end (default: detected).", metavar="COLUMN")
    edge_weight: str | None = option("Weights of edges (default: weight).", metavar="COLUMN")
    split_column: str | None = option("Column with train, validation or test.", metavar="COLUMN")
    categorical: str | None = option("Columns to read as categories: a,b.", metavar="COLUMNS")
    numeric: str | None = option("Columns to read as numbers.", metavar="COLUMNS")
    lists: str | None = option("Columns to read as lists of words.", metavar="COLUMNS")
    ignore: str | None = option("Columns to leave out.", metavar="COLUMNS")
    missing: str | None = option(
        "More words for missing values (-none: remove none).", metavar="WORDS"
    )
    relation: str | None = option(
        "Prefix of neighbours' columns (default neighbours).", metavar="WORD"
    )

    directed: str | None = option(
        "Relations whose edges have a direction (neighbours: the one without a name).",
        metavar="NAMES",
    )
    through: list[str] | None = option(
        "Table of nodes and things, such as planes and routes: nodes that share one are "
        "neighbours. May be repeated.",
        metavar="NAME=FILE",
    )

    def given(self) -> dict[str, Any]:
        """Return the options that the user gave."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def choices(self) -> TableChoices:
        """Return the options as :func:`crossgcn.load_tables` takes them."""
        from crossgcn.data.tables.plan import TableChoices

        given = self.given()
        for name in _LISTS & given.keys():
            # A comma within a name is escaped by a backslash.
            names = re.split(r"(?<!\\),", given.pop(name))
            kept = tuple(each.strip().replace("\\,", ",") for each in names if each.strip())
            given["ignored" if name == "ignore" else name] = kept
        given.pop("through", None)
        return TableChoices(**given)

    def tables_through(self) -> dict[str, str]:
        """Return the tables of nodes and things, by name."""
        named = name_edges(self.through or [])
        if isinstance(named, str):
            raise BadInput(f"--through {named}: give it a name, such as --through visits={named}")
        return named or {}

    def command(self, name: str, nodes: str | Path, edges: Words, *more: str) -> str:
        """Return the command line of another command on the same tables, with the same options."""
        words = ["crossgcn", name, str(nodes), *(edges or ())]
        for each, value in self.given().items():
            for part in value if isinstance(value, list) else [value]:
                words += [option_name(each), str(part)]
        return shlex.join([*words, *more])


@dataclass(frozen=True)
class TableOptions(ColumnOptions):
    """Options about tables that are read into memory."""

    name_column: str | None = option("Names to show beside the ids.", metavar="COLUMN")
    time_column: str | None = option("Time of each node, for --splits time.", metavar="COLUMN")
    task: Literal["classification", "regression"] | None = option(
        "Predict classes or a number.", metavar="classification|regression"
    )
    rare_classes: Literal["drop", "refuse"] | None = option(
        "Classes of fewer than 10 nodes (default drop).", metavar="drop|refuse"
    )
    unknown_ids: Literal["refuse", "drop"] | None = option(
        "Edges to unknown ids (default refuse).", metavar="refuse|drop"
    )


RARE_OPTIONS = {
    *("task", "rare_classes", "name_column", "source_column", "destination_column"),
    *("time_column", "edge_weight", "categorical", "numeric", "lists", "missing", "unknown_ids"),
    *("directed", "through"),
}
"""Options of ``train`` and ``compare`` that only the help of ``check`` lists."""


@dataclass(frozen=True)
class Dataset:
    """The dataset that a command names.

    Attributes:
        name: Name of a known dataset, or path of a file.
        graph: The tables that were read; ``None`` for other graphs.
        hop_table: The same object as ``graph`` if it is a file of ``crossgcn hops``.
    """

    name: str
    edges: Words
    tables: TableOptions
    graph: TableGraph | None = None
    hop_table: HopTable | None = None


def name_edges(words: Words) -> str | dict[str, str] | None:
    """Read the tables of edges that a command names: one, or several by the name of the relation.

    A word that is a file is no name and file, even with ``=`` in it.
    """
    named: dict[str, str] = {}
    for word in words or ():
        name, equals, table = word.partition("=")
        if not equals or Path(word).exists():
            if len(words or ()) == 1:
                return word
            raise BadInput(
                f"{word} has no name: with several tables of edges give each one, such as "
                f"{Path(word).stem}={word}"
            )
        if name in named:
            raise BadInput(f"two relations are called {name!r}; give each a name of its own")
        named[name] = table
    return named or None


def parse_edges(words: Words) -> Path | dict[str, Path] | None:
    """Read the files of edges that a command names."""
    named = name_edges(words)
    if isinstance(named, str):
        return Path(named)
    return None if named is None else {name: Path(file) for name, file in named.items()}


def absolute_words(words: Words) -> list[str] | None:
    """Return tables of edges as they are given, with absolute paths."""
    edges = parse_edges(words)
    if isinstance(edges, Path):
        return [str(edges.resolve())]
    return [f"{name}={path.resolve()}" for name, path in (edges or {}).items()] or None


def refuse_more(edges: Words, options: Mapping[str, Any], reason: str) -> None:
    """Refuse tables of edges, and ``options``, because of the ``reason``."""
    given = list(edges or ()) + [f"{option_name(name)} {value}" for name, value in options.items()]
    if given:
        raise BadInput(f"{given[0]} is one argument too many: {reason}")


def read_dataset(
    name: str | None, edges: Words, tables: TableOptions, config: Path | None = None
) -> Dataset:
    """Read the tables that the arguments of a command name, if they name tables.

    :class:`~crossgcn.Experiment` reads graphs that are not tables. How the columns were read, and
    warnings, are printed to stderr.

    Args:
        config: Settings file, which may name the dataset.
    """
    if config is not None:
        name, edges, tables = _merge_config(config, name, edges, tables)
    path = name or "citeseer"
    found = Dataset(path, edges, tables)
    if path not in TABLES and not path.lower().endswith(TABLE_ENDINGS):
        reason = (
            f"{path} is not a table; leave it out, or give two files, NODES.csv and EDGES.csv, in "
            f"place of {path} (names of tables end in {', '.join(TABLE_ENDINGS)})"
        )
        refuse_more(edges, tables.given(), reason)
        return found
    with status(f"reading {path}"):
        from crossgcn.data.datasets.real import load_real
        from crossgcn.data.tables.graph import load_tables
        from crossgcn.graph.hop_file import is_hop_file, read_hop_file
        from crossgcn.reports.terminal.check import reading_lines

        if is_hop_file(path):
            table = read_hop_file(Path(path))
            target = table.plan.target
            given = tables.given()
            if given.get("target") == target:
                del given["target"]
            reason = (
                f"{path} holds columns of crossgcn hops, with edges and target {target!r}; leave "
                "it out, or give it to hops"
            )
            refuse_more(edges, given, reason)
            return replace(found, graph=table, hop_table=table)
        through = tables.tables_through()
        if path in TABLES:
            more = further_edges(path, edges)
            graph = load_real(path, choices=tables.choices(), edges=more, through=through)
        elif tables.target is None:
            raise BadInput(
                f"{path} is a table: give the column to predict as --target COLUMN "
                f"({tables.command('check', path, edges)} lists the columns)"
            )
        else:
            graph = load_tables(Path(path), parse_edges(edges), tables.choices(), through=through)
    terminal().print(*reading_lines(graph), sep="\n")
    return replace(found, graph=graph)


def further_edges(name: str, edges: Words) -> dict[str, Path]:
    """Return the named tables of edges that are added to those of a known dataset."""
    found = parse_edges(edges)
    if isinstance(found, Path):
        refuse_more(edges, {}, f"{name} has its own edges; leave it out, or name it: ties={found}")
        return {}
    return found or {}


def _merge_config(
    config: Path, name: str | None, edges: Words, tables: TableOptions
) -> tuple[str | None, Words, TableOptions]:
    """Fill in the dataset and options from a settings file or the ``config.json`` of a run.

    Arguments take precedence. If they name a dataset, the file's options are only used for a run on
    data frames, which have no name.
    """
    from crossgcn.training.config import given_settings, read_training

    is_run = config.suffix == ".json"
    earlier = read_training(config) if is_run else given_settings(config, {})
    before = earlier.get("dataset", "citeseer")
    if name is not None and before is not None:
        return name, edges, tables
    if name is None and before is None:
        raise BadInput(
            f"{config}: the model was trained on data frames; write them to files and give these: "
            f"crossgcn train NODES EDGES --config {config}"
        )
    tables = TableOptions(**(asdict(tables) | earlier.get("tables", {}) | tables.given()))
    return name or before, edges or earlier.get("edges"), tables
