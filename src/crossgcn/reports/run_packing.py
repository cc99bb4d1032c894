"""Nodes as data inside a page: small, and unable to be anything but data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, get_args

from crossgcn.reports.run_nodes import NodeView, Role
from crossgcn.reports.run_words import shorten

__all__ = ["PackedNodes", "embed_json", "pack_nodes"]

_DIGITS = 5


@dataclass(frozen=True)
class PackedNodes:
    """What the page's script reads.

    Attributes:
        text: JSON, to be put into the page as it is.
        count: How many nodes are in it.
    """

    text: str
    count: int


def pack_nodes(
    nodes: Sequence[NodeView], classes: Sequence[str], num_nodes: int, room: int
) -> PackedNodes:
    """Put nodes into JSON that can stand inside a page, as many as there is room for.

    A label occurs in many waterfalls and is written once.

    Args:
        nodes: The ones most worth keeping first.
        classes: Their names.
        num_nodes: How many there are in all, shown or not.
        room: How many bytes nodes and labels may take.
    """
    labels: dict[str, int] = {}
    rows: list[str] = []
    for node in nodes:
        known = len(labels)
        row = embed_json(_pack(node, labels))
        new = list(islice(reversed(labels), len(labels) - known))
        room -= sum(len(embed_json(text).encode()) + 1 for text in new) + len(row.encode()) + 1
        if room < 0:
            for label in new:
                del labels[label]
            break
        rows.append(row)
    frame = {
        "classes": [shorten(name) for name in classes],
        "roles": get_args(Role),
        "total": num_nodes,
        "labels": list(labels),
    }
    return PackedNodes(f'{embed_json(frame)[:-1]},"nodes":[{",".join(rows)}]}}', len(rows))


def embed_json(content: Any) -> str:
    """JSON in which nothing can end or open an element, nor a line of a script."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _pack(node: NodeView, labels: dict[str, int]) -> list[Any]:
    """One node as a row; labels that are new get the next number."""
    steps: list[float] = []
    for step in node.steps:
        steps += [labels.setdefault(shorten(step.label), len(labels)), _round(step.contribution)]
    return [
        shorten(node.id),
        -1 if node.true_class is None else node.true_class,
        node.predicted_class,
        round(node.probability, 4),
        get_args(Role).index(node.role),
        _round(node.start),
        _round(node.total),
        steps,
    ]


def _round(value: float) -> float:
    """Short enough for a page, exact enough for bars that add up."""
    return round(value, _DIGITS) + 0.0
