"""Tables with one thing wrong with each, and what a user should read about it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

__all__ = ["BAD_TABLES", "EDGES", "NODES", "UNREADABLE", "BadTable", "as_text", "columns"]

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


CANNOT_BE_READ = (
    of_nodes("an empty file", UNREADABLE, "", "empty | header"),
    of_nodes("blank lines only", UNREADABLE, "\n\n", "empty | header"),
    of_nodes("only a header", UNREADABLE, "id,colour,buys\n", "no rows | add"),
    of_nodes(
        "a row too long", UNREADABLE, NODES + "u60,red,1,0,yes,more\n", "row 62: 6 cell | quotes"
    ),
    of_nodes("a row too short", UNREADABLE, NODES + "u60,red\n", "row 62: 2 cell | add the cells"),
    of_nodes("an empty row within", UNREADABLE, NODES.replace("u5,", "\nu5,"), "row 7 | delete"),
    of_nodes("a quote never closed", UNREADABLE, NODES + '"u60,red\n', "row 62 | quote | close it"),
    of_nodes("a NUL byte", UNREADABLE, NODES.replace("u3,", "u\x00,"), "row 5 | NUL | again"),
    of_nodes("latin-1", UNREADABLE, NODES.replace("red", "röd").encode("latin1"), "0xf6 | UTF-8"),
    of_nodes("UTF-16", UNREADABLE, NODES.encode("utf-16"), "UTF-16 | CSV UTF-8"),
    of_nodes(
        "one name for two columns", UNREADABLE, NODES.replace("member", "size"), "'size' | rename"
    ),
    of_nodes("a column without name", UNREADABLE, NODES.replace("member", ""), "row 1 | name it"),
    of_nodes(
        "no such target", UNREADABLE, NODES, "'buy' | did you mean 'buys'", options="--target buy"
    ),
    of_nodes("no such column", UNREADABLE, NODES, "'colur' | 'colour'", options="--ignore colur"),
    BadTable(
        "a column chosen twice",
        UNREADABLE,
        ("'size'", "choose one"),
        NODES,
        EDGES,
        ("--target", "buys", "--ignore", "size", "--numeric", "size"),
    ),
    of_nodes(
        "no ids",
        UNREADABLE,
        as_text({name: columns()[name] for name in ("colour", "member", "buys")}),
        "--id-column",
    ),
    of_edges("edges with one end", UNREADABLE, "source\nu1\n", "edges.csv | two ends | give"),
    BadTable("no edges", UNREADABLE, ("edges.csv does not exist", "give"), NODES, None),
    BadTable(
        "a broken Parquet file",
        UNREADABLE,
        ("nodes.parquet", "Parquet", "write it again"),
        b"PAR1 and no more",
        EDGES,
        nodes_file="nodes.parquet",
    ),
    BadTable(
        "a workbook",
        UNREADABLE,
        ("nodes.xlsx", ".csv", "save the table"),
        b"PK",
        EDGES,
        nodes_file="nodes.xlsx",
    ),
)
"""Refused before anything is checked."""

ERRORS = (
    of_nodes("a node without id", "missing-id", nodes_with(id={4: ""}), "row 6 | delete the row"),
    of_nodes(
        "an id twice",
        "duplicate-id",
        nodes_with(id={9: "u3"}),
        "row 11 | 'u3' | row 5 | one row per node",
    ),
    of_nodes(
        "no class at all", "no-target-value", nodes_with(buys=[""] * 60), "column buys | fill in"
    ),
    of_nodes(
        "one class", "one-class", nodes_with(buys=["yes"] * 60), "column buys | 'yes' | add nodes"
    ),
    of_nodes(
        "a class of two",
        "rare-class",
        nodes_with(buys={7: "maybe", 9: "maybe"}),
        "row 9 | 'maybe' has 2 nodes | merge",
    ),
    of_nodes(
        "a quantity to predict",
        "continuous-target",
        nodes_with(buys=[f"{i * 7.25}" for i in range(60)]),
        "row 2 | '0.0' | regression | pd.qcut(nodes['buys']",
    ),
    of_nodes(
        "whole numbers to predict",
        "continuous-target",
        nodes_with(buys=[f"{i * 917 % 4001}" for i in range(60)]),
        "row 2 | 60 different numbers | pd.qcut",
    ),
    of_nodes(
        "names to predict",
        "too-many-classes",
        nodes_with(buys=[f"n{i}" for i in range(60)]),
        "row 2 | 'n0' | --target",
    ),
    of_nodes(
        "a word among numbers",
        "not-a-number",
        nodes_with(size={17: "big", 20: "tiny"}),
        "row 19, column size | 'big' | 2 such | leave the cell empty",
    ),
    of_nodes(
        "a decimal comma", "not-a-number", nodes_with(size={3: "12,5"}), "row 5 | '12,5' | 12.5"
    ),
    of_nodes(
        "marks between thousands",
        "not-a-number",
        nodes_with(size={3: "1.234.567,5"}),
        "row 5 | '1.234.567,5' | 1234567.5",
    ),
    of_nodes(
        "a unit",
        "not-a-number",
        nodes_with(size={3: "10 kg"}),
        "row 5 | '10 kg' | without the unit: 10",
    ),
    of_nodes(
        "an infinite number",
        "infinite-number",
        nodes_with(size={8: "-inf"}),
        "row 10 | '-inf' | finite number",
    ),
    of_nodes(
        "a number beyond floats",
        "infinite-number",
        nodes_with(size={8: "1e999"}),
        "row 10 | '1e999' | finite number",
    ),
    of_nodes(
        "words taken as numbers",
        "not-a-number",
        NODES,
        "row 2, column colour | 'red' | write a number",
        options="--numeric colour",
    ),
    of_nodes(
        "nothing to learn from",
        "no-feature",
        as_text({name: columns()[name] for name in ("id", "buys")}),
        "add columns | --categorical",
    ),
    of_nodes(
        "a split of unknown words",
        "unknown-split",
        nodes_with(part=varied(("train", "test", "dev"))),
        "column part | 'dev' | train, validation and test",
        options="--split-column part",
    ),
    of_nodes(
        "a split without training",
        "no-train-node",
        nodes_with(split=varied(("validation", "test"))),
        "column split | write train",
    ),
    of_nodes(
        "a split without validation",
        "no-validation-node",
        nodes_with(split=varied(("train", "test"))),
        "column split | write validation",
    ),
    of_nodes(
        "a split without test",
        "no-test-node",
        nodes_with(split=varied(("train", "valid"))),
        "column split | write test",
    ),
    of_nodes(
        "a class nobody trains on",
        "untrained-class",
        nodes_with(split=[("train", "test", "val", "test")[i % 4] for i in range(60)]),
        "row 3 | 'no' | write train",
    ),
    of_edges(
        "an edge to nowhere",
        "unknown-edge-end",
        edges_with(target={5: "u99"}),
        "edges.csv, row 7, column target | 'u99' | add the node",
    ),
    of_edges(
        "an end with a space",
        "unknown-edge-end",
        edges_with(source={5: "u7 "}),
        "edges.csv, row 7, column source | 'u7 ' | 'u7' is | correct the id",
    ),
    of_edges(
        "an edge with one end",
        "missing-edge-end",
        edges_with(target={5: ""}),
        "edges.csv, row 7, column target | delete the row",
    ),
    of_edges(
        "edges of another graph",
        "no-edge-end-known",
        "source,target\nx7,x8\nx8,x9\n",
        "edges.csv, row 2 | 'x7' | 'u0' | --id-column",
    ),
    of_edges(
        "ids that became decimals",
        "no-edge-end-known",
        EDGES.replace("u", "")
        .replace(",", ".0,")
        .replace("\n", ".0\n")
        .replace("sorce.0,target.0", "source,target"),
        "edges.csv, row 2 | '0.0' | ('0' is) | alike in both",
        nodes=NODES.replace("u", "").replace("bys", "buys"),
    ),
    of_edges(
        "an edge without weight",
        "missing-edge-weight",
        edges_with(weight=dict.fromkeys(range(125), "1")),
        "edges.csv, row 127 | 1 for an ordinary edge",
    ),
    of_edges(
        "a weight in words",
        "bad-edge-weight",
        edges_with(weight=["0.5"] * 125 + ["strong"]),
        "edges.csv, row 127 | 'strong' | such as 0.5",
    ),
    of_edges(
        "a negative weight",
        "negative-edge-weight",
        edges_with(weight=["-0.5"] + ["0.5"] * 125),
        "edges.csv, row 2 | '-0.5' | rescale",
    ),
    of_edges(
        "an infinite weight",
        "infinite-edge-weight",
        edges_with(weight=["inf"] + ["0.5"] * 125),
        "edges.csv, row 2 | 'inf' | finite number",
    ),
)
"""Read, but not to be trained on."""

WARNINGS = (
    of_edges(
        "ids that differ by case",
        "similar-ids",
        EDGES.replace("u59", "U3"),
        "nodes.csv, row 61 | 'U3' | 'u3' | same way",
        nodes=nodes_with(id={59: "U3"}),
    ),
    of_edges(
        "an edge twice",
        "duplicate-edge",
        more_edges(("u0", "u2")),
        "edges.csv, row 128 | from 'u0' to 'u2' is in row 2 already | delete the row",
    ),
    of_edges(
        "an edge both ways",
        "reversed-edge",
        more_edges(("u2", "u0")),
        "edges.csv, row 128 | from 'u2' to 'u0' is in row 2 | no direction | delete one",
    ),
    of_edges(
        "an edge to itself",
        "self-loop",
        more_edges(("u5", "u5")),
        "edges.csv, row 128 | 'u5' | delete the row",
    ),
    of_edges(
        "a node without edges",
        "isolated-node",
        EDGES,
        "nodes.csv, row 62 | 'u60' | 2 % | add its edges",
        nodes=NODES + "u60,red,3.5,0,no\n",
    ),
    of_edges(
        "hardly an edge",
        "few-edges",
        edges_of((i, i + 1) for i in range(12)),
        "edges.csv | 12 different edges for 60 nodes | add edges",
    ),
    of_edges(
        "a node that knows everyone",
        "hub",
        edges_of((7, i) for i in range(60) if i != 7),
        "nodes.csv, row 9 | 'u7' | 100 % of all edges | delete it",
    ),
    of_edges(
        "a graph in pieces",
        "pieces",
        edges_of((i, j) for i in range(60) for j in range(i) if i // 6 == j // 6),
        "edges.csv | 10 pieces | check whether edges were lost",
    ),
    of_edges(
        "neighbours of the other class",
        "unlike-neighbours",
        edges_of((i, (i + step) % 60) for i in range(60) for step in (1, 3)),
        "edges.csv | only 0 % of edges | chance would give 50 % | mlp",
    ),
    of_edges(
        "an edge that weighs nothing",
        "zero-edge-weight",
        edges_with(weight=["0.5"] * 125 + ["0"]),
        "edges.csv, row 127 | '0' | delete the row",
    ),
    of_nodes(
        "a constant column",
        "constant-column",
        nodes_with(shop=["main"] * 60),
        "column shop | 'main' | delete the column",
    ),
    of_nodes(
        "a nearly constant column",
        "nearly-constant-column",
        nodes_with(shop=["main"] * 59 + ["side"]),
        "row 61, column shop | 'side' | --ignore",
    ),
    of_nodes(
        "an empty column",
        "empty-column",
        nodes_with(shop=["", "NA"] * 30),
        "column shop | fill it or delete it",
    ),
    of_nodes(
        "a column with more gaps than values",
        "mostly-missing",
        nodes_with(shop=varied(("", "main", "side", "", ""))),
        "column shop | --ignore",
    ),
    of_nodes(
        "a customer number",
        "id-as-feature",
        nodes_with(account=[f"{7000 + i}" for i in range(60)]),
        "row 2, column account | '7000' | --ignore",
    ),
    of_nodes(
        "a number by its name",
        "id-as-feature",
        nodes_with(tax_no=[f"{i * 7919 % 9973}" for i in range(60)]),
        "row 2, column tax_no | --ignore",
    ),
    of_nodes(
        "the id once more",
        "id-as-feature",
        nodes_with(again=columns()["id"]),
        "row 2, column again | 'u0' is the node's id | --ignore",
        options="--id-column id --categorical again",
    ),
    of_nodes(
        "a category that knows the class",
        "gives-label-away",
        nodes_with(paid=[("card", "", "cash", "")[i % 4] for i in range(60)]),
        "row 2, column paid | 'card' means 'yes' | --ignore",
    ),
    of_nodes(
        "a number that knows the class",
        "gives-label-away",
        nodes_with(
            spent=[f"{(100 + i * i % 59 if i % 2 == 0 else i * i % 59 / 2)}" for i in range(60)]
        ),
        "row 2, column spent | --ignore",
    ),
    of_nodes(
        "a word that knows the class",
        "gives-label-away",
        nodes_with(
            tags=[
                ";".join(["sold"] * (i % 2 == 0) + [varied("abcdef")[i], varied("ghk")[i]])
                for i in range(60)
            ]
        ),
        "row 2, column tags | 'sold' | --ignore",
    ),
    of_nodes(
        "the class in other words",
        "copies-target",
        nodes_with(bought=["1", "0"] * 30),
        "row 2, column bought | column buys | --ignore",
    ),
    of_nodes(
        "a column in other words",
        "copied-column",
        nodes_with(farbe=[word[::-1] for word in columns()["colour"]]),
        "row 2, column farbe | column colour | 'der' | 'red' | leave one of them out",
    ),
    of_nodes(
        "a small class",
        "small-class",
        nodes_with(buys=dict.fromkeys(range(5), "maybe")),
        "row 2, column buys | 'maybe' has only 5 nodes | merge",
    ),
    of_nodes(
        "a class that is nearly all",
        "unbalanced-classes",
        nodes_with(buys=["no" if i % 15 else "yes" for i in range(60)]),
        "column buys | 93 % of the labelled nodes are 'no' | per class",
    ),
    of_nodes(
        "few classes known",
        "mostly-unlabelled",
        nodes_with(buys=dict.fromkeys(range(35), "")),
        "column buys | 58 % of the nodes | fill in",
    ),
    of_nodes(
        "few nodes",
        "few-labels",
        nodes_with(buys=dict.fromkeys(range(15), "")),
        "column buys | only 45 of 60 nodes | label at least 50",
    ),
    of_nodes(
        "a class in two spellings",
        "similar-classes",
        nodes_with(buys=dict.fromkeys(range(0, 40, 2), " Yes")),
        "row 42, column buys | 'yes' differs from 'Yes' | same way",
    ),
    of_nodes(
        "a category that counts as missing",
        "missing-word",
        nodes_with(pet=varied(("cat", "None ", "dog"))),
        "column pet | 'None ' is in | counts as missing | leave 'none' out | "
        "--missing n/a,na,nan,null",
    ),
    of_nodes(
        "a class that elsewhere counts as missing",
        "missing-word",
        nodes_with(buys=dict.fromkeys(range(0, 40, 2), "NA")),
        "row 2, column buys | 'NA' is in 33 % of the cells and counts as a class | 20 such | "
        "empty these cells | --missing n/a,na,nan,none,null",
    ),
    of_nodes(
        "a class with space around it",
        "small-class",
        nodes_with(buys=dict.fromkeys(range(1, 36, 2), " no bag ")),
        "row 3, column buys | class 'no bag' has only 18 nodes | merge",
    ),
    of_nodes(
        "a category in two spellings",
        "similar-categories",
        nodes_with(colour={30: "Red "}),
        "row 32, column colour | 'Red ' | 'red' | same way",
    ),
    of_nodes(
        "categories that are there once",
        "rare-categories",
        nodes_with(town=[f"t{i}" if i % 3 == 0 else f"s{i % 2}" for i in range(60)]),
        "column town | 't0' | that are there once | group them",
    ),
    of_nodes(
        "decimal commas throughout",
        "number-as-text",
        nodes_with(price=[f"1.{100 + i * 7919 % 900},5" for i in range(60)]),
        "row 2, column price | '1.100,5' | 1100.5",
    ),
    of_nodes(
        "units throughout",
        "number-as-text",
        nodes_with(weight=[f"{40 + i * 7919 % 50} kg" for i in range(60)]),
        "row 2, column weight | '40 kg' | without the unit: 40",
    ),
    of_nodes(
        "dates",
        "dates",
        nodes_with(joined=[f"2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(60)]),
        "row 2, column joined | '2024-01-01' | days since",
    ),
    of_nodes(
        "numbers and words in one column",
        "mixed-types",
        nodes_with(
            score=[f"{i * 7919 % 97}" if i % 4 else varied(("low", "high"))[i] for i in range(60)]
        ),
        "row 2, column score | 75 % is numbers | --numeric",
    ),
    of_nodes(
        "a number that stands for none",
        "stand-in-number",
        nodes_with(size=dict.fromkeys((4, 17, 33, 50), "-999")),
        "row 6, column size | '-999' | 4 such | leave the cell empty",
    ),
    of_nodes(
        "a failed formula",
        "spreadsheet-error",
        nodes_with(colour={12: "#REF!"}),
        "row 14, column colour | '#REF!' | mend the formula",
    ),
    of_nodes(
        "text read in the wrong encoding",
        "garbled-text",
        nodes_with(colour={12: "rÃ¶d"}),
        "row 14, column colour | 'rÃ¶d' | UTF-8",
    ),
    of_nodes(
        "a node nothing is known of",
        "empty-row",
        nodes_with(colour={21: ""}, size={21: "NA"}, member={21: "null"}),
        "row 23 | 'u21' | fill in",
    ),
    of_nodes(
        "a node under two ids",
        "duplicate-row",
        nodes_with(
            **{
                name: {44: values[2]}
                for name, values in columns().items()
                if name not in ("id", "buys")
            }
        ),
        "row 46 | 'u44' | row 4 in all 3 columns | delete it",
    ),
    of_nodes(
        "more features than nodes",
        "more-features-than-nodes",
        nodes_with(
            **{
                f"w{k}": [str((i * i * (k + 3) + k * k + i) % 97 % 2) for i in range(60)]
                for k in range(70)
            }
        ),
        "80 features for 60 nodes | --ignore",
    ),
    of_nodes(
        "a split for nodes without class",
        "unlabelled-split-node",
        nodes_with(split=varied(("train", "valid", "test")), buys={3: ""}),
        "row 5, column split | no class | fill in its class",
    ),
    of_nodes(
        "whole numbers that may be classes",
        "number-target",
        as_text(columns(300) | {"buys": [str(18 + i * 7919 % 25) for i in range(300)]}),
        "row 2, column buys | 25 different numbers | pd.qcut",
    ),
)
"""To be trained on, with an eye on it."""

BAD_TABLES = (
    *CANNOT_BE_READ,
    *ERRORS,
    *(replace(table, is_error=False) for table in WARNINGS),
)
