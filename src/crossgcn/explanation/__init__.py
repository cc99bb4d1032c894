"""Exact explanations: what a class score is made of, and the crosses that drive each class.

Names are imported on first use. The one call for most needs is ``crossgcn.explain``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crossgcn.explanation.node import NodeExplainer, explain_node
    from crossgcn.explanation.node_explanation import NodeExplanation
    from crossgcn.explanation.pyg import CrossExplainer
    from crossgcn.explanation.removal import accuracy_without
    from crossgcn.explanation.stability import cross_stability
    from crossgcn.explanation.strongest import first_order_terms, strongest_crosses

_HOMES = {
    "NodeExplainer": "node",
    "explain_node": "node",
    "NodeExplanation": "node_explanation",
    "CrossExplainer": "pyg",
    "accuracy_without": "removal",
    "cross_stability": "stability",
    "first_order_terms": "strongest",
    "strongest_crosses": "strongest",
}

__all__ = [
    "CrossExplainer",
    "NodeExplainer",
    "NodeExplanation",
    "accuracy_without",
    "cross_stability",
    "explain_node",
    "first_order_terms",
    "strongest_crosses",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
