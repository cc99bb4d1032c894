"""Rules about columns of features."""

from __future__ import annotations

from itertools import compress

import numpy as np

from crossgcn.data.tables.cells import (
    MISSING_WORDS,
    find_ambiguous_points,
    find_date_formats,
    parse_dates,
)
from crossgcn.data.tables.checks.leaks import codes_of, find_copies, r2_told, share_told
from crossgcn.data.tables.checks.problems import (
    CheckedTables,
    share_of,
    show_name,
)
from crossgcn.data.tables.columns import MAX_CODES
from crossgcn.data.tables.encode.words import MIN_COUNT


def no_feature(tables: CheckedTables) -> None:
    """A table of ids alone gives a model nothing to learn from."""
    if not tables.plan.features:
        message = "no column is left to learn from besides ids, target, split and ignored columns"
        remedy = (
            "add columns that describe the nodes, or choose some with --categorical, --numeric or "
            "--lists"
        )
        tables.add("error", "no-feature", message, remedy)


def not_a_number(tables: CheckedTables) -> None:
    """Text among numbers would count as missing without a word."""
    for column in tables.plan.features:
        if column.kind != "numeric":
            continue
        distinct = tables.nodes.distinct(column.name)
        wrong = ~np.isfinite(distinct.numbers) & ~distinct.missing
        words = sorted({text for text in compress(distinct.texts, wrong) if text.isalpha()})
        added = f"give --missing {words[0]} if it means a missing value, " if words else ""
        message = "{value} is not a finite number"
        remedy = f"write a number such as 1234.5, {added}or leave the cell empty"
        tables.add("error", "not-a-number", message, remedy, column.name, wrong[distinct.codes])


def not_a_date(tables: CheckedTables) -> None:
    """Text among dates would count as missing without a word."""
    for column in tables.plan.features:
        if column.kind != "date":
            continue
        distinct = tables.nodes.distinct(column.name)
        formats = find_date_formats([text for text, _ in distinct.present]) or [("%Y-%m-%d", 0)]
        wrong = parse_dates(distinct.texts, formats[0][0]).isna().to_numpy() & ~distinct.missing
        message = f"{{value}} is not a date written {formats[0][0]} as others are"
        remedy = (
            "write all dates as 2024-05-17, leave the cell empty, or take the column as text with "
            "--categorical {column}"
        )
        tables.add("error", "not-a-date", message, remedy, column.name, wrong[distinct.codes])


def ambiguous_number(tables: CheckedTables) -> None:
    """6.059 between thousands would be read as 6."""
    numeric = [column.name for column in tables.plan.features if column.kind == "numeric"]
    if tables.plan.task == "regression" and tables.plan.target is not None:
        numeric.append(tables.plan.target)
    for name in numeric:
        distinct = tables.nodes.distinct(name)
        if not distinct.typed and distinct.style.decimal == ".":
            message = (
                "{value} is read with a decimal point, though every point has three digits after "
                "it, as between thousands"
            )
            remedy = "if thousands are meant, write the numbers without the point"
            rows = find_ambiguous_points(distinct.texts)[distinct.codes]
            tables.add("warning", "ambiguous-number", message, remedy, name, rows)


def ambiguous_dates(tables: CheckedTables) -> None:
    """3/4/2024 is the third of April or the fourth of March."""
    for column in tables.plan.features:
        if column.kind != "date":
            continue
        distinct = tables.nodes.distinct(column.name)
        formats = [each for each, _ in find_date_formats([text for text, _ in distinct.present])]
        if len(formats) < 2:
            continue
        first, second = (parse_dates(distinct.texts, each) for each in formats[:2])
        differ = ((first != second) & first.notna()).to_numpy()
        message = (
            f"{{value}} is read as {formats[0]}, though no date of the column tells the day and "
            "the month apart"
        )
        remedy = "write dates as 2024-05-17"
        tables.add(
            "warning", "ambiguous-dates", message, remedy, column.name, differ[distinct.codes]
        )


def missing_word(tables: CheckedTables) -> None:
    """The education "none" is a category, and would silently be a missing value."""
    plan, nodes = tables.plan, tables.nodes
    names = [column.name for column in plan.features if column.kind == "categorical"]
    if plan.task == "classification" and plan.target is not None:
        names.append(plan.target)
    for name in names:
        distinct, is_target = nodes.distinct(name), name == plan.target
        for word in sorted(MISSING_WORDS):
            said = distinct.is_one_of({word})
            count, is_missing = distinct.num_cells(said), word in distinct.missing_words
            if count < max(3, 0.02 * len(nodes)) or is_missing == is_target:
                continue
            share = share_of(count, len(nodes))
            if is_target:
                message = f"{{value}} is in {share} of the cells and counts as a class"
                remedy = f"if it means an unknown class, empty the cells, or give --missing {word}"
            else:
                message = (
                    f"{{value}} is in {share} of the cells and counts as missing, not as a category"
                )
                remedy = f"if it is a category, give --missing=-{word}"
            tables.add("warning", "missing-word", message, remedy, name, said[distinct.codes])


def mixed_column(tables: CheckedTables) -> None:
    """One word turns a column of numbers into hundreds of categories."""
    for column in tables.columns:
        distinct = tables.nodes.distinct(column.name)
        is_number = ~np.isnan(distinct.numbers)
        num_numbers = distinct.num_cells(is_number)
        if column.kind not in ("categorical", "ignored") or 2 * num_numbers < distinct.num_present:
            continue
        is_mixed = num_numbers < distinct.num_present
        if is_mixed and len(np.unique(distinct.numbers[is_number])) > MAX_CODES:
            share = share_of(num_numbers, distinct.num_present)
            message = f"{{value}} is text in a column of which {share} is numbers, so all is text"
            remedy = (
                "name words for missing values with --missing and take the rest as numbers with "
                "--numeric {column}, or split the column"
            )
            rows = (~is_number & ~distinct.missing)[distinct.codes]
            tables.add("warning", "mixed-column", message, remedy, column.name, rows)


def id_as_feature(tables: CheckedTables) -> None:
    """By a number of its own for every node, a model learns nodes by heart."""
    ids = tables.nodes.distinct(tables.plan.id_column)
    for column in tables.plan.features:
        distinct, num_rows = tables.nodes.distinct(column.name), len(tables.nodes)
        if len(distinct.values) < num_rows or num_rows < 20 or column.kind in ("list", "date"):
            continue
        numbers = distinct.numbers
        is_dense = column.kind == "categorical" or (
            bool((np.isfinite(numbers) & (np.floor(numbers) == numbers)).all())
            and float(np.ptp(numbers)) < 1.1 * num_rows
        )
        if is_dense or distinct.texts == ids.texts:
            message = "{value} is different for every node, like an id: models learn nodes by heart"
            remedy = "leave the column out with --ignore {column}"
            tables.add(
                "warning",
                "id-as-feature",
                message,
                remedy,
                column.name,
                np.ones(num_rows, bool),
                count=1,
            )


def left_out(tables: CheckedTables) -> None:
    """A column that is silently left out may be the one that matters."""
    for column in tables.columns:
        if column.kind == "ignored":
            message = f"the column is left out ({column.reason})"
            remedy = (
                "keep it with --categorical {column} where rows share values, or agree with "
                "--ignore {column}"
            )
            tables.add("warning", "left-out", message, remedy, column.name)


def pooled_categories(tables: CheckedTables) -> None:
    """Many categories of one node each share a feature, which few expect."""
    for column in tables.plan.features:
        distinct = tables.nodes.distinct(column.name)
        rare = ~distinct.missing & (distinct.counts < MIN_COUNT)
        num_rare, num_values = int(rare.sum()), int((~distinct.missing).sum())
        if column.kind == "categorical" and not column.chosen and 2 * num_rare > num_values:
            message = (
                f"{{value}} is one of {num_rare:,} categories, of {num_values:,}, that only one "
                "node has; they share one feature"
            )
            remedy = "group them where they are alike, or keep each with --categorical {column}"
            rows = rare[distinct.codes]
            tables.add("warning", "pooled-categories", message, remedy, column.name, rows)


def copied_column(tables: CheckedTables) -> None:
    """A copy of the target gives it away; copies of a feature share its importance."""
    plan, nodes, codes = tables.plan, tables.nodes, {}
    if plan.target is not None:
        codes[plan.target] = nodes.distinct(plan.target).codes
    for column in plan.features:
        own = codes_of(nodes.distinct(column.name), column.kind)
        different = column.kind == "numeric" and len(np.unique(own)) == len(own)
        if not different and len(own) - np.bincount(own).max() >= 5:
            codes[column.name] = own
    for name, first in find_copies(codes).items():
        what = ", which is to be predicted" if first == plan.target else ""
        message = f"it says the same as column {show_name(first)}{what}"
        remedy = "leave one of them out with --ignore {column}"
        tables.add("warning", "copied-column", message, remedy, name)


def gives_target_away(tables: CheckedTables) -> None:
    """A column that is known only once the target is makes every score look perfect."""
    plan, labels, nodes = tables.plan, tables.labels, tables.nodes
    if labels is None or labels.num_known < 20:
        return
    for column in plan.features:
        distinct = nodes.distinct(column.name)
        if labels.numbers is not None:
            r2 = r2_told(distinct, column.kind, labels)
            is_told, what = r2 > 0.99, f"the column alone tells the number: R² is {r2:.3f}"
        elif len(labels.names) > 1:
            told, size = share_told(distinct, column.kind, labels), labels.num_known
            minority = size - int(labels.counts.max())
            allowed = min(0.02 * size, 0.15 * minority)
            if column.kind == "numeric":  # a border between two classes costs the nodes beside it
                allowed = max(allowed, min(2.0 * (len(labels.names) - 1), 0.2 * minority))
            is_told = (1 - told) * size <= allowed
            what = f"the column alone tells the class of {100 * told:.0f} % of the nodes"
        else:
            return
        if is_told:
            remedy = "leave it out with --ignore {column} if it is known only once the target is"
            tables.add("warning", "gives-target-away", what, remedy, column.name)
