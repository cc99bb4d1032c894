"""Rules about the column to predict and the split column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossgcn.data.tables.cells import CODE, MAX_NUMBER, MISSING_WORDS, how_to_write_number, quote
from crossgcn.data.tables.checks.problems import (
    MAX_NAMES_SHOWN,
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
from crossgcn.data.tables.labels import MIN_TO_SPLIT, OTHER, Labels, role_of_values
from crossgcn.data.tables.plan import AS_CHOSEN, RareClasses, TablePlan
from crossgcn.data.tables.table import Table

SMALL_CLASS = 20
FEW_LABELS = 50
UNBALANCED_SHARE = 0.9
FEW_PER_VALUE = 10


def at_classes(
    place: Place, labels: Labels, classes: Sequence[int] | NDArray[np.integer], **words: Any
) -> Hits:
    """Yield a hit at the first node of any of the classes, if there are any."""
    if len(classes):
        row = int(np.argmax(np.isin(labels.codes, classes)))
        first = int(labels.codes[row])
        words = {"nodes": count_of(int(labels.counts[first]), "node"), **words}
        yield place.at_row(row, count=len(classes), value=labels.names[first], **words)


@dataclass(frozen=True)
class _Target(Place):
    """The column of classes to predict.

    Attributes:
        labels: Without rare classes.
    """

    labels: Labels
    rare_classes: RareClasses
    warns_of_missing_words: bool
    warns_of_task: bool

    @cached_property
    def written(self) -> Labels:
        """The classes as written, with rare ones."""
        return Labels.of(self.distinct)

    @property
    def holds_numbers(self) -> bool:
        """Whether every class is a number, not digits with leading zeros."""
        distinct = self.distinct
        is_word = distinct.missing | distinct.is_one_of(MISSING_WORDS)
        has_codes = any(map(CODE.fullmatch, distinct.texts))
        return not (has_codes or np.isnan(distinct.numbers[~is_word]).any())

    def at_rare(self, rare_classes: RareClasses) -> Hits:
        """Yield a hit at the first node of a rare class, if that is done with them."""
        rare, minimum = self.written.find_rare(self.rare_classes)
        cannot_merge = self.rare_classes == "merge" and OTHER not in self.labels.names
        done = "drop" if cannot_merge else self.rare_classes
        if done == rare_classes and rare.any():
            counts, names = self.written.counts[rare], list(compress(self.written.names, rare))
            shown = [f"{quote(name)} ({size})" for name, size in zip(names, counts, strict=True)]
            hidden = len(shown) - MAX_NAMES_SHOWN
            yield from at_classes(
                self,
                self.written,
                np.flatnonzero(rare),
                minimum=minimum,
                names=", ".join(shown[:MAX_NAMES_SHOWN]) + f" and {hidden:,} more" * (hidden > 0),
                lost=count_of(int(counts.sum()), "node"),
                otherwise="leave their target empty: merged they are still too few"
                if cannot_merge
                else "give --rare-classes merge to predict one class other in place of them",
            )

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
        if not self.written.names:
            yield self.whole()

    @error(
        "all {labelled:,} labelled nodes are {value}: there is nothing to tell apart",
        "add nodes of another class, or name another --target",
        stops=True,
    )
    def one_class(self) -> Hits:
        if len(self.written.names) == 1:
            yield self.whole(value=self.written.names[0], labelled=self.written.num_known)

    @error(
        "{value} is one of {classes:,} different values in {labelled:,} rows: names, not classes",
        "name the column that holds the class with --target, or group the values",
        stops=True,
    )
    def too_many_classes(self) -> Hits:
        labelled, classes = self.written.num_known, len(self.written.names)
        if classes >= FEW_PER_VALUE and 2 * classes > labelled:
            first = int(np.argmax(self.written.known))
            yield self.at_row(first, classes=classes, labelled=labelled)

    @error(
        "class {value} has {nodes}, and a class needs {minimum} to train, to validate and to "
        "test; too few have {names}",
        "add nodes, leave their target empty, or give --rare-classes drop or merge",
        stops=True,
    )
    def rare_class(self) -> Hits:
        yield from self.at_rare("refuse")

    @error(
        f"fewer than two classes have {MIN_TO_SPLIT} nodes: one to train, one to validate and one "
        "to test",
        "add nodes of another class, or name another --target",
        stops=True,
    )
    def no_class_left(self) -> Hits:
        if len(self.labels.names) < 2:
            yield self.whole()

    @warning(
        "class {value} has {nodes}, and a class needs {minimum}: the labels of {lost} are "
        "left out, {names}",
        "add nodes, or {otherwise}",
    )
    def dropped_classes(self) -> Hits:
        yield from self.at_rare("drop")

    @warning(
        "class {value} has {nodes}, and a class needs {minimum}: {lost} are of a class "
        f"{quote(OTHER)} instead, "
        "{names}",
        "add nodes, or give --rare-classes drop to leave them unlabelled",
    )
    def merged_classes(self) -> Hits:
        yield from self.at_rare("merge")

    @warning(
        "the target is {classes} different whole numbers, read as {classes} classes",
        "give --task regression to predict the number",
    )
    def number_as_classes(self) -> Hits:
        classes = len(self.labels.names)
        if self.warns_of_task and classes > 2 and self.holds_numbers:
            yield self.whole(classes=classes)

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
        if self.labels.num_known >= FEW_LABELS:
            yield from at_classes(self, self.labels, np.flatnonzero(counts < SMALL_CLASS))

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
        similar = find_similar(self.written.names)
        for earlier in [*similar.values()][:1]:
            other = quote(self.written.names[earlier])
            yield from at_classes(self, self.written, [*similar], other=other)


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

    @warning(
        "{value} is read as {number:g}, though every point has three digits after it, as between "
        "thousands",
        "if thousands are meant, write the numbers without the point",
    )
    def ambiguous_point_in_target(self) -> Hits:
        yield from self.at_ambiguous_points()

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
        if self.labels.num_known < MIN_TO_SPLIT:
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


def _class_missing_from(role: int, word: str) -> Rule:
    @error(
        f"class {{value}} has {{nodes}}, none of them for {word}",
        f"write {word} for some of them, or leave their target empty",
    )
    def find(split: _Split) -> Hits:
        labels = split.labels
        if labels is None or labels.numbers is not None:
            return
        own = np.bincount(labels.codes[split.used_roles == role], minlength=len(labels.names))
        if own.any():
            yield from at_classes(split, labels, np.flatnonzero(own == 0))

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

    untrained_class = _class_missing_from(1, "train")
    unvalidated_class = _class_missing_from(2, "validation")
    untested_class = _class_missing_from(3, "test")


def check_target(nodes: Table, plan: TablePlan, labels: Labels | None) -> Iterator[Problem]:
    """Yield problems of the target and of the split."""
    if plan.target is not None and labels is not None:
        if plan.task == "regression":
            yield from _NumberTarget(nodes, plan.target, labels).check()
        else:
            inferred = all(column.reason != AS_CHOSEN for column in plan.columns)
            words_are_classes = plan.missing is None
            yield from _Target(
                nodes, plan.target, labels, plan.rare_classes, words_are_classes, inferred
            ).check()
    if plan.split_column is not None:
        yield from _Split(nodes, plan.split_column, labels).check()
