"""Whether the target is made of classes that can be learned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.cells import MISSING_WORDS
from crossgcn.data.tables.checks.problems import (
    Finding,
    Place,
    Rule,
    count_of,
    find_alike,
    quote,
    share_of,
)
from crossgcn.data.tables.find_columns import SPLIT_WORDS
from crossgcn.data.tables.ids import class_of_values
from crossgcn.data.tables.table import Distinct, Table


@dataclass(frozen=True)
class Labels:
    """Who is of which class.

    Attributes:
        codes: The class of each node; -1 where it has none.
        names: Of the classes, in order of first appearance, as the trained model will call them.
    """

    codes: NDArray[np.int64]
    names: tuple[str, ...]

    @classmethod
    def of(cls, target: Distinct) -> Labels:
        """The different values of the target column."""
        names = np.array(class_of_values(target), dtype=object)
        code_of_value, different = pd.factorize(names)
        return cls(code_of_value.astype(np.int64)[target.codes], tuple(different))

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which nodes have a class."""
        return self.codes >= 0

    @property
    def counts(self) -> NDArray[np.int64]:
        """Nodes of each class."""
        return np.bincount(self.codes[self.known], minlength=len(self.names))


FEWEST_PER_CLASS = 3
"""One to train on, one to choose by, one to test on."""

SMALL_CLASS = 20
FEW_LABELS = 50
IMBALANCE = 0.9
MANY_FRACTIONS = 10
MANY_INTEGERS = 20
TOO_MANY_INTEGERS = 100
FEW_PER_VALUE = 10


def check_target(nodes: Table, target: str, labels: Labels) -> Iterator[Finding]:
    """Targets that are missing, one class only, numbers or names, and classes too small.

    Args:
        nodes: The node table.
        target: The column to predict.
        labels: Its classes.
    """
    place = Place(nodes, target)
    num_labelled, num_classes = int(labels.known.sum()), len(labels.names)
    if num_classes == 0:
        rule = Rule(
            "no-target-value",
            "error",
            "no node has a value to predict",
            "fill in the class of the nodes where it is known, or name another --target",
        )
        yield place.as_a_whole(rule)
        return
    if num_classes == 1:
        rule = Rule(
            "one-class",
            "error",
            f"all {num_labelled:,} labelled nodes are {{value}}: there is nothing to tell apart",
            "add nodes of another class, or name another --target",
        )
        yield place.as_a_whole(rule, value=labels.names[0])
        return
    beyond_classes = list(_check_numbers(place, labels)) or list(_check_names(place, labels))
    yield from beyond_classes
    if any(finding.severity == "error" for finding in beyond_classes):
        return
    yield from _check_sizes(place, labels)
    yield from _check_spelling(place, labels)


def _check_numbers(place: Place, labels: Labels) -> Iterator[Finding]:
    """A target that is measured, not chosen from a list."""
    distinct = place.table.distinct(place.column)
    numbers = distinct.numbers[~distinct.missing & ~distinct.is_one_of(MISSING_WORDS)]
    if len(numbers) == 0 or np.isnan(numbers).any():
        return
    values = np.unique(numbers)
    is_whole = bool((np.isfinite(values) & (np.floor(values) == values)).all())
    if len(values) <= (MANY_INTEGERS if is_whole else MANY_FRACTIONS):
        return
    is_sparse = float(values[-1]) - float(values[0]) >= 2 * len(values)
    is_thin = labels.known.sum() < FEW_PER_VALUE * len(values)
    is_certain = not is_whole or is_sparse or is_thin or len(values) > TOO_MANY_INTEGERS
    column = repr(place.column)
    remedy = (
        f"predict ranges of it; in pandas: nodes[{column}] = pd.qcut(nodes[{column}], 3, "
        "labels=['low', 'middle', 'high'])"
    )
    what = f"{{value}} is one of {len(values):,} different numbers, from {values[0]:g} to "
    what += f"{values[-1]:g}: "
    first = int(np.flatnonzero(labels.known)[0])
    if is_certain:
        what += "a quantity (a regression), where classes are needed"
        yield place.at_row(first, Rule("continuous-target", "error", what, remedy))
    else:
        what += "each is taken for a class of its own, near numbers no more alike than far ones"
        rule = Rule("number-target", "warning", what, f"if it is a quantity, {remedy}")
        yield place.at_row(first, rule)


def _check_names(place: Place, labels: Labels) -> Iterator[Finding]:
    """A target that is different for nearly every node."""
    num_labelled, num_classes = int(labels.known.sum()), len(labels.names)
    if num_classes >= FEW_PER_VALUE and 2 * num_classes > num_labelled:
        rule = Rule(
            "too-many-classes",
            "error",
            f"{{value}} is one of {num_classes:,} different values in {num_labelled:,} rows: "
            "names, not classes",
            "name the column that holds the class by --target, or group the values",
        )
        yield place.at_row(int(np.flatnonzero(labels.known)[0]), rule)


def _check_sizes(place: Place, labels: Labels) -> Iterator[Finding]:
    counts, num_nodes = labels.counts, len(labels.codes)
    num_labelled = int(counts.sum())
    rare = np.flatnonzero(counts < FEWEST_PER_CLASS).tolist()
    if len(rare) > 0:
        rule = Rule(
            "rare-class",
            "error",
            f"class {{value}} has {count_of(int(counts[rare[0]]), 'node')}, and a class needs "
            f"{FEWEST_PER_CLASS}: one to train, one to validate and one to test",
            "merge it with another class, add nodes, or leave its target empty",
        )
        yield _at_class(place, labels, rare, rule)
    if num_labelled < FEW_LABELS:
        rule = Rule(
            "few-labels",
            "warning",
            f"only {num_labelled:,} of {count_of(num_nodes, 'node')} have a class: differences "
            "between models will drown in chance",
            f"label at least {FEW_LABELS}, better some hundreds",
        )
        yield place.as_a_whole(rule)
    small = np.flatnonzero((counts >= FEWEST_PER_CLASS) & (counts < SMALL_CLASS)).tolist()
    if len(small) > 0 and num_labelled >= FEW_LABELS:
        rule = Rule(
            "small-class",
            "warning",
            f"class {{value}} has only {count_of(int(counts[small[0]]), 'node')}: scores for it "
            "will be rough",
            f"add nodes until it has {SMALL_CLASS}, or merge it with another class",
        )
        yield _at_class(place, labels, small, rule)
    largest = int(np.argmax(counts))
    if counts[largest] >= IMBALANCE * num_labelled:
        rule = Rule(
            "unbalanced-classes",
            "warning",
            f"{share_of(int(counts[largest]), num_labelled)} of the labelled nodes are {{value}}: "
            "always saying so is that accurate",
            "judge by the scores per class, not by accuracy, or add nodes of the others",
        )
        yield place.as_a_whole(rule, value=labels.names[largest])
    if 2 * num_labelled < num_nodes:
        rule = Rule(
            "mostly-unlabelled",
            "warning",
            f"{share_of(num_nodes - num_labelled, num_nodes)} of the nodes have no class; they "
            "are neighbours, but nothing is learned from them",
            "fill in more of the column if they should have one",
        )
        yield place.as_a_whole(rule)


def _check_spelling(place: Place, labels: Labels) -> Iterator[Finding]:
    alike = find_alike(labels.names)
    if alike:
        first = next(iter(alike.values()))
        rule = Rule(
            "similar-classes",
            "warning",
            f"{{value}} differs from {quote(labels.names[first])} only in case or spaces, "
            "and is another class",
            "write both the same way if one class is meant",
        )
        yield _at_class(place, labels, [*alike], rule)


def _at_class(place: Place, labels: Labels, classes: Sequence[int], rule: Rule) -> Finding:
    """A finding at the first node of the first of the classes."""
    row = int(np.argmax(labels.codes == classes[0]))
    return place.at_row(row, rule, count=len(classes), value=labels.names[classes[0]])


ROLES = {1: "train", 2: "validation", 3: "test"}


def check_split(nodes: Table, split_column: str, labels: Labels | None) -> Iterator[Finding]:
    """Words that name no role, roles that nobody has, and classes nobody trains on.

    Args:
        nodes: The node table.
        split_column: Who trains, validates and tests.
        labels: The classes of the nodes, where there is a target.
    """
    split, place = nodes.distinct(split_column), Place(nodes, split_column)
    words = [SPLIT_WORDS.get(value.strip().lower(), 0) for value in split.values]
    role_of_value = np.array(words)
    unknown = (role_of_value == 0) & ~split.missing
    if unknown.any():
        rule = Rule(
            "unknown-split",
            "error",
            "{value} is none of train, validation and test",
            "write one of them, or leave the cell empty for a node that takes no part",
        )
        yield from place.at_values(unknown, rule)
        return
    roles = role_of_value[split.codes]
    takes_part = roles > 0 if labels is None else (roles > 0) & labels.known
    for role, word in ROLES.items():
        if not (takes_part & (roles == role)).any():
            rule = Rule(
                f"no-{word}-node",
                "error",
                f"no {'' if labels is None else 'labelled '}node is for {word}",
                f"write {word} for some of the nodes, or have splits drawn: delete the column",
            )
            yield place.as_a_whole(rule)
    if labels is None:
        return
    yield from place.at_rows(
        (roles > 0) & ~labels.known,
        Rule(
            "unlabelled-split-node",
            "warning",
            "the node is for {value}, but has no class, so it takes no part",
            "fill in its class, or leave the split empty",
        ),
    )
    trained = np.bincount(labels.codes[takes_part & (roles == 1)], minlength=len(labels.names))
    untrained = np.flatnonzero(trained == 0)
    if len(untrained) > 0 and trained.any():
        name = labels.names[untrained[0]]
        rule = Rule(
            "untrained-class",
            "error",
            f"class {{value}} has {count_of(int(labels.counts[untrained[0]]), 'node')}, none of "
            "them for train",
            "write train for some of them",
        )
        row = nodes.row_number(int(np.argmax(labels.codes == untrained[0])))
        yield rule.at(nodes, split_column, row=row, value=name, count=len(untrained))
