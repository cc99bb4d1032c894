"""Tables that can be trained on, with a warning."""

from __future__ import annotations

from table_parts import (
    EDGES,
    NODES,
    as_text,
    columns,
    edges_of,
    edges_with,
    more_edges,
    nodes_with,
    of_edges,
    of_nodes,
    varied,
)

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
        "a number that knows the number to predict",
        "gives-number-away",
        nodes_with(
            buys=[f"{i * 53 % 97 / 7:.3f}" for i in range(60)],
            paid=[f"{(i * 53 % 97) ** 2 / 9:.2f}" for i in range(60)],
        ),
        "row 2, column paid | alone tells the number to predict: R² is | --ignore paid",
    ),
    of_nodes(
        "a category that knows the number to predict",
        "gives-number-away",
        nodes_with(
            buys=[f"{10 * (i * i % 7) + i % 3 / 9:.3f}" for i in range(60)],
            shelf=["abcdefg"[i * i % 7] for i in range(60)],
        ),
        "row 2, column shelf | alone tells the number to predict | --ignore shelf",
    ),
    of_nodes(
        "points that may separate thousands",
        "ambiguous-point",
        nodes_with(price=[f"{1 + i * 7 % 9}.{i * 389 % 1000:03}" for i in range(60)]),
        "row 2, column price | '1.000' is read as 1, though | without the point",
    ),
    of_nodes(
        "points in the target that may separate thousands",
        "ambiguous-point-in-target",
        nodes_with(buys=[f"{1 + i * 7 % 9}.{i * 389 % 1000:03}" for i in range(60)]),
        "row 2, column buys | '1.000' is read as 1, though | without the point",
    ),
    of_nodes(
        "dates of which no one knows the order",
        "ambiguous-dates",
        nodes_with(since=[f"{1 + i % 12}/{1 + i * 5 % 12}/{2000 + i % 20}" for i in range(60)]),
        "row 3, column since | '2/6/2001' is read as 2001-02-06, the month first | 2024-05-17",
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
        nodes_with(buys=dict.fromkeys(range(11), "maybe")),
        "row 2, column buys | 'maybe' has only 11 nodes | merge",
    ),
    of_nodes(
        "rare classes",
        "dropped-classes",
        nodes_with(buys={1: "often", 3: "maybe", 4: "maybe"}),
        "row 3, column buys | 'often' has 1 node | labels of 3 nodes | 'maybe' (2), 'often' (1) | "
        "--rare-classes merge",
    ),
    of_nodes(
        "merged classes",
        "merged-classes",
        nodes_with(buys={1: "often", 3: "maybe", 4: "maybe"}),
        "row 3, column buys | 'often' has 1 node | 3 nodes are of a class 'other' | "
        "--rare-classes drop",
        options="--rare-classes merge",
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
        "column town | 't0' | that occur only once | group them",
    ),
    of_nodes(
        "names of nodes",
        "left-out",
        nodes_with(name=[f"Ann {i}" for i in range(60)]),
        "row 2, column name | left out | 60 different texts in 60 cells | no two rows share a "
        "value | --categorical name",
    ),
    of_nodes(
        "names of which some are shared",
        "left-out",
        nodes_with(name=[f"Ann {i if i > 3 else i % 2}" for i in range(60)]),
        "row 2, column name | left out | 7 % of the rows share theirs | --categorical name",
    ),
    of_nodes(
        "latin-1",
        "text-encoding",
        NODES.replace("red", "röd").encode("latin1"),
        "not UTF-8 | read as latin-1 | CSV UTF-8",
    ),
    of_nodes("UTF-16", "text-encoding", NODES.encode("utf-16"), "read as UTF-16 | CSV UTF-8"),
    of_nodes(
        "units throughout",
        "number-as-text",
        nodes_with(weight=[f"{40 + i * 7919 % 50} kg" for i in range(60)]),
        "row 2, column weight | '40 kg' | without the unit: 40",
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
        "row 14, column colour | '#REF!' | correct the formula",
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
        as_text(
            {
                name: [*values[:44], values[44 if name in ("id", "buys") else 2], *values[45:]]
                for name, values in {
                    **columns(),
                    **{f"x{k}": [f"{i * (k + 31) % 97 / 8}" for i in range(60)] for k in range(5)},
                }.items()
            }
        ),
        "row 46 | 'u44' | row 4 in all 8 columns | delete it",
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
        "number-as-classes",
        as_text(columns(300) | {"buys": [str(18 + i * 7919 % 5) for i in range(300)]}),
        "column buys | read as 5 classes | --task regression",
    ),
)
