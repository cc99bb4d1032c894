"""Rules about the file, the ids and the features of the node table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.cells import (
    MISSING_WORDS,
    find_ambiguous_points,
    find_date_formats,
    parse_dates,
)
from crossgcn.data.tables.checks.problems import CheckedTables, Rule, show_name
from crossgcn.data.tables.kinds.base import MIN_COUNT
from crossgcn.data.tables.kinds.numeric import MAX_CODES
from crossgcn.data.tables.plan import ColumnKind
from crossgcn.data.tables.table import Distinct


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
    first = int(np.argmax(distinct.codes == distinct.codes[np.argmax(rows)])) if rows.any() else 0
    message = f"{{value}} is already the id of row {tables.nodes.row_number(first)}"
    remedy = "keep one row per node, or choose another column with --id-column"
    tables.add("error", "duplicate-id", message, remedy, column, rows)


def no_feature(tables: CheckedTables) -> None:
    """A table of ids alone gives a model nothing to learn from."""
    if not tables.plan.features:
        message = "no column is left to learn from besides ids, target, split and ignored columns"
        remedy = (
            "add columns that describe the nodes, or choose some with --categorical, --numeric or "
            "--lists"
        )
        tables.add("error", "no-feature", message, remedy)


def numeric_columns(tables: CheckedTables) -> list[str]:
    """Return the columns that are read as numbers; the last is the target of a regression."""
    plan = tables.plan
    names = [column.name for column in plan.features if column.kind == "numeric"]
    return names if plan.target is None or plan.task != "regression" else [*names, plan.target]


def not_a_number(tables: CheckedTables) -> None:
    """Text among numbers would count as missing without a word."""
    for name in numeric_columns(tables):
        distinct = tables.nodes.distinct(name)
        wrong = ~np.isfinite(distinct.numbers) & ~distinct.missing
        words = sorted({text for text in compress(distinct.texts, wrong) if text.isalpha()})
        added = f"give --missing {words[0]} if it means a missing value, " if words else ""
        remedy = f"write a number such as 1234.5, {added}or leave the cell empty"
        if name == tables.plan.target:
            remedy += ", or give --task classification to predict classes"
        message = "{value} is not a finite number"
        tables.add("error", "not-a-number", message, remedy, name, wrong[distinct.codes])


def date_columns(tables: CheckedTables) -> Iterator[tuple[str, Distinct, list[str]]]:
    """Yield the columns of dates, and the formats in which they may be written, best first."""
    for column in tables.plan.features:
        if column.kind == "date":
            distinct = tables.nodes.distinct(column.name)
            formats = find_date_formats([text for text, _ in distinct.present])
            yield column.name, distinct, [each for each, _ in formats] or ["%Y-%m-%d"]


def not_a_date(tables: CheckedTables) -> None:
    """Text among dates would count as missing without a word."""
    for name, distinct, formats in date_columns(tables):
        wrong = parse_dates(distinct.texts, formats[0]).isna().to_numpy() & ~distinct.missing
        message = f"{{value}} is not a date written {formats[0]} as others are"
        remedy = (
            "write all dates as 2024-05-17, leave the cell empty, or take the column as text with "
            "--categorical {column}"
        )
        tables.add("error", "not-a-date", message, remedy, name, wrong[distinct.codes])


def ambiguous_value(tables: CheckedTables) -> None:
    """6.059 between thousands would be read as 6; 3/4/2024 is in March or in April."""
    for name in numeric_columns(tables):
        distinct = tables.nodes.distinct(name)
        if not distinct.typed and distinct.style.decimal == ".":
            message = (
                "{value} is read with a decimal point, though every point has three digits after "
                "it, as between thousands"
            )
            remedy = "if thousands are meant, write the numbers without the point"
            rows = find_ambiguous_points(distinct.texts)[distinct.codes]
            tables.add("warning", "ambiguous-value", message, remedy, name, rows)
    for name, distinct, formats in date_columns(tables):
        second_best = formats[1] if len(formats) > 1 else formats[0]
        first, second = (parse_dates(distinct.texts, each) for each in (formats[0], second_best))
        differ = ((first != second) & first.notna()).to_numpy()
        message = (
            f"{{value}} is read as {formats[0]}, though no date of the column tells the day and "
            "the month apart"
        )
        remedy, rows = "write dates as 2024-05-17", differ[distinct.codes]
        tables.add("warning", "ambiguous-value", message, remedy, name, rows)


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
    for column in tables.columns:
        if column.kind not in ("categorical", "ignored"):
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


def id_as_feature(tables: CheckedTables) -> None:
    """With another value for every node, a model memorises nodes instead of learning."""
    ids, num_rows = tables.nodes.distinct(tables.plan.id_column), len(tables.nodes)
    for column in tables.plan.features:
        distinct = tables.nodes.distinct(column.name)
        if len(distinct.values) < num_rows or num_rows < 20 or column.kind in ("list", "date"):
            continue
        are_whole = bool((np.floor(distinct.numbers) == distinct.numbers).all())
        are_dense = are_whole and np.ptp(distinct.numbers) < 1.1 * num_rows
        if column.kind == "categorical" or are_dense or distinct.texts == ids.texts:
            message = "{value} is different for every node, like an id: models would memorise nodes"
            remedy = "leave the column out with --ignore {column}"
            rows = np.ones(num_rows, bool)
            tables.add("warning", "id-as-feature", message, remedy, column.name, rows, count=1)


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
    target = tables.plan.target
    first_with: dict[bytes, str] = {}
    if target is not None:
        first_with[_pattern(tables.nodes.distinct(target).codes)] = target
    for column in tables.plan.features:
        codes = value_codes(tables.nodes.distinct(column.name), column.kind)
        counts = np.bincount(codes)
        all_different = column.kind == "numeric" and counts.max() == 1
        if all_different or len(codes) - counts.max() < 5:
            continue
        first = first_with.setdefault(_pattern(codes), column.name)
        if first != column.name:
            what = ", which is to be predicted" if first == target else ""
            message = f"it says the same as column {show_name(first)}{what}"
            remedy = "leave one of them out with --ignore {column}"
            tables.add("warning", "copied-column", message, remedy, column.name)


def _pattern(codes: NDArray[np.int64]) -> bytes:
    """Return bytes that are equal for columns whose values correspond one to one."""
    return pd.factorize(codes)[0].astype(np.int32).tobytes()


def value_codes(distinct: Distinct, kind: ColumnKind) -> NDArray[np.int64]:
    """Return the value of each cell as a code; equal numbers have the same code."""
    if kind == "numeric":
        values = distinct.numbers
    else:
        values = np.where(distinct.missing, "", np.array(distinct.texts, dtype=object))
    return pd.factorize(values, use_na_sentinel=False)[0][distinct.codes].astype(np.int64)


FILES: tuple[Rule, ...] = (text_encoding,)
IDS: tuple[Rule, ...] = (missing_id, duplicate_id)
COLUMNS: tuple[Rule, ...] = (
    *(no_feature, not_a_number, not_a_date, ambiguous_value, missing_word, mixed_column),
    *(id_as_feature, left_out, pooled_categories, copied_column),
)
