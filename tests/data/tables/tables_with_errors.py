"""Tables that cannot be read or trained on."""

from __future__ import annotations

from table_parts import (
    EDGES,
    NODES,
    UNREADABLE,
    BadTable,
    as_text,
    columns,
    edges_with,
    nodes_with,
    of_edges,
    of_nodes,
    varied,
)

UNREADABLE_TABLES = (
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
        "an old workbook",
        UNREADABLE,
        ("nodes.xls", ".csv", "save the table"),
        b"PK",
        EDGES,
        nodes_file="nodes.xls",
    ),
)

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
        "row 9 | 'maybe' has 2 nodes | 'maybe' (2) | merge",
        options="--rare-classes refuse",
    ),
    of_nodes(
        "classes of one node, but for one",
        "no-class-left",
        nodes_with(buys=["yes"] * 58 + ["no", "maybe"]),
        "column buys | fewer than two classes | add nodes",
    ),
    of_nodes(
        "no number at all",
        "no-target-number",
        nodes_with(buys=["NA"] * 60),
        "column buys | fill in",
        options="--task regression",
    ),
    of_nodes(
        "a word among numbers to predict",
        "text-in-target",
        nodes_with(buys=[f"{i * 7.25}" for i in range(59)] + ["12 kg"]),
        "row 61, column buys | '12 kg' | without the unit: 12 | --task classification",
    ),
    of_nodes(
        "an infinite number to predict",
        "infinite-target",
        nodes_with(buys=["inf"] + [f"{i * 7.25}" for i in range(59)]),
        "row 2, column buys | 'inf' | finite number",
    ),
    of_nodes(
        "one number to predict",
        "constant-target",
        nodes_with(buys=["", *["2.5"] * 59]),
        "row 3, column buys | all 59 numbers to predict are '2.5' | another --target",
    ),
    of_nodes(
        "two numbers to predict",
        "too-few-numbers",
        nodes_with(buys=["1.5", "2.5", *[""] * 58]),
        "column buys | only 2 nodes | label at least",
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
        "a date that is none",
        "not-a-date",
        nodes_with(joined=[f"2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(59)] + ["soon"]),
        "row 61, column joined | 'soon' is not a date | --categorical joined",
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
    of_nodes(
        "a class that validates nothing",
        "unvalidated-class",
        nodes_with(split=[("val", "train", "test", "test")[i % 4] for i in range(60)]),
        "row 3 | 'no' has 30 nodes, none of them for validation | write validation",
    ),
    of_nodes(
        "a class that is not tested",
        "untested-class",
        nodes_with(split=[("test", "train", "val", "val")[i % 4] for i in range(60)]),
        "row 3 | 'no' has 30 nodes, none of them for test | write test",
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
        "ids that lost their zeros",
        "no-edge-end-known",
        EDGES.replace("u", "").replace("sorce", "source"),
        "edges.csv, row 2 | '0' | ('000' is) | alike in both",
        nodes=NODES.replace("u", "00").replace("b00ys", "buys"),
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
        "edges.csv, row 2 | 'inf' | finite numbers",
    ),
)
