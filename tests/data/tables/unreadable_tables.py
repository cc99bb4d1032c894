"""Tables that are refused before anything is checked."""

from __future__ import annotations

from table_parts import EDGES, NODES, UNREADABLE, BadTable, as_text, columns, of_edges, of_nodes

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
