"""Rules about ids, the column to predict and the split column."""

from __future__ import annotations

from itertools import compress

import numpy as np
import pandas as pd

from crossgcn.data.tables.cells import (
    CODE,
    MISSING_WORDS,
    quote,
)
from crossgcn.data.tables.checks.problems import (
    MAX_NAMES_SHOWN,
    CheckedTables,
    count_of,
    share_of,
)
from crossgcn.data.tables.labels import MIN_TO_SPLIT, OTHER, Labels, role_of_values
from crossgcn.data.tables.plan import AS_CHOSEN


def missing_id(tables: CheckedTables) -> None:
    """Nodes without an id would all be one node."""
    column = tables.plan.id_column
    distinct = tables.nodes.distinct(column)
    rows = distinct.blank[distinct.codes]
    remedy = "give it one, or delete the row"
    message = "the node has no id"
    tables.add("error", "missing-id", message, remedy, column, rows)


def duplicate_id(tables: CheckedTables) -> None:
    """With two rows for a node, edges would join either of them."""
    column = tables.plan.id_column
    distinct = tables.nodes.distinct(column)
    rows = pd.Series(distinct.codes).duplicated().to_numpy() & ~distinct.blank[distinct.codes]
    if rows.any():
        first = int(np.argmax(distinct.codes == distinct.codes[np.argmax(rows)]))
        message = f"{{value}} is already the id of row {tables.nodes.row_number(first)}"
        remedy = "keep one row per node, or choose another column with --id-column"
        tables.add("error", "duplicate-id", message, remedy, column, rows)


def no_target(tables: CheckedTables) -> None:
    """With nothing to tell apart, training would fail in the middle or score 100 %."""
    plan, nodes, labels = tables.plan, tables.nodes, tables.labels
    if labels is None or plan.target is None:
        return
    distinct = nodes.distinct(plan.target)
    if plan.task == "regression":
        num_different = len(np.unique(np.asarray(labels.numbers)[labels.known]))
        what, more = "number", "numbers"
    else:
        num_different = len(Labels.of(distinct).names)
        what, more = "class", "classes"
    if distinct.num_present == 0:
        message = f"no node has a {what} to predict"
    elif num_different == 1:
        message = (
            f"all labelled nodes are {quote(distinct.present[0][0])}: there is nothing to predict"
        )
    elif labels.num_known < MIN_TO_SPLIT or (what == "class" and len(labels.names) < 2):
        message = (
            f"too few nodes have a {what}: one each is needed to train, to validate and to test"
            + (", of two classes" if what == "class" else "")
        )
    else:
        return
    remedy = f"add nodes with other {more}, or name another --target"
    tables.add("error", "no-target", message, remedy, plan.target)


def too_many_classes(tables: CheckedTables) -> None:
    """Names or ids as the target cannot be learned: hardly a class has a second node."""
    plan, labels = tables.plan, tables.labels
    if labels is None or plan.target is None or plan.task == "regression":
        return
    written = Labels.of(tables.nodes.distinct(plan.target))
    classes, labelled = len(written.names), written.num_known
    if classes >= 10 and 2 * classes > labelled:
        message = (
            f"{{value}} is one of {classes:,} different values in {labelled:,} rows: names, not "
            "classes"
        )
        remedy = "name the column that holds the class with --target, or group the values"
        tables.add(
            "error", "too-many-classes", message, remedy, plan.target, written.known, count=1
        )


def rare_classes(tables: CheckedTables) -> None:
    """A class of two nodes cannot train, validate and test; what is done with it must be said."""
    plan, labels = tables.plan, tables.labels
    if labels is None or plan.target is None or plan.task == "regression":
        return
    written = Labels.of(tables.nodes.distinct(plan.target))
    rare, minimum = written.find_rare(plan.rare_classes)
    if not rare.any() or len(labels.names) < 2 or 2 * len(written.names) > written.num_known:
        return
    counts, names = written.counts[rare], list(compress(written.names, rare))
    shown = [f"{quote(name)} ({size})" for name, size in zip(names, counts, strict=True)]
    hidden = len(shown) - MAX_NAMES_SHOWN
    listed = ", ".join(shown[:MAX_NAMES_SHOWN]) + f" and {hidden:,} more" * (hidden > 0)
    lost = count_of(int(counts.sum()), "node")
    merged = plan.rare_classes == "merge" and OTHER in labels.names
    if plan.rare_classes == "refuse":
        message = (
            f"classes need {minimum} nodes to train, to validate and to test; too few have {listed}"
        )
        remedy = "add nodes, leave their target empty, or give --rare-classes drop or merge"
    elif merged:
        message = f"classes need {minimum} nodes: {lost} are of a class 'other' instead, {listed}"
        remedy = "add nodes, or give --rare-classes drop to leave them unlabelled"
    else:
        message = f"classes need {minimum} nodes: the labels of {lost} are left out, {listed}"
        remedy = "add nodes, or give --rare-classes merge to predict one class other in their place"
    tables.add(
        "error" if plan.rare_classes == "refuse" else "warning",
        "rare-classes",
        message,
        remedy,
        plan.target,
        np.isin(written.codes, np.flatnonzero(rare)),
        count=int(rare.sum()),
    )


def target_not_a_number(tables: CheckedTables) -> None:
    """One cell of text would otherwise turn a regression into thousands of classes."""
    plan = tables.plan
    if plan.target is None or plan.task != "regression":
        return
    distinct = tables.nodes.distinct(plan.target)
    wrong = ~np.isfinite(distinct.numbers) & ~distinct.missing
    message = "{value} is not a finite number, and numbers are to be predicted"
    remedy = (
        "write a number, leave the cell empty, or give --task classification to predict classes"
    )
    tables.add("error", "target-not-a-number", message, remedy, plan.target, wrong[distinct.codes])


def number_as_classes(tables: CheckedTables) -> None:
    """Ratings or counts as classes lose their order."""
    plan, labels = tables.plan, tables.labels
    if labels is None or plan.target is None or plan.task == "regression":
        return
    if any(column.reason == AS_CHOSEN for column in plan.columns) or len(labels.names) <= 2:
        return
    distinct = tables.nodes.distinct(plan.target)
    is_word = distinct.missing | distinct.is_one_of(MISSING_WORDS)
    if any(map(CODE.fullmatch, distinct.texts)) or np.isnan(distinct.numbers[~is_word]).any():
        return
    message = f"the target is {len(labels.names)} different whole numbers, read as classes"
    remedy = "give --task regression to predict the number"
    tables.add("warning", "number-as-classes", message, remedy, plan.target)


def few_labels(tables: CheckedTables) -> None:
    """With few labels, differences between models are chance."""
    plan, labels = tables.plan, tables.labels
    if labels is not None and MIN_TO_SPLIT <= labels.num_known < 50:
        message = (
            f"only {labels.num_known:,} of {count_of(len(labels.codes), 'node')} have a value to "
            "predict: chance will hide differences between models"
        )
        remedy = "label at least 50, better some hundreds"
        tables.add("warning", "few-labels", message, remedy, plan.target)


def unbalanced_classes(tables: CheckedTables) -> None:
    """Accuracy looks excellent where nearly all nodes are of one class."""
    plan, labels = tables.plan, tables.labels
    if labels is None or plan.task == "regression" or len(labels.names) < 2:
        return
    largest = int(np.argmax(labels.counts))
    size = int(labels.counts[largest])
    if size >= 0.9 * labels.num_known:
        message = (
            f"{share_of(size, labels.num_known)} of the labelled nodes are "
            f"{quote(labels.names[largest])}: always predicting it is as accurate"
        )
        remedy = "judge by the scores per class, not by accuracy, or add nodes of the other classes"
        tables.add("warning", "unbalanced-classes", message, remedy, plan.target)


def unknown_split(tables: CheckedTables) -> None:
    """A typo would take nodes out of the user's own split."""
    column = tables.plan.split_column
    if column is None:
        return
    distinct = tables.nodes.distinct(column)
    message = "{value} is none of train, validation and test"
    remedy = "write one of them, or leave the cell empty for a node that takes no part"
    rows = (role_of_values(distinct) < 0)[distinct.codes]
    tables.add("error", "unknown-split", message, remedy, column, rows)


def unfilled_split(tables: CheckedTables) -> None:
    """A split without training, validation or test nodes, or classes, cannot be scored."""
    column, labels = tables.plan.split_column, tables.labels
    if column is None:
        return
    distinct = tables.nodes.distinct(column)
    roles = role_of_values(distinct)[distinct.codes]
    if labels is not None:
        roles = np.where(labels.known, roles, 0)
    for role, word in enumerate(("train", "validation", "test"), 1):
        part, kind = roles == role, "unfilled-split"
        if not part.any():
            labelled = "" if labels is None else "labelled "
            message = f"no {labelled}node is for {word}"
            remedy = (
                f"write {word} for some of the nodes, or delete the column to have splits drawn"
            )
            tables.add("error", kind, message, remedy, column)
        elif labels is not None and labels.numbers is None:
            absent = np.bincount(labels.codes[part], minlength=len(labels.names)) == 0
            for at in np.flatnonzero(absent)[:1]:
                message = f"class {quote(labels.names[at])} has no node for {word}"
                remedy = f"write {word} for some of them, or leave their target empty"
                tables.add("error", kind, message, remedy, column)
