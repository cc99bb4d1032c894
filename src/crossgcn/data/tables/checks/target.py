"""Rules about the column to predict and the split column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.tables.cells import CODE, MAX_NUMBER, MISSING_WORDS, how_to_write_number, quote
from crossgcn.data.tables.checks.problems import (
    Hits,
    Place,
    Problem,
    Rule,
    count_of,
    error,
    find_similar,
    share_of,
    warning,
)
from crossgcn.data.tables.labels import Labels, role_of_values
from crossgcn.data.tables.plan import AS_CHOSEN, TablePlan
from crossgcn.data.tables.table import Table

MIN_PER_CLASS = 3
"""One node each to train, to validate and to test."""

SMALL_CLASS = 20
FEW_LABELS = 50
UNBALANCED_SHARE = 0.9
FEW_PER_VALUE = 10


@dataclass(frozen=True)
class _Target(Place):
    """The column to predict."""

    labels: Labels
    warns_of_missing_words: bool
    warns_of_task: bool

    @property
    def holds_numbers(self) -> bool:
        """Whether every class is a number, not digits with leading zeros."""
        distinct = self.distinct
        is_word = distinct.missing | distinct.is_one_of(MISSING_WORDS)
        has_codes = any(map(CODE.fullmatch, distinct.texts))
        return not (has_codes or np.isnan(distinct.numbers[~is_word]).any())

    def at_classes(self, classes: Sequence[int], **words: Any) -> Hits:
        """Yield a hit at the first node of any of the classes, if there are any."""
        if len(classes):
            row = int(np.argmax(np.isin(self.labels.codes, classes)))
            first = int(self.labels.codes[row])
            name = self.labels.names[first]
            size = int(self.labels.counts[first])
            words = {"nodes": count_of(size, "node"), **words}
            yield self.at_row(row, count=len(classes), value=name, **words)

    @warning(
        "{value} is in {share} of the cells and counts as a class, while in other columns it "
        "counts as missing",
        "if it stands for an unknown class, empty these cells, or count such words as missing "
        f"here too: --missing {','.join(sorted(MISSING_WORDS))}",
    )
    def missing_word(self) -> Hits:
        if self.warns_of_missing_words:
            yield from self.at_missing_words()

    @error(
        "no node has a value to predict",
        "fill in the class of the nodes where it is known, or name another --target",
        stops=True,
    )
    def no_target_value(self) -> Hits:
        if not self.labels.names:
            yield self.whole()

    @error(
        "all {labelled:,} labelled nodes are {value}: there is nothing to tell apart",
        "add nodes of another class, or name another --target",
        stops=True,
    )
    def one_class(self) -> Hits:
        if len(self.labels.names) == 1:
            yield self.whole(value=self.labels.names[0], labelled=self.labels.num_known)

    @warning(
        "the target is {classes} different whole numbers, read as {classes} classes",
        "give --task regression to predict the number",
    )
    def number_as_classes(self) -> Hits:
        classes = len(self.labels.names)
        if self.warns_of_task and classes > 2 and self.holds_numbers:
            yield self.whole(classes=classes)

    @error(
        "{value} is one of {classes:,} different values in {labelled:,} rows: names, not classes",
        "name the column that holds the class with --target, or group the values",
        stops=True,
    )
    def too_many_classes(self) -> Hits:
        labelled, classes = self.labels.num_known, len(self.labels.names)
        if classes >= FEW_PER_VALUE and 2 * classes > labelled:
            first = int(np.argmax(self.labels.known))
            yield self.at_row(first, classes=classes, labelled=labelled)

    @error(
        f"class {{value}} has {{nodes}}, and a class needs {MIN_PER_CLASS}: one to train, one to "
        "validate and one to test",
        "merge it with another class, add nodes, or leave its target empty",
    )
    def rare_class(self) -> Hits:
        yield from self.at_classes(np.flatnonzero(self.labels.counts < MIN_PER_CLASS).tolist())

    @warning(
        "only {labelled:,} of {nodes} have a class: chance will hide differences between models",
        f"label at least {FEW_LABELS}, better some hundreds",
    )
    def few_labels(self) -> Hits:
        labels = self.labels
        if labels.num_known < FEW_LABELS:
            yield self.whole(labelled=labels.num_known, nodes=count_of(len(labels.codes), "node"))

    @warning(
        "class {value} has only {nodes}: scores for it will be rough",
        f"add nodes until it has {SMALL_CLASS}, or merge it with another class",
    )
    def small_class(self) -> Hits:
        counts = self.labels.counts
        small = np.flatnonzero((counts >= MIN_PER_CLASS) & (counts < SMALL_CLASS))
        if self.labels.num_known >= FEW_LABELS:
            yield from self.at_classes(small.tolist())

    @warning(
        "{share} of the labelled nodes are {value}: always predicting it is as accurate",
        "judge by the scores per class, not by accuracy, or add nodes of the other classes",
    )
    def unbalanced_classes(self) -> Hits:
        labels = self.labels
        largest = int(np.argmax(labels.counts))
        size = int(labels.counts[largest])
        if size >= UNBALANCED_SHARE * labels.num_known:
            yield self.whole(value=labels.names[largest], share=share_of(size, labels.num_known))

    @warning(
        "{share} of the nodes have no class; they are neighbours, but nothing is learned from them",
        "fill in more of the column if they should have one",
    )
    def mostly_unlabelled(self) -> Hits:
        num_nodes = len(self.labels.codes)
        num_unlabelled = num_nodes - self.labels.num_known
        if 2 * num_unlabelled > num_nodes:
            yield self.whole(share=share_of(num_unlabelled, num_nodes))

    @warning(
        "{value} differs from {other} only in case or spaces, but is another class",
        "write both the same way if one class is meant",
    )
    def similar_classes(self) -> Hits:
        similar = find_similar(self.labels.names)
        for earlier in [*similar.values()][:1]:
            yield from self.at_classes([*similar], other=quote(self.labels.names[earlier]))


@dataclass(frozen=True)
class _NumberTarget(Place):
    """The column of numbers to predict."""

    labels: Labels

    @error(
        "no node has a number to predict",
        "fill in the number of the nodes where it is known, or name another --target",
        stops=True,
    )
    def no_target_number(self) -> Hits:
        if self.distinct.num_present == 0:
            yield self.whole()

    @error(
        "{value} is not a number, and numbers are to be predicted",
        "{how}, leave the cell empty, or give --task classification to predict classes",
        stops=True,
    )
    def text_in_target(self) -> Hits:
        wrong = np.isnan(self.distinct.numbers) & ~self.distinct.missing
        if wrong.any():
            first = self.distinct.values[int(np.argmax(wrong))]
            yield from self.at_values(wrong, how=how_to_write_number(first))

    @error(
        "{value} is not a finite number of 32 bits",
        "write a finite number, in a larger unit if it is that large, or leave the cell empty",
        stops=True,
    )
    def infinite_target(self) -> Hits:
        yield from self.at_values(abs(self.distinct.numbers) > MAX_NUMBER)

    @error(
        "all {labelled:,} numbers to predict are {value}: there is nothing to predict",
        "add nodes with other numbers, or name another --target",
        stops=True,
    )
    def constant_target(self) -> Hits:
        numbers = np.asarray(self.labels.numbers)[self.labels.known]
        if numbers.min() == numbers.max():
            row = int(np.argmax(self.labels.known))
            yield self.at_row(row, labelled=len(numbers))

    @error(
        "only {nodes} with a number to predict, and one each is needed to train, validate and test",
        f"label at least {FEW_LABELS} nodes, better some hundreds",
        stops=True,
    )
    def too_few_numbers(self) -> Hits:
        if self.labels.num_known < MIN_PER_CLASS:
            yield self.whole(nodes=count_of(self.labels.num_known, "node"))


def _no_node_for(role: int, word: str) -> Rule:
    @error(
        f"no {{labelled}}node is for {word}",
        f"write {word} for some of the nodes, or delete the column to have splits drawn",
    )
    def find(split: _Split) -> Hits:
        if not (split.used_roles == role).any():
            yield split.whole(labelled="" if split.labels is None else "labelled ")

    return find


@dataclass(frozen=True)
class _Split(Place):
    """The column that names training, validation and test nodes."""

    labels: Labels | None

    @property
    def roles(self) -> NDArray[np.int8]:
        """Role of each node that the column names: 0 for none, -1 for an unknown word."""
        return role_of_values(self.distinct)[self.distinct.codes]

    @property
    def used_roles(self) -> NDArray[np.int8]:
        """Role of each node; nodes without a class have none."""
        return self.roles if self.labels is None else np.where(self.labels.known, self.roles, 0)

    @error(
        "{value} is none of train, validation and test",
        "write one of them, or leave the cell empty for a node that takes no part",
        stops=True,
    )
    def unknown_split(self) -> Hits:
        yield from self.at_rows(self.roles < 0)

    no_train_node = _no_node_for(1, "train")
    no_validation_node = _no_node_for(2, "validation")
    no_test_node = _no_node_for(3, "test")

    @warning(
        "the node is for {value}, but has no class, so it takes no part",
        "fill in its class, or leave the split empty",
    )
    def unlabelled_split_node(self) -> Hits:
        if self.labels is not None:
            yield from self.at_rows((self.roles > 0) & ~self.labels.known)

    @error(
        "class {value} has {nodes}, none of them for train",
        "write train for some of them",
    )
    def untrained_class(self) -> Hits:
        labels = self.labels
        if labels is None:
            return
        trained = np.bincount(labels.codes[self.used_roles == 1], minlength=len(labels.names))
        untrained = np.flatnonzero(trained == 0).tolist()
        if trained.any():
            target = _Target(self.table, self.column, labels, False, False)
            yield from target.at_classes(untrained)


def check_target(nodes: Table, plan: TablePlan, labels: Labels | None) -> Iterator[Problem]:
    """Yield problems of the target and of the split."""
    if plan.target is not None and labels is not None:
        if plan.task == "regression":
            yield from _NumberTarget(nodes, plan.target, labels).check()
        else:
            inferred = all(column.reason != AS_CHOSEN for column in plan.columns)
            words_are_classes = plan.missing is None
            yield from _Target(nodes, plan.target, labels, words_are_classes, inferred).check()
    if plan.split_column is not None:
        yield from _Split(nodes, plan.split_column, labels).check()
