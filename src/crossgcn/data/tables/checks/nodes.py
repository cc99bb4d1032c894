"""Rules about ids, target, split, rows and features of the node table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crossgcn.data.tables.cells import MISSING_WORDS
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
from crossgcn.data.tables.columns import MAX_CODES, SPLIT_WORDS
from crossgcn.data.tables.graph_parts import class_of_values
from crossgcn.data.tables.plan import ColumnPlan, TablePlan
from crossgcn.data.tables.table import Distinct, Table

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

MIN_FEATURE_COUNT = 3
"""A category in fewer cells gets no feature of its own."""

FEATURES_PER_NUMBER = 6

MAX_CHANCE_SHARE = 0.05
"""Greatest share of repeated rows that chance may explain."""


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


def check_ids_and_target(nodes: Table, plan: TablePlan, labels: Labels | None) -> Iterator[Problem]:
    """Yield problems of ids, target and split, and of the number of features."""
    yield from ID_RULES.apply(Place(nodes, plan.id_column))
    if plan.target is not None and labels is not None:
        yield from TARGET_RULES.apply(_Target(nodes, plan.target, labels))
        if plan.missing is None:
            yield from MISSING_CLASS_RULES.apply(Place(nodes, plan.target))
    if plan.split_column is not None:
        yield from SPLIT_RULES.apply(_Split(nodes, plan.split_column, labels))
    yield from FEATURE_RULES.apply(_NodeRows(nodes, plan.id_column, plan.features))


def check_rows(nodes: Table, plan: TablePlan) -> Iterator[Problem]:
    """Yield problems of rows."""
    yield from ROW_RULES.apply(_NodeRows(nodes, plan.id_column, plan.features))


ID_RULES = Rules[Place]()


@ID_RULES.rule("error", "the node has no id", "give it one, or delete the row")
def _missing_id(ids: Place) -> Iterator[Hit]:
    yield from ids.at_values(ids.distinct.blank)


@ID_RULES.rule(
    "error",
    "{value} is already the id of row {first}",
    "keep one row per node, or choose another column with --id-column",
)
def _duplicate_id(ids: Place) -> Iterator[Hit]:
    distinct = ids.distinct
    repeated = np.flatnonzero(
        pd.Series(distinct.codes).duplicated() & ~distinct.blank[distinct.codes]
    )
    if len(repeated):
        first = distinct.first_row(int(distinct.codes[repeated[0]]))
        yield ids.at_row(int(repeated[0]), count=len(repeated), first=ids.table.row_number(first))


@ID_RULES.rule(
    "warning",
    "{value} differs from {other} only in case or spaces, but is another node",
    "write the id the same way everywhere if one node is meant",
)
def _similar_ids(ids: Place) -> Iterator[Hit]:
    similar = find_similar(ids.distinct.values)
    for second, earlier in [*similar.items()][:1]:
        row = ids.distinct.first_row(second)
        yield ids.at_row(row, count=len(similar), other=quote(ids.distinct.values[earlier]))


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


@dataclass(frozen=True)
class _NodeRows(Place):
    """The rows of the node table, named by their ids."""

    features: tuple[ColumnPlan, ...]

    @cached_property
    def distincts(self) -> list[Distinct]:
        """The different values of each column of features."""
        return [self.table.distinct(column.name) for column in self.features]

    @cached_property
    def empty(self) -> NDArray[np.bool_]:
        """Whether each row has no value in any column of features."""
        empty = np.full(len(self.table), bool(self.features))
        for distinct in self.distincts:
            empty &= distinct.missing[distinct.codes]
        return empty


FEATURE_RULES = Rules[_NodeRows]()


@FEATURE_RULES.rule(
    "error",
    "no column is left to learn from besides ids, target, split and ignored columns",
    "add columns that describe the nodes, or choose some with --categorical, --numeric or --lists",
)
def _no_feature(rows: _NodeRows) -> Iterator[Hit]:
    if not rows.features:
        yield Hit(rows.table)


@FEATURE_RULES.rule(
    "warning",
    "about {features:,} features for {nodes}: a model can learn the nodes by heart",
    "leave columns with many categories out with --ignore, or add nodes",
)
def _more_features_than_nodes(rows: _NodeRows) -> Iterator[Hit]:
    num_features = 0
    for column, distinct in zip(rows.features, rows.distincts, strict=True):
        num_common = int((distinct.counts >= MIN_FEATURE_COUNT).sum())
        num_features += {"numeric": FEATURES_PER_NUMBER, "flag": 1}.get(column.kind, num_common)
    if num_features > len(rows.table):
        nodes = count_of(len(rows.table), "node")
        yield Hit(rows.table, words={"features": num_features, "nodes": nodes})


ROW_RULES = Rules[_NodeRows]()


@ROW_RULES.rule(
    "warning",
    "node {value} has no value in any column of features",
    "fill in what is known of it, or delete it and its edges",
)
def _empty_row(rows: _NodeRows) -> Iterator[Hit]:
    yield from rows.at_rows(rows.empty)


@ROW_RULES.rule(
    "warning",
    "node {value} is like row {first} in all {columns} of features",
    "delete it if it is the same node under another id: a test node may repeat a training node",
)
def _duplicate_row(rows: _NodeRows) -> Iterator[Hit]:
    if not any(
        column.kind == "numeric" and len(distinct.values) > MAX_CODES
        for column, distinct in zip(rows.features, rows.distincts, strict=True)
    ):
        return
    codes = pd.DataFrame({number: distinct.codes for number, distinct in enumerate(rows.distincts)})
    again = codes.duplicated().to_numpy() & ~rows.empty
    if again.any() and _repeats_by_chance(codes[~again]) <= MAX_CHANCE_SHARE * int(again.sum()):
        second = int(np.argmax(again))
        first = int(np.argmax((codes == codes.iloc[second]).all(axis=1)))
        yield rows.at_row(
            second,
            count=int(again.sum()),
            first=rows.table.row_number(first),
            columns=count_of(len(rows.features), "column"),
        )


def _repeats_by_chance(codes: pd.DataFrame) -> float:
    """Return the expected number of equal pairs of rows if columns were independent."""
    size = len(codes)
    num_pairs = size * (size - 1) / 2
    share = 1.0
    for name in codes:
        counts = np.bincount(codes[name]).astype(np.float64)
        share *= float((counts * (counts - 1)).sum()) / max(2 * num_pairs, 1)
    return share * num_pairs
