"""Whether a user's own split can be trained, selected and tested with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crossgcn.data.tables.check_labels import Labels
from crossgcn.data.tables.check_places import Place, Rule, count_of
from crossgcn.data.tables.find_columns import SPLIT_WORDS
from crossgcn.data.tables.findings import Finding
from crossgcn.data.tables.table import Table

__all__ = ["check_split"]

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
