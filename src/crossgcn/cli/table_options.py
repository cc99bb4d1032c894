"""Options that say what the columns of a user's tables are.

Nothing here imports torch or pandas, so that ``--help`` answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crossgcn.errors import BadInput

if TYPE_CHECKING:
    from crossgcn.data.tables.plan import TableChoices

__all__ = ["TABLE_ENDINGS", "is_table", "refuse_table_options", "table_choices"]

_TABLES = "Your own tables"

TABLE_ENDINGS = (".csv", ".tsv", ".tab", ".csv.gz", ".tsv.gz", ".tab.gz", ".parquet", ".pq")
"""How the names of files end that are read as tables."""

NodesArgument = Annotated[
    Path, typer.Argument(help="Table of nodes: CSV, TSV or Parquet.", metavar="NODES")
]
EdgesArgument = Annotated[
    Path | None,
    typer.Argument(
        help="Table of edges: CSV, TSV or Parquet, a row an edge. Nodes stand alone without it.",
        metavar="EDGES",
    ),
]


def _named(help: str, metavar: str = "COLUMN") -> Any:
    return typer.Option(help=help, metavar=metavar, rich_help_panel=_TABLES)


TargetOption = Annotated[str | None, _named("Column of NODES to predict.")]
IdColumnOption = Annotated[
    str | None, _named("Column of NODES that names a node. \\[default: found by looking]")
]
SourceColumnOption = Annotated[
    str | None, _named("Column of EDGES with one end of an edge. \\[default: found by looking]")
]
DestinationColumnOption = Annotated[
    str | None, _named("Column of EDGES with the other end. \\[default: found by looking]")
]
WeightColumnOption = Annotated[
    str | None, _named("Column of EDGES with weights. \\[default: weight, if there is one]")
]
SplitColumnOption = Annotated[
    str | None,
    _named("Column of NODES that says train, validation or test. \\[default: splits are drawn]"),
]
CategoricalOption = Annotated[
    str | None, _named("Columns to take as categories, separated by commas.", "COLUMNS")
]
NumericOption = Annotated[str | None, _named("Columns to take as numbers.", "COLUMNS")]
ListsOption = Annotated[
    str | None, _named("Columns to take as lists of words, such as red;blue.", "COLUMNS")
]
IgnoreOption = Annotated[str | None, _named("Columns to leave out.", "COLUMNS")]
MissingOption = Annotated[
    str | None,
    _named(
        "Words that stand for a missing value, besides empty cells. "
        "\\[default: NA, N/A, NaN, null, None; in the target, empty cells only]",
        "WORDS",
    ),
]
HashFeaturesOption = Annotated[
    int | None,
    _named(
        "Hash categories and words into 2^BITS features, for values without end. "
        "\\[default: a feature for each that three nodes have]",
        "BITS",
    ),
]


def is_table(dataset: str | None) -> bool:
    """Whether a dataset argument names a table and not a dataset."""
    return dataset is not None and dataset.lower().endswith(TABLE_ENDINGS)


def table_choices(
    *,
    target: str | None = None,
    id_column: str | None = None,
    source_column: str | None = None,
    destination_column: str | None = None,
    weight_column: str | None = None,
    split_column: str | None = None,
    categorical: str | None = None,
    numeric: str | None = None,
    lists: str | None = None,
    ignore: str | None = None,
    missing: str | None = None,
    hash_features: int | None = None,
) -> TableChoices:
    """What the options say, for :func:`crossgcn.data.tables.plan.make_plan`."""
    from crossgcn.data.tables.plan import TableChoices

    return TableChoices(
        target=target,
        id_column=id_column,
        source_column=source_column,
        destination_column=destination_column,
        weight_column=weight_column,
        split_column=split_column,
        categorical=_names(categorical),
        numeric=_names(numeric),
        lists=_names(lists),
        ignored=_names(ignore),
        missing=None if missing is None else _names(missing),
        hash_features=hash_features,
    )


def refuse_table_options(dataset: str | None, edges: Path | None, given: dict[str, Any]) -> None:
    """A second file, or options for tables, make no sense with a dataset that has a name."""
    name = dataset or "citeseer"
    if (given or edges is not None) and Path(name).exists():
        endings = ", ".join(TABLE_ENDINGS)
        raise BadInput(f"{name}: cannot tell that it is a table: end its name in one of {endings}")
    remedy = f"give two files, NODES.csv and EDGES.csv (or .tsv, .parquet), in place of {name}"
    if edges is not None:
        raise BadInput(f"{edges} is one argument too many for {name}: {remedy}, or leave it out")
    for option, value in given.items():
        words = f"--{option.replace('_', '-')} {value}"
        raise BadInput(f"{words} is for tables of your own: {remedy}")


def _names(text: str | None) -> tuple[str, ...]:
    r"""Column names from ``a,b``; a comma within a name is written ``\,``."""
    if text is None:
        return ()
    hidden = text.replace("\\,", "\0").split(",")
    return tuple(name.strip().replace("\0", ",") for name in hidden if name.strip())
