"""Rules about the column to predict, the split column, and columns that give the target away."""

from __future__ import annotations

from itertools import compress

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.cells import CODE, MISSING_WORDS, quote
from crossgcn.data.tables.checks.nodes import value_codes
from crossgcn.data.tables.checks.problems import CheckedTables, Rule, Severity, listed
from crossgcn.data.tables.labels import MIN_TO_SPLIT, OTHER, Labels, role_of_values
from crossgcn.data.tables.plan import AS_CHOSEN, ColumnKind
from crossgcn.data.tables.table import Distinct


def no_target(tables: CheckedTables) -> None:
    """With nothing to tell apart, training would fail in the middle or score 100 %."""
    plan, labels, classes = tables.plan, tables.labels, tables.classes
    if labels is None or plan.target is None:
        return
    distinct = tables.nodes.distinct(plan.target)
    if classes is None:
        what, more = "number", "numbers"
        num_different = len(np.unique(np.asarray(labels.numbers)[labels.known]))
    else:
        what, more = "class", "classes"
        num_different = len(classes.names)
    value = quote(distinct.present[0][0]) if distinct.present else ""
    if not value:
        message = f"no node has a {what} to predict"
    elif num_different == 1:
        message = f"all labelled nodes are {value}: there is nothing to predict"
    elif classes is not None and len(labels.names) < 2:
        message = (
            f"there are {num_different:,} classes such as {value}, and too few nodes of the same "
            "class: two classes need nodes to train, to validate and to test"
        )
    elif labels.num_known < MIN_TO_SPLIT:
        message = (
            f"only {labels.num_known} nodes have a {what}, too few to train, validate and test"
        )
    else:
        return
    remedy = f"add nodes with other {more}, or name another --target"
    tables.add("error", "no-target", message, remedy, plan.target)


def rare_classes(tables: CheckedTables) -> None:
    """A class of two nodes cannot train, validate and test; what is done with it must be said."""
    plan, labels, classes = tables.plan, tables.labels, tables.classes
    if labels is None or classes is None or len(labels.names) < 2:
        return
    rare, minimum = classes.find_rare(plan.rare_classes)
    sizes = zip(compress(classes.names, rare), classes.counts[rare].tolist(), strict=True)
    shown = listed([f"{quote(name)} ({size})" for name, size in sizes])
    if plan.rare_classes == "refuse":
        message = (
            f"classes need {minimum} nodes to train, to validate and to test; too few: {shown}"
        )
        remedy = "add nodes, leave their target empty, or give --rare-classes drop or merge"
    elif plan.rare_classes == "merge" and OTHER in labels.names:
        message = f"classes need {minimum} nodes; these become one class 'other': {shown}"
        remedy = "add nodes, or give --rare-classes drop to leave them unlabelled"
    else:
        message = f"classes need {minimum} nodes; the labels of these are left out: {shown}"
        remedy = "add nodes, or give --rare-classes merge to predict one class other in their place"
    severity: Severity = "error" if plan.rare_classes == "refuse" else "warning"
    rows = np.append(rare, False)[classes.codes]  # -1, no class, is the last
    count = int(rare.sum())
    tables.add(severity, "rare-classes", message, remedy, plan.target, rows, count=count)


def number_as_classes(tables: CheckedTables) -> None:
    """Ratings or counts as classes lose their order."""
    plan, labels = tables.plan, tables.labels
    if tables.classes is None or labels is None or plan.target is None or len(labels.names) <= 2:
        return
    distinct = tables.nodes.distinct(plan.target)
    is_word = distinct.missing | distinct.is_one_of(MISSING_WORDS)
    are_numbers = not np.isnan(distinct.numbers[~is_word]).any()
    are_codes = any(map(CODE.fullmatch, distinct.texts))
    if are_numbers and not are_codes and all(each.reason != AS_CHOSEN for each in plan.columns):
        message = f"the target is {len(labels.names)} different whole numbers, read as classes"
        remedy = "give --task regression to predict the number"
        tables.add("warning", "number-as-classes", message, remedy, plan.target)


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
    if column is None:
        return
    distinct = tables.nodes.distinct(column)
    roles = role_of_values(distinct)[distinct.codes]
    if labels is not None:
        roles = np.where(labels.known, roles, 0)
    for role, word in enumerate(("train", "validation", "test"), 1):
        part = roles == role
        if not part.any():
            message = f"no {'' if labels is None else 'labelled '}node is for {word}"
            remedy = (
                f"write {word} for some of the nodes, or delete the column to have splits drawn"
            )
            tables.add("error", "unfilled-split", message, remedy, column)
        elif labels is not None and labels.numbers is None:
            absent = np.bincount(labels.codes[part], minlength=len(labels.names)) == 0
            if absent.any():
                name = quote(labels.names[int(np.argmax(absent))])
                message = f"class {name} has no node for {word}"
                remedy = f"write {word} for some of them, or leave their target empty"
                tables.add("error", "unfilled-split", message, remedy, column)


def gives_target_away(tables: CheckedTables) -> None:
    """A column that is known only once the target is makes every score look perfect."""
    labels = tables.labels
    if labels is None or labels.num_known < 20:
        return
    for column in tables.plan.features:
        distinct = tables.nodes.distinct(column.name)
        if labels.numbers is not None:
            r2 = r2_alone(distinct, column.kind, labels)
            is_told, message = r2 > 0.99, f"the column alone tells the number: R² is {r2:.3f}"
        else:
            told, size = accuracy_alone(distinct, column.kind, labels), labels.num_known
            minority = size - int(labels.counts.max())
            allowed = min(0.02 * size, 0.15 * minority)
            if column.kind == "numeric":  # a border between two classes costs the nodes beside it
                allowed = max(allowed, min(2.0 * (len(labels.names) - 1), 0.2 * minority))
            is_told = minority > 0 and (1 - told) * size <= allowed
            message = f"the column alone tells the class of {100 * told:.0f} % of the nodes"
        if is_told:
            remedy = "leave it out with --ignore {column} if it is known only once the target is"
            tables.add("warning", "gives-target-away", message, remedy, column.name)


def accuracy_alone(distinct: Distinct, kind: ColumnKind, labels: Labels) -> float:
    """Return the share of nodes whose class the other nodes with their value tell.

    The others' most frequent class is predicted; ties, and values of a single node, are errors.
    For numbers, also the class of three of the four nodes with the next numbers.
    """
    known = labels.known
    classes, codes = labels.codes[known], value_codes(distinct, kind)[known]
    nodes = pd.crosstab(codes, classes).to_numpy()
    second, best = np.pad(np.sort(nodes, axis=1), ((0, 0), (1, 0)))[:, -2:].T
    accuracy = float(best[best - 1 > second].sum()) / len(classes)
    if kind == "numeric":
        near = np.pad(classes[_order(distinct.numbers[distinct.codes[known]])], 2, mode="reflect")
        agreeing = np.sum([near[at : at + len(classes)] == near[2:-2] for at in (0, 1, 3, 4)], 0)
        accuracy = max(accuracy, float((agreeing >= 3).mean()))
    return accuracy


def r2_alone(distinct: Distinct, kind: ColumnKind, labels: Labels) -> float:
    """Return the R² of predicting each number by the mean of the other nodes with its value.

    For columns of numbers, by the mean of the nodes with the next smaller and larger number, if
    that is better.
    """
    known = labels.known
    y = np.asarray(labels.numbers)[known]
    if not np.isfinite(y).all() or np.ptp(y) == 0:
        return 0.0
    codes = value_codes(distinct, kind)[known]
    others = np.bincount(codes)[codes] - 1
    means = (np.bincount(codes, y)[codes] - y) / np.maximum(others, 1)
    predictions = [np.where(others > 0, means, y.mean())]
    if kind == "numeric":
        order = _order(distinct.numbers[distinct.codes[known]])
        near = np.pad(y[order], 1, mode="reflect")
        predictions.append(y.copy())
        predictions[1][order] = (near[:-2] + near[2:]) / 2
    errors = min(float(np.square(y - each).sum()) for each in predictions)
    return 1 - errors / float(np.square(y - y.mean()).sum())


def _order(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the order of numbers; equal ones are shuffled, since files may be sorted by class."""
    drawn = np.random.default_rng(0).permutation(len(numbers))
    return np.lexsort((drawn, numbers))


TARGET: tuple[Rule, ...] = (
    *(no_target, rare_classes, number_as_classes, unknown_split, unfilled_split, gives_target_away),
)
