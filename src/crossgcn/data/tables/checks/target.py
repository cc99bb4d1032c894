"""Rules about the column to predict and the split column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.checks.problems import (
    Hit,
    Place,
    Problem,
    Rules,
    count_of,
    find_similar,
    quote,
    share_of,
)
from crossgcn.data.tables.columns import SPLIT_WORDS, class_of_values
from crossgcn.data.tables.plan import TablePlan
from crossgcn.data.tables.table import MISSING_WORDS, Distinct, Table

MIN_PER_CLASS = 3
"""One node each to train, to validate and to test."""

SMALL_CLASS = 20
FEW_LABELS = 50
UNBALANCED_SHARE = 0.9
MAX_FRACTIONS = 10
MAX_INTEGERS = 20
MAX_INTEGER_CLASSES = 100
FEW_PER_VALUE = 10

MIN_MISSING_CELLS = 3
MIN_MISSING_SHARE = 0.02
"""A word for a missing value in fewer cells is not worth a warning."""


@dataclass(frozen=True)
class Labels:
    """The class of each node.

    Attributes:
        codes: -1 where a node has no class.
        names: Of the classes, in order of first appearance.
    """

    codes: NDArray[np.int64]
    names: tuple[str, ...]

    @classmethod
    def of(cls, target: Distinct) -> Labels:
        """Read the classes of a target column."""
        names = np.array(class_of_values(target), dtype=object)
        code_of_value, different = pd.factorize(names)
        return cls(code_of_value.astype(np.int64)[target.codes], tuple(different))

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether each node has a class."""
        return self.codes >= 0

    @cached_property
    def num_known(self) -> int:
        """Number of nodes with a class."""
        return int(self.known.sum())

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of nodes of each class."""
        return np.bincount(self.codes[self.known], minlength=len(self.names))


def check_target(nodes: Table, plan: TablePlan, labels: Labels | None) -> Iterator[Problem]:
    """Yield problems of the target and of the split."""
    if plan.target is not None and labels is not None:
        yield from TARGET_RULES.apply(_Target(nodes, plan.target, labels))
        if plan.missing is None:
            yield from MISSING_CLASS_RULES.apply(Place(nodes, plan.target))
    if plan.split_column is not None:
        yield from SPLIT_RULES.apply(_Split(nodes, plan.split_column, labels))


@dataclass(frozen=True)
class _Target(Place):
    """The column to predict."""

    labels: Labels

    def at_classes(self, classes: Sequence[int], **words: Any) -> Iterator[Hit]:
        """Yield a hit at the first node of the first of the classes, if there are any."""
        if len(classes):
            first = int(classes[0])
            row = int(np.argmax(self.labels.codes == first))
            name = self.labels.names[first]
            size = int(self.labels.counts[first])
            words = {"nodes": count_of(size, "node"), **words}
            yield self.at_row(row, count=len(classes), value=name, **words)

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The different numbers, if the target has more than a list of codes would have."""
        distinct = self.distinct
        numbers = distinct.numbers[~distinct.missing & ~distinct.is_one_of(MISSING_WORDS)]
        values = np.unique(numbers)
        if np.isnan(numbers).any() or len(values) <= (
            MAX_INTEGERS if _are_whole(values) else MAX_FRACTIONS
        ):
            return np.empty(0)
        return values

    @property
    def is_quantity(self) -> bool:
        """Whether the numbers are certainly measured, not codes of classes."""
        values = self.numbers
        if len(values) == 0:
            return False
        is_sparse = float(values[-1]) - float(values[0]) >= 2 * len(values)
        is_thin = self.labels.num_known < FEW_PER_VALUE * len(values)
        return not _are_whole(values) or is_sparse or is_thin or len(values) > MAX_INTEGER_CLASSES

    def at_number(self) -> Hit:
        """Return a hit at the first number."""
        values = self.numbers
        return self.at_row(
            int(np.argmax(self.labels.known)),
            range=f"{len(values):,} different numbers, from {values[0]:g} to {values[-1]:g}",
            name=repr(self.column),
        )


def _are_whole(numbers: NDArray[np.float64]) -> bool:
    return bool((np.isfinite(numbers) & (np.floor(numbers) == numbers)).all())


TARGET_RULES = Rules[_Target]()

CUT_IN_PANDAS = (
    "predict ranges of it; in pandas: nodes[{name}] = pd.qcut(nodes[{name}], 3, "
    "labels=['low', 'middle', 'high'])"
)


@TARGET_RULES.rule(
    "error",
    "no node has a value to predict",
    "fill in the class of the nodes where it is known, or name another --target",
    stops=True,
)
def _no_target_value(target: _Target) -> Iterator[Hit]:
    if not target.labels.names:
        yield target.whole()


@TARGET_RULES.rule(
    "error",
    "all {labelled:,} labelled nodes are {value}: there is nothing to tell apart",
    "add nodes of another class, or name another --target",
    stops=True,
)
def _one_class(target: _Target) -> Iterator[Hit]:
    if len(target.labels.names) == 1:
        yield target.whole(value=target.labels.names[0], labelled=target.labels.num_known)


@TARGET_RULES.rule(
    "error",
    "{value} is one of {range}: a quantity (a regression), where classes are needed",
    CUT_IN_PANDAS,
    stops=True,
)
def _continuous_target(target: _Target) -> Iterator[Hit]:
    if target.is_quantity:
        yield target.at_number()


@TARGET_RULES.rule(
    "warning",
    "{value} is one of {range}: each is taken for a class of its own, however close the numbers",
    f"if it is a quantity, {CUT_IN_PANDAS}",
)
def _number_target(target: _Target) -> Iterator[Hit]:
    if len(target.numbers) and not target.is_quantity:
        yield target.at_number()


@TARGET_RULES.rule(
    "error",
    "{value} is one of {classes:,} different values in {labelled:,} rows: names, not classes",
    "name the column that holds the class with --target, or group the values",
    stops=True,
)
def _too_many_classes(target: _Target) -> Iterator[Hit]:
    num_labelled, num_classes = target.labels.num_known, len(target.labels.names)
    if num_classes >= FEW_PER_VALUE and 2 * num_classes > num_labelled and not len(target.numbers):
        first = int(np.argmax(target.labels.known))
        yield target.at_row(first, classes=num_classes, labelled=num_labelled)


@TARGET_RULES.rule(
    "error",
    f"class {{value}} has {{nodes}}, and a class needs {MIN_PER_CLASS}: one to train, one to "
    "validate and one to test",
    "merge it with another class, add nodes, or leave its target empty",
)
def _rare_class(target: _Target) -> Iterator[Hit]:
    yield from target.at_classes(np.flatnonzero(target.labels.counts < MIN_PER_CLASS).tolist())


@TARGET_RULES.rule(
    "warning",
    "only {labelled:,} of {nodes} have a class: chance will hide differences between models",
    f"label at least {FEW_LABELS}, better some hundreds",
)
def _few_labels(target: _Target) -> Iterator[Hit]:
    labels = target.labels
    if labels.num_known < FEW_LABELS:
        yield target.whole(labelled=labels.num_known, nodes=count_of(len(labels.codes), "node"))


@TARGET_RULES.rule(
    "warning",
    "class {value} has only {nodes}: scores for it will be rough",
    f"add nodes until it has {SMALL_CLASS}, or merge it with another class",
)
def _small_class(target: _Target) -> Iterator[Hit]:
    counts = target.labels.counts
    small = np.flatnonzero((counts >= MIN_PER_CLASS) & (counts < SMALL_CLASS))
    if target.labels.num_known >= FEW_LABELS:
        yield from target.at_classes(small.tolist())


@TARGET_RULES.rule(
    "warning",
    "{share} of the labelled nodes are {value}: always predicting it is as accurate",
    "judge by the scores per class, not by accuracy, or add nodes of the other classes",
)
def _unbalanced_classes(target: _Target) -> Iterator[Hit]:
    labels = target.labels
    largest = int(np.argmax(labels.counts))
    size = int(labels.counts[largest])
    if size >= UNBALANCED_SHARE * labels.num_known:
        yield target.whole(value=labels.names[largest], share=share_of(size, labels.num_known))


@TARGET_RULES.rule(
    "warning",
    "{share} of the nodes have no class; they are neighbours, but nothing is learned from them",
    "fill in more of the column if they should have one",
)
def _mostly_unlabelled(target: _Target) -> Iterator[Hit]:
    num_nodes = len(target.labels.codes)
    num_unlabelled = num_nodes - target.labels.num_known
    if 2 * num_unlabelled > num_nodes:
        yield target.whole(share=share_of(num_unlabelled, num_nodes))


@TARGET_RULES.rule(
    "warning",
    "{value} differs from {other} only in case or spaces, but is another class",
    "write both the same way if one class is meant",
)
def _similar_classes(target: _Target) -> Iterator[Hit]:
    similar = find_similar(target.labels.names)
    for earlier in [*similar.values()][:1]:
        yield from target.at_classes([*similar], other=quote(target.labels.names[earlier]))


MISSING_CLASS_RULES = Rules[Place]()
MISSING_CATEGORY_RULES = Rules[Place]()


@MISSING_CLASS_RULES.rule(
    "warning",
    "{value} is in {share} of the cells and counts as a class, while in other columns it counts "
    "as missing",
    "if it stands for an unknown class, empty these cells, or count such words as missing here "
    f"too: --missing {','.join(sorted(MISSING_WORDS))}",
    name="missing-word",
)
@MISSING_CATEGORY_RULES.rule(
    "warning",
    "{value} is in {share} of the cells and counts as missing, not as a category",
    "if it is a category, leave {word} out of the words for a missing value: --missing {others}",
    name="missing-word",
)
def _missing_word(place: Place) -> Iterator[Hit]:
    distinct, num_cells = place.distinct, len(place.table)
    for word in sorted(MISSING_WORDS):
        said = distinct.is_one_of({word})
        count = int(distinct.counts[said].sum())
        if count >= max(MIN_MISSING_CELLS, MIN_MISSING_SHARE * num_cells):
            others = ",".join(sorted(MISSING_WORDS - {word}))
            share = share_of(count, num_cells)
            yield from place.at_values(said, share=share, word=quote(word), others=others)


@dataclass(frozen=True)
class _Split(Place):
    """The column that names training, validation and test nodes."""

    labels: Labels | None

    @cached_property
    def role_of_value(self) -> NDArray[np.int64]:
        """Role of each different value, 0 for none."""
        words = [value.strip().lower() for value in self.distinct.values]
        return np.array([SPLIT_WORDS.get(word, 0) for word in words])

    @property
    def roles(self) -> NDArray[np.int64]:
        """Role of each node that the column names, 0 for none."""
        return self.role_of_value[self.distinct.codes]

    @property
    def used_roles(self) -> NDArray[np.int64]:
        """Role of each node; nodes without a class have none."""
        return self.roles if self.labels is None else np.where(self.labels.known, self.roles, 0)


SPLIT_RULES = Rules[_Split]()


@SPLIT_RULES.rule(
    "error",
    "{value} is none of train, validation and test",
    "write one of them, or leave the cell empty for a node that takes no part",
    stops=True,
)
def _unknown_split(split: _Split) -> Iterator[Hit]:
    yield from split.at_values((split.role_of_value == 0) & ~split.distinct.missing)


def _add_rule_about_role(role: int, word: str) -> None:
    @SPLIT_RULES.rule(
        "error",
        f"no {{labelled}}node is for {word}",
        f"write {word} for some of the nodes, or delete the column to have splits drawn",
        name=f"no-{word}-node",
    )
    def _no_node_of_role(split: _Split) -> Iterator[Hit]:
        if not (split.used_roles == role).any():
            yield split.whole(labelled="" if split.labels is None else "labelled ")


for _role, _word in enumerate(("train", "validation", "test"), 1):
    _add_rule_about_role(_role, _word)


@SPLIT_RULES.rule(
    "warning",
    "the node is for {value}, but has no class, so it takes no part",
    "fill in its class, or leave the split empty",
)
def _unlabelled_split_node(split: _Split) -> Iterator[Hit]:
    if split.labels is not None:
        yield from split.at_rows((split.roles > 0) & ~split.labels.known)


@SPLIT_RULES.rule(
    "error",
    "class {value} has {nodes}, none of them for train",
    "write train for some of them",
)
def _untrained_class(split: _Split) -> Iterator[Hit]:
    labels = split.labels
    if labels is None:
        return
    trained = np.bincount(labels.codes[split.used_roles == 1], minlength=len(labels.names))
    untrained = np.flatnonzero(trained == 0).tolist()
    if trained.any():
        yield from _Target(split.table, split.column, labels).at_classes(untrained)
