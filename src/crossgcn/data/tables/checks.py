"""Check tables before training, for errors that prevent it and warnings about its results.

Each rule is a function that appends problems to
:class:`~crossgcn.data.tables.problems.CheckedTables`; its docstring says what it prevents. To add
a rule, write a function here and list it in :data:`RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.cells import MISSING_WORDS, MOST_WEIGHT, find_ambiguous_points, quote
from crossgcn.data.tables.encode import ColumnKind
from crossgcn.data.tables.kinds.date import infer_date
from crossgcn.data.tables.kinds.numeric import MAX_CODES
from crossgcn.data.tables.labels import MIN_TO_SPLIT, Labels, read_roles, read_times
from crossgcn.data.tables.problems import (
    MISSING,
    UNKNOWN,
    CheckedTables,
    Problem,
    Severity,
    as_option,
    merge_alike,
    show_name,
)
from crossgcn.data.tables.table import Distinct
from crossgcn.errors import few

Rule = Callable[[CheckedTables], None]


def text_encoding(tables: CheckedTables) -> None:
    """A wrongly guessed encoding changes letters with accents, and with them categories."""
    for table in (tables.nodes, *(each.table for each in tables.relations)):
        if table.encoding != "UTF-8":
            message = f"the file is not UTF-8, and was read as {table.encoding}"
            remedy = "check letters with accents; to be sure, save the file as 'CSV UTF-8'"
            tables.add("warning", "text-encoding", message, remedy, table=table)


def missing_id(tables: CheckedTables) -> None:
    """All nodes without an id would count as one node."""
    ids = tables.ids
    message, remedy = "the node has no id", "give it one, or delete the row"
    rows = ids.blank[ids.codes]
    tables.add("error", "missing-id", message, remedy, tables.plan.id_column, rows)


def duplicate_id(tables: CheckedTables) -> None:
    """If two rows have the same id, its edges are ambiguous."""
    ids = tables.ids
    rows = pd.Series(ids.codes).duplicated().to_numpy() & ~ids.blank[ids.codes]
    first = int(np.argmax(ids.codes == ids.codes[np.argmax(rows)]))
    message = f"{{value}} is already the id of row {tables.nodes.row_number(first)}"
    remedy = "keep one row per node, or choose another column with --id-column"
    tables.add("error", "duplicate-id", message, remedy, tables.plan.id_column, rows)


def known_id(tables: CheckedTables) -> None:
    """A node of the training table would occur twice."""
    column = tables.plan.id_column
    message = "the model was trained on {value}"
    remedy = "give new nodes only, or rename it if it is another node"
    rows = tables.nodes.find(column, tables.known_ids) >= 0
    tables.add("error", "known-id", message, remedy, column, rows)


def no_target(tables: CheckedTables) -> None:
    """With a single class or number, training would fail late or score 100 %."""
    target, labels = tables.plan.target, tables.labels
    num_different = len(np.unique(labels.values[labels.known]))
    if target is not None and (num_different < 2 or labels.num_known < MIN_TO_SPLIT):
        written = tables.nodes.distinct(target)
        what = "classes" if labels.numbers is None else "different numbers"
        message = (
            f"{written.num_present:,} nodes have a label, with {len(written.texts_present):,} "
            f"{what} in all: two {what} are needed, and nodes of each to train, to validate and to "
            "test"
        )
        remedy = "label more nodes, or name another --target"
        tables.add("error", "no-target", message, remedy, target)


def rare_classes(tables: CheckedTables) -> None:
    """A class of two nodes cannot have training, validation and test nodes."""
    plan = tables.plan
    if plan.target is None or plan.task == "regression":
        return
    classes = Labels.of(tables.nodes.distinct(plan.target))
    rare, minimum = classes.find_rare()
    sizes = zip(compress(classes.names, rare), classes.counts[rare].tolist(), strict=True)
    shown = few([f"{quote(name)} ({size})" for name, size in sizes])
    message = f"classes need {minimum} nodes to train, to validate and to test; too few: {shown}"
    severity: Severity = "error"
    remedy = "add nodes, leave their target empty, or give --rare-classes drop"
    if plan.rare_classes == "drop":
        severity = "warning"
        remedy = "their labels are left out: add nodes, or write one class other in their place"
    rows = np.append(rare, False)[classes.codes]  # -1 (no class) indexes the appended False
    tables.add(severity, "rare-classes", message, remedy, plan.target, rows)


def unknown_split(tables: CheckedTables) -> None:
    """A typo would remove nodes from the user's split."""
    column = tables.plan.split_column
    if column is not None:
        distinct = tables.nodes.distinct(column)
        message = "{value} is none of train, validation and test"
        remedy = "write one of them, or leave the cell empty for a node that takes no part"
        rows = read_roles(distinct) < 0
        tables.add("error", "unknown-split", message, remedy, column, rows)


def unknown_time(tables: CheckedTables) -> None:
    """A labelled node without a time would be neither past nor future."""
    column = tables.plan.time_column
    if column is not None:
        rows = np.isnan(read_times(tables.nodes.distinct(column))) & tables.labels.known
        message = "{value} is no time: neither a number nor a date as others are"
        remedy = "write it as the others, or leave the target of the row empty"
        tables.add("error", "unknown-time", message, remedy, column, rows)


def knows_the_future(tables: CheckedTables) -> None:
    """A date after a node's time was not known then, and neither is what comes with it."""
    time = tables.plan.time_column
    if time is None:
        return
    now = _read_calendar(tables.nodes.distinct(time))
    for column in tables.plan.features:
        then = _read_calendar(tables.nodes.distinct(column.name))
        finest = "days" if "days" in now and "days" in then else "years"
        if finest in now and finest in then:
            message = f"{{value}} is after the time of the row in {show_name(time)}"
            option = f"--ignore {as_option(column.name)}"
            remedy = f"leave the column out with {option} if it knows the future"
            rows = then[finest] > now[finest]
            tables.add("warning", "knows-the-future", message, remedy, column.name, rows)


def _read_calendar(column: Distinct) -> dict[str, NDArray[np.float64]]:
    """Return the years of a column of years, years and days of dates, and nothing of others."""
    numbers, times = column.numbers[~column.missing], read_times(column)
    if np.isnan(numbers).any():
        is_date = infer_date(column) is not None
        return {"days": times, "years": np.floor(1970 + times / 365.2425)} if is_date else {}
    are_years = ((numbers % 1 == 0) & (numbers >= 1000) & (numbers < 3000)).all()
    return {"years": times} if len(numbers) and are_years else {}


def unfilled_split(tables: CheckedTables) -> None:
    """A split without training, validation or test nodes, or classes, cannot be scored."""
    column, labels = tables.plan.split_column, tables.labels
    if column is None or tables.plan.target is None:
        return
    roles = np.where(labels.known, read_roles(tables.nodes.distinct(column)), 0)
    for role, word in enumerate(("train", "validation", "test"), 1):
        counts = np.bincount(labels.codes[roles == role], minlength=len(labels.names))
        if counts.all():
            continue
        message = f"class {quote(labels.names[int(np.argmin(counts))])} has no node for {word}"
        remedy = f"write {word} for some of them, or leave their target empty"
        if not counts.any():
            message = f"no labelled node is for {word}"
            remedy = f"write {word} for some nodes, or delete the column to have splits drawn"
        tables.add("error", "unfilled-split", message, remedy, column)


def gives_target_away(tables: CheckedTables) -> None:
    """A column derived from the target makes every score look perfect (target leakage)."""
    labels = tables.labels
    if labels.num_known < 20:
        return
    for column in tables.plan.features:
        distinct = tables.nodes.distinct(column.name)
        if labels.numbers is None:
            share, is_suspicious = _share_predicted(distinct, column.kind, labels)
            message = f"the column alone tells the class of {100 * share:.0f} % of the nodes"
        elif column.kind == "numeric":
            both = pd.DataFrame({"column": distinct.numbers[distinct.codes], "y": labels.numbers})
            of_both = both.corr("spearman", min_periods=labels.num_known // 2).to_numpy()
            is_suspicious = abs(of_both[0, 1]) > 0.995
            message = f"the column alone tells the number: ranks correlate by {of_both[0, 1]:.4f}"
        else:
            continue
        if is_suspicious:
            option = f"--ignore {as_option(column.name)}"
            remedy = f"leave it out with {option} if it is not known before the target"
            tables.add("warning", "gives-target-away", message, remedy, column.name)


def _share_predicted(distinct: Distinct, kind: ColumnKind, labels: Labels) -> tuple[float, bool]:
    """Return the share of nodes whose class the column predicts, and whether it is suspicious.

    The prediction is the most frequent class among the other nodes with the same value. Numbers
    are binned into ranges with equally many nodes; each border between classes may cost a range.
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
    num_right = int(best[best - 1 > second].sum())
    is_suspicious = minority > 0 and labels.num_known - num_right <= allowed
    return num_right / labels.num_known, is_suspicious


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
    """Text among numbers, dates or flags would silently count as missing."""
    for table, encoders in tables.encoded:
        for encoder in encoders.columns:
            distinct = table.distinct(table.require(encoder.column))
            for wrong, message, remedy in encoder.find_wrong(distinct):
                words = sorted({text for text in compress(distinct.texts, wrong) if text.isalpha()})
                if words and not tables.trained:
                    remedy += f", or give --missing {words[0]} if it means a missing value"
                rows = wrong[distinct.codes]
                tables.add("error", "wrong-cell", message, remedy, encoder.column, rows, table)


def wrong_target(tables: CheckedTables) -> None:
    """A node whose target is not a number would silently be left out of training."""
    target = tables.plan.target
    if target is not None and tables.plan.task == "regression":
        distinct = tables.nodes.distinct(target)
        rows = (~np.isfinite(distinct.numbers) & ~distinct.missing)[distinct.codes]
        remedy = (
            "write a number such as 1234.5, leave the cell empty, or give --task classification "
            "to predict classes"
        )
        message = "{value} is not a finite number"
        tables.add("error", "wrong-target", message, remedy, target, rows)


def ambiguous_value(tables: CheckedTables) -> None:
    """6.059 could mean 6059, and would be read as about 6."""
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
    """A category such as the education "none" would silently be a missing value."""
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
                f"--numeric {as_option(column.name)}, or split the column"
            )
            rows = (~is_number & ~distinct.missing)[distinct.codes]
            tables.add("warning", "mixed-column", message, remedy, column.name, rows)


def missing_edge_end(tables: CheckedTables) -> None:
    """An edge needs two ends."""
    message, remedy = "the edge has only one end", "name a node, or delete the row"
    for edges in tables.relations:
        for column, rows in zip(edges.end_columns, edges.ends == MISSING, strict=True):
            tables.add("error", "missing-edge-end", message, remedy, column, rows, edges.table)


def unknown_edge_end(tables: CheckedTables) -> None:
    """An edge to an unknown id would be lost, or join the wrong node."""
    plan, an_id = tables.plan, quote(tables.ids.values[0])
    for edges in tables.relations:
        is_unknown = edges.ends == UNKNOWN
        message = (
            f"{{value}} is not a node: {is_unknown.sum():,} of {is_unknown.size:,} ends of edges "
            f"are not in column {show_name(plan.id_column)} of {tables.nodes.name}, which has ids "
            f"such as {an_id}"
        )
        if tables.trained:
            message += f", nor among the {len(tables.known_ids):,} nodes trained on"
        severity: Severity = "error"
        remedy = "add the node, correct the id, or delete the edge"
        if is_unknown.mean() > 0.5:
            remedy = (
                "use the same ids in both tables, or name the right columns with --id-column, "
                "--source-column and --destination-column"
            )
        elif plan.unknown_ids == "drop":
            severity, remedy = "warning", "such edges are left out; add the node, or correct the id"
        elif not tables.trained:
            remedy += "; --unknown-ids drop leaves such edges out"
        for column, rows in zip(edges.end_columns, is_unknown, strict=True):
            tables.add(severity, "unknown-edge-end", message, remedy, column, rows, edges.table)


def bad_edge_weight(tables: CheckedTables) -> None:
    """Means over neighbours need weights that are not negative."""
    message = f"{{value}} is not a weight from 0 to {MOST_WEIGHT:g}"
    remedy = "write a number, 1 for an ordinary edge, or delete the row"
    for edges in tables.relations:
        if edges.weights is not None:
            rows = ~((edges.weights >= 0) & (edges.weights <= MOST_WEIGHT))
            column = edges.plan.edge_weight
            tables.add("error", "bad-edge-weight", message, remedy, column, rows, edges.table)


def repeated_edge(tables: CheckedTables) -> None:
    """A repeated edge counts once, in whichever direction it is listed."""
    for edges in tables.relations:
        ends, plan = edges.ends, edges.plan
        message = "the edge from {value} is listed before"
        rows = pd.DataFrame(ends.T).duplicated().to_numpy() & edges.is_usable
        if not (plan.directed or plan.through):
            either = pd.DataFrame(np.sort(ends, axis=0).T).duplicated().to_numpy()
            reverse = either & edges.is_usable & ~rows
            lists_both_ways = 2 * reverse.sum() == (edges.is_usable & ~rows).sum()
            rows = rows if lists_both_ways else rows | reverse
            message += ", perhaps the other way round,"
        message += " and counts once" + ", with the mean of its columns" * bool(plan.features)
        remedy = "delete the row; give a weight column if it should count more"
        column = plan.source_column
        tables.add("warning", "repeated-edge", message, remedy, column, rows, edges.table)


def isolated_node(tables: CheckedTables) -> None:
    """Nodes without edges are usually a sign of lost edges or of ids in another format."""
    if tables.relations:
        ids, degrees = tables.ids, np.zeros(len(tables.ids.values), np.int64)
        for edges in tables.relations:
            ends = edges.ends[:1] if edges.plan.through else edges.ends
            degrees += np.bincount(ends[:, edges.is_usable].ravel(), minlength=len(degrees))
        rows = ((degrees == 0) & ~ids.blank)[ids.codes]
        message = "{value} has no edges: only its own columns are used"
        remedy, column = "add its edges if it should have some", tables.plan.id_column
        tables.add("warning", "isolated-node", message, remedy, column, rows)


RULES: tuple[Rule, ...] = (
    *(text_encoding, missing_id, duplicate_id, no_target, rare_classes, unknown_split),
    *(unknown_time, knows_the_future),
    *(unfilled_split, gives_target_away, no_feature, wrong_cell, wrong_target, ambiguous_value),
    *(missing_word, mixed_column, missing_edge_end, unknown_edge_end, bad_edge_weight),
    *(repeated_edge, isolated_node),
)
"""All rules, in the order in which their problems are listed."""


NEW_NODES: tuple[Rule, ...] = (
    *(missing_id, duplicate_id, known_id, wrong_cell, missing_edge_end, unknown_edge_end),
    bad_edge_weight,
)
"""The rules for new nodes of a trained model."""


def check_tables(tables: CheckedTables, rules: Sequence[Rule] = RULES) -> list[Problem]:
    """Return the problems of the tables, errors first, otherwise in the order of the rules."""
    tables.problems = []
    for rule in rules:
        rule(tables)
    merged = merge_alike(tables.problems)
    tables.problems = sorted(merged, key=lambda problem: problem.severity != "error")
    return tables.problems
