"""What bad tables are made of: good ones, with one thing changed."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Columns = dict[str, list[str]]

NUM_NODES = 60


@dataclass(frozen=True)
class BadTable:
    """A pair of files and the finding they lead to.

    Attributes:
        name: What is wrong, for the test's name.
        kind: The finding's; for files that cannot be read at all, ``UNREADABLE``.
        fragments: Of what is printed: file, row, value, remedy.
        nodes: The file's content.
        edges: Likewise; none for no such file.
        options: Besides ``--target buys``.
        is_error: Whether training is refused.
        nodes_file: The name of the file of nodes.
    """

    name: str
    kind: str
    fragments: tuple[str, ...]
    nodes: str | bytes
    edges: str | bytes | None
    options: tuple[str, ...] = ("--target", "buys")
    is_error: bool = True
    nodes_file: str = "nodes.csv"


UNREADABLE = "unreadable"


def as_text(table: Mapping[str, Sequence[str]]) -> str:
    """A table as the text of a CSV file."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return file.getvalue()


def columns(num_nodes: int = NUM_NODES) -> Columns:
    """Nodes with nothing wrong: a column of each kind, two classes, no chance repetitions."""
    number = range(num_nodes)
    return {
        "id": [f"u{i}" for i in number],
        "colour": [("red", "green", "blue")[i * i % 7 % 3] for i in number],
        "size": [f"{1 + (i * 37 % 101) / 8}" for i in number],
        "member": [str(i * i % 11 % 2) for i in number],
        "buys": [("yes", "no")[i % 2] for i in number],
    }


def ring(num_nodes: int = NUM_NODES) -> Columns:
    """Every node has four neighbours, most of its own class."""
    pairs = [(i, (i + step) % num_nodes) for i in range(num_nodes) for step in (2, 4)]
    pairs += [(i, i + 1) for i in range(0, num_nodes - 1, 10)]
    return {"source": [f"u{i}" for i, _ in pairs], "target": [f"u{j}" for _, j in pairs]}


NODES, EDGES = as_text(columns()), as_text(ring())


def nodes_with(**new: list[str] | dict[int, str]) -> str:
    """The good nodes with other columns, or other cells by the position of the row."""
    return as_text(changed(columns(), new))


def edges_with(**new: list[str] | dict[int, str]) -> str:
    """The good edges with other columns, or other cells by the position of the row."""
    return as_text(changed(ring(), new))


def changed(table: Columns, new: Mapping[str, list[str] | dict[int, str]]) -> Columns:
    for name, values in new.items():
        if isinstance(values, dict):
            cells = table.setdefault(name, [""] * len(next(iter(table.values()))))
            for position, value in values.items():
                cells[position] = value
        else:
            table[name] = values
    return table


def more_edges(*pairs: tuple[str, str]) -> str:
    """The good edges and some more."""
    return EDGES + edge_rows(pairs)


def edges_of(pairs: Iterable[tuple[int, int]]) -> str:
    """Edges by the numbers of the nodes."""
    return "source,target\n" + edge_rows((f"u{i}", f"u{j}") for i, j in pairs)


def edge_rows(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{source},{target}\n" for source, target in pairs)


def varied(values: Sequence[str], num_nodes: int = NUM_NODES) -> list[str]:
    """The values dealt out so that they have nothing to do with the class."""
    return [values[i * i % 53 * 7 % len(values)] for i in range(num_nodes)]


def of_nodes(name: str, kind: str, nodes: str | bytes, says: str, *, options: str = "") -> BadTable:
    """Something wrong with the table of nodes; what is printed is parted by bars."""
    chosen = options.split() if "--target" in options else ["--target", "buys", *options.split()]
    fragments = ("nodes.csv", *says.split(" | "))
    return BadTable(name, kind, fragments, nodes, EDGES, tuple(chosen))


def of_edges(
    name: str, kind: str, edges: str | bytes, says: str, *, nodes: str = NODES
) -> BadTable:
    """Something wrong with the table of edges; what is printed is parted by bars."""
    return BadTable(name, kind, tuple(says.split(" | ")), nodes, edges)
