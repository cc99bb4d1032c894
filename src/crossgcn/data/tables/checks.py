"""Check tables before training: find what stops it, and what may spoil it.

Each rule is a function that appends problems to
:class:`~crossgcn.data.tables.problems.CheckedTables`; its docstring names the harm that it
prevents. A new rule is a function here, named in :data:`RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress

import numpy as np
import pandas as pd

from crossgcn.data.tables.cells import (
    MISSING_WORDS,
    MOST_WEIGHT,
    find_ambiguous_points,
    quote,
)
from crossgcn.data.tables.kinds.numeric import MAX_CODES
from crossgcn.data.tables.labels import MIN_TO_SPLIT, Labels, role_of_values
from crossgcn.data.tables.plan import ColumnKind
from crossgcn.data.tables.problems import (
    MISSING,
    UNKNOWN,
    CheckedTables,
    Problem,
    Severity,
    listed,
    merge_alike,
    show_name,
)
from crossgcn.data.tables.table import Distinct

Rule = Callable[[CheckedTables], None]


def text_encoding(tables: CheckedTables) -> None:
    """A wrong guess of the encoding turns letters with accents into other categories."""
    for table in filter(None, (tables.nodes, tables.edges)):
        if table.encoding != "UTF-8":
            message = f"the file is not UTF-8, and was read as {table.encoding}"
            remedy = "check letters with accents; to be sure, save the file as 'CSV UTF-8'"
            tables.add("warning", "text-encoding", message, remedy, table=table)


def missing_id(tables: CheckedTables) -> None:
    """Nodes without an id would all be one node."""
    distinct = tables.nodes.distinct(tables.plan.id_column)
    rows = distinct.blank[distinct.codes]
    remedy = "give it one, or delete the row"
    tables.add("error", "missing-id", "the node has no id", remedy, tables.plan.id_column, rows)


def duplicate_id(tables: CheckedTables) -> None:
    """With two rows for a node, edges would join either of them."""
    column = tables.plan.id_column
    distinct = tables.nodes.distinct(column)
    rows = pd.Series(distinct.codes).duplicated().to_numpy() & ~distinct.blank[distinct.codes]
    first = np.argmax(distinct.codes == distinct.codes[np.argmax(rows)])
    message = f"{{value}} is already the id of row {tables.nodes.row_number(int(first))}"
    remedy = "keep one row per node, or choose another column with --id-column"
    tables.add("error", "duplicate-id", message, remedy, column, rows)


def known_id(tables: CheckedTables) -> None:
    """A node that the model was trained on would be there twice."""
    column = tables.plan.id_column
    rows = tables.nodes.find(column, tables.known_ids) >= 0
    remedy = "give new nodes only, or rename it if it is another node"
    tables.add("error", "known-id", "the model was trained on {value}", remedy, column, rows)


def no_target(tables: CheckedTables) -> None:
    """With nothing to tell apart, training would fail in the middle or score 100 %."""
    target, labels = tables.plan.target, tables.labels
    if target is None or labels is None:
        return
    is_varied = len(np.unique(labels.values[labels.known])) > 1
    if not is_varied or labels.num_known < MIN_TO_SPLIT:
        what = "classes" if labels.numbers is None else "different numbers"
        distinct = tables.nodes.distinct(target)
        message = (
            f"{distinct.num_present:,} nodes have a label, with {len(distinct.texts_present):,} "
            f"{what} in all: two {what} are needed, and nodes of each to train, to validate and to "
            "test"
        )
        remedy = "label more nodes, or name another --target"
        tables.add("error", "no-target", message, remedy, target)


def rare_classes(tables: CheckedTables) -> None:
    """A class of two nodes cannot train, validate and test; what is done with it must be said."""
    plan, labels = tables.plan, tables.labels
    if plan.target is None or labels is None or labels.numbers is not None:
        return
    classes = Labels.of(tables.nodes.distinct(plan.target))
    rare, minimum = classes.find_rare()
    sizes = zip(compress(classes.names, rare), classes.counts[rare].tolist(), strict=True)
    shown = listed([f"{quote(name)} ({size})" for name, size in sizes])
    message = f"classes need {minimum} nodes to train, to validate and to test; too few: {shown}"
    severity: Severity = "error"
    remedy = "add nodes, leave their target empty, or give --rare-classes drop"
    if plan.rare_classes == "drop":
        severity = "warning"
        remedy = "their labels are left out: add nodes, or write one class other in their place"
    rows = np.append(rare, False)[classes.codes]  # -1, no class, is the last
    count = int(rare.sum())
    tables.add(severity, "rare-classes", message, remedy, plan.target, rows, count=count)


def unknown_split(tables: CheckedTables) -> None:
    """A typo would take nodes out of the user's own split."""
    column = tables.plan.split_column
    if column is not None:
        distinct = tables.nodes.distinct(column)
        message = "{value} is none of train, validation and test"
        remedy = "write one of them, or leave the cell empty for a node that takes no part"
        rows = (role_of_values(distinct) < 0)[distinct.codes]
        tables.add("error", "unknown-split", message, remedy, column, rows)


def unfilled_split(tables: CheckedTables) -> None:
    """A split without training, validation or test nodes, or classes, cannot be scored."""
    column, labels = tables.plan.split_column, tables.labels
    if column is None or labels is None:
        return
    distinct = tables.nodes.distinct(column)
    roles = np.where(labels.known, role_of_values(distinct)[distinct.codes], 0)
    for role, word in enumerate(("train", "validation", "test"), 1):
        codes = labels.codes[roles == role]
        absent = sorted(set(range(len(labels.names))) - set(codes.tolist()))
        if len(codes) == 0:
            message = f"no labelled node is for {word}"
            remedy = (
                f"write {word} for some of the nodes, or delete the column to have splits drawn"
            )
        elif absent:
            message = f"class {quote(labels.names[absent[0]])} has no node for {word}"
            remedy = f"write {word} for some of them, or leave their target empty"
        else:
            continue
        tables.add("error", "unfilled-split", message, remedy, column)


def gives_target_away(tables: CheckedTables) -> None:
    """A column that is known only once the target is makes every score look perfect."""
    labels = tables.labels
    if labels is None or labels.num_known < 20:
        return
    remedy = "leave it out with --ignore {column} if it is known only once the target is"
    for column in tables.plan.features:
        distinct = tables.nodes.distinct(column.name)
        if labels.numbers is None:
            told, is_told = _share_told(distinct, column.kind, labels)
            message = f"the column alone tells the class of {100 * told:.0f} % of the nodes"
        elif column.kind == "numeric":
            both = pd.DataFrame({"column": distinct.numbers[distinct.codes], "y": labels.numbers})
            of_both = both.corr("spearman", min_periods=labels.num_known // 2).to_numpy()
            is_told = abs(of_both[0, 1]) > 0.995
            message = f"the column alone tells the number: ranks correlate by {of_both[0, 1]:.4f}"
        else:
            continue
        if is_told:
            tables.add("warning", "gives-target-away", message, remedy, column.name)


def _share_told(distinct: Distinct, kind: ColumnKind, labels: Labels) -> tuple[float, bool]:
    """Return the share of nodes whose class the column tells, and whether that is suspicious.

    A node's class is told if it is the most frequent one among the other nodes with its value;
    numbers are cut into ranges of as many nodes. A border between two classes may cost a range.
    """
    known, num_borders = labels.known, len(labels.names) - 1
    minority = labels.num_known - int(labels.counts.max())
    allowed = min(0.02 * labels.num_known, 0.15 * minority)
    if kind == "numeric":
        size = max(3, labels.num_known // 100)
        ranks = pd.Series(distinct.numbers[distinct.codes[known]]).rank()
        codes = (ranks // size).fillna(-1).to_numpy().astype(np.int64)
        allowed = max(allowed, min(size * num_borders, 0.2 * minority))
    else:
        values = np.where(distinct.missing, "", np.array(distinct.texts, dtype=object))
        codes = pd.factorize(values)[0].astype(np.int64)[distinct.codes[known]]
    nodes = pd.crosstab(codes, labels.codes[known]).to_numpy()
    second, best = np.pad(np.sort(nodes, axis=1), ((0, 0), (1, 0)))[:, -2:].T
    num_told = int(best[best - 1 > second].sum())
    share = num_told / labels.num_known
    return share, minority > 0 and labels.num_known - num_told <= allowed


def no_feature(tables: CheckedTables) -> None:
    """A table of ids alone gives a model nothing to learn from."""
    if not tables.plan.features:
        message = "no column is left to learn from besides ids, target, split and ignored columns"
        remedy = (
            "add columns that describe the nodes, or choose some with --categorical, --numeric or "
            "--lists"
        )
        tables.add("error", "no-feature", message, remedy)


def wrong_cell(tables: CheckedTables) -> None:
    """Text among numbers, dates or flags would count as missing without a word."""
    for encoder in tables.encoder.columns:
        distinct = tables.nodes.distinct(encoder.column)
        for wrong, message, remedy in encoder.find_wrong(distinct):
            words = sorted({text for text in compress(distinct.texts, wrong) if text.isalpha()})
            if words and not tables.trained:
                remedy += f", or give --missing {words[0]} if it means a missing value"
            rows = wrong[distinct.codes]
            tables.add("error", "wrong-cell", message, remedy, encoder.column, rows)


def wrong_target(tables: CheckedTables) -> None:
    """A node whose number is not one would silently not train."""
    target, labels = tables.plan.target, tables.labels
    if target is not None and labels is not None and labels.numbers is not None:
        distinct = tables.nodes.distinct(target)
        wrong = ~np.isfinite(distinct.numbers) & ~distinct.missing
        message = "{value} is not a finite number"
        remedy = (
            "write a number such as 1234.5, leave the cell empty, or give --task classification "
            "to predict classes"
        )
        tables.add("error", "wrong-target", message, remedy, target, wrong[distinct.codes])


def ambiguous_value(tables: CheckedTables) -> None:
    """6.059 between thousands would be read as 6."""
    for column in tables.plan.features:
        distinct = tables.nodes.distinct(column.name)
        if column.kind == "numeric" and not distinct.typed and distinct.style.decimal == ".":
            message = (
                "{value} is read with a decimal point, though every point has three digits after "
                "it, as between thousands"
            )
            remedy = "if thousands are meant, write the numbers without the point"
            rows = find_ambiguous_points(distinct.texts)[distinct.codes]
            tables.add("warning", "ambiguous-value", message, remedy, column.name, rows)


def missing_word(tables: CheckedTables) -> None:
    """The education "none" is a category, and would silently be a missing value."""
    plan, nodes = tables.plan, tables.nodes
    names = [column.name for column in plan.features if column.kind == "categorical"]
    if plan.task == "classification" and plan.target is not None:
        names.append(plan.target)
    for name in names:
        distinct, is_target = nodes.distinct(name), name == plan.target
        for word in sorted(MISSING_WORDS):
            cells = distinct.is_one_of({word})
            count, is_missing = distinct.num_cells(cells), word in distinct.missing_words
            if count < max(3, 0.02 * len(nodes)) or is_missing == is_target:
                continue
            message = f"{{value}} is in {count:,} of {len(nodes):,} cells and counts as "
            if is_target:
                message += "a class"
                remedy = f"if it means an unknown class, empty the cells, or give --missing {word}"
            else:
                message += "missing, not as a category"
                remedy = f"if it is a category, give --missing=-{word}"
            tables.add("warning", "missing-word", message, remedy, name, cells[distinct.codes])


def mixed_column(tables: CheckedTables) -> None:
    """One word turns a column of numbers into hundreds of categories."""
    for column in tables.plan.columns:
        if column.chosen or column.kind not in ("categorical", "ignored"):
            continue
        distinct = tables.nodes.distinct(column.name)
        is_number = ~np.isnan(distinct.numbers)
        num_numbers, num_present = distinct.num_cells(is_number), distinct.num_present
        are_codes = len(np.unique(distinct.numbers[is_number])) <= MAX_CODES
        if num_present / 2 <= num_numbers < num_present and not are_codes:
            message = (
                f"{{value}} is text, and {num_numbers:,} of {num_present:,} cells are numbers: all "
                "are read as text"
            )
            remedy = (
                "name words for missing values with --missing and take the rest as numbers with "
                "--numeric {column}, or split the column"
            )
            rows = (~is_number & ~distinct.missing)[distinct.codes]
            tables.add("warning", "mixed-column", message, remedy, column.name, rows)


def edge_ends(tables: CheckedTables) -> None:
    """An edge to an id that no node has would be lost, or join the wrong node."""
    edges, plan, ends = tables.edges, tables.plan, tables.ends
    if edges is None or plan.source_column is None:
        return
    columns = (plan.source_column, str(plan.destination_column))
    message, remedy = "the edge has only one end", "name a node, or delete the row"
    for column, rows in zip(columns, ends == MISSING, strict=True):
        tables.add("error", "missing-edge-end", message, remedy, column, rows, table=edges)
    unknown = ends == UNKNOWN
    count, an_id = int(unknown.sum()), quote(tables.nodes.distinct(plan.id_column).values[0])
    message = (
        f"{{value}} is not a node: {count:,} of {unknown.size:,} ends of edges are not in column "
        f"{show_name(plan.id_column)} of {tables.nodes.name}, which has ids such as {an_id}"
    )
    if tables.trained:
        message += f", nor among the {len(tables.known_ids):,} nodes trained on"
    severity: Severity = "error"
    if 2 * count > unknown.size:
        remedy = (
            "write the ids alike in both tables, or name the right columns with --id-column, "
            "--source-column and --destination-column"
        )
    elif plan.unknown_ids == "refuse":
        remedy = "add the node, correct the id, or delete the edge"
        remedy += "" if tables.trained else "; --unknown-ids drop leaves such edges out"
    else:
        severity, remedy = "warning", "such edges are left out; add the node, or correct the id"
    for column, rows in zip(columns, unknown, strict=True):
        tables.add(severity, "unknown-edge-end", message, remedy, column, rows, table=edges)


def bad_edge_weight(tables: CheckedTables) -> None:
    """Neighbours are averaged by weight, so weights are numbers from 0 on."""
    if tables.weights is not None:
        message = f"{{value}} is not a weight from 0 to {MOST_WEIGHT:g}"
        remedy = "write a number, 1 for an ordinary edge, or delete the row"
        rows = ~((tables.weights >= 0) & (tables.weights <= MOST_WEIGHT))
        column, edges = tables.plan.weight_column, tables.edges
        tables.add("error", "bad-edge-weight", message, remedy, column, rows, table=edges)


def repeated_edge(tables: CheckedTables) -> None:
    """An edge that is listed twice counts once, and edges have no direction."""
    ends = tables.ends
    proper = (ends >= 0).all(axis=0) & (ends[0] != ends[1])
    forward = pd.DataFrame(ends.T).duplicated().to_numpy() & proper
    either = pd.DataFrame(np.sort(ends, axis=0).T).duplicated().to_numpy() & proper
    lists_both_ways = 2 * int((either & ~forward).sum()) == int((proper & ~forward).sum())
    message = "the edge from {value} is listed before, perhaps the other way round, and counts once"
    remedy = "delete the row; give a weight column if it should count more"
    column, rows = tables.plan.source_column, forward if lists_both_ways else either
    tables.add("warning", "repeated-edge", message, remedy, column, rows, table=tables.edges)


def isolated_node(tables: CheckedTables) -> None:
    """Nodes without edges are usually a sign of lost edges or of ids written otherwise."""
    if tables.edges is None:
        return
    ids = tables.nodes.distinct(tables.plan.id_column)
    degrees = np.bincount(tables.pairs.ravel(), minlength=len(ids.values))
    rows = ((degrees == 0) & ~ids.blank)[ids.codes]
    message = "{value} has no edges: only its own columns are used"
    remedy, column = "add its edges if it should have some", tables.plan.id_column
    tables.add("warning", "isolated-node", message, remedy, column, rows)


RULES: tuple[Rule, ...] = (
    *(text_encoding, missing_id, duplicate_id, no_target, rare_classes, unknown_split),
    *(unfilled_split, gives_target_away, no_feature, wrong_cell, wrong_target, ambiguous_value),
    *(missing_word, mixed_column, edge_ends, bad_edge_weight, repeated_edge, isolated_node),
)
"""All rules, in the order of their problems; without edges, those about edges find nothing."""


NEW_NODES: tuple[Rule, ...] = (
    *(missing_id, duplicate_id, known_id, wrong_cell, edge_ends, bad_edge_weight),
)
"""The rules for new nodes of a trained model."""


def check_tables(tables: CheckedTables, rules: Sequence[Rule] = RULES) -> list[Problem]:
    """Return the problems of the tables: errors first, each severity in order of the rules."""
    for rule in rules:
        rule(tables)
    return sorted(merge_alike(tables.problems), key=lambda problem: problem.severity != "error")
